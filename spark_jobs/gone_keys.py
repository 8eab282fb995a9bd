"""Whether a key that went is that of the very row of the target which the source's row was made of.

An ``apply`` request with ``forward`` brings changes back into the table that its source was made of. What its query makes of a row may be
the key of another one there: of two rows of which one key is made, of one that ``forward`` left out, or after a lookup was changed. So
of the target's row with the key, ``forward`` and then the query have to give that key again, once, and no other row of the source may
give it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.spark.errors import TargetDiverged
from spark_jobs.delta_tables import newest_version, register_input, table_fields, table_sql
from spark_jobs.keyed_change import N_CAME, N_WENT, KeyedChange
from spark_jobs.net_change import NetChange
from spark_jobs.row_values import equal_by, same_key, select_as

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Views of the keys of all rows that the source has, of the target's rows with a key that went, as ``forward`` makes them, and of the keys
#: that the query gives those back.
_ALL, _MADE, _BACK = "schemamig__all", "schemamig__made", "schemamig__back"
#: How many rows of the source have a key, and how often the target's row with it gives it back.
_N_ALL, _N_BACK = "schemamig__n_all", "schemamig__n_back"


def views_of(request: Mapping[str, Any]) -> Sequence[str]:
    """Return the views that a check makes."""
    forward = request.get("forward")
    return [] if not forward else [*forward["inputs"], forward["source_view"], _ALL, _MADE, _BACK]


def check_gone(spark: SparkSession, request: Mapping[str, Any], change: KeyedChange | NetChange, gone_keys: str) -> None:
    """Raise TargetDiverged if a key that went is not of the row that the source's was made of. ``gone_keys``: see ``RowsByKey``."""
    key = change.rows.key
    names = ", ".join(quote(f.name) for f in key)
    _register(spark, request, change, gone_keys)
    nothing = f"0L AS {N_CAME}, 0L AS {N_WENT}"
    parts = [f"SELECT {names}, {N_CAME}, {N_WENT}, 0L AS {_N_ALL}, 0L AS {_N_BACK} FROM ({gone_keys})"]
    for view, counts in ((_ALL, "1L, 0L"), (_BACK, "0L, 1L")):
        selected = ", ".join(f"q.{quote(f.name)}" for f in key)
        parts.append(f"SELECT {selected}, {nothing}, {counts} FROM {view} q LEFT SEMI JOIN ({gone_keys}) k ON {same_key(key, 'q', 'k')}")
    is_another = f"max({N_WENT}) > 1 OR sum({_N_ALL}) > max({N_CAME}) OR sum({_N_BACK}) <> 1"
    grouped = ", ".join(equal_by(quote(f.name), f.dataType) for f in key)
    (row,) = spark.sql(
        f"SELECT count(*) AS n FROM (SELECT 1 FROM ({' UNION ALL '.join(parts)}) GROUP BY {grouped} HAVING {is_another})"
    ).collect()
    if row["n"]:
        uri = request["target_uri"]
        raise TargetDiverged(uri=uri, version=newest_version(spark, table_sql(uri)), rows=int(row["n"]))


def _register(spark: SparkSession, request: Mapping[str, Any], change: KeyedChange | NetChange, gone_keys: str) -> None:
    """Make the views. Each holds the analysed query, so that views of one name may become others after it."""
    key, forward, target = change.rows.key, request["forward"], table_sql(request["target_uri"])
    register_input(spark, request["source_view"], {**request["source"], "projection": request["projection"]})
    spark.sql(select_as(spark, request["query"], key)).createOrReplaceTempView(_ALL)

    on = " AND ".join([same_key(key, "t", "k"), *change.bounds("t")])
    found = f"SELECT t.* FROM {target} t LEFT SEMI JOIN ({gone_keys}) k ON {on}"
    for view, lookup in forward["inputs"].items():
        register_input(spark, view, lookup)
    spark.sql(f"SELECT {forward['projection']} FROM ({found})").createOrReplaceTempView(forward["source_view"])
    made = table_fields(spark, request["source"]["uri"], forward["columns"])
    spark.sql(select_as(spark, forward["query"], made)).createOrReplaceTempView(_MADE)

    for view, lookup in request["inputs"].items():
        register_input(spark, view, lookup)
    spark.sql(f"SELECT {request['projection']} FROM {_MADE}").createOrReplaceTempView(request["source_view"])
    spark.sql(select_as(spark, request["query"], key)).createOrReplaceTempView(_BACK)
