"""A runner that gives up on a job in time: a Spark that hangs, or a network that is cut, answers nothing for as long as one waits."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from airflow_provider_schemamig.core.spark.runners import Job, JobRunner
from airflow_provider_schemamig.exceptions import SchemamigError

#: For as long a Spark that may hang is asked to stop the job.
_CANCEL_SECONDS = 1.0


class BoundedRunner:
    """Runs jobs of another runner up to a time of the monotonic clock; then raises what ``late`` makes, whether or not the job ends.

    A job that is given up may still commit. It is fenced and exactly once like that of a process that was killed.
    """

    def __init__(self, runner: JobRunner, until: float, late: Callable[[], SchemamigError]) -> None:
        self._runner = runner
        self._until = until
        self._late = late

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        if (left := self._until - time.monotonic()) <= 0:
            raise self._late()
        answer: Future[dict[str, Any]] = Future()

        def work() -> None:
            try:
                answer.set_result(self._runner.run(job, request))
            except BaseException as error:  # noqa: BLE001 - told to who waits, in its thread
                answer.set_exception(error)

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(work,), name=f"schemamig-{job}-bounded", daemon=True).start()
        try:
            return answer.result(left)
        except BaseException as error:
            if answer.done():
                raise
            self.cancel()
            if isinstance(error, TimeoutError):
                raise self._late() from None
            raise

    def start(self, options: Mapping[str, str]) -> None:
        self._runner.start(options)

    def stop(self) -> None:
        self._runner.stop()

    def cancel(self) -> None:
        """Ask for the end of what is running; a Spark that does not answer is not waited for."""
        asked = threading.Thread(target=self._runner.cancel, daemon=True)
        asked.start()
        asked.join(_CANCEL_SECONDS)
