"""A driver as its task knows it: asked one statement after the other, told that the task lives, and ended."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from airflow_provider_schemamig.core.spark.driver.exchange import (
    DRIVER,
    END,
    READY,
    TASK,
    UNSEEN,
    UNSEEN_TEXT,
    UP,
    FileExchange,
    request_name,
    result_name,
)
from airflow_provider_schemamig.core.spark.driver.telling import tell
from airflow_provider_schemamig.core.spark.errors import SparkDriverDied, SparkExchangeUnseen, SparkUnavailable
from airflow_provider_schemamig.exceptions import SchemamigError

#: Between two signs of life. A driver ends when it saw none for thirty seconds (``job``): a task's process can be slow.
BEAT_SECONDS = 5.0
#: How often a running job's progress is looked at.
_LOOK_SECONDS = 1.0
#: A driver that nobody asks for so long gives its cores back; the next statement starts another one.
IDLE_SECONDS = 300.0
#: A driver that is up gets cores in this time, or they are somebody else's for longer than anybody should wait for.
CORES_SECONDS = 600.0
#: A driver that was told to end does so in this time, or is killed.
_GRACE_SECONDS = 20.0


class DriverProcess(Protocol):
    """What runs on this machine of a driver: all of it, or (deploy mode cluster) the submit that waits for it."""

    def exit_code(self) -> int | None:
        """Return None while it runs."""

        ...

    @property
    def tail(self) -> str:
        """Return the last lines that it printed."""
        ...

    def kill(self) -> None:
        """End it, and all that belongs to it, and wait until it has ended. Safe to repeat."""


class Driver:
    """One driver from its start to its end.

    ``launch`` starts its process; ``scratch``: what that needs, and goes with it; ``idle``: is called, from a thread of this driver, when
    nobody has asked it for a while.
    """

    def __init__(
        self,
        exchange: FileExchange,
        where: str,
        scratch: TemporaryDirectory[str],
        launch: Callable[[], DriverProcess],
        idle: Callable[[], None],
    ) -> None:
        self._exchange = exchange
        self._where = where
        self._scratch = scratch
        self._idle = idle
        self._numbers = itertools.count(1)
        self._asking, self._asked = 0, 0
        self._lock = threading.Lock()
        self._last_asked = time.monotonic()
        self._over = threading.Event()
        #: What the driver said last of the job that it was asked last.
        self.told: Mapping[str, Any] = {}
        try:
            exchange.put(TASK, {"beat": 0})
            self._process = launch()
        except BaseException:
            exchange.clear()
            scratch.cleanup()
            raise
        self._beating = threading.Thread(target=contextvars.copy_context().run, args=(self._beat,), name="schemamig-driver", daemon=True)
        self._beating.start()

    @property
    def has_ended(self) -> bool:
        return self._over.is_set() or self._process.exit_code() is not None

    @property
    def idle_seconds(self) -> float:
        """Return for how long nobody has been asking anything."""
        return 0.0 if self._asking else time.monotonic() - self._last_asked

    def keep(self) -> None:
        """Count as asked now: it is about to be."""
        self._last_asked = time.monotonic()

    def wait_until_ready(self, job: str) -> None:
        """Return when it has cores to work with. Raises SparkDriverDied (``job``: what it is wanted for), SparkUnavailable."""
        up_since: float | None = None
        while True:
            state = (self._exchange.get(DRIVER) or {}).get("state")
            if state == READY:
                return
            if self.has_ended:
                raise self._died(job)
            now = time.monotonic()
            up_since = now if state == UP and up_since is None else up_since
            if up_since is not None and now - up_since > CORES_SECONDS:
                raise SparkUnavailable(where=self._where, reason=f"the cluster gave the driver no core in {CORES_SECONDS:.0f} s")
            time.sleep(self._exchange.pause_seconds)

    def ask(self, job: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Have it run a job, and return what it left: a result, or ``{"error": ...}``.

        Raises SparkDriverDied if there is neither, SparkExchangeUnseen."""
        with self._lock:  # what has a number is there: the driver looks for one after the other
            number = next(self._numbers)
            self._asking, self._asked, self.told = self._asking + 1, number, {}
            self._exchange.put(request_name(number), {"job": job, "request": request})
        try:
            document = self._answer(job, number)
        finally:
            self._last_asked = time.monotonic()
            with self._lock:
                self._asking -= 1
        self._exchange.forget(number)
        return document

    def stop(self) -> None:
        """End it as it should end, and wait for that; if it does not, kill it."""
        if not self.has_ended:
            with contextlib.suppress(SchemamigError), self._lock:
                self._exchange.put(request_name(next(self._numbers)), {"job": END, "request": {}})
        deadline = time.monotonic() + _GRACE_SECONDS
        while not self.has_ended and time.monotonic() < deadline:
            time.sleep(self._exchange.pause_seconds)
        self.kill()

    def kill(self) -> None:
        """End it at once. May be called from a signal handler or another thread; safe to repeat."""
        self._over.set()
        self._process.kill()
        with contextlib.suppress(SchemamigError):
            self._exchange.clear()
        self._scratch.cleanup()

    def _answer(self, job: str, number: int) -> dict[str, Any]:
        told = ""
        while True:
            has_ended = self.has_ended  # before the look: what it left behind before it ended counts
            document = self._exchange.get(result_name(number))
            if document is not None:
                return document
            if has_ended:
                raise self._died(job)
            if (text := self.told.get("said", "")) != told:
                told = text
                tell(text)
            time.sleep(self._exchange.pause_seconds)

    def _died(self, job: str) -> SparkDriverDied | SparkExchangeUnseen:
        self._process.kill()  # its last lines are there when it has ended
        code = self._process.exit_code()
        if code == UNSEEN or UNSEEN_TEXT in self._process.tail:
            return SparkExchangeUnseen(job=job, uri=self._exchange.uri)
        return SparkDriverDied(job=job, exit_code=0 if code is None else code, tail=self._process.tail)

    def _beat(self) -> None:
        last = time.monotonic()
        for beat in itertools.count(1):
            while time.monotonic() - last < BEAT_SECONDS:
                if self._over.wait(_LOOK_SECONDS):
                    return
                if self._asking:
                    self._look()
            last = time.monotonic()
            with contextlib.suppress(SchemamigError):  # a store that cannot be reached for a while: the driver has patience
                self._exchange.put(TASK, {"beat": beat})
            if self.idle_seconds > IDLE_SECONDS:
                self._idle()

    def _look(self) -> None:
        with contextlib.suppress(SchemamigError):
            found = self._exchange.get(DRIVER) or {}
            if found.get("number") == self._asked:  # else it is at the one before still, or has not begun to tell
                self.told = found
