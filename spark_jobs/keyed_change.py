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
from spark_jobs.row_values import equal_by, row_hash, same_key, type_sql

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_KEYS = "schemamig__keys"
VIEWS = (_KEYS,)
#: Of the source of a MERGE: the row goes; and its key only came, so that nothing of it is there to be changed.
DELETE, IS_NEW = "schemamig__delete", "schemamig__is_new"
#: Of ``_KEYS``, beside the key's own columns, which may have any name: how often it came and went, and two hashes of either row.
N_CAME, N_WENT = "schemamig__n_came", "schemamig__n_went"
_H_CAME, _H_WENT = "schemamig__h_came", "schemamig__h_went"
_G_CAME, _G_WENT = "schemamig__g_came", "schemamig__g_went"
_IS_CAME, _H, _G = "schemamig__is_came", "schemamig__h", "schemamig__g"
#: Rows are the same if both hashes say so, 128 bits.
_SAME = f"coalesce({_H_CAME} = {_H_WENT} AND {_G_CAME} = {_G_WENT}, false)"


@dataclass(frozen=True)
class RowsByKey:
    """The changes with one row a key, as queries.

    ``source``: the target's columns, ``DELETE`` and ``IS_NEW``. ``new_keys``: the keys that only came. ``gone_keys``: the others, with
    how many rows of each came and went (``N_CAME``, ``N_WENT``).
    """

    source: str
    has_deletes: bool
    has_new: bool
    new_keys: str
    gone_keys: str


@dataclass(frozen=True)
class KeyedChange:
    """``inserted``, ``deleted``: rows of the net change. ``same``, ``gone``, ``new``: keys whose row came as it went,
    went only, came only."""

    rows: ChangedRows
    inserted: int
    deleted: int
    same: int
    gone: int
    new: int
    digest: RowsDigest
    summary: Row

    @property
    def empty(self) -> bool:
        return not self.inserted and not self.deleted

    def bounds(self, alias: str) -> Iterator[str]:
        return bounds_of(self.rows, self.summary, alias)

    @property
    def rows_by_key(self) -> RowsByKey:
        names = ", ".join(quote(f.name) for f in self.rows.key)
        return RowsByKey(
            source=self._source(),
            has_deletes=bool(self.gone),
            has_new=bool(self.new),
            new_keys=f"SELECT {names} FROM {_KEYS} WHERE {N_WENT} = 0",
            gone_keys=f"SELECT {names}, {N_CAME}, {N_WENT} FROM {_KEYS} WHERE {N_WENT} > 0 AND NOT {_SAME}",
        )

    def _source(self) -> str:
        """Return SQL for the rows that came, with ``DELETE`` false, without those of ``same``.

        Keys that only went are added, with ``DELETE`` true.
        """
        key = {f.name for f in self.rows.key}
        columns = ", ".join(f"c.{quote(f.name)}" for f in self.rows.fields)
        if self.same or (self.new and self.deleted):
            source = f"SELECT {columns}, false AS {DELETE}, k.{N_WENT} = 0 AS {IS_NEW} FROM {CAME} c JOIN {_KEYS} k ON "
            source += f"{same_key(self.rows.key, 'k', 'c')} AND NOT {_SAME}"
        else:  # all that came is of one kind
            source = f"SELECT {columns}, false AS {DELETE}, {'true' if self.new else 'false'} AS {IS_NEW} FROM {CAME} c"
        if self.gone:
            row = ", ".join(
                quote(f.name) if f.name in key else f"CAST(NULL AS {type_sql(f.dataType)}) AS {quote(f.name)}" for f in self.rows.fields
            )
            source += f" UNION ALL SELECT {row}, true, false FROM {_KEYS} WHERE {N_CAME} = 0"
        return source


def keyed_change_of(spark: SparkSession, request: Mapping[str, Any], rows: ChangedRows) -> KeyedChange | None:
    """Return None if there is no key, if unchanged rows are among the changed ones (files), or if a key came or went twice."""
    if not rows.key or request["changes"]["kind"] != "cdf":
        return None
    # The rows themselves are not cached: Delta copies the source of a MERGE before it reads that twice.
    names = ", ".join(quote(f.name) for f in rows.key)
    hashes = f"{row_hash(rows.fields)} AS {_H}, {row_hash(rows.fields, seed=1)} AS {_G}"
    sides = " UNION ALL ".join(f"SELECT {names}, {view == CAME} AS {_IS_CAME}, {hashes} FROM {view}" for view in (CAME, WENT))
    counted = [f"count_if({_IS_CAME}) AS {N_CAME}", f"count_if(NOT {_IS_CAME}) AS {N_WENT}"]
    for of, came, went in ((_H, _H_CAME, _H_WENT), (_G, _G_CAME, _G_WENT)):
        counted += [f"max({of}) FILTER (WHERE {_IS_CAME}) AS {came}", f"max({of}) FILTER (WHERE NOT {_IS_CAME}) AS {went}"]
    grouped = ", ".join(equal_by(quote(f.name), f.dataType) for f in rows.key)
    spark.sql(f"CACHE LAZY TABLE {_KEYS} AS SELECT {names}, {', '.join(counted)} FROM ({sides}) GROUP BY {grouped}")
    return _look_at(spark, rows)


def _look_at(spark: SparkSession, rows: ChangedRows) -> KeyedChange | None:
    wanted = [
        f"coalesce(max(greatest({N_CAME}, {N_WENT})), 0L) AS most",
        f"count_if({_SAME}) AS same",
        f"count_if({N_CAME} = 0) AS gone",
        f"count_if({N_WENT} = 0) AS new",
        f"count_if({N_CAME} > 0 AND NOT {_SAME}) AS inserted",
        f"count_if({N_WENT} > 0 AND NOT {_SAME}) AS deleted",
        f"coalesce(sum(CAST({_H_CAME} AS DECIMAL(38, 0))), 0) - coalesce(sum(CAST({_H_WENT} AS DECIMAL(38, 0))), 0) AS total",
        f"coalesce(bit_xor(coalesce({_H_CAME}, 0L) ^ coalesce({_H_WENT}, 0L)), 0L) AS parity",
        *looked_at(bounded(rows)),
    ]
    (row,) = spark.sql(f"SELECT {', '.join(wanted)} FROM {_KEYS}").collect()
    if row["most"] > 1:
        return None
    inserted, deleted = int(row["inserted"]), int(row["deleted"])
    digest = RowsDigest(inserted - deleted, int(row["parity"]), int(row["total"]))
    return KeyedChange(rows, inserted, deleted, int(row["same"]), int(row["gone"]), int(row["new"]), digest, row)
