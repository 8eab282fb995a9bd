"""A job's side of the process border: ``main`` of every file in ``spark_jobs``.

The request is read from ``--request-uri`` and the result, or the typed error, written to ``--result-uri``, both JSON. Exit codes: 0 with
a result, 1 with ``{"error": {...}}``. Where the URIs are not on this machine, the driver uses the cluster's own file systems.
"""

from __future__ import annotations

import argparse
import json
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.spark.errors import SparkJobFailed
from airflow_provider_schemamig.core.spark.session import with_meaning
from airflow_provider_schemamig.core.spark.translate import error_to_json, last_lines, translated
from airflow_provider_schemamig.exceptions import SchemamigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JobFunction = Callable[["SparkSession", Mapping[str, Any]], dict[str, Any]]
_FILE = "file://"


def job_main(job: str, run: JobFunction, argv: Sequence[str] | None = None) -> int:
    """Run one job under spark-submit, whose command line made all settings (`session.settings_for`). Returns the exit code."""
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(description=run.__doc__)
    parser.add_argument("--request-uri", required=True)
    parser.add_argument("--result-uri", required=True)
    arguments = parser.parse_args(argv)

    spark = with_meaning(SparkSession.builder.getOrCreate())
    try:
        request = json.loads(_read(spark, arguments.request_uri))
        document, code = _outcome(job, run, spark, request)
        _write(spark, arguments.result_uri, json.dumps(document))
    finally:
        spark.stop()
    return code


def _outcome(job: str, run: JobFunction, spark: SparkSession, request: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    try:
        with translated(job, request.get("collection")):
            return run(spark, request), 0
    except SchemamigError as error:
        return {"error": error_to_json(error)}, 1
    except Exception as error:  # noqa: BLE001 - a defect of ours must cross the border too, else it would look like a driver that died
        traceback.print_exc()
        failed = SparkJobFailed(job=job, tail=last_lines("".join(traceback.format_exception(error))))
        return {"error": error_to_json(failed)}, 1


def _read(spark: SparkSession, uri: str) -> str:
    if uri.startswith(_FILE):
        return Path(uri.removeprefix(_FILE)).read_text(encoding="utf-8")
    system, path, utils = _hadoop(spark, uri)
    stream = system.open(path)
    try:
        return str(utils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def _write(spark: SparkSession, uri: str, text: str) -> None:
    """Write a file all or nothing: whoever finds the file may believe it."""
    if uri.startswith(_FILE):
        path = Path(uri.removeprefix(_FILE))
        scratch = path.with_name(f".{path.name}.{os.getpid()}")
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(path)
        return
    system, path, _ = _hadoop(spark, uri)
    stream = system.create(path, True)  # an object store shows the object when the stream is closed
    stream.write(bytearray(text.encode()))
    stream.close()


def _hadoop(spark: SparkSession, uri: str) -> tuple[Any, Any, Any]:
    """Return Hadoop's file system of a URI, its path in it, and the JVM's IOUtils. Takes classic sessions only, which drivers are."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(uri)
    return path.getFileSystem(spark._jsc.hadoopConfiguration()), path, jvm.org.apache.commons.io.IOUtils
