"""The driver's side of the process border: one Spark application that runs all statements of a task (``spark_jobs/serve.py``).

It looks into the folder of ``--exchange-uri`` for requests and puts results there, or the typed errors, all JSON (``exchange``). Where the
folder is not on this machine, the driver uses the cluster's own file systems. It ends when it is asked to, and by itself when the task is
gone: killed drivers' callers try again elsewhere, and nobody would ever ask this one.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.spark.driver.exchange import (
    DRIVER,
    END,
    LOCAL_SECONDS,
    READY,
    REMOTE_SECONDS,
    TASK,
    UNSEEN,
    UNSEEN_TEXT,
    UP,
    request_name,
    result_name,
)
from airflow_provider_schemamig.core.spark.driver.telling import heard
from airflow_provider_schemamig.core.spark.errors import SparkJobFailed
from airflow_provider_schemamig.core.spark.session import with_meaning
from airflow_provider_schemamig.core.spark.translate import error_to_json, last_lines, translated
from airflow_provider_schemamig.exceptions import SchemamigError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

JobFunction = Callable[["SparkSession", Mapping[str, Any]], dict[str, Any]]
_FILE = "file://"
#: A task that gave no sign of life at so many looks in a row is gone. Looks are counted, not seconds: a machine that was put to sleep with
#: both of them must not end the driver when it wakes.
_LOOKS, _LOOK_SECONDS = 15, 2.0
_TELL_SECONDS = 1.0
#: What a driver ends with whose task is gone.
GONE = 76
#: How many tasks a shuffle has, and a look at a table: at least so many, so many for each core, and never more than Spark and Delta make of
#: themselves, on however few cores. Most of our statements are small, and each task costs the same whatever it does.
TASKS: Mapping[str, tuple[int, int, int]] = MappingProxyType(
    {"spark.sql.shuffle.partitions": (16, 8, 200), "spark.databricks.delta.snapshotPartitions": (2, 1, 50)}
)
#: Delta remembers 10,000 tables for an hour, some 3 MB each.
_MEMORY = ("spark.databricks.delta.delta.log.cacheSize", "64")
_DYNAMIC = "spark.dynamicAllocation.enabled"


def serve(argv: Sequence[str] | None = None) -> int:
    """Serve a task to its end, under spark-submit, whose command line made all settings (`session.settings_for`). Returns the exit code."""
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exchange-uri", required=True)
    uri = parser.parse_args(argv).exchange_uri

    spark = SparkSession.builder.getOrCreate()
    folder = _Folder(spark, uri)
    threading.Thread(target=_end_with_task, args=(spark, folder), name="schemamig-task", daemon=True).start()
    try:
        _Serving(spark, folder).serve()
    finally:
        spark.stop()
    return 0


def run_job(spark: SparkSession, job: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Call the job's ``run`` on an existing session, and translate its exceptions into typed ones."""
    run: JobFunction = importlib.import_module(f"spark_jobs.{job}").run
    with translated(job, request.get("collection")):
        return run(spark, request)


def tasks_of(context: SparkContext) -> tuple[int, int]:
    """Return how many tasks of Spark's active stages are done, of how many."""
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    found = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found)


class _Serving:
    """The loop, and what is told of it."""

    def __init__(self, spark: SparkSession, folder: _Folder) -> None:
        self._spark = spark
        self._folder = folder
        # What spark-defaults.conf, the command line or the connection says is in the context's settings; Spark's own defaults are not.
        self._given = spark.sparkContext.getConf()
        self._status = ""

    def serve(self) -> None:
        self._tell(UP)
        self._spark.range(1).count()  # waits until the cluster gives it a core: who seals a table must not
        self._tell(READY)
        number = 1
        while True:
            asked = self._folder.read(request_name(number))
            if asked is None:
                time.sleep(self._folder.pause_seconds)
                continue
            if asked["job"] == END:
                return
            self._folder.write(result_name(number), self._told(number, asked["job"], asked["request"]))
            number += 1

    def _told(self, number: int, job: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run one job, and tell meanwhile how far it is."""
        over, self._status = threading.Event(), ""
        teller = threading.Thread(target=self._tell_on, args=(over, number), name="schemamig-telling", daemon=True)
        teller.start()
        try:
            with heard(self._hear):
                return _outcome(self._session(), job, request)
        finally:
            over.set()
            teller.join()

    def _session(self) -> SparkSession:
        """Return a session of the job's own: what it sets, or leaves behind, is no other's."""
        session = with_meaning(self._spark.newSession())
        for name, value in self._sizes().items():
            if not self._given.contains(name):
                session.conf.set(name, value)
        return session

    def _sizes(self) -> dict[str, str]:
        """Return the settings that suit the present number of cores. With dynamic allocation it is not known: cores come with the tasks."""
        if (self._given.get(_DYNAMIC) or "").lower() == "true":
            return dict([_MEMORY])
        cores = self._spark.sparkContext.defaultParallelism
        return dict([_MEMORY]) | {name: str(min(most, max(least, each * cores))) for name, (least, each, most) in TASKS.items()}

    def _hear(self, text: str) -> None:
        self._status = text

    def _tell_on(self, over: threading.Event, number: int) -> None:
        while not over.wait(_TELL_SECONDS):
            with contextlib.suppress(Exception):  # it is told for the eye only; the next look may succeed
                self._tell(READY, number, tasks_of(self._spark.sparkContext))

    def _tell(self, state: str, number: int = 0, tasks: tuple[int, int] = (0, 0)) -> None:
        self._folder.write(DRIVER, {"state": state, "number": number, "tasks": tasks, "said": self._status})


def _outcome(spark: SparkSession, job: str, request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return run_job(spark, job, request)
    except SchemamigError as error:
        return {"error": error_to_json(error)}
    except Exception as error:  # noqa: BLE001 - a defect of ours must cross the border too, else it would look like a driver that died
        traceback.print_exc()
        failed = SparkJobFailed(job=job, tail=last_lines("".join(traceback.format_exception(error))))
        return {"error": error_to_json(failed)}


def _end_with_task(spark: SparkSession, folder: _Folder) -> None:
    """End this process once the task is gone: it cleared the folder, or does not count any more."""
    beat, missed, was_seen = None, 0, False
    while missed < _LOOKS:
        try:
            found = folder.read(TASK)
            if found is None and not folder.has(TASK):
                break
        except Exception:  # noqa: BLE001 - whatever a file system raises that cannot be reached: the task may live
            found = None
        missed = 0 if found is not None and found != beat else missed + 1
        beat, was_seen = found or beat, was_seen or found is not None
        time.sleep(_LOOK_SECONDS)
    print("schemamig: the task that this driver worked for is gone" if was_seen else UNSEEN_TEXT)  # noqa: T201 - the driver's log
    spark.sparkContext.cancelAllJobs()
    os._exit(GONE if was_seen else UNSEEN)  # the main thread may be waiting for Spark; the JVM stops the context when this process ends


class _Folder:
    """The exchange's folder, on this machine or wherever the cluster's file systems reach."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._uri = uri
        self._is_local = uri.startswith(_FILE)

    @property
    def pause_seconds(self) -> float:
        return LOCAL_SECONDS if self._is_local else REMOTE_SECONDS

    def has(self, name: str) -> bool:
        if self._is_local:
            return self._path(name).exists()
        system, path, _ = self._hadoop(name)
        return bool(system.exists(path))

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the document; None if there is none (yet)."""
        if not self.has(name):
            return None
        text = self._path(name).read_text(encoding="utf-8") if self._is_local else self._text(name)
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError:  # not all of it is there yet
            return None
        return found

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Write a file all or nothing: whoever finds the file may believe it."""
        text = json.dumps(document)
        if self._is_local:
            path = self._path(name)
            scratch = path.with_name(f".{name}.{os.getpid()}.{threading.get_ident()}")
            scratch.write_text(text, encoding="utf-8")
            scratch.replace(path)
            return
        system, path, _ = self._hadoop(name)
        stream = system.create(path, True)  # an object store shows the object when the stream is closed
        stream.write(bytearray(text.encode()))
        stream.close()

    def _path(self, name: str) -> Path:
        return Path(self._uri.removeprefix(_FILE), name)

    def _text(self, name: str) -> str:
        system, path, utils = self._hadoop(name)
        stream = system.open(path)
        try:
            return str(utils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _hadoop(self, name: str) -> tuple[Any, Any, Any]:
        """Return Hadoop's file system, the path in it, and the JVM's IOUtils. Takes classic sessions only, which drivers are."""
        jvm: Any = self._spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(f"{self._uri}/{name}")
        return path.getFileSystem(self._spark._jsc.hadoopConfiguration()), path, jvm.org.apache.commons.io.IOUtils
