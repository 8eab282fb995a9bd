"""The end of a hold: columns, collections and retired shards that the release took away are taken away for good.

Holds end oldest first, and go by what they wrote down at their commit: a later release may have renamed what a column is in, or the
collection, and its own way back leads to schemas that have the column still.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import pendulum

from airflow_provider_schemamig.core.delta.commit.seal import unseal
from airflow_provider_schemamig.core.delta.features import CatalogManagedTable, UnsupportedFeature
from airflow_provider_schemamig.core.delta.log.head import head_or_none, look_or_none
from airflow_provider_schemamig.core.delta.metadata.errors import ColumnInUse
from airflow_provider_schemamig.core.ledger.objects.nodes import live_nodes
from airflow_provider_schemamig.core.ledger.rows import HeldTable, Hold, HoldState, Intent, IntentKind, Pin, SchemaEntry, Shard
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, Put, Update
from airflow_provider_schemamig.core.names import Generation, ShardId
from airflow_provider_schemamig.core.schema.changes import DropColumn
from airflow_provider_schemamig.core.transfer.deletion import MADE_ANEW, check_deletable, delete_table, left_alone, left_note
from airflow_provider_schemamig.core.transfer.throttle import check_not_paused
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.context.pausing import Allow, always
from airflow_provider_schemamig.core.upgrade.errors import DriftFound, RollbackOpen
from airflow_provider_schemamig.core.upgrade.plan.errors import DroppedInUse, HoldKeeps
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import (
    dropped_paths,
    ends_by_hand,
    held_of,
    live_collection,
    open_holds,
    retired_by,
    unclosed_holds,
    without,
)
from airflow_provider_schemamig.core.upgrade.plan.holds.rules import holds_in_use
from airflow_provider_schemamig.core.upgrade.plan.live_tables import drift_found, is_another, table_store
from airflow_provider_schemamig.core.upgrade.tables.durable import require_durable
from airflow_provider_schemamig.core.upgrade.tables.pins import pins_of, release_pin
from airflow_provider_schemamig.core.upgrade.tables.transitions import Transition, commit_transitions
from airflow_provider_schemamig.exceptions import raise_refusals


def end_holds(leader: LeaderWriter, generations: Collection[Generation], allow: Allow) -> None:
    """End the holds of ``generations``, the oldest first: the first stage of a new deployment.

    Raises HoldInUse if live nodes need one, unless told to ignore them.
    """
    for hold in unclosed_holds(leader.state):
        if hold.generation in generations:
            if not leader.deployment.ignore_nodes:
                check_unused(leader, hold)
            contract_hold(leader, hold, allow)


def due_holds(state: State, generation: Generation | None = None, *, at_once: bool = False) -> list[Hold]:
    """Return the holds to be ended now, the oldest first: their time is over, or ``at_once``; ``generation``: only its.

    One that ``ends_by_hand`` only where a person names it, or says ``at_once``; those after it wait for it.
    """
    now = pendulum.now("UTC")
    found = [hold for hold in unclosed_holds(state) if (at_once or hold.until <= now) and generation in (None, hold.generation)]
    if not at_once and generation is None:
        waits = [hold.generation for hold in open_holds(state) if ends_by_hand(state, hold)]
        found = [hold for hold in found if hold.state is HoldState.KEEPING or not waits or hold.generation < min(waits)]
    return sorted(found, key=lambda hold: (hold.state is not HoldState.KEEPING, hold.generation))  # nobody's way back waits for those


def by_hand_notes(state: State) -> tuple[str, ...]:
    """Say which holds are over and wait for a person."""
    now = pendulum.now("UTC")
    over = [hold.generation for hold in open_holds(state) if hold.until <= now and ends_by_hand(state, hold)]
    told = "the ledger was restored, and had lost a rollback of it: look at its tables, then `schemamig contract --generation"
    return tuple(f"the hold of generation {number} is over and ends by hand: {told} {number}`" for number in over)


def contract_due(leader: LeaderWriter, generation: Generation | None, at_once: bool, ignore_nodes: bool) -> None:
    """End ``due_holds``. Raises RollbackOpen, HoldInUse unless ``ignore_nodes``, HoldKeeps."""
    due = due_holds(leader.state, generation, at_once=at_once)
    for other in unclosed_holds(leader.state) if due else ():
        if other.state is HoldState.ROLLING_BACK:  # its way back may lead over what an older one keeps
            raise RollbackOpen(generation=other.generation)
    for hold in due:
        if not ignore_nodes:
            check_unused(leader, hold)
        contract_hold(leader, hold)
        leader.notes += _end_notes(leader.state, hold)


def _end_notes(state: State, hold: Hold) -> list[str]:
    """Say what the end of a hold took away, even if no table was touched for it; nothing of a hold of 0, which promised no way back."""
    if not state.deployments[hold.generation].hold_seconds:
        return []
    if hold.state is HoldState.KEEPING:
        return [f"the hold of generation {hold.generation} has ended: the rows that stayed behind are deleted"]
    return [f"the hold of generation {hold.generation} has ended: there is no way back to {hold.source} any more"]


def check_unused(leader: LeaderView, hold: Hold) -> None:
    raise_refusals(tuple(holds_in_use([hold], live_nodes(leader.env, pendulum.now("UTC")))))


def check_oldest(state: State, hold: Hold) -> None:
    """Raise HoldKeeps while an older hold is open: its way back leads over what this one keeps."""
    if hold.state is HoldState.KEEPING:
        return
    for older in open_holds(state):
        if older.generation < hold.generation:
            asks = f"the hold of generation {hold.generation} is to end, and holds end oldest first"
            raise HoldKeeps(generation=older.generation, until=older.until, lost=f"release {older.source}", asks=asks)


def contract_hold(leader: LeaderWriter, hold: Hold, allow: Allow = always) -> None:
    """Contract ``hold``; from its first append on it cannot be rolled back. Safe to repeat from any point, and to race.

    ``allow``: raises, inside that append, if it may not be made; besides a pause of what would be taken away. Raises Paused, HoldKeeps.
    """
    check_oldest(leader.state, hold)
    with leader.until(lambda state: state.holds[hold.generation].state is HoldState.CLOSED):
        _contract(leader, hold, allow)


@dataclass(frozen=True)
class _Ended:
    """What the end of a hold has to write down of one table."""

    table: HeldTable
    transition: Transition | None


def _contract(leader: LeaderWriter, hold: Hold, allow: Allow) -> None:
    retired = retired_by(leader.state, hold)
    check_deletable(leader.env, leader.state, [shard for shard in retired if not shard.adopted])
    names = {*(table.collection for table in hold.tables if table.dropped), *(shard.collection for shard in retired)}
    live = {live_collection(leader.state, table.shard) for table in hold.tables if table.dropped}
    # Also of a hold that is over already, which the end of an earlier hold or an `accept` of another table may have written down.
    raise_refusals(tuple(_changed_by_others(leader, hold)))
    _check_droppable(leader, hold)

    def begin(state: State) -> list[Update]:
        updates = _mark(state, hold, HoldState.CONTRACTING)
        if updates:
            allow(state)
            check_not_paused(state, "contract", names | {name for name in live if name is not None})
        return updates

    leader.append(begin)
    dropped = [table for table in hold.tables if table.dropped]
    others = leader.env.each(functools.partial(_is_anothers, leader), dropped)
    ended = [_Ended(table, _transition(leader, table, is_other)) for table, is_other in zip(dropped, others, strict=True)]
    commit_transitions(leader, IntentKind.CONTRACT, [item.transition for item in ended if item.transition is not None])

    left = left_alone(leader.env, leader.state, retired)

    def delete(shard: Shard) -> float:
        started = time.monotonic()
        if shard.shard not in left and not shard.adopted:
            delete_table(leader.env, shard)
        return started

    with contextlib.closing(leader.env.each(delete, retired)) as deleted:
        for number, (shard, started) in enumerate(zip(retired, deleted, strict=True), start=1):
            if shard.shard in left:
                leader.notes.append(left_note(shard, left[shard.shard]))
            elif shard.adopted:
                _unmanage_table(leader, shard)
            leader.report("retire", shard.collection, None, started, number, len(retired))
    leader.append(lambda state: _close(state, hold, ended, retired))


def _changed_by_others(leader: LeaderWriter, hold: Hold) -> Iterator[DriftFound | DroppedInUse]:
    """Yield the refusals of tables that lose columns with the end of the hold: drift, or a column still in use. Renews the leader's
    state."""
    named = ((live_collection(leader.state, table.shard), table) for table in hold.tables)
    asked = [(name, table) for name, table in named if name is not None and dropped_paths(leader.state.entry(name), table)]
    heads = list(leader.env.each(lambda item: look_or_none(table_store(leader.env, leader.state, item[1].shard)), asked))
    leader.refresh()  # what a twin dropped meanwhile is no drift
    for (name, table), head in zip(asked, heads, strict=True):
        if head is None or head.is_another:
            continue
        found = drift_found(leader.state, name, head)
        if found is not None:
            yield found
            continue
        try:
            head.edited(tuple(map(DropColumn, dropped_paths(leader.state.entry(name), table))), stood_before=True)
        except ColumnInUse as used:  # by clustering, which is no drift
            yield DroppedInUse(collection=name, generation=hold.generation, column=used.path, user=used.user)


def _check_droppable(leader: LeaderView, hold: Hold) -> None:
    """Raise NotApplicable if a table would not let go of what the end of the hold drops."""
    for table in hold.tables:
        name = live_collection(leader.state, table.shard)
        if name is not None and table.dropped:
            without(leader.state.entry(name), table)


def _unmanage_table(leader: LeaderWriter, shard: Shard) -> None:
    """Give an adopted table back to its owners, as far as they have not made it one that we must not write to."""
    try:
        _give_back(leader, shard)
    except (UnsupportedFeature, CatalogManagedTable) as error:
        leader.notes.append(f"{shard.collection}: {shard.uri} was adopted and stays, unmanaged, and sealed or pinned as it is: {error}")


def _give_back(leader: LeaderWriter, shard: Shard) -> None:
    """Put a pinned table's settings back, and open the table of a removed collection.

    One whose rows live on in another shard stays sealed, or somebody would go on writing into a table that nobody reads.
    """
    for pinned in pins_of(leader.state, shard.shard):
        release_pin(leader.env, leader.ledger, pinned)
    if shard.successor is not None:
        leader.notes.append(
            f"{shard.collection}: {shard.uri} was adopted, so its files stay; it stays sealed, its rows are in {shard.successor}"
        )
        return
    store = table_store(leader.env, leader.state, shard.shard)
    head = head_or_none(store)
    if head is not None and head.sealed_for is not None:
        committed = unseal(store, head, leader.fence(shard.shard), leader.tag("unseal"), since=head.version)
        require_durable(shard.collection, [committed])
    leader.notes.append(f"{shard.collection}: {shard.uri} was adopted, so it stays where it is, unmanaged")


def _mark(state: State, hold: Hold, to: HoldState) -> list[Update]:
    known = state.holds[hold.generation]
    return [] if known.state in (to, HoldState.CLOSED) else [Put(replace(known, state=to))]


def _is_anothers(leader: LeaderView, held: HeldTable) -> bool:
    """Return whether somebody made another table in the place of one from which something is to be dropped."""
    return live_collection(leader.state, held.shard) is not None and is_another(leader.env, leader.state.shards[held.shard])


def _transition(leader: LeaderWriter, held: HeldTable, is_anothers: bool) -> Transition | None:
    """Return the commit that drops the columns kept by the hold of a table.

    None if they are gone already, with their collection or by an earlier try, or if another table is in its place.
    """
    name = live_collection(leader.state, held.shard)
    if name is None:
        return None
    entry = leader.state.entry(name)
    paths = dropped_paths(entry, held)
    if not paths:
        return None
    if is_anothers:
        leader.notes.append(left_note(leader.state.shards[held.shard], MADE_ANEW))
        return None
    return Transition(name, held.shard, entry.physical, tuple(map(DropColumn, paths)))


def _close(state: State, hold: Hold, ended: Sequence[_Ended], retired: Sequence[Shard]) -> list[Update]:
    """Return the updates that close the hold: no schema that a table has or goes back to contains what was dropped."""
    updates: list[Update] = []
    for item in ended:
        newer = [other for other in open_holds(state) if other.generation > hold.generation]
        for entry in _schemas(state, item.table.shard, newer):
            physical = without(entry, item.table)
            updates += [] if physical == entry.physical else [Put(replace(entry, physical=physical))]
    moved = {item.table.shard for item in ended}
    updates += [
        Drop(Intent, intent.key) for intent in state.intents.values() if intent.kind is IntentKind.CONTRACT and intent.shard in moved
    ]
    gone = {shard.shard for shard in retired}
    updates += [Drop(Pin, pinned.key) for shard in gone for pinned in pins_of(state, shard)]
    updates += [Drop(Shard, shard) for shard in gone if shard in state.shards]
    # Schema entries stay: their ids are never used again, and they say what old files were written with.
    return updates + _mark(state, hold, HoldState.CLOSED)


def _schemas(state: State, shard: ShardId, newer: Collection[Hold]) -> Sequence[SchemaEntry]:
    """Return the table's schema of now, and those that newer holds lead back to."""
    found = [state.schemas[table.collection, table.schema_id] for _, table in held_of(state, shard, newer)]
    name = live_collection(state, shard)
    now = [] if name is None else [state.entry(name)]
    return tuple({entry.key: entry for entry in (*found, *now)}.values())
