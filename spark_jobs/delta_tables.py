"""Delta tables by their URIs, in SQL that classic sessions and Spark Connect both take, and views over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.storage import spark_uri
from spark_jobs.row_values import fields_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField

#: The view of a job's target, of which somebody may have cached the rows (``uncached_view``).
PRESENT = "schemamig__present"


def table_sql(uri: str) -> str:
    """Return the name of a Delta table by its absolute URI (a relative path is not found)."""
    return f"delta.{quote(spark_uri(uri))}"


def table_fields(spark: SparkSession, uri: str, columns: Iterable[str]) -> list[StructField]:
    """Return the fields of a table's columns, in the order of ``columns``."""
    return fields_of(spark.sql(f"SELECT * FROM {table_sql(uri)}").schema, columns)


def newest_version(spark: SparkSession, table: str) -> int:
    (row,) = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").select("version").collect()
    return int(row["version"])


def register_input(spark: SparkSession, view: str, source: Mapping[str, Any]) -> int:
    """Make one input of a request a view, in the shape the query expects: ``uri``, ``projection`` (select list), ``version`` (None or
    missing: the newest). Returns the version."""
    name = table_sql(source["uri"])
    version = source.get("version")
    pinned = newest_version(spark, name) if version is None else int(version)
    spark.sql(f"SELECT {source['projection']} FROM {name} VERSION AS OF {pinned}").createOrReplaceTempView(view)
    return pinned


@contextmanager
def temporary_views(spark: SparkSession, names: Iterable[str]) -> Iterator[None]:
    """Drop the views of these names afterwards, with their cached rows. Anybody inside may have made them."""
    try:
        yield
    finally:
        for name in names:
            spark.sql(f"DROP VIEW IF EXISTS {quote(name)}")
