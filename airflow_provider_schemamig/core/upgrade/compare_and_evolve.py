"""Change one collection's schema outside of a release, for leaders: ``compare_and_evolve_schema``.

Three answers, tested in this order: the schema is already ``new`` (the answer to a first
try may have been lost), it is not the expected one, ``new`` cannot be reached. Only then one metadata commit and one ledger append.

What may be reached is what Delta makes by metadata alone: a column added that may be NULL, NOT NULL dropped, a
column dropped, all that also inside structs and arrays; and what Delta adds to the list: widening, defaults, properties, dropped CHECKs,
and changes inside maps. Order and comments are no part of a schema here (Delta finds columns by name, so they ride along), and a dropped
name may come back, because column mapping gives the new column an identity of its own. A column that is called otherwise is a drop and an
add: renames, and all that reads rows, need a release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pendulum

from airflow_provider_schemamig.core.delta.log.head import head_at, head_or_none, read_head
from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.rows import DeploymentState, Intent, IntentKind, Object, SchemaEntry, UnreleasedChange
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerReader, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, SchemaId
from airflow_provider_schemamig.core.progress import Listener, silent
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import Change, Cost
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.schema.diff.phases import phases
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter, keep_fences, lead, no_open_deployment, no_open_hold
from airflow_provider_schemamig.core.upgrade.errors import DriftFound, NeverAgreed, ShardMissing, WrongState
from airflow_provider_schemamig.core.upgrade.plan.column_names import names_after
from airflow_provider_schemamig.core.upgrade.plan.live_tables import check_not_exchanged, is_in_place, known, table_store
from airflow_provider_schemamig.core.upgrade.plan.unreleased import unreleased_change
from airflow_provider_schemamig.core.upgrade.tables.transitions import Transition, commit_transitions
from airflow_provider_schemamig.exceptions import Refusal

_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Ok:
    """The collection has the wanted schema."""

    schema_id: SchemaId


@dataclass(frozen=True, slots=True)
class Reason:
    """One change that cannot be made. ``change``: an op of docs/cli.md, or the code of what refused it. ``path``: empty for the table."""

    path: str
    change: str
    words: str


@dataclass(frozen=True, slots=True)
class Incompatible:
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class ExpectedMismatch:
    """The schema is another one than expected; id and declaration are there so that the caller can decide anew."""

    schema_id: SchemaId
    declaration: Declaration


Evolution = Ok | Incompatible | ExpectedMismatch


def compare_and_evolve_schema(
    env: EnvironmentRoot, collection: CollectionName, expected: SchemaId, new: Declaration, *, listen: Listener = silent
) -> Evolution:
    """Make ``new`` the schema of ``collection``, if it has the schema ``expected`` now. Nothing is written but for the last answer, Ok.

    Acts under the current leader's epoch. The change is *ahead* of the release: the next one has to contain it. May be repeated, raced
    and killed at any point; whoever comes next finishes what was begun.

    Raises DeploymentOpen, HoldOpen (a way back would not know of the change), UnknownCollection, ShardMissing, Fenced, DriftFound.
    """
    for _ in range(_ROUNDS):
        state = LedgerReader(env).state()
        answer = _answer(env, state, collection, expected, new)
        if answer is not None:
            return answer
        leader = _leader_of(env, state, listen)
        claim = _claim(leader, collection, expected, new)
        if claim is not None:
            _finish(leader, claim)
            _remember(leader, claim)
    raise NeverAgreed(collection=collection)


# --- the answers ---------------------------------------------------------------------------------------------------------------------


def _answer(env: EnvironmentRoot, state: State, collection: CollectionName, expected: SchemaId, new: Declaration) -> Evolution | None:
    """Return the answer that is known before anything is changed; None if the schema can be changed."""
    entry = state.entry(known(state, collection))
    if fingerprint(entry.declared) == fingerprint(new):
        return Ok(entry.schema_id)
    if entry.schema_id != expected:
        return ExpectedMismatch(entry.schema_id, entry.declared)
    reasons = _reasons(env, state, entry, new)
    return Incompatible(reasons) if reasons else None


def _reasons(env: EnvironmentRoot, state: State, entry: SchemaEntry, new: Declaration) -> tuple[Reason, ...]:
    """Return the reasons against it, those of the committer included: its edits are tried in memory."""
    if new.name != entry.collection:
        return (Reason("", "name", f"it declares the collection {new.name}"),)
    try:
        changes = _changes(entry, new)
        found = tuple(_reason(change) for change in changes if change.cost.rank > Cost.INSTANT.rank)
        store = table_store(env, state, entry.shard)
        head = head_or_none(store)
        if head is None:
            raise ShardMissing(collection=entry.collection, uri=store.location.uri)
        check_not_exchanged(state, entry.shard, head)
        if not found and is_in_place(entry.physical, head):  # else somebody is about to make it, or there is drift: `move_all` tells
            edit(head.protocol, head.metadata, changes, clustering=head.clustering)
    except (ShardMissing, DriftFound):
        raise
    except Refusal as refusal:
        return (Reason(str(getattr(refusal, "path", "")), refusal.code, refusal.message),)
    return found


def _reason(change: Change) -> Reason:
    needs = "rows have to be looked at" if change.cost is Cost.ONLINE else "the table has to be rewritten"
    return Reason(str(getattr(change, "path", "")), change.op, f"{describe(change)}: {needs}, which needs a release")


def _changes(entry: SchemaEntry, new: Declaration) -> tuple[Change, ...]:
    """Return all changes at once: outside of a release there is neither a cut-over nor a hold to wait for."""
    found = phases(entry.physical, entry.declared, new)
    return (*found.expand, *found.online, *found.cutover, *found.contract)


# --- the change ----------------------------------------------------------------------------------------------------------------------


def _leader_of(env: EnvironmentRoot, state: State, listen: Listener) -> LeaderWriter:
    no_open_deployment(state)
    if state.leader is None:
        raise WrongState(
            generation=0, state="missing", task="compare_and_evolve_schema", first="Deploy a release first: `schemamig upgrade`."
        )
    leader = lead(
        env,
        state.leader.generation,
        listen,
        task="compare_and_evolve_schema",
        states=(DeploymentState.COMMITTED, DeploymentState.ROLLED_BACK),
    )
    no_open_hold(leader.state)
    keep_fences(leader)
    return leader


def _claim(leader: LeaderWriter, collection: CollectionName, expected: SchemaId, new: Declaration) -> UnreleasedChange | None:
    """Write down the change to make, or take up an unfinished one of this epoch; None: look again.

    This append decides between racing callers: from here on everybody makes the same change.
    """
    claim: UnreleasedChange | None = None

    def decide(state: State) -> Sequence[Update]:
        nonlocal claim
        claim = None
        if state.objects[collection].schema_id != expected:
            return ()
        schema_id = state.next_schema_id(collection)
        known = state.unreleased.get((collection, schema_id))
        if known is not None and known.epoch == leader.epoch:
            claim = known
            return ()
        claim = unreleased_change(state, collection, new, schema_id, leader.epoch)
        return (Put(claim),)

    leader.append(decide)
    return claim


def _finish(leader: LeaderWriter, claim: UnreleasedChange) -> None:
    with leader.until(lambda state: state.objects[claim.collection].schema_id >= claim.schema_id):
        entry = leader.state.entry(claim.collection)
        changes = _changes(entry, claim.declared)
        transitions = [Transition(claim.collection, entry.shard, entry.physical, changes)] if changes else []
        versions = commit_transitions(leader, IntentKind.EVOLVE, transitions)
        since = versions.get(claim.collection, entry.since_table_version)
        physical = apply(entry.physical, changes)
        # By our own commit: what somebody did to the table since is drift.
        store = table_store(leader.env, leader.state, entry.shard)
        head = head_at(store, since) if versions else read_head(store)
        names = names_after(entry, changes, head)
        evolved = SchemaEntry(claim.collection, claim.schema_id, entry.shard, claim.declared, physical, since, None, names, entry.uses)
        leader.append(lambda state: _evolved(state, claim, evolved))


def _remember(leader: LeaderWriter, claim: UnreleasedChange) -> None:
    """Write one line of audit; the schema is changed, whether or not it can be written."""
    entry = HistoryEntry(
        who="",
        what="evolve",
        collection=claim.collection,
        generation=leader.generation,
        started_at=pendulum.now("UTC"),
        seconds=sum(result.seconds for result in leader.results),
        outcome="done",
        detail=f"schema {claim.schema_id}",
    )
    append_history(leader.env, entry)


def _evolved(state: State, claim: UnreleasedChange, entry: SchemaEntry) -> list[Update]:
    """Return the updates of the one append that puts the new schema in force. They drop the unreleased change before it."""
    before = state.unreleased_of(claim.collection)
    updates: list[Update] = [Put(entry), Put(Object(claim.collection, entry.shard, claim.schema_id, fingerprint(claim.declared)))]
    updates += [Drop(UnreleasedChange, before.key)] if before is not None else []
    return updates + [Drop(Intent, intent.key) for intent in state.intents_of(entry.shard) if intent.kind is IntentKind.EVOLVE]
