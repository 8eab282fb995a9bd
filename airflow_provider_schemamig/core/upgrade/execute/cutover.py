"""Cut over and commit: seals, renames, orders and swaps, then ONE ledger append that makes the release true.

All or nothing: until that append every reader of the ledger sees the source release, after it the target; a seal or a swap whose commit
does not come is taken back by this task on its way out, by its own rerun, or by the next leader's ``recovery.settle``.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import pendulum

from airflow_provider_schemamig.core.delta.commit.seal import seal_name
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import first_metadata_version
from airflow_provider_schemamig.core.delta.log.head import Head, head_at, head_or_none, read_head
from airflow_provider_schemamig.core.ledger.rows import (
    BuildingShard,
    IntentKind,
    SealIntent,
    TransitionIntent,
)
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Update, one_each
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.release.merge.chain import Evolve
from airflow_provider_schemamig.core.schema.diff.drift import live_differences
from airflow_provider_schemamig.core.spark.bounded import BoundedRunner
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.transfer.errors import Paused
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.context.pausing import Allow, unless_paused
from airflow_provider_schemamig.core.upgrade.errors import DriftFound, SealExpired, ShardMissing, SourceTouched, WrongState
from airflow_provider_schemamig.core.upgrade.execute.expand import expand_transition, not_expanded
from airflow_provider_schemamig.core.upgrade.execute.online_schedule import expanded, is_changed, online_schedule_of
from airflow_provider_schemamig.core.upgrade.execute.release_updates import EvolvedTable, updates_of
from airflow_provider_schemamig.core.upgrade.execute.rename_swaps import PlannedSwap, Swaps, take_back_swaps, unseal_swaps
from airflow_provider_schemamig.core.upgrade.execute.rewrites import (
    CaughtUpRewrite,
    catch_up,
    check_current,
    check_untouched,
    complete_copies,
    follow_all,
)
from airflow_provider_schemamig.core.upgrade.execute.stream_checkpoints import copy_checkpoints
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.column_names import added_in_place, names_after
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import unclosed_holds
from airflow_provider_schemamig.core.upgrade.plan.live_tables import check_not_exchanged, is_in_place, table_store
from airflow_provider_schemamig.core.upgrade.prepare.build import check_built, new_shard
from airflow_provider_schemamig.core.upgrade.prepare.refill import (
    check_closed,
    check_filled,
    close_fills,
    fills_of,
    refill_sealed,
    refill_stale,
    warm_up,
)
from airflow_provider_schemamig.core.upgrade.tables.seals import (
    announce_seals,
    check_held,
    check_time,
    held_seals,
    remember_seals,
    seal_all,
    sealed_at,
    shards_to_seal,
    successor_of,
    unseal_all,
    unseal_leftovers,
)
from airflow_provider_schemamig.core.upgrade.tables.transitions import Transition, commit_transitions
from airflow_provider_schemamig.exceptions import SchemamigError


def cut_over(leader: LeaderWriter, stages: Sequence[s.Stage], jobs: Callable[[], JobRunner]) -> None:
    """Follow, seal, catch up, rename, commit."""
    leader.listen(Event("cutover", note="looking at what is to be sealed and renamed"))
    if leader.plan.of_kind(s.Copy) or fills_of(leader) or any(stage.swaps for stage in leader.stages(s.CutOver)):
        unseal_all(leader, held_seals(leader))  # of a run that died: nobody is to wait for our digests, nor for a Spark
    left = take_back_swaps(leader, jobs)
    evolved = _check_expanded(leader)  # made once: what of it others change later, the tables' own commits refuse
    swaps = Swaps(leader, jobs, tuple(item.swap for item in evolved if item.swap is not None), left)
    to_seal = [stage for stage in stages if isinstance(stage, s.Seal)]
    followed, fills = _follow_until_near(leader, swaps, _to_seal(leader, to_seal).values(), jobs)
    allow = unless_paused(leader, "cutover")
    seals = _announced(leader, to_seal, allow)
    shards = {intent.shard for intent in seals}
    sealed, sealed_at, in_time = time.monotonic(), pendulum.now("UTC"), _bounded(leader, jobs)
    if seals:
        leader.listen(Event("seal", None, 0, len(seals), note="writers wait from now on"))
    try:
        made = seal_all(leader, seals, lambda collection: seal_name(successor_of(leader, collection)))
        refill_sealed(leader, in_time, shards, fills)
        caught_up = catch_up(leader, followed, in_time)
        check_time(leader, seals)  # before tables get other names
        others = [item.transition for item in evolved if item.transition is not None and item.swap is None]
        moved = commit_transitions(leader, IntentKind.CUTOVER, others, allow)
        copy_checkpoints(leader)
        moved |= swaps.make(allow)
        check_untouched(leader, caught_up)
        check_filled(leader, shards)
        closed = close_fills(leader)
        ends = list(leader.env.each(functools.partial(_as_committed, leader, moved), evolved))
        unseal_leftovers(leader, but=shards)
        _commit(leader, ends, seals, made, caught_up, closed, swaps, allow)
        leader.notes.extend(f"{item.stage.collection}: writers were blocked for {time.monotonic() - sealed:.1f} s" for item in caught_up)
        leader.notes.extend(swaps.note())
        leader.notes.extend(remember_seals(leader, seals, sealed_at))
    except BaseException:
        # Do not leave others locked out for the next run's sake, nor for a pause: it seals and swaps again. Killed here, settle does
        # the same.
        unseal_all(leader, seals)
        unseal_swaps(leader, swaps.held, _bounded(leader, jobs))
        with contextlib.suppress(SchemamigError):
            unseal_leftovers(leader, but=shards)
        raise


def _follow_until_near(
    leader: LeaderWriter, swaps: Swaps, to_seal: Collection[ShardId], jobs: Callable[[], JobRunner]
) -> tuple[list[CaughtUpRewrite], Mapping[CollectionName, float]]:
    """Do all that takes long, while everybody reads and writes; returns the rewrites, and for how long fills may take that run again."""
    swaps.wait()
    swaps.fill_until_near()
    complete_copies(leader, jobs)
    fills = refill_stale(leader, jobs, sealed=to_seal)
    check_built(leader.env, leader.state, leader.deployment, leader.plan)  # a fill that ran again may have been refused
    followed = follow_all(leader, jobs)
    swaps.fill_until_near()
    return followed, warm_up(leader, to_seal, jobs, fills)


def _bounded(leader: LeaderView, jobs: Callable[[], JobRunner]) -> Callable[[], JobRunner]:
    """Return ``jobs`` that are given up once writers have waited for as long as they may: a Spark that hangs must not keep them waiting."""
    until = time.monotonic() + leader.seal_seconds
    return lambda: BoundedRunner(jobs(), until, lambda: SealExpired(seconds=leader.seal_seconds))


def _to_seal(leader: LeaderWriter, stages: Sequence[s.Seal]) -> Mapping[CollectionName, ShardId]:
    """Return the shards that the commit replaces or removes. Raises DriftFound, which no try ends: writers are not to wait for that."""
    try:
        return shards_to_seal(leader, stages)
    except DriftFound:
        unseal_all(leader, held_seals(leader))
        raise


def _announced(leader: LeaderWriter, stages: Sequence[s.Seal], allow: Allow) -> tuple[SealIntent, ...]:
    try:
        return announce_seals(leader, _to_seal(leader, stages), allow)
    except Paused:
        unseal_all(leader, held_seals(leader))  # of a run that died: its writers are not to wait for a person
        raise


def _as_committed(leader: LeaderView, moved: Mapping[CollectionName, int], item: EvolvedTable) -> EvolvedTable:
    """Return the collection with what the cut-over's commit made of it: names, and the version if no earlier one began the schema."""
    source = item.step.old.name
    begun = moved.get(source) if item.begun is None else item.begun
    if source not in moved or item.transition is None:
        return replace(item, begun=begun)
    head = head_at(table_store(leader.env, leader.state, head_shard(leader, source)), moved[source])
    names = names_after(leader.state.entry(source), item.transition.changes, head)
    return replace(item, begun=begun, stored_names=dict(names))


def _check_expanded(leader: LeaderWriter) -> list[EvolvedTable]:
    """Check that every commit of expand is still there (a stopped JVM may overwrite a local log late); return what collections end as."""
    state, ends = leader.state, leader.plan.ends
    ending = any(hold.generation in ends for hold in unclosed_holds(state))
    if ending or any(intent.epoch < leader.epoch for intent in state.intents.values()):
        raise not_expanded(leader, None, "what was left open before is not settled")
    creates = leader.plan.of_kind(s.CreateShard)
    places = (leader.env.table_store(new_shard(state, stage.collection, leader.deployment).uri) for stage in creates)
    for stage, new in zip(creates, leader.env.each(head_or_none, places), strict=True):
        if new is None:
            raise not_expanded(leader, stage.collection, "it has no table yet")
    steps = leader.evolutions()
    heads = list(leader.env.each(lambda step: _head(leader, step.old.name), steps))
    leader.refresh()  # what a twin cut over meanwhile is no drift
    return [_evolved_table(leader, step, head) for step, head in zip(steps, heads, strict=True)]


def _evolved_table(leader: LeaderView, step: Evolve, head: Head) -> EvolvedTable:
    """Return an evolved collection as the cut-over leaves it, and its commit. This task looks at its stages and its course only here.

    Raises WrongState, DriftFound.
    """
    source, changes = step.old.name, leader.changes(s.CutOver, step)
    online = online_schedule_of(leader, step)
    if online is not None and not is_changed(leader, online):
        raise _not_changed(leader, source)
    changed = expanded(leader, step) if online is None else online.changed
    swapped = () if online is None or online.swap is None else online.swap.changes
    is_moved = bool(changes or swapped)
    transition = Transition(source, head_shard(leader, source), changed, (*swapped, *changes), swaps=len(swapped)) if is_moved else None
    swap = PlannedSwap(online, transition) if online is not None and transition is not None and swapped else None
    final = changed if transition is None else transition.after
    if not is_in_place(changed, head) and not is_in_place(final, head):
        expand = leader.evolution(step).stage(s.Expand)
        if expand is not None and is_in_place(expand_transition(leader, expand).before, head):
            raise not_expanded(leader, source, "it lacks its expand commit")
        text = "its columns are neither those before nor those after the cut-over"
        raise DriftFound(collection=source, differences=(text,), under_way=True)
    check_not_exchanged(leader.state, head_shard(leader, source), head)
    again = added_in_place(leader.state.entry(source), head)
    if again:  # its rows would be the release's; a rollback is free, and leaves it as drift
        raise DriftFound(collection=source, differences=tuple(map(str, again)), under_way=True)
    names = dict(names_after(leader.state.entry(source), (), head))
    return EvolvedTable(step, final, head.version, _begun_at(leader, source), names, transition, swap)


def _begun_at(leader: LeaderView, collection: CollectionName) -> int | None:
    """Return the first commit of this deployment on the table, if it had any before the cut-over."""
    shard = head_shard(leader, collection)
    expanded = leader.state.transition(shard, IntentKind.EXPAND, leader.generation)
    if expanded is not None and expanded.done_version is not None and _was_committed(leader, expanded):
        return expanded.done_version
    changed = leader.state.intents.get((shard, IntentKind.CHANGE, leader.generation))
    if changed is None:
        return None
    try:
        return first_metadata_version(table_store(leader.env, leader.state, shard), changed.base_version)
    except LogTruncated:  # rather too early than too late, as ``transitions.made_at``
        return changed.base_version + 1


def _was_committed(leader: LeaderView, expanded: TransitionIntent) -> bool:
    """Return whether an expand that is done took a commit: not where the table had by hand all the properties that are declared now."""
    if live_differences(expanded.before, expanded.after):
        return True
    store = table_store(leader.env, leader.state, expanded.shard)
    try:
        return first_metadata_version(store, expanded.base_version, expanded.done_version) is not None
    except LogTruncated:
        return True


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


# --- the one append ------------------------------------------------------------------------------------------------------------------


def _commit(
    leader: LeaderWriter,
    evolved: Sequence[EvolvedTable],
    seals: Sequence[SealIntent],
    made: Mapping[ShardId, int],
    followed: Sequence[CaughtUpRewrite],
    closed: Sequence[BuildingShard],
    swaps: Swaps,
    allow: Allow,
) -> None:
    started, at = time.monotonic(), pendulum.now("UTC")
    versions = leader.env.each(lambda intent: _sealed_version(leader, intent, made.get(intent.shard)), seals)
    sealed = {intent.shard: version for intent, version in zip(seals, versions, strict=True)}

    def decide(state: State) -> list[Update]:
        nonlocal at
        at = pendulum.now("UTC")
        allow(state)
        check_held(state, seals)
        check_time(leader, seals)
        swaps.check(state)
        check_current(leader, state, followed)
        check_closed(state, closed)
        return one_each([*updates_of(leader, state, evolved, seals, sealed), *swaps.forget_force(state)])

    leader.append(decide)
    leader.committed_at = at
    leader.report("commit", None, None, started)


def _sealed_version(leader: LeaderView, intent: SealIntent, made: int | None) -> int:
    """Return the version of a table's seal, which a way back goes to. ``made``: that of a seal by this run.

    Raises SourceTouched if others restored it since.
    """
    store = table_store(leader.env, leader.state, intent.shard)
    head = read_head(store)
    if head.version == made:
        return made
    try:
        version, is_restored = sealed_at(store, intent.base_version)
    except LogTruncated:  # cleaned up since the seal was announced
        version, is_restored = head.version, False
    if is_restored:
        raise SourceTouched(collection=intent.collection, shard=intent.shard)
    return version
