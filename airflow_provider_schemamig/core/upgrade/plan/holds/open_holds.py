"""What the ledger says of holds: which are not over, and what they keep of the live tables. Pure.

A field that a hold keeps is known by its names in the data files, so it is found whatever later releases have called what it is in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pendulum

from airflow_provider_schemamig.core.ledger.objects.nodes import Node
from airflow_provider_schemamig.core.ledger.rows import HeldTable, Hold, HoldState, SchemaEntry, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Generation, ShardId
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import DropColumn
from airflow_provider_schemamig.core.schema.clauses import reads_others
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.paths import path_in_files


@dataclass(frozen=True, slots=True)
class HoldOptions:
    """What a person said about the open holds: end them before their time, also if live nodes need them."""

    end_hold: bool = False
    ignore_nodes: bool = False


#: Nothing ends before its time.
KEEP_HOLDS = HoldOptions()


def unclosed_holds(state: State | None) -> tuple[Hold, ...]:
    """Return all that are not closed, the oldest first."""
    return () if state is None else state.unclosed_holds


def open_holds(state: State | None) -> tuple[Hold, ...]:
    """Return the holds that are there for a way back, the oldest first."""
    return tuple(hold for hold in unclosed_holds(state) if hold.state is not HoldState.KEEPING)


def begun_rollbacks(state: State) -> tuple[Hold, ...]:
    """Return the holds whose way back was begun and is not ended: their tables may be at neither release."""
    return tuple(hold for hold in state.holds.values() if hold.state is HoldState.ROLLING_BACK)


def ends_by_hand(state: State, hold: Hold) -> bool:
    """Return whether only a person ends the hold: the ledger was restored since, and lost a rollback that may have closed it."""
    return hold.state is HoldState.OPEN and state.given_out is not None and hold.generation in state.given_out.by_hand


def hold_json(state: State, hold: Hold) -> dict[str, Any]:
    """Return a hold for documents (``pending``)."""
    return {
        "generation": hold.generation,
        "from": str(hold.source),
        "to": str(hold.target),
        "until": hold.until.isoformat(),
        "state": hold.state.value,
        "over": hold.until <= pendulum.now("UTC"),
        "by_hand": ends_by_hand(state, hold),
        "rollbacks": _rollbacks(state, hold),
    }


def _rollbacks(state: State, hold: Hold) -> int:
    """Return how many rollbacks lead over the hold: each takes one release back, the first one what is being deployed."""
    newer = sum(
        other.generation > hold.generation and other.state in (HoldState.OPEN, HoldState.ROLLING_BACK) for other in state.holds.values()
    )
    return newer + state.is_promoted + 1


def needed_by(hold: Hold, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return those of the live ``nodes`` that its end has to wait for. Nobody reads what a rollback left behind."""
    return () if hold.state is HoldState.KEEPING else tuple(node for node in nodes if node.release < hold.target)


def retired_by(state: State, hold: Hold) -> tuple[Shard, ...]:
    """Return the tables that go with the hold."""
    found = (shard for shard in state.shards.values() if shard.state is ShardState.RETIRED and shard.retired_by == hold.generation)
    return tuple(sorted(found, key=lambda shard: (shard.collection, shard.shard)))


def names_in_files(entry: SchemaEntry) -> dict[tuple[str, ...], ColumnPath]:
    """Return the fields that the table has with this schema, by their names in the data files."""
    names = dict(entry.stored_names)
    return {path_in_files(path, names): path for path, _ in walk(entry.physical.fields)}


def dropped_paths(entry: SchemaEntry, held: HeldTable) -> tuple[ColumnPath, ...]:
    """Return the columns that the end of a hold drops from a table, by their names in the schema, in the order to drop them; without those
    dropped already.
    """
    known = names_in_files(entry)
    return droppable(entry.physical, (known[names] for names in held.dropped if names in known))


def droppable(physical: Declaration, paths: Iterable[ColumnPath]) -> tuple[ColumnPath, ...]:
    """Return the paths in the order in which a table lets them go: a column that reads others before those."""
    readers = {field.name for field in physical.fields if reads_others(field)}
    return tuple(sorted(paths, key=lambda path: (path not in readers, path)))


def without(entry: SchemaEntry, held: HeldTable) -> Declaration:
    """Return the table's schema once the hold has ended."""
    paths = dropped_paths(entry, held)
    return apply(entry.physical, [DropColumn(path) for path in paths]) if paths else entry.physical


def still_there(state: State, entry: SchemaEntry) -> Declaration:
    """Return a schema that a way back leads to, as far as the table still has it.

    The end of an older hold may have dropped a part of it from the table, and died before it said so.
    """
    ending = [hold for hold in unclosed_holds(state) if hold.state is HoldState.CONTRACTING]
    now = live_collection(state, entry.shard)
    left = names_in_files(state.entry(now)) if now is not None else {}
    for _, table in held_of(state, entry.shard, ending):
        gone = tuple(names for names in table.dropped if names not in left)
        entry = replace(entry, physical=without(entry, replace(table, dropped=gone)))
    return entry.physical


def held_of(state: State, shard: ShardId, holds: Collection[Hold]) -> Iterator[tuple[Hold, HeldTable]]:
    """Yield what each hold has of the table."""
    found = state.held_of(shard)
    for hold in holds if found else ():
        yield from ((hold, table) for generation, table in found if generation == hold.generation)


def kept_fields(state: State, collection: CollectionName, holds: Collection[Hold]) -> Mapping[ColumnPath, Hold]:
    """Return the hidden fields of a live table that holds keep, as the table calls them now."""
    entry = state.entry(collection)
    found = held_of(state, entry.shard, holds)
    return {path: hold for hold, table in found for path in dropped_paths(entry, table)}


def physical_after(state: State, collection: CollectionName, ended: Collection[Generation]) -> Declaration:
    """Return a live table's schema once these holds have ended."""
    entry = state.entry(collection)
    if not ended:  # most plans end no hold, and ask this of each table
        return entry.physical
    for _, table in held_of(state, entry.shard, [hold for hold in unclosed_holds(state) if hold.generation in ended]):
        entry = replace(entry, physical=without(entry, table))
    return entry.physical


def live_collection(state: State, shard: ShardId) -> CollectionName | None:
    """Return what the table is called now; None if it is no collection's."""
    return state.live_collection(shard)
