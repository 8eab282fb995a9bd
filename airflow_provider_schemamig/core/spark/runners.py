"""Where Spark jobs run: the one interface that the upgrade layer knows, and its kinds.

A runner is made when a stage first needs Spark; making one starts nothing. Requests and results are JSON values, the
same for every kind (``spark_jobs`` documents them), and so are the errors.
"""

from __future__ import annotations

import importlib
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit

from airflow_provider_schemamig.core.spark.errors import SparkUnavailable
from airflow_provider_schemamig.core.spark.launch import require_pyspark
from airflow_provider_schemamig.core.spark.session import embedded_session, quiet_pyspark, with_meaning
from airflow_provider_schemamig.core.spark.submit import SubmitRunner
from airflow_provider_schemamig.core.spark.translate import last_lines, translated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Job = Literal["preflight", "fill", "apply", "digest", "cluster"]

__all__ = ["ConnectRunner", "EmbeddedRunner", "Job", "JobRunner", "SubmitRunner"]

_CONNECT_PORT = 15002
_PROBE_SECONDS = 3.0


class JobRunner(Protocol):
    """Runs jobs on some Spark."""

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run a job to its end. Raises the errors of ``core.spark.errors``."""
        ...

    def cancel(self) -> None:
        """Stop what is running, if anything is; from a signal handler or another thread."""
        ...


class EmbeddedRunner:
    """Runs jobs in this process, on its one ``local[*]`` session; every job gets settings and temporary views of its own."""

    def __init__(self, master: str = "local[*]") -> None:
        self.master = master
        self._session: SparkSession | None = None

    @property
    def is_started(self) -> bool:
        return self._session is not None

    def start(self) -> None:
        self._session = embedded_session(self.master)

    def how_far(self) -> tuple[int, int]:
        """Return how many tasks of Spark's active stages are done, of how many."""
        if self._session is None:
            return 0, 0
        tracker = self._session.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        found = [stage for stage in stages if stage is not None]
        return sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found)

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        session = embedded_session(self.master)
        self._session = session
        try:
            return _run_on(session.newSession(), job, request)
        except KeyboardInterrupt:
            self.cancel()
            raise

    def cancel(self) -> None:
        session = self._session
        if session is None:
            return
        # From a thread of its own: py4j has one connection a thread, and the caller's may be in the middle of the very call to stop.
        stopper = threading.Thread(target=session.sparkContext.cancelAllJobs, daemon=True)
        stopper.start()
        stopper.join(_PROBE_SECONDS)


class ConnectRunner:
    """Runs jobs on a Spark Connect server, ``sc://host:port/;options``; the server must know Delta. One session a job."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session: SparkSession | None = None
        self._tasks = (0, 0)

    @property
    def is_started(self) -> bool:
        """Return True: the server runs, and a session is made in no time."""
        return True

    def start(self) -> None:
        """Do nothing: each job has a session of its own."""

    def how_far(self) -> tuple[int, int]:
        """Return what the server said last of the running job's tasks."""
        return self._tasks

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        session = connect_session(self.url)
        self._session = session
        session.registerProgressHandler(self._heard)  # type: ignore[arg-type]  # its protocol has one method more, which nobody calls
        try:
            return _run_on(with_meaning(session), job, request)
        finally:
            self._session, self._tasks = None, (0, 0)
            session.stop()

    def _heard(self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        known = () if stages is None or done else tuple(stages)
        self._tasks = sum(stage.num_completed_tasks for stage in known), sum(stage.num_tasks for stage in known)

    def cancel(self) -> None:
        if self._session is not None:
            self._session.interruptAll()


def connect_session(url: str) -> SparkSession:
    """Open a new session on a Connect server. Raises PysparkMissing; SparkUnavailable within seconds if nobody listens there.

    The port is tried first: a client without a server retries for ever, and hangs beyond SIGTERM.
    """
    require_pyspark()
    parts = urlsplit(url)
    where = f"{parts.hostname}:{parts.port or _CONNECT_PORT}"
    try:
        socket.create_connection((parts.hostname or "", parts.port or _CONNECT_PORT), timeout=_PROBE_SECONDS).close()
    except OSError as error:
        raise SparkUnavailable(where=f"sc://{where}", reason=f"nobody listens there ({last_lines(str(error), 1)})") from error
    # Connect's own class and not SparkSession.builder.remote: that refuses where a classic session runs, and turns the process to Connect.
    with quiet_pyspark():
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        from airflow_provider_schemamig.core.spark.patience import Patience

        session = ConnectSession.builder.remote(url).create()
    session.client.set_retry_policies([Patience()])
    return session  # type: ignore[return-value]


def _run_on(spark: SparkSession, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
    """Call the job's ``run`` on an existing session, and translate its exceptions into typed ones."""
    run: Callable[[SparkSession, Mapping[str, Any]], dict[str, Any]] = importlib.import_module(f"spark_jobs.{job}").run
    with translated(job, request.get("collection")):
        return run(spark, request)
