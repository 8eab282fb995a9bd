"""A runner whose jobs are seen: what runs, how far Spark is with it, and about how long still."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol, runtime_checkable

from airflow_provider_schemamig.core.progress import Event, Listener
from airflow_provider_schemamig.core.spark.driver.telling import heard
from airflow_provider_schemamig.core.spark.runners import Job, JobRunner

#: Between two looks at a running job.
SECONDS = 1.0

#: The stage of a job's events.
STAGES: Mapping[str, str] = {
    "preflight": "check rows",
    "fill": "write rows",
    "apply": "follow",
    "digest": "digest",
    "cluster": "cluster",
}
STARTING = "start Spark"

HowFar = Callable[[], tuple[int, int]]


@runtime_checkable
class Telling(Protocol):
    """A runner that knows whether it has to start anything first, and how far its job is."""

    @property
    def is_started(self) -> bool: ...

    def how_far(self) -> tuple[int, int]:
        """Return how many of the running job's tasks are done, of how many; 0 of 0 while there are none."""
        ...


class WatchedRunner:
    """Tells of each job at its start, every second, and at its end. One may watch another: each tells its own listener."""

    def __init__(self, runner: JobRunner, listen: Listener) -> None:
        self._runner = runner
        self._listen = listen

    @property
    def is_started(self) -> bool:
        return not isinstance(self._runner, Telling) or self._runner.is_started

    def how_far(self) -> tuple[int, int]:
        return self._runner.how_far() if isinstance(self._runner, Telling) else _nothing_known()

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        if not self.is_started:
            self.start(request.get("storage_options", {}))
        with self._told(STAGES[job], request.get("collection"), self.how_far):
            return self._runner.run(job, request)

    def start(self, options: Mapping[str, str]) -> None:
        if self.is_started:
            self._runner.start(options)
            return
        with self._told(STARTING, None, _nothing_known):
            self._runner.start(options)

    def stop(self) -> None:
        self._runner.stop()

    def cancel(self) -> None:
        self._runner.cancel()

    @contextmanager
    def _told(self, stage: str, collection: str | None, how_far: HowFar) -> Iterator[None]:
        running = _RunningJob(stage, collection, how_far, self._listen)
        teller = threading.Thread(target=running.tell_on, name=f"schemamig-{stage}", daemon=True)
        running.tell()
        teller.start()
        try:
            with heard(running.hear):
                yield
        finally:
            running.over.set()
            teller.join(2 * SECONDS)  # it may be asking Spark; what it would still say is not said
        running.end()


class _RunningJob:
    """One job that runs: what is known of it now."""

    def __init__(self, stage: str, collection: str | None, how_far: HowFar, listen: Listener) -> None:
        self.over = threading.Event()
        self._stage = stage
        self._collection = collection
        self._how_far = how_far
        self._listen = listen
        self._began = time.monotonic()
        self._status = ""
        #: Of Spark's tasks: how many were wanted in all, and since when.
        self._total, self._since = 0, self._began

    def hear(self, text: str) -> None:
        self._status = text

    def tell(self) -> None:
        now, done, total = time.monotonic(), 0, 0
        with suppress(Exception):  # asked of a Spark that has just ended: what became of the job, the job says
            done, total = self._how_far()
        if self.over.is_set():
            return
        if total != self._total:
            self._total, self._since = total, now
        left = (now - self._since) * (total - done) / done if done else 0.0
        note = ", ".join(part for part in (self._status, f"about {left:.0f} s left" if left else "") if part)
        self._listen(Event(self._stage, self._collection, *_unless_all(done, total), now - self._began, note, beat=True))

    def tell_on(self) -> None:
        while not self.over.wait(SECONDS):
            self.tell()

    def end(self) -> None:
        self._listen(Event(self._stage, self._collection, 1, 1, time.monotonic() - self._began, beat=True))


def _nothing_known() -> tuple[int, int]:
    return 0, 0


def _unless_all(done: int, total: int) -> tuple[int, int]:
    """Return no total once all tasks are done: the job goes on, if only to commit, or with tasks that are not known yet."""
    return (done, total) if done < total else (0, 0)
