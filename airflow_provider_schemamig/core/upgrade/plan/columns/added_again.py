"""What the ledger calls a live table's fields, once a commit of ours has added some of them again.

A field that was dropped and is added again has another name in the data files. Handles, streams and holds know a field by that name, so
whoever adds one for a schema that is written down already writes down its new name, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.ledger.rows import HeldTable, SchemaEntry
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Put, Update
from airflow_provider_schemamig.core.names import ColumnPath, ShardId
from airflow_provider_schemamig.core.schema.diff.drift import live_differences
from airflow_provider_schemamig.core.upgrade.plan.column_names import StoredNames, exchanged
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import held_of, names_in_files, unclosed_holds

#: A field's names in the data files -> those of the one that was added in its place.
Again = Mapping[tuple[str, ...], tuple[str, ...]]


def as_on_table(state: State, entry: SchemaEntry, head: Head, names: StoredNames) -> list[Update]:
    """Return the updates to record ``entry`` as the schema in force, with ``names``, and the same names in what holds keep of the table.

    Nothing of a table that is not as the schema says: that is drift, which only the names of before tell of.
    """
    before = state.entry(entry.collection)
    if not live_differences(entry.physical, head.declaration(entry.collection)) and not exchanged(entry, head):
        entry = replace(entry, stored_names=names)
    if entry == before:
        return []
    now = {path: names for names, path in names_in_files(entry).items()}
    again = {names: now[path] for names, path in names_in_files(before).items() if now.get(path, names) != names}
    return [*(_held_again(state, entry.shard, again) if again else ()), Put(entry)]


def _held_again(state: State, shard: ShardId, again: Again) -> Iterator[Update]:
    """Yield the holds of the table, and the schemas that they lead back to."""
    holds = unclosed_holds(state)
    for hold in holds:
        tables = tuple(_table_again(table, again) if table.shard == shard else table for table in hold.tables)
        if tables != hold.tables:
            yield Put(replace(hold, tables=tables))
    sources = {(table.collection, table.schema_id) for _, table in held_of(state, shard, holds)}
    for source in (state.schemas[key] for key in sorted(sources)):
        found = {path: again[names][-1] for names, path in names_in_files(source).items() if names in again}
        if found:
            stored: dict[ColumnPath, str] = {**dict(source.stored_names), **found}
            yield Put(replace(source, stored_names=tuple(sorted(stored.items()))))


def _table_again(table: HeldTable, again: Again) -> HeldTable:
    dropped, retyped = (tuple(sorted(again.get(names, names) for names in found)) for found in (table.dropped, table.retyped))
    swapped = tuple(sorted(again.get((name,), (name,))[0] for name in table.swapped))
    return replace(table, dropped=dropped, retyped=retyped, swapped=swapped)
