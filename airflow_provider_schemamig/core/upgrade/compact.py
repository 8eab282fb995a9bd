"""Compaction: files of older schemas are written anew, in bounded batches, table by table (docs/compaction.md).

Acts under the current leader's epoch. One intent a table says so in the ledger, so that a later leader fences the table before it goes on;
a batch that is in flight then is never committed. Killed at any point nothing is lost: what was committed is done, the rest is found anew.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.delta.commit.append import MetadataMoved
from airflow_provider_schemamig.core.delta.commit.fence import check_fence
from airflow_provider_schemamig.core.delta.log.files import batches
from airflow_provider_schemamig.core.delta.log.head import Head, head_or_none
from airflow_provider_schemamig.core.ledger.rows import CompactionIntent, Intent, IntentKind
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, Put, Update
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.storage import Store, confirm
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.compaction import check_compactable, compact_files
from airflow_provider_schemamig.core.transfer.errors import CannotCompact, FilesMoved
from airflow_provider_schemamig.core.transfer.file_rewrite import Rewritten
from airflow_provider_schemamig.core.transfer.schema_age import SchemaAge, schema_age
from airflow_provider_schemamig.core.transfer.throttle import BATCH_BYTES, BATCH_FILES, BatchSize, Pace
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter, Outcome
from airflow_provider_schemamig.core.upgrade.errors import CommitLost
from airflow_provider_schemamig.core.upgrade.plan.live_tables import asked_for, table_store
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs

#: Writers that are faster than us each time: give up after so many, the next run goes on.
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one batch, which is one Spark statement and one commit."""

    max_files: int = BATCH_FILES
    max_bytes: int = BATCH_BYTES


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Compacted:
    """A collection: what it owed before (``age``), and what was rewritten; ``why_not`` if its files cannot be."""

    age: SchemaAge
    batches: tuple[Rewritten, ...] = ()
    why_not: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "collection": self.age.collection,
            "schema_id": self.age.schema_id,
            "debt": [{"schema_id": s.schema_id, "files": s.files, "bytes": s.bytes, "rows": s.rows} for s in self.age.shares],
            "old_files": len(self.age.old),
            "rewritten": sum(batch.files for batch in self.batches),
            "rows": sum(batch.rows for batch in self.batches),
            "batches": len(self.batches),
            "why_not": self.why_not,
        }


@dataclass(frozen=True)
class Compaction:
    outcome: Outcome
    collections: tuple[Compacted, ...]

    def to_json(self) -> dict[str, Any]:
        return {**self.outcome.to_json(), "collections": [item.to_json() for item in self.collections]}


def schema_ages(env: EnvironmentRoot, state: State, collections: Sequence[CollectionName] = ()) -> tuple[SchemaAge, ...]:
    """Return the schema age of the named collections, or of all that have a table. Reads only. Raises UnknownCollection."""
    found = env.each(lambda name: _look(env, state, name), asked_for(state, collections or None))
    return tuple(look.age for look in found if look is not None)


@dataclass(frozen=True, slots=True)
class _Look:
    """A table at one version, and what it owes."""

    store: Store
    head: Head
    age: SchemaAge


def _look(env: EnvironmentRoot, state: State, collection: CollectionName) -> _Look | None:
    entry = state.entry(collection)
    store = table_store(env, state, entry.shard)
    head = head_or_none(store)
    if head is None:
        return None
    return _Look(store, head, schema_age(store, head.version, entry, state.schemas_of(entry.shard)))


def is_due(state: State, ages: Sequence[SchemaAge]) -> bool:
    """Return whether there is anything to rewrite, or to tidy up after a run that was killed."""
    return any(age.old for age in ages) or any(intent.kind is IntentKind.COMPACT for intent in state.intents.values())


def compact_all(leader: LeaderWriter, collections: Sequence[CollectionName], limits: Limits, jobs: Jobs) -> tuple[Compacted, ...]:
    """Rewrite what is old. A table that cannot be rewritten is reported and left; conflicts are planned again a few times.

    Raises Fenced once another leader has taken over, MetadataMoved or FilesMoved if writers are faster each time.
    """
    return tuple(_compact(leader, age, limits, jobs) for age in schema_ages(leader.env, leader.state, collections))


def _compact(leader: LeaderWriter, age: SchemaAge, limits: Limits, jobs: Jobs) -> Compacted:
    shard = leader.state.objects[age.collection].shard
    if (
        not age.old and (shard, IntentKind.COMPACT, leader.generation) not in leader.state.intents
    ):  # one is there if a run was killed at its end
        return Compacted(age)
    wanted = CompactionIntent(**leader.intent(IntentKind.COMPACT, age.collection, shard, age.version))
    intent = _announce(leader, wanted)
    done: list[Rewritten] = []
    why_not: str | None = None
    try:
        size = BatchSize()
        while (batch := _tried(leader, intent, limits, size, jobs)) is not None:
            done.append(batch)
    except CannotCompact as refusal:
        leader.notes.append(f"{age.collection}: {refusal.message}")
        why_not = refusal.reason
    leader.append(
        lambda state: [Drop(Intent, intent.key)] if state.intents.get((shard, IntentKind.COMPACT, leader.generation)) == intent else []
    )
    return Compacted(age, tuple(done), why_not)


def _tried(leader: LeaderWriter, intent: Intent, limits: Limits, size: BatchSize, jobs: Jobs) -> Rewritten | None:
    """Return the next batch, planned again where writers were faster; None: nothing is old any more."""
    tries = 0
    while True:
        try:
            return _batch(leader, intent, limits, size, jobs)
        except (MetadataMoved, FilesMoved) as conflict:
            tries += 1
            if tries == _TRIES:
                conflict.collection = intent.collection
                raise


def _announce(leader: LeaderWriter, wanted: Intent) -> Intent:
    """Write the intent of a compaction and return it.

    One that is there already, of this epoch, keeps its base: the fence is looked for from there.
    """
    intent = wanted

    def decide(state: State) -> list[Update]:
        nonlocal intent
        known = state.intents.get((wanted.shard, wanted.kind, wanted.generation))
        intent = known if known is not None and known.epoch == wanted.epoch else wanted
        return [Put(intent)]

    leader.append(decide)
    return intent


def _batch(leader: LeaderWriter, intent: Intent, limits: Limits, size: BatchSize, jobs: Jobs) -> Rewritten | None:
    """Return the first batch of what is old now: the files, and the schema they are written with, are those of one version."""
    pace = Pace(leader.newest, leader.listen, waits=leader.env.waits)
    control = pace.begin("compact", intent.collection)
    look = _look(leader.env, leader.state, intent.collection) if intent.collection in leader.state.objects else None
    if look is None or not look.age.old:
        return None
    store, fence, started = look.store, leader.fence(intent.shard), time.monotonic()
    check_compactable(look.head, intent.collection)
    check_fence(store, fence, intent.base_version, look.head.version)
    files = batches(look.age.old, min(limits.max_files, control.max_files or limits.max_files), min(limits.max_bytes, size.bytes))[0]
    done, appended = compact_files(leader.env, store, intent.collection, look.head, files, fence, leader.tag("compact"), jobs())
    if confirm([appended.receipt]):
        raise CommitLost(collection=intent.collection, uri=store.location.uri, version=done.version)
    leader.report("compact", intent.collection, done.version, started, len(files), len(look.age.old))
    seconds = time.monotonic() - started
    size.after(done.bytes, seconds)
    pace.end(control, done.rows, seconds)
    return done
