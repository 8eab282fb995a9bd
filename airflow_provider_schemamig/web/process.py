"""The reading process as the api-server holds it: started, asked, and ended when nobody asks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import replace

from airflow_provider_schemamig.web.messages import ReadAnswer, ReadRequest

#: What the process does not need to know: Airflow's own settings and secrets.
_AIRFLOWS = ("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_")

#: A store may never answer: that alone does not keep the process, so long after the last look.
_GIVEN_UP_SECONDS = 60.0


class ReadingProcess:
    """The reading process. It ends by itself when its standard input does: with the api-server, or after a while without a look."""

    def __init__(self, idle_seconds: float) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_AIRFLOWS)}
        command = [sys.executable, "-m", "airflow_provider_schemamig.web.child"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._asked: dict[int, Future[ReadAnswer | None]] = {}
        self._count = 0
        self._last = time.monotonic()
        self._ended = threading.Event()
        threading.Thread(target=self._hear, name="schemamig-reader", daemon=True).start()
        threading.Thread(target=self._end_when_idle, name="schemamig-reader-idle", daemon=True).start()

    @property
    def is_alive(self) -> bool:
        """Return whether it takes requests."""
        return self._process.poll() is None and not self._requests.closed

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: ReadRequest) -> Future[ReadAnswer | None]:
        """Send a request. The future's answer is None if the process ended before it answered."""
        asked: Future[ReadAnswer | None] = Future()
        with self._lock:
            self._count += 1
            number, self._last = self._count, time.monotonic()
            self._asked[number] = asked
            try:
                self._requests.write(replace(request, number=number).to_line())
                self._requests.flush()
            except (OSError, ValueError):  # it has just ended
                del self._asked[number]
                asked.set_result(None)
        return asked

    def end(self) -> None:
        """Let the process answer its open requests and end. After 10 seconds kill it."""
        self._no_more()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _no_more(self) -> None:
        with self._lock:
            try:
                self._requests.close()
            except OSError:  # it ended with a request half written
                return

    def _hear(self) -> None:
        for line in self._answers:
            answer = ReadAnswer.from_line(line)
            if answer.leaves:  # it has grown large: it answers what it has, and the next request goes to another
                self._no_more()
                continue
            with self._lock:
                asked, self._last = self._asked.pop(answer.number, None), time.monotonic()
            if asked is not None:
                asked.set_result(answer)
        self._process.wait()
        self._ended.set()
        with self._lock:
            left, self._asked = list(self._asked.values()), {}
        for asked in left:
            asked.set_result(None)
        self._answers.close()

    def _end_when_idle(self) -> None:
        while not self._ended.wait(min(self._idle_seconds / 6, 1.0)):
            with self._lock:
                idle = time.monotonic() - self._last > self._idle_seconds + (_GIVEN_UP_SECONDS if self._asked else 0)
            if idle:
                self.end()
