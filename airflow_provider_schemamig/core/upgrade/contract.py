"""The end of a hold: columns, collections and retired shards that the release took away are taken away for good (DESIGN section 5)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pendulum

from airflow_provider_schemamig.core.deltalog.seal import unseal
from airflow_provider_schemamig.core.ledger.nodes import live_nodes
from airflow_provider_schemamig.core.ledger.rows import Hold, HoldState, Intent, IntentKind, SchemaEntry, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, Put, Update
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.apply import apply
from airflow_provider_schemamig.core.schema.changes import DropColumn
from airflow_provider_schemamig.core.shards.deletion import check_deletable, delete_table
from airflow_provider_schemamig.core.shards.pace import check_not_paused
from airflow_provider_schemamig.core.upgrade.errors import HoldInUse
from airflow_provider_schemamig.core.upgrade.moves import Move, move_all, stand
from airflow_provider_schemamig.core.upgrade.pausing import Allow, always
from airflow_provider_schemamig.core.upgrade.plan import open_holds
from airflow_provider_schemamig.core.upgrade.seals import NOWHERE
from airflow_provider_schemamig.core.upgrade.tables import head_or_none, is_another, table_store
from airflow_provider_schemamig.core.upgrade.work import Work


def end_holds(work: Work, allow: Allow) -> None:
    """The first stage of a new deployment: end whatever hold is open. ``HoldInUse`` if live nodes need it, unless told to."""
    for hold in open_holds(work.state):
        if not work.deployment.end_hold:
            check_unused(work, hold)
        contract_hold(work, hold, allow)


def check_unused(work: Work, hold: Hold) -> None:
    users = [node.node_id for node in live_nodes(work.env, pendulum.now("UTC")) if node.release < hold.target]
    if users:
        raise HoldInUse(generation=hold.generation, until=hold.until, nodes=tuple(users))


def contract_hold(work: Work, hold: Hold, allow: Allow = always) -> None:
    """Contract ``hold``; from its first append on there is no way back. Safe to repeat from any point, and to race.

    ``allow``: raises, inside that append, if it may not be made; besides a pause of what would be taken away. Raises Paused.
    """
    with work.until(lambda state: state.holds[hold.generation].state is HoldState.CLOSED):
        _contract(work, hold, allow)


def _contract(work: Work, hold: Hold, allow: Allow) -> None:
    retired = [s for s in work.state.shards.values() if s.state is ShardState.RETIRED and s.retired_by == hold.generation]
    check_deletable(work.env, work.state, [shard for shard in retired if not shard.adopted])
    names = {*(collection for collection, _ in hold.drops), *(shard.collection for shard in retired)}

    def begin(state: State) -> list[Update]:
        updates = _mark(state, hold, HoldState.CONTRACTING)
        if updates:
            allow(state)
            check_not_paused(state, "contract", names)
        return updates

    work.append(begin)
    moves = _moves(work, hold)
    versions = move_all(work, IntentKind.CONTRACT, moves)
    for number, shard in enumerate(retired, start=1):
        started = time.monotonic()
        if is_another(work.env, shard):
            _left_alone(work, shard)
        elif shard.adopted:
            _give_back(work, shard)
        else:
            delete_table(work.env, shard)
        work.report("retire", shard.collection, None, started, number, len(retired))
    work.append(lambda state: _close(state, hold, moves, versions, retired))


def _left_alone(work: Work, shard: Shard) -> None:
    work.notes.append(f"{shard.collection}: somebody made another table at {shard.uri}; it is left alone")


def _give_back(work: Work, shard: Shard) -> None:
    """An adopted table is its owners' again. Of a removed collection it is opened; one whose rows live on in another shard stays sealed,
    or somebody would go on writing into a table that nobody reads."""
    if shard.sealed_for != NOWHERE:
        work.notes.append(
            f"{shard.collection}: {shard.uri} was adopted, so its files stay; it stays sealed, its rows are in {shard.sealed_for}"
        )
        return
    store = table_store(work.env, work.state, shard.shard)
    head = head_or_none(store)
    work.notes.append(f"{shard.collection}: {shard.uri} was adopted, so it is given back as it is")
    if head is not None and head.sealed_for is not None:
        committed = unseal(store, head, work.fence(shard.shard), work.tag("unseal"), since=head.version)
        stand(shard.collection, [committed])


def _mark(state: State, hold: Hold, to: HoldState) -> list[Update]:
    known = state.holds[hold.generation]
    return [] if known.state in (to, HoldState.CLOSED) else [Put(replace(known, state=to))]


def _moves(work: Work, hold: Hold) -> list[Move]:
    drops: dict[CollectionName, list[DropColumn]] = {}
    for collection, path in hold.drops:
        drops.setdefault(collection, []).append(DropColumn(path))
    moves = []
    for collection, changes in sorted(drops.items()):
        if collection not in work.state.objects:
            continue
        shard = work.state.shard_of(collection)
        if is_another(work.env, shard):
            _left_alone(work, shard)
            continue
        before = work.state.entry(collection).physical
        if apply(before, changes) != before:
            moves.append(Move(collection, shard.shard, before, tuple(changes)))
    return moves


def _close(state: State, hold: Hold, moves: Sequence[Move], versions: dict[CollectionName, int], retired: Sequence[Shard]) -> list[Update]:
    updates: list[Update] = []
    for move in moves:
        entry: SchemaEntry = state.entry(move.collection)
        updates.append(Put(replace(entry, physical=move.after)))
    contracted = {move.shard for move in moves}
    updates += [
        Drop(Intent, intent.key) for intent in state.intents.values() if intent.kind is IntentKind.CONTRACT and intent.shard in contracted
    ]
    gone = {shard.shard for shard in retired}
    updates += [Drop(Shard, shard) for shard in gone if shard in state.shards]
    # Schema entries stay: their ids are never used again, and they say what old files were written with.
    return updates + _mark(state, hold, HoldState.CLOSED)
