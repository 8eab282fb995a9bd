"""Jobs on a cluster, by spark-submit."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import tempfile
import zipfile
from collections import deque
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from airflow_provider_schemamig.core.spark.errors import SparkDriverDied, SparkUnavailable
from airflow_provider_schemamig.core.spark.launch import find_java, spark_submit_command
from airflow_provider_schemamig.core.spark.session import settings_for
from airflow_provider_schemamig.core.spark.storage_access import hadoop_settings
from airflow_provider_schemamig.core.spark.translate import error_from_json
from airflow_provider_schemamig.core.storage import Location, ObjectMissing, StorageOptions, Store, open_store, spark_uri
from airflow_provider_schemamig.core.storage.own_places import exchange_folder

_PACKAGES = ("airflow_provider_schemamig", "spark_jobs")
_TAIL_LINES = 20
_GRACE_SECONDS = 10.0
_log = logging.getLogger(__name__)


class SubmitRunner:
    """Runs each job as a driver of its own: ``spark-submit --master <master>``.

    ``conf``: settings of the cluster (deploy mode, memory, queue). ``exchange_uri``: the folder that requests and results pass through;
    needed where the driver runs on another machine (deploy mode cluster), otherwise a temporary folder of this one.
    """

    def __init__(self, master: str, conf: Mapping[str, str] = MappingProxyType({}), exchange_uri: str | None = None) -> None:
        self.master = master
        self.conf = dict(conf)
        self.exchange_uri = exchange_uri
        self._driver: subprocess.Popen[str] | None = None

    def run(self, job: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run ``job`` and return its result. Raises the job's own typed error; SparkDriverDied where the driver left neither.

        The environment's storage options travel as settings in a file that only this user can read, never in the request or in the
        process list. The driver dies with this call: on an interrupt, or any other exception here, its process group is killed.
        """
        find_java()
        options: Mapping[str, str] = request.get("storage_options", {})
        with tempfile.TemporaryDirectory(prefix="schemamig-submit-") as scratch:
            exchange = FileExchange(self.exchange_uri or scratch, options)
            try:
                exchange.put_request({**request, "storage_options": {}})
                code, tail = self._submit(job, Path(scratch), exchange, options)
                return exchange.take_result(job, code, tail)
            finally:
                exchange.clear()

    def cancel(self) -> None:
        """Stop the driver that is running, if any. May be called from a signal handler or another thread."""
        if self._driver is not None:
            _kill(self._driver)

    def _submit(self, job: str, scratch: Path, exchange: FileExchange, options: Mapping[str, str]) -> tuple[int, str]:
        properties = scratch / "spark.properties"
        settings = settings_for(self.master, self.conf) | {f"spark.hadoop.{k}": v for k, v in hadoop_settings(options).items()}
        write_properties(properties, settings)
        command, environment = spark_submit_command()
        command += ["--master", self.master, "--name", f"schemamig-{job}", "--load-spark-defaults", "--properties-file", str(properties)]
        command += ["--py-files", str(zip_packages(scratch / "schemamig.zip")), str(job_file(job)), *exchange.arguments]
        return self._follow(command, environment)

    def _follow(self, command: list[str], environment: Mapping[str, str]) -> tuple[int, str]:
        """Stream the driver's output to the log until it ends; return its exit code and last lines."""
        tail: deque[str] = deque(maxlen=_TAIL_LINES)
        try:
            # A session of its own, so that the shell, the JVM and the Python below it can be killed together.
            driver = subprocess.Popen(
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
        self._driver = driver
        try:
            assert driver.stdout is not None
            for line in driver.stdout:
                tail.append(line.rstrip())
                _log.info("%s", tail[-1])
            return driver.wait(), "\n".join(tail)
        finally:
            _kill(driver)
            self._driver = None


class FileExchange:
    """The two objects that pass between a caller and a driver, in a folder of their own below ``folder_uri``."""

    def __init__(self, folder_uri: str, options: Mapping[str, str]) -> None:
        self._name = exchange_folder()
        self._location = Location.parse(folder_uri).child(self._name)
        self._store: Store = open_store(Location.parse(folder_uri), StorageOptions(options))

    @property
    def arguments(self) -> list[str]:
        """Return the job's command line."""
        uris = [spark_uri(self._location.child(name).uri) for name in ("request.json", "result.json")]
        return ["--request-uri", uris[0], "--result-uri", uris[1]]

    def put_request(self, request: Mapping[str, Any]) -> None:
        self._store.put(f"{self._name}/request.json", json.dumps(request).encode())

    def take_result(self, job: str, exit_code: int, tail: str) -> dict[str, Any]:
        """Return what the driver wrote: its result, or its error raised; SparkDriverDied if there is nothing to read."""
        try:
            document: dict[str, Any] = json.loads(self._store.get(f"{self._name}/result.json"))
        except ObjectMissing:
            raise SparkDriverDied(job=job, exit_code=exit_code, tail=tail) from None
        if "error" in document:
            raise error_from_json(document["error"], job)
        return document

    def clear(self) -> None:
        self._store.delete_tree(self._name)


def job_file(job: str) -> Path:
    """Return the file that spark-submit runs, from where the package is installed."""
    spec = find_spec(f"spark_jobs.{job}")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"spark_jobs.{job} is not installed")
    return Path(spec.origin)


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


def _kill(driver: subprocess.Popen[str]) -> None:
    """End the driver's whole process group: politely, so that Spark clears its scratch folders, then what is left of it by force."""
    if driver.poll() is None:
        _signal(driver, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.wait(_GRACE_SECONDS)
    _signal(driver, signal.SIGKILL)
    driver.wait()


def _signal(driver: subprocess.Popen[str], number: signal.Signals) -> None:
    try:
        os.killpg(driver.pid, number)
    except ProcessLookupError:
        return
