"""Cut over and commit: seals, renames, orders and swaps, then ONE ledger append that makes the release true.

All or nothing: until that append every reader of the ledger sees the source release, after it the target; a seal or a swap whose commit
does not come is taken back by this task on its way out, by its own rerun, or by the next leader's ``recovery.settle``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pendulum

from airflow_provider_schemamig.core.delta.commit.seal import seal_name
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import first_metadata_version
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.delta.names import stored_names
from airflow_provider_schemamig.core.ledger.rows import (
    DeploymentState,
    Element,
    EnvironmentRelease,
    HeldTable,
    Hold,
    HoldState,
    Intent,
    IntentKind,
    Object,
    SchemaEntry,
    SealIntent,
    Shard,
    ShardState,
)
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, Put, Update, one_each
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, ShardId
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.release.merge.chain import Create, Evolve, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.transfer.errors import Paused
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.context.pausing import Allow, unless_paused
from airflow_provider_schemamig.core.upgrade.errors import DriftFound, ShardMissing, WrongState
from airflow_provider_schemamig.core.upgrade.execute.expand import expand_transition, not_expanded
from airflow_provider_schemamig.core.upgrade.execute.hold_record import evolved_table, sealed_tables
from airflow_provider_schemamig.core.upgrade.execute.online_schedule import course, expanded, is_changed
from airflow_provider_schemamig.core.upgrade.execute.rename_swaps import Swaps, lift_swaps, take_back_swaps
from airflow_provider_schemamig.core.upgrade.execute.rewrites import (
    CaughtUpRewrite,
    catch_up,
    check_current,
    check_untouched,
    complete_copies,
    follow_all,
)
from airflow_provider_schemamig.core.upgrade.execute.stream_checkpoints import hand_on
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.column_uses import uses_kept
from airflow_provider_schemamig.core.upgrade.plan.live_tables import exchanged, head_or_none, is_in_place, table_store
from airflow_provider_schemamig.core.upgrade.plan.open_holds import open_holds, unclosed_holds
from airflow_provider_schemamig.core.upgrade.plan.unreleased import caught_up, no_table, went_ahead
from airflow_provider_schemamig.core.upgrade.prepare.build import check_built, new_shard, replacement_key
from airflow_provider_schemamig.core.upgrade.tables.seals import (
    announce_seals,
    check_held,
    check_time,
    held_seals,
    lift,
    remember_seals,
    seal_all,
    shards_to_seal,
    successor_of,
)
from airflow_provider_schemamig.core.upgrade.tables.transitions import Transition, commit_transitions


@dataclass(frozen=True, slots=True)
class Landed:
    """An evolved collection at the end of its cut-over: its physical schema and the table version that began it."""

    step: Evolve
    physical: Declaration
    since: int
    #: The newest version before the deployment's first commit on the table.
    before: int
    #: What the fields of ``physical`` are called in the data files, where that is another name.
    stored_names: Mapping[ColumnPath, str]


def cut_over(leader: LeaderWriter, jobs: Callable[[], JobRunner]) -> None:
    """Follow, seal, catch up, rename, commit. Done already (by a twin, or before the answer was lost): nothing happens."""
    if leader.deployment.state is DeploymentState.COMMITTED:
        return
    with leader.until(leader.is_committed):
        leader.listen(Event("cutover", note="looking at what is to be sealed and renamed"))
        take_back_swaps(leader, jobs)  # of a run that died, as its seals: nobody is to wait for our digests
        landed = _check_expanded(leader)
        swaps = Swaps.of(leader, jobs)
        if leader.plan.of_kind(s.Copy) or swaps.all:
            lift(leader, held_seals(leader))
        swaps.wait()
        swaps.come_near()
        complete_copies(leader, jobs)
        check_built(leader.env, leader.state, leader.deployment, leader.plan)  # a fill that ran again may have been refused
        followed = follow_all(leader, jobs)
        swaps.come_near()
        allow = unless_paused(leader, "cutover")
        seals = _announced(leader, allow)
        sealed, sealed_at = time.monotonic(), pendulum.now("UTC")
        if seals:
            leader.listen(Event("seal", None, 0, len(seals), note="writers wait from now on"))
        try:
            seal_all(leader, seals, lambda collection: seal_name(successor_of(leader, collection)))
            caught_up = catch_up(leader, followed, jobs)
            moved = commit_transitions(leader, IntentKind.CUTOVER, _cutover_transitions(leader), allow)
            hand_on(leader)
            moved |= swaps.make(allow)
            check_untouched(leader, caught_up)
            _commit(leader, [_as_moved(leader, item, moved) for item in landed], seals, caught_up, swaps, allow)
            leader.notes.extend(
                f"{item.stage.collection}: writers were blocked for {time.monotonic() - sealed:.1f} s" for item in caught_up
            )
            leader.notes.extend(swaps.note())
            leader.notes.extend(remember_seals(leader, seals, sealed_at))
        except BaseException:
            # Do not leave others locked out for the next run's sake, nor for a pause: it seals and swaps again. Killed here, settle does
            # the same.
            lift(leader, seals)
            lift_swaps(leader, swaps.held, jobs)
            raise
    leader.deployment = leader.state.deployments[leader.generation]


def _announced(leader: LeaderWriter, allow: Allow) -> tuple[SealIntent, ...]:
    try:
        return announce_seals(leader, shards_to_seal(leader), allow)
    except Paused:
        lift(leader, held_seals(leader))  # of a run that died: its writers are not to wait for a person
        raise


def _as_moved(leader: LeaderView, item: Landed, moved: Mapping[CollectionName, int]) -> Landed:
    """Return the collection with what the cut-over's commit made of it: names, and the version if no earlier one began the schema."""
    source = item.step.old.name
    since = item.since if item.since >= 0 else moved.get(source, 0)
    names = stored_names(_head(leader, source).schema) if source in moved else item.stored_names
    before = item.before if item.since >= 0 else since - 1
    return replace(item, since=since, before=before, stored_names=names)


def _check_expanded(leader: LeaderWriter) -> list[Landed]:
    """Expand was run, and every commit of it still stands (a stopped JVM may overwrite a local log late); what each collection ends as."""
    state, ends = leader.state, leader.plan.ends
    ending = any(hold.generation in ends for hold in unclosed_holds(state))
    if ending or any(intent.epoch < leader.epoch for intent in state.intents.values()):
        raise not_expanded(leader, None, "what was left open before is not settled")
    creates = leader.plan.of_kind(s.CreateShard)
    places = (leader.env.table_store(new_shard(state, stage.collection, leader.deployment).uri) for stage in creates)
    for stage, new in zip(creates, leader.env.each(head_or_none, places), strict=True):
        if new is None:
            raise not_expanded(leader, stage.collection, "it has no table yet")
    landed, steps = [], leader.evolutions()
    for step, head in zip(steps, leader.env.each(lambda step: _head(leader, step.old.name), steps), strict=True):
        source = step.old.name
        transition, changes = expand_transition(leader, step), leader.changes(s.CutOver, step)
        online = course(leader, step)
        physical = expanded(leader, step) if online is None else online.changed
        if online is not None and not is_changed(leader, online):
            raise _not_changed(leader, source)
        final = apply(physical if online is None else online.end, changes)
        if not is_in_place(physical, head) and not is_in_place(final, head):
            if transition is not None and is_in_place(transition.before, head):
                raise not_expanded(leader, source, "it lacks its expand commit")
            text = "its columns are neither those before nor those after the cut-over"
            raise DriftFound(collection=source, differences=(text,), under_way=True)
        _check_names(leader, source, head)
        since = _begun_at(leader, source)
        before = head.version if since is None else since - 1
        since = (-1 if changes else head.version) if since is None else since
        landed.append(Landed(step, final, since, before, stored_names(head.schema)))
    return landed


def _check_names(leader: LeaderView, collection: CollectionName, head: Head) -> None:
    """Raise DriftFound unless every column has the name that the ledger knows it by, as long as nothing was cut over."""
    entry = leader.state.entry(collection)
    is_begun = (entry.shard, IntentKind.CUTOVER, leader.generation) in leader.state.intents
    found = () if is_begun else exchanged(entry, head)
    if found:
        raise DriftFound(collection=collection, differences=tuple(map(str, found)), under_way=True)


def _begun_at(leader: LeaderView, collection: CollectionName) -> int | None:
    """Return the first commit of this deployment on the table, if it had any before the cut-over."""
    shard = head_shard(leader, collection)
    expanded = leader.state.intents.get((shard, IntentKind.EXPAND, leader.generation))
    if expanded is not None and expanded.done_version is not None:
        return expanded.done_version
    changed = leader.state.intents.get((shard, IntentKind.CHANGE, leader.generation))
    if changed is None:
        return None
    try:
        return first_metadata_version(table_store(leader.env, leader.state, shard), changed.base_version)
    except LogTruncated:  # rather too early than too late, as ``transitions.made_at``
        return changed.base_version + 1


def _not_changed(leader: LeaderView, collection: CollectionName) -> WrongState:
    first = f"Run `schemamig change --generation {leader.generation}` first: its online changes are not at their end."
    return WrongState(collection=collection, generation=leader.generation, state="not changed", task="cutover", first=first)


def head_shard(leader: LeaderView, collection: CollectionName) -> ShardId:
    return leader.state.objects[collection].shard


def _head(leader: LeaderView, collection: CollectionName) -> Head:
    store = table_store(leader.env, leader.state, head_shard(leader, collection))
    head = head_or_none(store)
    if head is None:
        raise ShardMissing(collection=collection, uri=store.location.uri)
    return head


def _cutover_transitions(leader: LeaderView) -> list[Transition]:
    """Return the cut-over's commits on all tables but those of ``Swaps``."""
    transitions = []
    for step in leader.evolutions():
        source, changes, online = step.old.name, leader.changes(s.CutOver, step), course(leader, step)
        if changes and (online is None or online.swap is None):
            before = expanded(leader, step) if online is None else online.end
            transitions.append(Transition(source, head_shard(leader, source), before, changes))
    return transitions


# --- the one append ------------------------------------------------------------------------------------------------------------------


def _commit(
    leader: LeaderWriter,
    landed: Sequence[Landed],
    seals: Sequence[SealIntent],
    followed: Sequence[CaughtUpRewrite],
    swaps: Swaps,
    allow: Allow,
) -> None:
    started, at = time.monotonic(), pendulum.now("UTC")
    sealed = {intent.shard: read_head(table_store(leader.env, leader.state, intent.shard)).version for intent in seals}

    def decide(state: State) -> list[Update]:
        nonlocal at
        at = pendulum.now("UTC")
        allow(state)
        check_held(state, seals)
        check_time(leader, seals)
        swaps.check(state)
        check_current(leader, state, followed)
        deployment = state.deployments[leader.generation]
        updates: list[Update] = []
        for item in landed:
            updates += _evolved(leader, state, item)
        for step in leader.plan.target.steps:
            match step:
                case Create():
                    updates += _created(leader, state, step)
                case Replace() | RewriteStep():
                    updates += _replaced(leader, state, step, sealed)
                case Remove() if step.old.name in state.objects:  # else it was dropped outside of a release before
                    updates += _removed(leader, state, step.old.name, sealed)
                case _:
                    pass
        updates += _restated(leader, state)
        updates += [Drop(Intent, intent.key) for intent in state.intents.values() if intent.generation == leader.generation]
        updates += [Drop(Element, element.key) for element in state.elements.values() if element.generation == leader.generation]
        updates += swaps.forget_force(state)
        updates += [] if leader.plan.target.ahead else caught_up(state)
        target = leader.plan.target
        updates.append(Put(EnvironmentRelease(target.name, target.version, target.fingerprint, target.passed)))
        updates.append(Put(replace(deployment, state=DeploymentState.COMMITTED)))
        updates += _holds(leader, state, _held(leader, state, landed, seals))
        return one_each(updates)

    leader.append(decide)
    leader.committed_at = at
    leader.report("commit", None, None, started)


def _held(leader: LeaderView, state: State, landed: Sequence[Landed], seals: Sequence[SealIntent]) -> list[HeldTable]:
    """Return the held tables by the state before the commit, which is what the way back leads to."""
    found = [
        evolved_table(state, leader.plan.evolution(item.step, state).stages, item.step, before=item.before, names=item.stored_names)
        for item in landed
    ]
    return [*found, *sealed_tables(state, leader.plan, {intent.shard: intent for intent in seals})]


def _evolved(leader: LeaderView, state: State, item: Landed) -> list[Update]:
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
        updates.append(Put(went_ahead(state, source, step.new, schema_id, leader.epoch)))
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
    return [*updates, Put(went_ahead(state, None, declaration, schema_id, leader.epoch))] if target.ahead else updates


def _created(leader: LeaderView, state: State, step: Create) -> list[Update]:
    return _new_object(leader, state, step.new, new_shard(state, step.collection, leader.deployment))


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
    return [*updates, Put(went_ahead(state, collection, no_table(collection), schema_id, leader.epoch))]


def _retired(
    leader: LeaderView, state: State, collection: CollectionName, successor: ShardId | None, sealed: Mapping[ShardId, int]
) -> Shard:
    old = state.shards[state.objects[collection].shard]
    version = sealed.get(old.shard)
    return replace(old, state=ShardState.RETIRED, retired_by=leader.generation, successor=successor, sealed_version=version)


def _restatements(leader: LeaderView) -> tuple[Declaration, ...]:
    return leader.plan.of_kind(s.Commit)[0].restated


def _restated(leader: LeaderView, state: State) -> list[Update]:
    """Give what is restated a schema id of its own, so that readers of the release before get its columns in its order."""
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
    begun = [hold for hold in state.holds.values() if hold.state is HoldState.ROLLING_BACK]
    back: list[Update] = [Put(replace(hold, state=HoldState.OPEN)) for hold in begun]
    if source is None or not leader.plan.target.is_deployed:
        return back
    until = pendulum.now("UTC").add(seconds=leader.deployment.hold_seconds)
    until = max([until, *(hold.until for hold in open_holds(state))])  # holds end oldest first
    restated = tuple((item.name, state.objects[item.name].schema_id) for item in _restatements(leader))
    return [*back, Put(Hold(leader.generation, source, leader.plan.target.version, until, HoldState.OPEN, tuple(tables), restated))]
