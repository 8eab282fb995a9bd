"""The checks of a write over Arrow arrays, without a JVM: the same verdict as the guarded statement of Spark, at one version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.access.arrow.read import check_honest
from airflow_provider_schemamig.core.access.arrow.times import check_times
from airflow_provider_schemamig.core.access.errors import KeyViolated, NeedsSpark
from airflow_provider_schemamig.core.access.key_checks.guard import Check, KeyCheck, ReferencedRows, SingleMatchCheck, UniqueCheck
from airflow_provider_schemamig.core.access.resolved_table import PinnedTable
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.delta_rules.table_features import DELTA_RS_READS
from airflow_provider_schemamig.core.storage import ReadStore

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

_SAMPLES = 5
_COUNT = "n"


def check_rows(
    rows: pa.Table, table: DeltaTable, checks: Sequence[Check], options: Mapping[str, str], collection: CollectionName, place: PinnedTable
) -> None:
    """Check ``rows``, which have the columns and types of ``table``.

    ``table`` is that of ``place``, loaded at the version that the rows are appended to. Raises KeyViolated; NeedsSpark for what delta-rs or
    Arrow may compare wrongly.
    """
    for check in checks:
        assert not isinstance(check, SingleMatchCheck), "a merge is a statement of Spark"
        keys = _keys(rows, check, collection)
        match check:
            case UniqueCheck():
                broken = _duplicates(keys)
                if check.in_table and not broken.num_rows:
                    _check_times(place.store, place.head, check.columns, collection)
                    broken = keys.join(_stored(table, check.columns, keys), keys.column_names, join_type="left semi")
            case ReferencedRows():
                broken = keys.join(_known(check, rows, table, keys, options, collection, place), keys.column_names, join_type="left anti")
        if broken.num_rows:
            texts = sorted({f"({', '.join(row.values())})" for row in _as_text(broken).to_pylist()})
            raise KeyViolated(collection=collection, key=check.rule, count=broken.num_rows, sample=tuple(texts[:_SAMPLES]))


def _as_text(keys: pa.Table) -> pa.Table:
    """Return the keys as texts. Arrow makes those of dates and times: Python has none beyond the year 9999."""
    import pyarrow as pa

    def text(column: pa.ChunkedArray) -> pa.ChunkedArray:
        return column.cast(pa.string()) if pa.types.is_temporal(column.type) else pa.chunked_array([list(map(str, column.to_pylist()))])

    return pa.table({name: text(keys[name]) for name in keys.column_names})


def _keys(rows: pa.Table, check: KeyCheck, collection: CollectionName) -> pa.Table:
    """Return the key of every row that has one: columns k0, k1, ..."""
    import pyarrow as pa

    for name in check.columns:
        if pa.types.is_floating(rows.schema.field(name).type):
            raise NeedsSpark(collection=collection, doing="appending", because=f"{name} of {check.rule} is not a whole number")
    return _named(rows.select(list(check.columns))).drop_null()


def _named(keys: pa.Table) -> pa.Table:
    return keys.rename_columns([f"k{number}" for number in range(keys.num_columns)])


def _duplicates(keys: pa.Table) -> pa.Table:
    counted = keys.group_by(keys.column_names).aggregate([([], "count_all")])
    counted = counted.rename_columns([*keys.column_names, _COUNT])
    repeated = counted.filter(_more_than_one(counted)).drop_columns([_COUNT])
    return keys.join(repeated, keys.column_names, join_type="left semi")


def _more_than_one(counted: pa.Table) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    return pc.greater(counted[_COUNT], 1)


def _known(
    check: ReferencedRows,
    rows: pa.Table,
    table: DeltaTable,
    keys: pa.Table,
    options: Mapping[str, str],
    collection: CollectionName,
    place: PinnedTable,
) -> pa.Table:
    """Return what may be referred to."""
    import pyarrow as pa
    from deltalake import DeltaTable

    if check.head is None:
        _check_times(place.store, place.head, check.to, collection)
        own = _named(rows.select(list(check.to))).cast(keys.schema).drop_null()
        return pa.concat_tables([_stored(table, check.to, keys), own])
    check_honest(check.head, collection, DELTA_RS_READS, f"reading {check.head.location.uri}")
    assert check.store is not None  # as its head is known
    _check_times(check.store, check.head, check.to, collection)
    other = DeltaTable(check.head.location.uri, version=check.head.version, storage_options=dict(options))
    return _stored(other, check.to, keys)


def _check_times(store: ReadStore, head: Head, columns: Sequence[str], collection: CollectionName) -> None:
    """Raise NeedsSpark if delta-rs might read the keys of the table as others."""
    fields = tuple(field for field in head.declaration(collection).fields if field.name in columns)
    check_times(store, head, fields, collection, f"reading the keys of {head.location.uri}")


def _stored(table: DeltaTable, columns: Sequence[str], keys: pa.Table) -> pa.Table:
    """Return the keys of the table's rows that ``keys`` could be among, in its types."""
    import pyarrow as pa

    found = pa.table(table.scan(columns=list(columns), predicate=_between(columns, keys)))
    return _named(found.select(list(columns))).cast(keys.schema).drop_null()  # Arrow drops none of the views that delta-rs scans texts as


def _between(columns: Sequence[str], keys: pa.Table) -> str | None:
    """Return a condition that excludes rows of other keys, to skip files by their statistics.

    It names whole numbers only, which need no care.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not keys.num_rows:
        return "false"
    bounds = []
    for name, column in zip(columns, keys.columns, strict=True):
        if pa.types.is_integer(column.type):
            quoted = '"' + name.replace('"', '""') + '"'
            least, most = (pc.min_max(column)[end].as_py() for end in ("min", "max"))
            bounds.append(f"{quoted} BETWEEN {least} AND {most}")
    return " AND ".join(bounds) or None
