"""A Delta table as it is at the moment when a statement reads it, whatever has been cached of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.schema.sql import quote
from airflow_provider_schemamig.core.spark.storage_access import session_settings
from airflow_provider_schemamig.core.storage import spark_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A cache stands in for a read with the same options only. Of these Delta keeps those that begin with "fs.", for the file system,
#: which does not know this one; none where a session's setting says so.
_OPTION = "fs.schemamig.uncached"
_TAKES_OPTIONS = "spark.databricks.delta.loadFileSystemConfigsFromDataFrameOptions.enabled"


def uncached_view(spark: SparkSession, uri: str, name: str) -> str:
    """Make a temporary view of a table that Spark reads anew with each statement, and return it as SQL names it.

    Whoever reads a table by its name gets the rows of ``.cache()`` that any session of the Spark application once called on it: as they
    were then, and Delta does not see that the statement has read the table. A read of one version (``VERSION AS OF``) needs no such view
    as long as the version is what it was: where files are brought back under a living application, its caches go first (docs/runbook.md).
    """
    with session_settings(spark, {_TAKES_OPTIONS: "true"}):
        spark.read.option(_OPTION, "true").format("delta").load(spark_uri(uri)).createOrReplaceTempView(name)
    return quote(name)
