"""The rows of the one append that makes a release true: schemas, objects, shards, holds, the version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pendulum

from airflow_provider_schemamig.core.ledger.rows import (
    DeploymentState,
    Element,
    EnvironmentRelease,
    HeldTable,
    Hold,
    HoldState,
    Intent,
    Object,
    SchemaEntry,
    SealIntent,
    Shard,
    ShardState,
)
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, ShardId
from airflow_provider_schemamig.core.release.merge.chain import Create, Evolve, MergedStep, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView
from airflow_provider_schemamig.core.upgrade.execute.hold_record import evolved_table, retired_tables
from airflow_provider_schemamig.core.upgrade.execute.rename_swaps import PlannedSwap
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.columns.uses import uses_kept
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import begun_rollbacks, open_holds
from airflow_provider_schemamig.core.upgrade.plan.unreleased import drop_released, no_table, unreleased_change
from airflow_provider_schemamig.core.upgrade.prepare.build import replacement_key, shard_of_new
from airflow_provider_schemamig.core.upgrade.tables.transitions import Transition


@dataclass(frozen=True, slots=True)
class EvolvedTable:
    """An evolved collection at the end of its cut-over. ``seen``: the table's version when it was looked at."""

    step: Evolve
    physical: Declaration
    seen: int
    #: The deployment's first commit on the table; None: there is none, or not yet.
    begun: int | None
    #: What the fields of ``physical`` are called in the data files, where that is another name.
    stored_names: Mapping[ColumnPath, str]
    #: The cut-over's own commit on the table; None if it needs none.
    transition: Transition | None
    #: The same, if columns change places in it.
    swap: PlannedSwap | None

    @property
    def since(self) -> int:
        """Return the version that began the schema, if it is one of the deployment's; else one that has it."""
        return self.seen if self.begun is None else self.begun

    @property
    def before(self) -> int:
        """Return the newest version before the deployment's first commit on the table."""
        return self.seen if self.begun is None else self.begun - 1


def updates_of(
    leader: LeaderView, state: State, evolved: Sequence[EvolvedTable], seals: Sequence[SealIntent], sealed: Mapping[ShardId, int]
) -> list[Update]:
    """Return the updates that make the release true. ``sealed``: the versions that the sealed shards end with."""
    deployment, target = state.deployments[leader.generation], leader.plan.target
    updates: list[Update] = []
    for item in evolved:
        updates += _evolved(leader, state, item)
    for step in target.steps:
        updates += _of_step(leader, state, step, sealed)
    updates += _restated(leader, state)
    updates += [Drop(Intent, intent.key) for intent in state.intents.values() if intent.generation == leader.generation]
    updates += [Drop(Element, element.key) for element in state.elements.values() if element.generation == leader.generation]
    updates += [] if target.ahead else drop_released(state)
    updates.append(Put(EnvironmentRelease(target.name, target.version, target.fingerprint, target.passed)))
    updates.append(Put(replace(deployment, state=DeploymentState.COMMITTED)))
    return [*updates, *_holds(leader, state, _held(leader, state, evolved, seals))]


def _of_step(leader: LeaderView, state: State, step: MergedStep, sealed: Mapping[ShardId, int]) -> list[Update]:
    """Return the updates of a collection that gets another table, or loses its own."""
    match step:
        case Create():
            return _created(leader, state, step)
        case Replace() | RewriteStep():
            return _replaced(leader, state, step, sealed)
        case Remove() if step.old.name in state.objects:  # else it was dropped outside of a release before
            return _removed(leader, state, step.old.name, sealed)
        case _:
            return []


def _held(leader: LeaderView, state: State, evolved: Sequence[EvolvedTable], seals: Sequence[SealIntent]) -> list[HeldTable]:
    """Return the held tables by the state before the commit. The way back leads to that state."""
    found = [
        evolved_table(state, leader.plan.evolution(item.step, state).stages, item.step, before=item.before, names=item.stored_names)
        for item in evolved
    ]
    return [*found, *retired_tables(state, leader.plan.of_kind(s.Retire), {intent.shard: intent for intent in seals})]


def _evolved(leader: LeaderView, state: State, item: EvolvedTable) -> list[Update]:
    step = item.step
    source = step.old.name
    known = state.objects[source]
    schema_id = state.next_schema_id(step.collection)
    physical = replace(item.physical, name=step.collection)
    names = tuple(sorted(item.stored_names.items()))
    release = None if leader.plan.target.ahead else leader.plan.target.version
    uses = uses_kept(state.entry(source), physical, names)
    entry = SchemaEntry(step.collection, schema_id, known.shard, step.new, physical, item.since, release, names, uses)
    updates: list[Update] = [Put(entry), Put(Object(step.collection, known.shard, schema_id, fingerprint(step.new)))]
    if leader.plan.target.ahead:
        updates.append(Put(unreleased_change(state, source, step.new, schema_id, leader.epoch)))
    if source != step.collection:
        updates += [Drop(Object, source), Put(replace(state.shards[known.shard], collection=step.collection))]
    return updates


def _new_object(leader: LeaderView, state: State, declaration: Declaration, shard: Shard) -> list[Update]:
    collection, target = declaration.name, leader.plan.target
    schema_id = state.next_schema_id(collection)
    release = None if target.ahead else target.version
    updates: list[Update] = [
        Put(replace(shard, state=ShardState.LIVE)),
        Put(SchemaEntry(collection, schema_id, shard.shard, declaration, declaration, 0, release, ())),
        Put(Object(collection, shard.shard, schema_id, fingerprint(declaration))),
    ]
    return [*updates, Put(unreleased_change(state, None, declaration, schema_id, leader.epoch))] if target.ahead else updates


def _created(leader: LeaderView, state: State, step: Create) -> list[Update]:
    return _new_object(leader, state, step.new, state.shards[shard_of_new(state, step.collection, leader.deployment)])


def _replaced(leader: LeaderView, state: State, step: Replace | RewriteStep, sealed: Mapping[ShardId, int]) -> list[Update]:
    row = state.replacements[replacement_key(step.collection, leader.deployment)]
    updates = _new_object(leader, state, step.new, state.shards[row.shard])
    updates.append(Put(_retired(leader, state, step.old.name, row.shard, sealed)))
    return updates if step.old.name == step.collection else [Drop(Object, step.old.name), *updates]


def _removed(leader: LeaderView, state: State, collection: CollectionName, sealed: Mapping[ShardId, int]) -> list[Update]:
    """Return the updates that remove a collection.

    Outside of a release the next one has to remove it, too, unless no release ever had it.
    """
    updates: list[Update] = [Drop(Object, collection), Put(_retired(leader, state, collection, None, sealed))]
    if not leader.plan.target.ahead or not state.released(state.objects[collection]):
        return updates
    schema_id = state.next_schema_id(collection)
    return [*updates, Put(unreleased_change(state, collection, no_table(collection), schema_id, leader.epoch))]


def _retired(
    leader: LeaderView, state: State, collection: CollectionName, successor: ShardId | None, sealed: Mapping[ShardId, int]
) -> Shard:
    old = state.shards[state.objects[collection].shard]
    version = sealed.get(old.shard)
    return replace(old, state=ShardState.RETIRED, retired_by=leader.generation, successor=successor, sealed_version=version)


def _restatements(leader: LeaderView) -> tuple[Declaration, ...]:
    return leader.plan.of_kind(s.Commit)[0].restated


def _restated(leader: LeaderView, state: State) -> list[Update]:
    """Give each restated collection a new schema id, so that readers of the release before get its columns in the old order."""
    updates: list[Update] = []
    for declaration in _restatements(leader):
        entry, known = state.entry(declaration.name), state.objects[declaration.name]
        schema_id = state.next_schema_id(declaration.name)
        release = leader.plan.target.version
        updates.append(Put(replace(entry, schema_id=schema_id, declared=declaration, release=release)))
        updates.append(Put(replace(known, schema_id=schema_id)))
    return updates


def _holds(leader: LeaderView, state: State, tables: Sequence[HeldTable]) -> list[Update]:
    """Return the updates of the holds, which are the way back.

    A new environment has none; a deployment that only settles leaves those there are. A rollback that was begun and not ended is taken
    back: the tables are as its release had them.
    """
    source = leader.plan.target.source
    reopened: list[Update] = [Put(replace(hold, state=HoldState.OPEN)) for hold in begun_rollbacks(state)]
    if source is None or not leader.plan.target.is_deployed:
        return reopened
    until = pendulum.now("UTC").add(seconds=leader.deployment.hold_seconds)
    until = max([until, *(hold.until for hold in open_holds(state))])  # holds end oldest first
    restated = tuple((item.name, state.objects[item.name].schema_id) for item in _restatements(leader))
    return [*reopened, Put(Hold(leader.generation, source, leader.plan.target.version, until, HoldState.OPEN, tuple(tables), restated))]


def names_of_renamed(leader: LeaderView) -> set[str]:
    """Return the collections of which columns were renamed, by their names of before and now, and of the release."""
    steps = [step for step in leader.plan.target.steps if isinstance(step, Evolve) and step.renames]
    there = [leader.state.objects[step.collection] for step in steps if step.collection in leader.state.objects]
    return {name for step in steps for name in (step.old.name, step.collection)}.union(*map(leader.state.released, there))
