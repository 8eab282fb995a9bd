"""One statement that writes, exactly once by Delta's txn identifiers, and its commit found again.

Delta says nothing when it skips a statement because its txn version is in the log already, so the commit is always looked for, by its
operation and its user metadata: a compaction that Delta runs after the statement has the same. What a statement found out on its way (its
*notes*) is written down beside it, so that a repeat can give the same answer.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.delta.actions import REARRANGING
from airflow_provider_schemamig.core.spark.errors import FillSuperseded
from airflow_provider_schemamig.core.spark.storage_access import session_settings
from spark_jobs.delta_tables import table_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TXN_APP_ID = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_ATTEMPT = "attempt"
#: The commit just made is among these; reading the whole history costs a request for every version.
_NEWEST = 5


@dataclass(frozen=True)
class Written:
    """The commit of a statement, made now or (``skipped``) by an earlier run of the same."""

    version: int
    metrics: Mapping[str, str]
    notes: Mapping[str, Any]
    skipped: bool


def write_once(spark: SparkSession, uri: str, statement: str, request: Mapping[str, Any], notes: Mapping[str, Any]) -> Written:
    """Run ``statement``, which writes to the table at ``uri``, under the request's ``txn_app_id``, ``txn_version`` and ``user_metadata``.

    Raises FillSuperseded if Delta skipped it and its commit is not there: another statement has the txn version.
    """
    attempt = uuid.uuid4().hex
    user_metadata = {**json.loads(request["user_metadata"]), **notes, _ATTEMPT: attempt}
    settings = {
        _TXN_APP_ID: request["txn_app_id"],
        _TXN_VERSION: str(request["txn_version"]),
        _USER_METADATA: json.dumps(user_metadata, sort_keys=True),
    }
    with session_settings(spark, settings):
        spark.sql(statement).collect()
    found = find_written(spark, uri, request, attempt)
    if found is None:
        raise FillSuperseded(shard_uri=uri, txn_version=request["txn_version"], collection=request.get("collection"))
    return found


def find_written(spark: SparkSession, uri: str, request: Mapping[str, Any], attempt: str | None = None) -> Written | None:
    """Return the newest commit of a statement with the request's user metadata, whatever it noted down."""
    wanted = json.loads(request["user_metadata"])
    history = f"DESCRIBE HISTORY {table_sql(uri)}"
    for statement in (f"{history} LIMIT {_NEWEST}", history):
        # The newest come first. Spark is asked to sort and filter nothing: that would be two jobs more after every statement.
        for row in spark.sql(statement).select("version", "operation", "userMetadata", "operationMetrics").collect():
            noted = {} if row["operation"] in REARRANGING else _json_object(row["userMetadata"] or "{}")
            by = noted.pop(_ATTEMPT, None)
            if by is not None and {name: noted.pop(name, None) for name in wanted} == wanted:
                return Written(int(row["version"]), row["operationMetrics"], noted, by != attempt)
    return None


def _json_object(text: str) -> dict[str, Any]:
    """Parse a JSON object; empty for anything else, which other writers may put there."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
