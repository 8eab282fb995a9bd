"""Lay all rows of a table out by its clustering columns: Delta's OPTIMIZE FULL (``core/transfer/file_rewrite``).

Request: ``table_uri`` (a table that only the caller knows of), ``storage_options``, ``collection`` (optional, for errors).

Result: ``rows`` of the table afterwards, ``seconds``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.spark.storage_access import storage_access
from spark_jobs.delta_tables import table_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(spark: SparkSession, request: Mapping[str, Any]) -> dict[str, Any]:
    """Cluster one table; see the module for request and result."""
    started = time.monotonic()
    with storage_access(spark, request.get("storage_options", {})):
        table = table_sql(request["table_uri"])
        spark.sql(f"OPTIMIZE {table} FULL").collect()
        (row,) = spark.sql(f"SELECT count(*) AS rows FROM {table}").collect()
    return {"rows": int(row["rows"]), "seconds": round(time.monotonic() - started, 3)}
