"""Fill a replacement shard with the rows of a query, exactly once a txn version (DESIGN sections 4 and 6; research/delta_spark.md).

Request: ``shard_uri`` (an existing Delta table), ``storage_options``, ``query`` (Spark SQL over the names in ``inputs``),
``inputs`` {view: {"uri", "version" | null for the newest, "projection" (select list), "shard" (optional, names it in the result)}},
``columns`` (filled by name from the query's), ``mode`` "append" | "overwrite", ``txn_app_id``, ``txn_version``, ``user_metadata`` (a
JSON object as text), ``collection`` (optional, for errors). Names are validated by the caller.

Result: ``rows`` written, ``table_version`` of the commit, ``inputs`` {shard or view: version read}, ``seconds``, ``skipped``.
``skipped``: Delta made no commit because this very fill is in the table already; rows, version and inputs are then that commit's, found
by its user metadata. Skipped for any other reason is never success: FillSuperseded.

Only SQL is used, so that it runs on classic sessions and on Spark Connect alike, and no Python function ever sees a row.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.spark.errors import FillSuperseded
from airflow_provider_schemamig.core.spark.job import job_main
from airflow_provider_schemamig.core.spark.storage_access import session_settings, storage_access
from spark_jobs.delta_tables import newest_version, table_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TXN_APP_ID = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_INSERT = {"append": "INSERT INTO", "overwrite": "INSERT OVERWRITE"}


@dataclass(frozen=True)
class _Commit:
    """A commit of a fill, from the table's history."""

    version: int
    rows: int
    inputs: dict[str, int]
    attempt: str


def run(spark: SparkSession, request: Mapping[str, Any]) -> dict[str, Any]:
    """Fill one shard; see the module for request and result."""
    started = time.monotonic()
    with storage_access(spark, request.get("storage_options", {})):
        shard = table_sql(request["shard_uri"])
        newest_version(spark, shard)  # says that there is no table; an INSERT there would say that it has no such columns
        inputs = {}
        attempt = uuid.uuid4().hex
        try:
            for view, source in request["inputs"].items():
                inputs[source.get("shard", view)] = _register(spark, view, source)
            _insert(spark, shard, request, {"inputs": inputs, "attempt": attempt})
        finally:
            for view in request["inputs"]:
                spark.sql(f"DROP VIEW IF EXISTS {quote(view)}")
        # Delta says nothing when it skips a txn version that is in the log already, so the commit is looked for.
        commit = _find_commit(spark, shard, request["user_metadata"])
    if commit is None:
        raise FillSuperseded(shard_uri=request["shard_uri"], txn_version=request["txn_version"], collection=request.get("collection"))
    return {
        "rows": commit.rows,
        "table_version": commit.version,
        "inputs": commit.inputs,
        "seconds": round(time.monotonic() - started, 3),
        "skipped": commit.attempt != attempt,
    }


def _register(spark: SparkSession, view: str, source: Mapping[str, Any]) -> int:
    """Make one input a view at a fixed version, in the shape the query expects; returns the version."""
    name = table_sql(source["uri"])
    version = source.get("version")
    pinned = newest_version(spark, name) if version is None else int(version)
    spark.sql(f"SELECT {source['projection']} FROM {name} VERSION AS OF {pinned}").createOrReplaceTempView(view)
    return pinned


def _insert(spark: SparkSession, shard: str, request: Mapping[str, Any], notes: Mapping[str, Any]) -> None:
    """The one statement that writes. The query's columns are taken by name: two of one type that changed places would go unseen."""
    columns = ", ".join(quote(column) for column in request["columns"])
    statement = f"{_INSERT[request['mode']]} {shard} ({columns}) SELECT {columns} FROM (\n{request['query']}\n)"
    settings = {
        _TXN_APP_ID: request["txn_app_id"],
        _TXN_VERSION: str(request["txn_version"]),
        _USER_METADATA: json.dumps({**json.loads(request["user_metadata"]), **notes}, sort_keys=True),
    }
    with session_settings(spark, settings):
        spark.sql(statement).collect()


def _find_commit(spark: SparkSession, shard: str, user_metadata: str) -> _Commit | None:
    """The newest commit with this user metadata, whatever inputs and attempt it noted down."""
    wanted = json.loads(user_metadata)
    history = spark.sql(f"DESCRIBE HISTORY {shard}").select("version", "userMetadata", "operationMetrics")
    for row in history.where("userMetadata IS NOT NULL").orderBy("version", ascending=False).collect():
        noted = _json_object(row["userMetadata"])
        inputs, attempt = noted.pop("inputs", None), noted.pop("attempt", None)
        if attempt is not None and noted == wanted:
            return _Commit(int(row["version"]), int(row["operationMetrics"]["numOutputRows"]), inputs, attempt)
    return None


def _json_object(text: str) -> dict[str, Any]:
    """Other writers may put anything there."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


if __name__ == "__main__":
    sys.exit(job_main("fill", run))
