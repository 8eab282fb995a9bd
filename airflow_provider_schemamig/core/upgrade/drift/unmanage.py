"""Giving a collection back: the ledger forgets the table, and not a byte of the table changes (docs/adopting.md).

What stays is the ``schemas`` row of each schema it had: ids are never used again, and by them a plan knows that the release's collection
was given back and is not simply missing.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pendulum

from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.numbers import next_epoch
from airflow_provider_schemamig.core.ledger.rows import Control, DeploymentState, Object, Progress, UnreleasedChange
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.release.merge.chain import Create
from airflow_provider_schemamig.core.release.sql.alter.paths import referring
from airflow_provider_schemamig.core.schema.fingerprint import set_fingerprint
from airflow_provider_schemamig.core.schema.model import walk
from airflow_provider_schemamig.core.schema.paths import path_in_files
from airflow_provider_schemamig.core.storage import InvalidLocation
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.throttle import last_step_key
from airflow_provider_schemamig.core.upgrade.adopt.errors import CollectionInUse
from airflow_provider_schemamig.core.upgrade.context.context import close_expired_holds, no_open_deployment, plan_of
from airflow_provider_schemamig.core.upgrade.errors import UnknownCollection
from airflow_provider_schemamig.core.upgrade.execute.cleanup import forget_shards
from airflow_provider_schemamig.core.upgrade.tables.pins import pins_of


@dataclass(frozen=True, slots=True)
class UnmanagedTable:
    """``uri``: where the table is, None if the collection had been given back before."""

    collection: CollectionName
    uri: str | None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what ``schemamig unmanage`` prints."""
        return {"collection": self.collection, "uri": self.uri, "unmanaged": self.uri is not None, "notes": list(self.notes)}


def unmanage(env: EnvironmentRoot, collection: str) -> UnmanagedTable:
    """Stop managing ``collection``. Done already: nothing happens.

    Raises UnknownCollection, DeploymentOpen, HoldOpen (its way back would need the table), CollectionInUse.
    """
    name = CollectionName(collection)
    started = pendulum.now("UTC")
    uri: str | None = None
    forgotten: list[str] = []

    def decide(state: State) -> Sequence[Update]:
        nonlocal uri, forgotten
        uri = None
        state.require_current("unmanage")
        if name not in state.objects:
            if any(known == name for known, _ in state.schemas):
                return ()
            raise UnknownCollection(collection=name)
        no_open_deployment(state)
        ended = close_expired_holds(state)
        used = in_use(env, state, name)
        if used is not None:
            raise used
        uri = _place(env, state.shard_of(name).uri)
        forgotten = ["its pause or limit is forgotten, too"] if name in state.controls else []
        for key in referring(state.entry(name).declared, None, state.declarations()):
            forgotten.append(f"{key}: schemamig's writers write no rows there until {name} is adopted again or a release drops the key")
        return [*_forgotten(state, name), *ended]

    state = LedgerWriter(env).transact(decide)
    if uri is None:
        return UnmanagedTable(name, None)
    generation = state.leader.generation if state.leader is not None else None
    note = append_history(env, HistoryEntry.ended("unmanage", started, collection=name, generation=generation, detail=uri))
    return UnmanagedTable(name, uri, (*forgotten, *([note] if note else [])))


def _place(env: EnvironmentRoot, shard_uri: str) -> str:
    """Return the table's URI, also if it was adopted at a place that this software does not accept any more."""
    try:
        return env.table_location(shard_uri).uri
    except InvalidLocation:
        return shard_uri


def in_use(env: EnvironmentRoot, state: State, name: CollectionName) -> CollectionInUse | None:
    """Return why a table cannot be given back while somebody is at work on it; None where nobody is."""
    shard = state.objects[name].shard
    for intent in state.intents_of(shard):
        first = "Run the command that was cut short again, or the next upgrade; then give the collection back."
        return CollectionInUse(collection=name, what=f"a change of its table was begun and not ended ({intent.kind.value})", first=first)
    for pinned in pins_of(state, shard):
        unpin = f"schemamig unpin --collection {name} --holder {shlex.quote(pinned.holder)}"
        first = f"Take it back first, for that changes the table: `{unpin}`."
        return CollectionInUse(collection=name, what=f"{pinned.holder} has pinned its history", first=first)
    if _names_changed_hands(state, name):
        what = "columns of it have each other's names since its release, which only the ledger tells"
        return CollectionInUse(collection=name, what=what, first="Upgrade to a release that has them so; then give the collection back.")
    newest = state.leader.generation if state.leader is not None else 0
    for generation, deployment in sorted(state.deployments.items()):
        if deployment.state is not DeploymentState.CLAIMED or generation < newest:
            continue
        steps = plan_of(env, deployment).target.steps
        if any(name in (step.collection, None if isinstance(step, Create) else step.old.name) for step in steps):
            first = f"Let it finish, or give it up: `schemamig cancel --generation {generation}`."
            return CollectionInUse(collection=name, what=f"generation {generation} is claimed and has a step for it", first=first)
    return None


def _names_changed_hands(state: State, name: CollectionName) -> bool:
    """Return whether a change outside of a release gave a column the name of another one that the release has: adopted again at that
    release, one would be taken for the other."""
    unreleased = state.unreleased_of(name)
    before = None if unreleased is None else state.names_in_release(unreleased)
    if unreleased is None or before is None:
        return False
    now = dict(state.entry(name).stored_names)
    there = {path for path, _ in walk(state.entry(name).declared.fields)}
    paths = [path for path, _ in walk(unreleased.released.fields) if path in there]
    return any(path_in_files(path, before) != path_in_files(path, now) for path in paths)


def _forgotten(state: State, name: CollectionName) -> list[Update]:
    """Return the updates that forget a collection.

    Its rows go, the environment's fingerprint is that of the others, and the epoch rises: whoever was at work on it is fenced.
    """
    shard: ShardId = state.objects[name].shard
    updates: list[Update] = [Drop(Object, name), *forget_shards({shard}, state)]
    updates += [Drop(UnreleasedChange, row.key) for row in state.unreleased.values() if row.collection == name]
    updates += [Drop(Progress, row.key) for row in state.progress.values() if row.collection == name]
    updates += [Drop(Control, key) for key in (name, last_step_key(name)) if key in state.controls]
    if state.release is not None:
        own = state.released(state.objects[name])
        left = {known: released for known, released in state.release_set().items() if known not in own}
        updates.append(Put(replace(state.release, fingerprint=set_fingerprint(left))))
    if state.leader is not None:
        updates.append(Put(replace(state.leader, epoch=next_epoch(state), since=pendulum.now("UTC"))))
    return updates
