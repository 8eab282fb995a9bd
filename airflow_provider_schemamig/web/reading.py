"""Reading environments for the api-server: one child process does it, started when somebody looks and ended when nobody does.

What was read is kept for all viewers. A look never waits long: it shows what is known, says as of when, and has it read anew meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from airflow_provider_schemamig.web.messages import ReadAnswer, ReadRequest
from airflow_provider_schemamig.web.places import Place

#: A document that is younger is shown as it is.
FRESH_SECONDS = 2.0
#: So long a look waits for the newest document, then it shows what is known.
PATIENCE_SECONDS = 0.12
#: Older than this, what is shown says that it is stale.
STALE_SECONDS = 15.0
#: After so long without an answer an environment counts as out of reach.
DEADLINE_SECONDS = 30.0
#: So long after the last look the child is ended.
IDLE_SECONDS = 60.0
#: Documents that are kept.
_KEPT = 64
#: Requests under way for one environment: one that is out of reach does not hold the others up.
_AT_ONCE = 3

UNREACHABLE = {
    "code": "unreachable",
    "message": f"the environment did not answer within {DEADLINE_SECONDS:.0f} s.",
    "next": "See whether its store can be reached from the api-server.",
    "collection": None,
    "retryable": True,
}
ENDED = {**UNREACHABLE, "code": "reader_ended", "message": "the process that reads environments ended.", "next": "Look again."}


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of a document: ``text`` (JSON), as of when, the error of the last look; ``is_stale``: nobody should rely on it."""

    text: str | None = None
    as_of: str | None = None
    error: Mapping[str, Any] | None = None
    is_stale: bool = False
    made: float = 0.0

    @property
    def document(self) -> Any:
        return None if self.text is None else json.loads(self.text)

    @property
    def etag(self) -> str:
        return f"{self.made:.3f}{'-stale' if self.is_stale else ''}{'-' + self.error['code'] if self.error else ''}"


@dataclass
class _Known:
    """One document of one environment; ``asked``: the request under way, since when."""

    text: str | None = None
    made: float = 0.0
    looked: float = 0.0
    error: Mapping[str, Any] | None = None
    asked: Future[ReadAnswer] | None = None
    since: float = 0.0


@dataclass
class PageReader:
    """Asks the child. Made once in an api-server process; nothing is started before the first look."""

    _known: OrderedDict[tuple[str, str, str], _Known] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _child: _Child | None = None

    async def look(self, place: Place, name: str, **arguments: Any) -> Look:
        """Return what is known of a document, and have it read anew if that is older than two seconds."""
        if place.refused is not None:
            return Look(error=place.refused.to_json())
        key = (place.location, name, json.dumps(arguments, sort_keys=True))
        known = self._refreshed(place, key, name, arguments)
        if known.asked is not None:
            await asyncio.wait({asyncio.ensure_future(asyncio.wrap_future(asyncio_safe(known.asked)))}, timeout=PATIENCE_SECONDS)
            self._take(known)
        return _shown(known)

    async def act(self, place: Place, verb: str, who: str, **arguments: Any) -> Mapping[str, Any]:
        """Carry a verb out in somebody's name; return its document, or ``{"error": ...}``.

        What is known of the environment is read anew after it.
        """
        asked = self._ask(place, verb, arguments, who)
        try:
            answer = await asyncio.wait_for(asyncio.wrap_future(asked), DEADLINE_SECONDS)
        except TimeoutError:
            return {"error": {**UNREACHABLE, "next": "Look at the history: it may have been done all the same."}}
        self.forget(place)
        return {"error": answer.error} if answer.error else json.loads(answer.text or "{}")

    def forget(self, place: Place) -> None:
        """Have every document of an environment read anew at the next look."""
        with self._lock:
            for key, known in self._known.items():
                if key[0] == place.location:
                    known.looked = known.made = 0.0

    def close(self) -> None:
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.end()

    # --- the documents ---------------------------------------------------------------------------------------------------------------

    def _refreshed(self, place: Place, key: tuple[str, str, str], name: str, arguments: Mapping[str, Any]) -> _Known:
        with self._lock:
            known = self._known.setdefault(key, _Known())
            self._known.move_to_end(key)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            busy = sum(1 for other, item in self._known.items() if other[0] == key[0] and item.asked is not None)
        self._take(known)
        if known.asked is None and time.time() - known.looked > FRESH_SECONDS and busy < _AT_ONCE:
            known.asked, known.since = self._ask(place, name, arguments, None, known.made), time.time()
        return known

    def _take(self, known: _Known) -> None:
        """Take up the answer if it is there, or say that none came."""
        asked = known.asked
        if asked is None:
            return
        if asked.done():
            answer = asked.result()
            known.asked, known.looked, known.error = None, time.time(), answer.error
            if answer.text is not None:
                known.text, known.made = answer.text, answer.made
        elif time.time() - known.since > DEADLINE_SECONDS:
            known.error = UNREACHABLE

    def _ask(self, place: Place, name: str, arguments: Mapping[str, Any], who: str | None, made: float = 0.0) -> Future[ReadAnswer]:
        with self._lock:
            if self._child is None or not self._child.is_alive:
                self._child = _Child()
            return self._child.ask(ReadRequest(0, place.location, dict(place.options), name, arguments, who, made))


def asyncio_safe(asked: Future[ReadAnswer]) -> Future[ReadAnswer]:
    """Return a future of its own for one waiter: who stops waiting does not cancel what others wait for."""
    mine: Future[ReadAnswer] = Future()
    asked.add_done_callback(lambda done: None if mine.cancelled() else mine.set_result(done.result()))
    return mine


def _shown(known: _Known) -> Look:
    as_of = datetime.fromtimestamp(known.looked, UTC).isoformat(timespec="seconds") if known.looked and known.text is not None else None
    is_stale = known.text is not None and (known.error is not None or time.time() - known.looked > STALE_SECONDS)
    return Look(known.text, as_of, known.error, is_stale, known.made)


class _Child:
    """The reading process. It ends by itself when its standard input does: with the api-server, or after a while without a look."""

    def __init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW__", "AIRFLOW_CONN_"))}
        command = [sys.executable, "-m", "airflow_provider_schemamig.web.child"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._lock = threading.Lock()
        self._asked: dict[int, Future[ReadAnswer]] = {}
        self._count = 0
        self._last = time.monotonic()
        threading.Thread(target=self._hear, name="schemamig-reader", daemon=True).start()
        threading.Thread(target=self._end_when_idle, name="schemamig-reader-idle", daemon=True).start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None and not (self._process.stdin is None or self._process.stdin.closed)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: ReadRequest) -> Future[ReadAnswer]:
        asked: Future[ReadAnswer] = Future()
        with self._lock:
            self._count += 1
            number, self._last = self._count, time.monotonic()
            self._asked[number] = asked
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(replace(request, number=number).to_line())
                self._process.stdin.flush()
            except (OSError, ValueError):  # it has just ended
                del self._asked[number]
                asked.set_result(ReadAnswer(number, error=ENDED))
        return asked

    def end(self) -> None:
        with self._lock:
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _hear(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = ReadAnswer.from_line(line)
            with self._lock:
                asked = self._asked.pop(answer.number, None)
            if asked is not None:
                asked.set_result(answer)
        self._process.wait()
        with self._lock:
            left, self._asked = list(self._asked.items()), {}
        for number, asked in left:
            asked.set_result(ReadAnswer(number, error=ENDED))

    def _end_when_idle(self) -> None:
        while self.is_alive:
            time.sleep(IDLE_SECONDS / 6)
            with self._lock:
                idle = not self._asked and time.monotonic() - self._last > IDLE_SECONDS
            if idle:
                self.end()
