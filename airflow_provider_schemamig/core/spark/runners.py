"""Where Spark jobs run: the one interface that the upgrade layer knows, and its kinds.

A runner is made when a stage first needs Spark; making one starts nothing. Requests and results are JSON values, the
same for every kind (``spark_jobs`` documents them), and so are the errors.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from airflow_provider_schemamig.core.spark.connect.address import server_of, shown
from airflow_provider_schemamig.core.spark.driver.job import run_job, tasks_of
from airflow_provider_schemamig.core.spark.driver.submit import SubmitRunner
from airflow_provider_schemamig.core.spark.errors import SparkDriverDied, SparkJobFailed, SparkUnavailable, SparkWithoutDelta
from airflow_provider_schemamig.core.spark.java_output import Hears, to_stderr
from airflow_provider_schemamig.core.spark.launch import require_pyspark
from airflow_provider_schemamig.core.spark.session import (
    DELTA_NEEDS,
    DELTA_SETTINGS,
    embedded_session,
    java_exit_code,
    quiet_pyspark,
    with_meaning,
)
from airflow_provider_schemamig.core.spark.translate import last_lines, translated
from airflow_provider_schemamig.core.storage.surroundings import with_surroundings
from airflow_provider_schemamig.exceptions import SchemamigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Job = Literal["preflight", "fill", "apply", "digest", "cluster"]

__all__ = ["ConnectRunner", "EmbeddedRunner", "Job", "JobRunner", "SubmitRunner"]

_PROBE_SECONDS = 3.0
#: A server whose machine is gone, or hangs, says nothing for ever: it is asked for a sign of life, and counts as lost without one. A
#: client that waits sends no data, and without the third would ask but once in minutes.
_KEEPALIVE = {"grpc.keepalive_time_ms": 20_000, "grpc.http2.ping_timeout_ms": 20_000, "grpc.http2.max_pings_without_data": 0}
#: A process that was killed lets go of its connections a moment before it has ended.
_ENDING_SECONDS = 1.0


class JobRunner(Protocol):
    """Runs jobs on some Spark."""

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run a job to its end. Raises the errors of ``core.spark.errors``."""
        ...

    def start(self, options: Mapping[str, str]) -> None:
        """Have Spark ready, with cores to work with, for an environment with these storage options: the next job waits for no start.

        Before anybody waits for our rows, and before they are timed. Without it the first job starts what there is to start.
        """
        return

    def stop(self) -> None:
        """End what was started for this runner alone: its maker calls it when the task is over. A job after it starts Spark again."""
        return

    def cancel(self) -> None:
        """Stop what is running, if anything is; from a signal handler or another thread."""
        ...


class EmbeddedRunner:
    """Runs jobs in this process, on its one ``local[*]`` session; every job gets settings and temporary views of its own.

    A Java that was killed (it runs out of memory, too) is SparkDriverDied; the next job starts another one.

    ``hears``: who is told what Spark's Java prints, if this starts it.
    """

    def __init__(self, master: str = "local[*]", conf: Mapping[str, str] = MappingProxyType({}), hears: Hears = to_stderr) -> None:
        self.master = master
        self.conf = dict(conf)
        self._hears = hears
        self._session: SparkSession | None = None

    @property
    def is_started(self) -> bool:
        return self._session is not None

    def start(self, options: Mapping[str, str]) -> None:
        self._session = embedded_session(self.master, self.conf, self._hears)

    def stop(self) -> None:
        """Do nothing: the session is the process's, and ends with it."""

    def how_far(self) -> tuple[int, int]:
        """Return how many tasks of Spark's active stages are done, of how many."""
        return (0, 0) if self._session is None else tasks_of(self._session.sparkContext)

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            self._session = embedded_session(self.master, self.conf, self._hears)
            return run_job(self._session.newSession(), job, _from_here(request))
        except BaseException as error:
            if _is_interrupt(error):
                self.cancel()
                raise KeyboardInterrupt from None
            # Each call to a Java that has gone fails in a way of its own, of py4j's or of the operating system's.
            may_be_gone = isinstance(error, SparkJobFailed) or not isinstance(error, SchemamigError)
            code = java_exit_code(_ENDING_SECONDS) if may_be_gone else None
            if code is None:
                raise
            tail = "(a Spark in this process has none but what it printed above)"
            raise SparkDriverDied(job=job, exit_code=code, tail=tail, collection=request.get("collection")) from None

    def cancel(self) -> None:
        session = self._session
        if session is None:
            return
        # From a thread of its own: py4j has one connection a thread, and the caller's may be in the middle of the very call to stop.
        stopper = threading.Thread(target=session.sparkContext.cancelAllJobs, daemon=True)
        stopper.start()
        stopper.join(_PROBE_SECONDS)


class ConnectRunner:
    """Runs jobs on a Spark Connect server, ``sc://host:port/;options``; the server must know Delta. One session a job.

    Making one raises SparkAddressUnusable for what is no such address.
    """

    def __init__(self, url: str) -> None:
        server_of(url)
        self.url = url
        self._session: SparkSession | None = None
        self._tasks = (0, 0)
        self._has_delta = False

    @property
    def is_started(self) -> bool:
        """Return True: the server runs, and a session is made in no time."""
        return True

    def start(self, options: Mapping[str, str]) -> None:
        """See that somebody listens: each job has a session of its own. Raises SparkUnavailable."""
        _knock(self.url)

    def stop(self) -> None:
        """Do nothing: the server is somebody else's."""

    def how_far(self) -> tuple[int, int]:
        """Return what the server said last of the running job's tasks."""
        return self._tasks

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            # Not the statements alone: a server can be lost while its session is made, and between two settings.
            with translated(job):
                return self._run(job, request)
        except SparkUnavailable as lost:
            raise SparkUnavailable(where=shown(self.url), reason=lost.reason, collection=lost.collection) from None

    def _run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        session = connect_session(self.url)
        self._session = session
        session.registerProgressHandler(self._heard)  # type: ignore[arg-type]  # its protocol has one method more, which nobody calls
        try:
            self._check_delta(session)
            return run_job(with_meaning(session), job, _from_here(request))
        finally:
            self._session, self._tasks = None, (0, 0)
            session.stop()

    def _check_delta(self, session: SparkSession) -> None:
        """Raise SparkWithoutDelta for a server that was started without Delta."""
        if not self._has_delta and any(value not in str(session.conf.get(name, "")) for name, value in DELTA_SETTINGS.items()):
            raise SparkWithoutDelta(where=shown(self.url), needs=DELTA_NEEDS)
        self._has_delta = True

    def _heard(self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        known = () if stages is None or done else tuple(stages)
        self._tasks = sum(stage.num_completed_tasks for stage in known), sum(stage.num_tasks for stage in known)

    def cancel(self) -> None:
        """Stop what is running; of a server that is gone nothing does."""
        if self._session is not None:
            with contextlib.suppress(SparkUnavailable), translated("cancel"):
                self._session.interruptAll()


def _is_interrupt(error: BaseException) -> bool:
    """Return whether a Ctrl-C was the reason: what pyspark calls on its way out may fail on the connection that was cut, and then that
    failure is what comes here."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__context__
    return found is not None


def connect_session(url: str) -> SparkSession:
    """Open a new session on a Connect server. Raises PysparkMissing, SparkAddressUnusable; SparkUnavailable within seconds if nobody
    listens there."""
    require_pyspark()
    _knock(url)
    # Connect's own class and not SparkSession.builder.remote: that refuses where a classic session runs, and turns the process to Connect.
    with quiet_pyspark():
        from pyspark.sql.connect.client import DefaultChannelBuilder
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        from airflow_provider_schemamig.core.spark.connect.retries import ConnectRetryPolicy

        session = ConnectSession.builder.channelBuilder(DefaultChannelBuilder(url, list(_KEEPALIVE.items()))).create()
    session.client.set_retry_policies([ConnectRetryPolicy()])
    return session  # type: ignore[return-value]


def _knock(url: str) -> None:
    """Try the port: a client without a server retries for ever, and hangs beyond SIGTERM. Raises SparkUnavailable."""
    server = server_of(url)
    try:
        socket.create_connection(server, timeout=_PROBE_SECONDS).close()
    except OSError as error:
        what = "the name of the host is not found" if isinstance(error, socket.gaierror) else "nobody listens there"
        raise SparkUnavailable(where=shown(url), reason=f"{what} ({last_lines(str(error), 1)})") from error


def _from_here(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of a job that is run from this process.

    Its options of object stores are completed from the process's environment variables.
    """
    return {**request, "storage_options": with_surroundings(request.get("storage_options", {}))}
