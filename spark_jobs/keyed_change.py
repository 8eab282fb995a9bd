"""The change of an ``apply`` request by its key, where each key's rows came and went at most once: no whole rows are grouped.

That is what most batches of a change data feed are, and it is worth a way of its own: grouping by whole rows, and then by the key, took
more than half of the time of a batch of 250,000 rows. Where a key came or went more often only the net change tells what is left of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.spark.rows_digest import RowsDigest
from spark_jobs.net_change import CAME, WENT, ChangedRows, bounded, bounds_of, looked_at
from spark_jobs.row_values import comparable, row_hash, same_row, type_sql

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_KEYS = "schemamig__keys"
VIEWS = (_KEYS,)
#: Of the source of a MERGE: the row goes.
DELETE = "schemamig__delete"
#: Rows are the same if two hashes say so, 128 bits.
_SAME = "coalesce(h_came = h_went AND g_came = g_went, false)"


@dataclass(frozen=True)
class KeyedChange:
    """``inserted``, ``deleted``: rows of the net change. ``same``, ``gone``: keys whose row came as it went, or went only."""

    rows: ChangedRows
    inserted: int
    deleted: int
    same: int
    gone: int
    digest: RowsDigest
    summary: Row

    @property
    def empty(self) -> bool:
        return not self.inserted and not self.deleted

    def bounds(self, alias: str) -> Iterator[str]:
        return bounds_of(self.rows, self.summary, alias)

    @property
    def source(self) -> str:
        """The rows that came, with ``DELETE`` false, and the keys of those that only went."""
        key = {f.name for f in self.rows.key}
        source = f"SELECT {self.rows.columns}, false AS {DELETE} FROM {CAME} c"
        if self.same:
            source += f" WHERE NOT EXISTS (SELECT 1 FROM {_KEYS} k WHERE {_SAME} AND {same_row(self.rows.key, 'k', 'c')})"
        if self.gone:
            row = ", ".join(
                quote(f.name) if f.name in key else f"CAST(NULL AS {type_sql(f.dataType)}) AS {quote(f.name)}" for f in self.rows.fields
            )
            source += f" UNION ALL SELECT {row}, true FROM {_KEYS} WHERE n_came = 0"
        return source


def keyed_change_of(spark: SparkSession, request: Mapping[str, Any], rows: ChangedRows) -> KeyedChange | None:
    """None if there is no key, if rows that stayed as they are are among the changed ones (files), or if a key came or went twice."""
    if not rows.key or request["changes"]["kind"] != "cdf":
        return None
    # The rows themselves are not cached: Delta copies the source of a MERGE before it reads that twice.
    names = ", ".join(quote(f.name) for f in rows.key)
    hashes = f"{row_hash(rows.fields)} AS h, {row_hash(rows.fields, seed=1)} AS g"
    sides = " UNION ALL ".join(f"SELECT {names}, {view == CAME} AS came, {hashes} FROM {view}" for view in (CAME, WENT))
    of = {"came": "came", "went": "NOT came"}
    counted = [f"count_if({when}) AS n_{side}" for side, when in of.items()]
    counted += [f"max({name}) FILTER (WHERE {when}) AS {name}_{side}" for name in "hg" for side, when in of.items()]
    grouped = ", ".join(comparable(quote(f.name), f.dataType) for f in rows.key)
    spark.sql(f"CACHE LAZY TABLE {_KEYS} AS SELECT {names}, {', '.join(counted)} FROM ({sides}) GROUP BY {grouped}")
    return _look_at(spark, rows)


def _look_at(spark: SparkSession, rows: ChangedRows) -> KeyedChange | None:
    wanted = [
        "coalesce(max(greatest(n_came, n_went)), 0L) AS most",
        f"count_if({_SAME}) AS same",
        "count_if(n_came = 0) AS gone",
        f"count_if(n_came > 0 AND NOT {_SAME}) AS inserted",
        f"count_if(n_went > 0 AND NOT {_SAME}) AS deleted",
        "coalesce(sum(CAST(h_came AS DECIMAL(38, 0))), 0) - coalesce(sum(CAST(h_went AS DECIMAL(38, 0))), 0) AS total",
        "coalesce(bit_xor(coalesce(h_came, 0L) ^ coalesce(h_went, 0L)), 0L) AS parity",
        *looked_at(bounded(rows)),
    ]
    (row,) = spark.sql(f"SELECT {', '.join(wanted)} FROM {_KEYS}").collect()
    if row["most"] > 1:
        return None
    inserted, deleted = int(row["inserted"]), int(row["deleted"])
    digest = RowsDigest(inserted - deleted, int(row["parity"]), int(row["total"]))
    return KeyedChange(rows, inserted, deleted, int(row["same"]), int(row["gone"]), digest, row)
