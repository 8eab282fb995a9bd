"""Delta tables by their URIs, in SQL that classic sessions and Spark Connect both take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.spark.storage_access import spark_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table_sql(uri: str) -> str:
    """A Delta table, named by its absolute URI (a relative path is not found)."""
    return f"delta.{quote(spark_uri(uri))}"


def newest_version(spark: SparkSession, table: str) -> int:
    (row,) = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").select("version").collect()
    return int(row["version"])
