"""Drift, second way on: the table is brought back to what the ledger recorded (docs/adopting.md).

One metadata commit by our committer, under the leader's epoch and its fence. The intent names no schema: whoever finds it open fences the
table and looks, and sees it as recorded or still drifted; both are right, and the same command goes on.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pendulum

from airflow_provider_schemamig.core.delta.commit.append import MetadataMoved
from airflow_provider_schemamig.core.delta.commit.commit import commit_changes
from airflow_provider_schemamig.core.delta.commit.fence import fence_txns
from airflow_provider_schemamig.core.delta.features import check_writable
from airflow_provider_schemamig.core.delta.log.head import Head, another_table, look_or_none, read_head
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.rows import DeploymentState, DriftRevertIntent, Intent, IntentKind
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerReader, Put, Update
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.progress import Listener, silent
from airflow_provider_schemamig.core.schema.changes import Change, Cost
from airflow_provider_schemamig.core.schema.delta_rules.properties import FORGETS
from airflow_provider_schemamig.core.schema.describe import change_json, describe
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.adopt.errors import CollectionInUse
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter, lead, no_open_deployment
from airflow_provider_schemamig.core.upgrade.drift.accept import why_not
from airflow_provider_schemamig.core.upgrade.drift.changes import Reversal, emptied_columns, foreign_changes, refuse_lost_seal, reversal
from airflow_provider_schemamig.core.upgrade.drift.errors import CannotRevert, LossyRevert
from airflow_provider_schemamig.core.upgrade.errors import ShardMissing, WrongState
from airflow_provider_schemamig.core.upgrade.plan.column_names import names_of
from airflow_provider_schemamig.core.upgrade.plan.columns.added_again import as_on_table
from airflow_provider_schemamig.core.upgrade.plan.holds.rules import why_held
from airflow_provider_schemamig.core.upgrade.plan.live_tables import known, table_store
from airflow_provider_schemamig.core.upgrade.plan.notes.unasked_keys import unasked_keys
from airflow_provider_schemamig.core.upgrade.tables.durable import require_durable
from airflow_provider_schemamig.core.upgrade.tables.pins import keep_pinned
from airflow_provider_schemamig.core.upgrade.tables.transitions import ROUNDS


@dataclass(frozen=True)
class RevertedDrift:
    """``table_version``: the commit that did it, None if there was nothing to undo."""

    collection: CollectionName
    table_version: int | None
    changes: tuple[Change, ...]
    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what ``schemamig revert`` prints."""
        return {
            "collection": self.collection,
            "table_version": self.table_version,
            "changes": [change_json(change) for change in self.changes],
            "losses": list(self.losses),
            "notes": list(self.notes),
        }


def revert(env: EnvironmentRoot, collection: str, *, allow_lossy: bool = False, listen: Listener = silent) -> RevertedDrift:
    """Undo what somebody did to the collection's table. No drift: nothing happens. Also while a hold is open: its way back wants this.

    Raises UnknownCollection, ShardMissing, AnotherTable, CannotRevert, LossyRevert unless ``allow_lossy``, SealedByLostHistory,
    CollectionInUse, DeploymentOpen, Fenced, and as ``commit_changes`` does (UnsupportedFeature, UnsafeLogStore, ...).
    """
    started = pendulum.now("UTC")
    state = LedgerReader(env).state()
    name = known(state, collection)
    leader = _leader_of(env, state, listen)
    for _ in range(ROUNDS):
        done = _once(leader, name, allow_lossy)
        if done is not None:
            return _remembered(env, leader, done, started)
    raise MetadataMoved(collection=name, uri=_store(leader, name).location.uri)


def _leader_of(env: EnvironmentRoot, state: State, listen: Listener) -> LeaderWriter:
    no_open_deployment(state)
    if state.leader is None:
        raise WrongState(generation=0, state="missing", task="revert", first="Deploy a release first: `schemamig upgrade`.")
    states = (DeploymentState.COMMITTED, DeploymentState.ROLLED_BACK)
    return lead(env, state.leader.generation, listen, task="revert", states=states)


def _refuse_others(leader: LeaderView, name: CollectionName) -> None:
    """Work that is not ours, or of a schema: who began it knows how to end it."""
    for intent in leader.state.intents_of(leader.state.objects[name].shard):
        if not isinstance(intent, DriftRevertIntent):
            first = "Run the command that was cut short again, or the next upgrade: it settles what was left open."
            raise CollectionInUse(collection=name, what=f"a change of its table was begun and not ended ({intent.kind.value})", first=first)


def _store(leader: LeaderView, name: CollectionName) -> Store:
    return table_store(leader.env, leader.state, leader.state.objects[name].shard)


def _once(leader: LeaderWriter, name: CollectionName, allow_lossy: bool) -> RevertedDrift | None:
    """Undo it; None: somebody changed the table again meanwhile."""
    store = _store(leader, name)
    head = look_or_none(store)
    if head is None or head.is_another:
        raise another_table(store, head, name) if head is not None else ShardMissing(collection=name, uri=store.location.uri)
    leader.refresh()  # what a contract dropped meanwhile is no drift
    _refuse_others(leader, name)
    foreign = foreign_changes(leader.state, name, head)
    if foreign is None:
        keep_pinned(leader, [leader.state.objects[name].shard])
        leader.append(functools.partial(_closed, name=name, head=head))
        refuse_lost_seal(leader.state, name, head)
        return RevertedDrift(name, None, ())
    check_writable(head.protocol, head.location.uri)
    found = reversal(store, foreign)
    if found.impossible or (found.losses and not allow_lossy):
        leader.append(functools.partial(_closed, name=name, head=head))  # what a run that died had begun is given up with it
        acceptable = not why_not(leader.env, leader.state, name, head)
        held = why_held(leader.state)
        raise (
            CannotRevert(collection=name, reasons=found.impossible, acceptable=acceptable, held=held)
            if found.impossible
            else LossyRevert(collection=name, losses=found.losses, acceptable=acceptable, held=held)
        )
    version = _commit(leader, store, head, name, found)
    if version is None:
        return None
    keep_pinned(leader, [leader.state.objects[name].shard])
    after = read_head(store, at=version)
    leader.append(functools.partial(_closed, name=name, head=after))
    unasked = unasked_keys(leader.state, {name: emptied_columns(foreign, found.changes)})
    notes = (*_mapping_note(head, after), *(text for _, text in unasked))
    if foreign.has_other_id:
        notes += (f"the table has its id {foreign.table_id} back",)
    changes = tuple(change for change in found.changes if change.cost is not Cost.NONE)
    return RevertedDrift(name, version, changes, found.losses, notes)


def _commit(leader: LeaderWriter, store: Store, head: Head, name: CollectionName, found: Reversal) -> int | None:
    shard = leader.state.objects[name].shard
    intent = DriftRevertIntent(**leader.intent(IntentKind.REVERT, name, shard, head.version))
    known = leader.state.entry(name)

    def announce(state: State) -> list[Update]:
        # Somebody may have accepted the drift meanwhile: the release declares then what was to be undone.
        return [Put(intent)] if name in state.objects and state.entry(name) == known else []

    if leader.append(announce).intents.get((shard, IntentKind.REVERT, leader.generation)) != intent:
        return None
    fence, tag = leader.fence(shard), leader.tag(IntentKind.REVERT.value)
    try:
        # What is right only for the files looked at (a column forgotten, NOT NULL or a CHECK restored) the committer holds to them.
        committed = commit_changes(
            store,
            head,
            found.changes,
            fence,
            tag,
            since=head.version,
            forget=found.forget,
            table_id=leader.state.shards[shard].table_id,
            stood_before=True,
            txns=fence_txns(store, fence) if FORGETS in head.properties else {},
        )
    except MetadataMoved:
        return None
    require_durable(name, [committed])
    return committed.head.version


def _closed(state: State, name: CollectionName, head: Head) -> Sequence[Update]:
    """Return the updates that end a revert and record restored columns under their new names in the data files.

    None if nothing is under way: then nothing of ours came.
    """
    shard = state.objects[name].shard
    under_way = [intent for intent in state.intents_of(shard) if isinstance(intent, DriftRevertIntent)]
    return [
        *(Drop(Intent, intent.key) for intent in under_way),
        *(as_on_table(state, state.entry(name), head, names_of(head)) if under_way else ()),
    ]


def _mapping_note(before: Head, after: Head) -> tuple[str, ...]:
    if before.features == after.features:
        return ()
    added = ", ".join(sorted(after.features - before.features))
    return (f"the table needs more of its readers and writers now: {added}",)


def _remembered(env: EnvironmentRoot, leader: LeaderView, done: RevertedDrift, started: pendulum.DateTime) -> RevertedDrift:
    if done.table_version is None:
        return done
    detail = "; ".join((*map(describe, done.changes), *done.notes))
    note = append_history(
        env, HistoryEntry.ended("revert", started, collection=done.collection, generation=leader.generation, detail=detail)
    )
    return RevertedDrift(done.collection, done.table_version, done.changes, done.losses, done.notes + ((note,) if note else ()))
