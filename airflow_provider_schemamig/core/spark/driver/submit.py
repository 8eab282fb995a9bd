"""Jobs on a cluster, by spark-submit: one driver for all jobs of a task."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import logging
import os
import signal
import subprocess
import tempfile
import threading
import zipfile
from collections import deque
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from airflow_provider_schemamig.core.spark.driver.client import IDLE_SECONDS, Driver, DriverProcess
from airflow_provider_schemamig.core.spark.driver.exchange import FileExchange
from airflow_provider_schemamig.core.spark.errors import SparkUnavailable
from airflow_provider_schemamig.core.spark.launch import find_java, spark_submit_command
from airflow_provider_schemamig.core.spark.session import settings_for
from airflow_provider_schemamig.core.spark.storage_access import hadoop_settings
from airflow_provider_schemamig.core.spark.translate import error_from_json

_PACKAGES = ("airflow_provider_schemamig", "spark_jobs")
_TAIL_LINES = 20
_FRAMES = ("\tat ", "\t... ")
_GRACE_SECONDS = 10.0
_LAST_WORDS_SECONDS = 2.0
#: Where the driver runs in the cluster, YARN would start it anew when it died: it would wait for what nobody asks a second time.
_ONE_ATTEMPT = {"spark.yarn.maxAppAttempts": "1"}
_log = logging.getLogger(__name__)


class SubmitRunner:
    """Runs jobs in one driver, submitted with the first of them: ``spark-submit --master <master>``.

    ``conf``: settings of the cluster (memory, cores, queue). ``exchange_uri``: the folder that requests and results pass through; needed
    where the driver runs on another machine (deploy mode cluster), otherwise a temporary folder of this one. The driver ends with ``stop``,
    with this process, and when nobody has asked it for a while; the next job then starts another one.
    """

    def __init__(self, master: str, conf: Mapping[str, str] = MappingProxyType({}), exchange_uri: str | None = None) -> None:
        self.master = master
        self.conf = dict(conf)
        self.exchange_uri = exchange_uri
        self._lock = threading.RLock()
        self._driver: Driver | None = None
        self._options: Mapping[str, str] = {}
        self._properties = Path()

    @property
    def is_started(self) -> bool:
        return self._driver is not None and not self._driver.has_ended

    def start(self, options: Mapping[str, str]) -> None:
        self._started(options, "start")

    def how_far(self) -> tuple[int, int]:
        """Return how many of the running job's tasks are done, of how many, as the driver said last."""
        done, total = (0, 0) if self._driver is None else self._driver.told.get("tasks", (0, 0))
        return done, total

    def run(self, job: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run ``job`` and return its result. Raises the job's own typed error; SparkDriverDied where the driver left neither.

        The environment's storage options travel as settings in a file that only this user can read, never in the request or in the
        process list. On an interrupt, or any other exception here, the driver is killed, whatever it is at.
        """
        driver = self._started(request.get("storage_options", {}), job)
        try:
            document = driver.ask(job, {**request, "storage_options": {}})
        except BaseException:
            driver.kill()
            raise
        if "error" in document:
            raise error_from_json(document["error"], job)
        return document

    def stop(self) -> None:
        with self._lock:
            driver, self._driver = self._driver, None
            if driver is not None:
                atexit.unregister(self.stop)
                driver.stop()

    def cancel(self) -> None:
        """Kill the driver, if there is one. May be called from a signal handler or another thread."""
        driver = self._driver
        if driver is not None:
            driver.kill()

    def _started(self, options: Mapping[str, str], job: str) -> Driver:
        """Return a driver that has these storage options and is ready, a new one if there is none."""
        with self._lock:
            if self._driver is not None and (self._driver.has_ended or self._options != options):
                self.stop()
            if self._driver is None:
                self._driver = self._launched(options)
                atexit.register(self.stop)
                self._wait_for(self._driver, job)
            self._driver.keep()
            return self._driver

    def _launched(self, options: Mapping[str, str]) -> Driver:
        find_java()
        settings = settings_for(self.master, self.conf) | {f"spark.hadoop.{k}": v for k, v in hadoop_settings(options).items()}
        scratch = tempfile.TemporaryDirectory(prefix="schemamig-submit-", ignore_cleanup_errors=True)
        exchange = FileExchange(self.exchange_uri or scratch.name, options)
        self._properties = Path(scratch.name, "spark.properties")
        write_properties(self._properties, {**_ONE_ATTEMPT, **settings})
        self._options = dict(options)
        return Driver(exchange, self.master, scratch, lambda: self._submit(self._properties, exchange), self._end_if_idle)

    def _wait_for(self, driver: Driver, job: str) -> None:
        try:
            driver.wait_until_ready(job)
        except BaseException:
            driver.kill()
            raise
        self._properties.unlink(missing_ok=True)  # it was read, and what it holds may be secret

    def _end_if_idle(self) -> None:
        with self._lock:
            if self._driver is not None and self._driver.idle_seconds > IDLE_SECONDS:
                _log.info("Nobody asked the driver for %.0f s: it ends", IDLE_SECONDS)
                self.stop()

    def _submit(self, properties: Path, exchange: FileExchange) -> DriverProcess:
        command, environment = spark_submit_command()
        command += ["--master", self.master, "--name", "schemamig", "--load-spark-defaults", "--properties-file", str(properties)]
        command += ["--py-files", str(zip_packages(properties.with_name("schemamig.zip"))), str(application()), *arguments(exchange)]
        return SubmitProcess(command, environment)


class SubmitProcess:
    """A spark-submit whose output is in this process's log."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._lines: deque[str] = deque(maxlen=_TAIL_LINES)
        try:
            # A session of its own, so that the shell, the JVM and the Python below it can be killed together.
            self._submit = subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise SparkUnavailable(where=command[0], reason=f"spark-submit cannot be started ({error.strerror})") from error
        self._reader = threading.Thread(target=contextvars.copy_context().run, args=(self._read,), name="schemamig-submit", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._submit.pid

    @property
    def tail(self) -> str:
        self._reader.join(_LAST_WORDS_SECONDS)
        return "\n".join(self._lines)

    def exit_code(self) -> int | None:
        return self._submit.poll()

    def kill(self) -> None:
        """End the whole process group: politely, so that Spark clears its scratch folders, then what is left of it by force."""
        try:
            if self._submit.poll() is None:
                self._signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._submit.wait(_GRACE_SECONDS)
        finally:  # also for who presses Ctrl-C twice
            self._signal(signal.SIGKILL)
            self._submit.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._submit.pid, number)

    def _read(self) -> None:
        assert self._submit.stdout is not None
        for line in map(str.rstrip, self._submit.stdout):
            _log.info("%s", line)
            if line and not line.startswith(_FRAMES):  # of a stack trace of 60 lines the first one counts
                self._lines.append(line)


def application() -> Path:
    """Return the file that spark-submit runs, from the installed package."""
    spec = find_spec("spark_jobs.serve")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("spark_jobs.serve is not installed")
    return Path(spec.origin)


def arguments(exchange: FileExchange) -> list[str]:
    """Return the application's command line."""
    return ["--exchange-uri", exchange.uri]


def zip_packages(path: Path) -> Path:
    """Pack this package and the jobs into one zip for ``--py-files``: a driver runs the caller's version, whatever is installed there."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _PACKAGES:
            spec = find_spec(name)
            root = Path(spec.origin).parent if spec is not None and spec.origin else Path(name)
            for file in sorted(root.rglob("*.py")):
                archive.write(file, f"{name}/{file.relative_to(root)}")
    return path


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a Java properties file, readable by this user alone: it may hold credentials."""
    lines = [f"{_escape(name)}={_escape(value)}\n" for name, value in settings.items()]
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="latin-1", errors="strict") as file:
        file.writelines(lines)


def _escape(text: str) -> str:
    escaped = "".join("\\" + char if char in "\\=:#! " else char for char in text)
    escaped = escaped.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return "".join(char if " " <= char <= "~" else f"\\u{ord(char):04x}" for char in escaped)
