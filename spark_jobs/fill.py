"""Fill a replacement shard with the rows of a query, exactly once a txn version.

Request: ``shard_uri`` (an existing Delta table), ``storage_options``, ``query`` (Spark SQL over the names in ``inputs``),
``inputs`` {view: {"uri", "version" | null for the newest, "projection" (select list), "shard" (optional, names it in the result)}},
``columns`` (filled by name from the query's), ``mode`` "append" | "overwrite", ``txn_app_id``, ``txn_version``, ``user_metadata`` (a
JSON object as text), ``collection`` (optional, for errors), ``text_partitions`` (optional: see ``without_texts_kept_as_null``),
``one_partition`` (optional: all rows belong to one partition). Names are validated by the caller.

Result: ``rows`` written, ``table_version`` of the commit, ``inputs`` {shard or view: version read}, ``seconds``, ``skipped``.
``skipped``: Delta made no commit because this very fill is in the table already; rows, version and inputs are then that commit's, found
by its user metadata. Skipped for any other reason is never success: FillSuperseded.

Only SQL is used, so that it runs on classic sessions and on Spark Connect alike, and no Python function ever sees a row.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.schema.sql import without_texts_kept_as_null
from airflow_provider_schemamig.core.spark.storage_access import session_settings, storage_access
from spark_jobs.delta_tables import newest_version, register_input, table_fields, table_sql, temporary_views
from spark_jobs.row_values import select_as
from spark_jobs.transactions import write_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark sorts a task's rows by partition, to have one file open at a time, unless it may keep this many open. With one partition the sort
#: is a fifth of the statement's time for nothing; where there are more after all, Spark goes back to sorting.
_ONE_FILE_OPEN = {"spark.sql.maxConcurrentOutputFileWriters": "1"}
_INSERT = {"append": "INSERT INTO", "overwrite": "INSERT OVERWRITE"}


def run(spark: SparkSession, request: Mapping[str, Any]) -> dict[str, Any]:
    """Fill one shard; see the module for request and result."""
    from pyspark.errors import AnalysisException

    started = time.monotonic()
    with storage_access(spark, request.get("storage_options", {})), temporary_views(spark, request["inputs"]):
        shard = table_sql(request["shard_uri"])
        inputs = {source.get("shard", view): register_input(spark, view, source) for view, source in request["inputs"].items()}
        columns = ", ".join(map(quote, request["columns"]))
        query = without_texts_kept_as_null(request["query"], request["columns"], request.get("text_partitions", ()))
        try:
            # Columns and fields are taken by name: two of one type that changed places would go unseen.
            fields = table_fields(spark, request["shard_uri"], request["columns"])
            statement = f"{_INSERT[request['mode']]} {shard} ({columns}) {select_as(spark, query, fields, cast=False)}"
            with session_settings(spark, _ONE_FILE_OPEN if request.get("one_partition") else {}):
                written = write_once(spark, request["shard_uri"], statement, request, {"inputs": inputs})
        except AnalysisException:
            newest_version(spark, shard)  # says that there is no table; the INSERT says that it has no such columns
            raise
    return {
        "rows": int(written.metrics["numOutputRows"]),
        "table_version": written.version,
        "inputs": written.notes["inputs"],
        "seconds": round(time.monotonic() - started, 3),
        "skipped": written.skipped,
    }
