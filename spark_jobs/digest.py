"""Digests of rows (``core/spark/rows_digest``): of tables, and of what a query makes of them.

Request: ``parts`` [{``name``, ``inputs`` {view: {"uri", "version", "projection"}}, ``query`` (Spark SQL over these views), ``columns``
(hashed in this order), ``like`` (optional: URI of a table whose columns' types the query's are cast to, as an INSERT would; an INT and a
BIGINT of one value have different hashes)}], ``storage_options``, ``collection`` (optional, for errors).

Result: ``digests`` {name: {"rows", "sum" (text), "xor"}}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.spark.rows_digest import RowsDigest
from airflow_provider_schemamig.core.spark.storage_access import storage_access
from spark_jobs.delta_tables import register_input, table_fields, temporary_views
from spark_jobs.row_values import fields_of, row_hash, select_as

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run(spark: SparkSession, request: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the digest of each part; see the module for request and result."""
    with storage_access(spark, request.get("storage_options", {})):
        return {"digests": {part["name"]: _part(spark, part).to_json() for part in request["parts"]}}


def _part(spark: SparkSession, part: Mapping[str, Any]) -> RowsDigest:
    columns = part["columns"]
    with temporary_views(spark, part["inputs"]):
        for view, source in part["inputs"].items():
            register_input(spark, view, source)
        rows = f"SELECT {', '.join(map(quote, columns))} FROM (\n{part['query']}\n)"
        if "like" in part:
            rows = select_as(spark, part["query"], table_fields(spark, part["like"], columns))
        return rows_digest(spark.sql(rows))


def rows_digest(frame: DataFrame, columns: Sequence[str] | None = None) -> RowsDigest:
    """Digest ``columns`` (default: all, in the frame's order) over all rows; names take no part, so a rename does not change it.

    The sum is a decimal, because a BIGINT overflows under ANSI.
    """
    hashed = frame.selectExpr(f"{row_hash(fields_of(frame.schema, columns or frame.columns))} AS h")
    total = hashed.selectExpr("count(*) AS n", "coalesce(bit_xor(h), 0L) AS x", "coalesce(sum(cast(h AS DECIMAL(38, 0))), 0) AS s")
    (row,) = total.collect()
    return RowsDigest(int(row["n"]), int(row["x"]), int(row["s"]))
