"""Whether a gone key belongs to the very row of the target from which the source's row was made.

An ``apply`` request with ``forward`` brings changes back into the table that its source was made of. What its query makes of a row may be
the key of another one there: of two rows of which one key is made, of one that ``forward`` left out, or after a lookup was changed. So
of the target's row with the key, ``forward`` and then the query have to make one row, which has that key again, and no other row of the
source may have it. Both queries keep for each row which one it is made of: ``forward`` may make several of one, and none of another.

Asked is the target as it was (``made_at``): what an earlier link of the chain brought was not made by ``forward``. A key that only such a
link brought is there, or the statement fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.spark.errors import TargetDiverged
from airflow_provider_schemamig.core.spark.uncached import uncached_view
from spark_jobs.delta_tables import PRESENT, newest_version, register_input, table_fields, table_sql
from spark_jobs.keyed_change import N_CAME, N_WENT, KeyedChange
from spark_jobs.net_change import NetChange
from spark_jobs.row_values import equal_by, same_key, select_as

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField

#: Views of the keys of all rows that the source has, of the target's rows with a key that went, of what ``forward`` makes of these, and of
#: the keys that the query gives those.
_ALL, _FOUND, _MADE, _BACK = "schemamig__all", "schemamig__found", "schemamig__made", "schemamig__back"
#: The column in which the queries keep of which row each of theirs is made: its key.
_MADE_OF = "schemamig__made_of"
#: Of a key: how many rows of the source have it, how many of the target had, and what of these has it again, or another one.
_N_ALL, _N_FOUND, _N_BACK, _N_OTHER = "schemamig__n_all", "schemamig__n_found", "schemamig__n_back", "schemamig__n_other"


def views_of(request: Mapping[str, Any]) -> Sequence[str]:
    """Return the views that a check makes."""
    forward = request.get("forward")
    return [] if not forward else [*forward["inputs"], forward["source_view"], _ALL, _FOUND, _MADE, _BACK]


def check_gone(spark: SparkSession, request: Mapping[str, Any], change: KeyedChange | NetChange, gone_keys: str) -> None:
    """Raise TargetDiverged if a gone key is not of the row that the source's was made of. ``gone_keys``: see ``RowsByKey``."""
    key = change.rows.key
    names = ", ".join(quote(f.name) for f in key)
    _register(spark, request, change, gone_keys)
    made_of = ", ".join(f"q.{_MADE_OF}.{quote(f.name)}" for f in key)
    same = same_key(key, "q", f"q.{_MADE_OF}")
    counted = ", ".join(f"0L AS {name}" for name in (_N_ALL, _N_FOUND, _N_BACK, _N_OTHER))
    nothing = f"0L AS {N_CAME}, 0L AS {N_WENT}"
    qualified = ", ".join(f"q.{quote(f.name)}" for f in key)
    parts = [
        f"SELECT {names}, {N_CAME}, {N_WENT}, {counted} FROM ({gone_keys})",
        f"SELECT {qualified}, {nothing}, 1L, 0L, 0L, 0L FROM {_ALL} q LEFT SEMI JOIN ({gone_keys}) k ON {same_key(key, 'q', 'k')}",
        f"SELECT {names}, {nothing}, 0L, 1L, 0L, 0L FROM {_FOUND}",
        f"SELECT {made_of}, {nothing}, 0L, 0L, IF({same}, 1L, 0L), IF({same}, 0L, 1L) FROM {_BACK} q",
    ]
    several = f"max({N_WENT}) > 1 OR sum({_N_ALL}) > max({N_CAME}) OR sum({_N_FOUND}) > 1"
    is_another = f"{several} OR sum({_N_BACK}) <> sum({_N_FOUND}) OR sum({_N_OTHER}) > 0"
    grouped = ", ".join(equal_by(quote(f.name), f.dataType) for f in key)
    (row,) = spark.sql(
        f"SELECT count(*) AS n FROM (SELECT 1 FROM ({' UNION ALL '.join(parts)}) GROUP BY {grouped} HAVING {is_another})"
    ).collect()
    if row["n"]:
        uri = request["target_uri"]
        raise TargetDiverged(uri=uri, version=newest_version(spark, table_sql(uri)), rows=int(row["n"]))


def _register(spark: SparkSession, request: Mapping[str, Any], change: KeyedChange | NetChange, gone_keys: str) -> None:
    """Make the views. Each holds the analysed query, so that views of one name may become others after it."""
    key, forward = change.rows.key, request["forward"]
    register_input(spark, request["source_view"], {**request["source"], "projection": request["projection"]})
    spark.sql(select_as(spark, request["query"], key)).createOrReplaceTempView(_ALL)

    on = " AND ".join([same_key(key, "t", "k"), *change.bounds("t")])
    made_at, uri = forward["made_at"], request["target_uri"]
    found_in = uncached_view(spark, uri, PRESENT) if made_at is None else f"{table_sql(uri)} VERSION AS OF {int(made_at)}"
    spark.sql(f"SELECT t.* FROM {found_in} t LEFT SEMI JOIN ({gone_keys}) k ON {on}").createOrReplaceTempView(_FOUND)
    for view, lookup in forward["inputs"].items():
        register_input(spark, view, lookup)
    struct = f"struct({', '.join(quote(f.name) for f in key)}) AS {_MADE_OF}"
    spark.sql(f"SELECT {struct}, {forward['projection']} FROM {_FOUND}").createOrReplaceTempView(forward["source_view"])
    made = table_fields(spark, request["source"]["uri"], forward["columns"])
    _made_view(spark, _MADE, forward["there"], made)

    for view, lookup in request["inputs"].items():
        register_input(spark, view, lookup)
    spark.sql(f"SELECT {_MADE_OF}, {request['projection']} FROM {_MADE}").createOrReplaceTempView(request["source_view"])
    _made_view(spark, _BACK, forward["back"], key)


def _made_view(spark: SparkSession, view: str, found: Mapping[str, str], fields: Sequence[StructField]) -> None:
    """Make a view of what a query makes of its source, with ``_MADE_OF`` as its first column."""
    query = select_as(spark, found["query"], fields, first=[f"{found['column']} AS {_MADE_OF}"])
    spark.sql(query).createOrReplaceTempView(view)
