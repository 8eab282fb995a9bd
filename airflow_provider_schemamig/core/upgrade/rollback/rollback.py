"""The way back: before the commit by inverses, after it until contract begins by inverses, seals and one ledger append.

Rolling back raises the epoch, so whatever the generation still has running is fenced from that append on.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pendulum

from airflow_provider_schemamig.core.delta.commit.fence import Fenced
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.leadership import Leadership
from airflow_provider_schemamig.core.ledger.numbers import next_epoch
from airflow_provider_schemamig.core.ledger.objects.known_heads import recall_heads
from airflow_provider_schemamig.core.ledger.rows import (
    Deployment,
    DeploymentState,
    EnvironmentRelease,
    HoldState,
    Intent,
    Object,
    SchemaEntry,
    Shard,
    ShardState,
    UnreleasedChange,
)
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerWriter, Put, Update, one_each
from airflow_provider_schemamig.core.names import CollectionName, Fingerprint, Generation, ShardId
from airflow_provider_schemamig.core.progress import Listener
from airflow_provider_schemamig.core.release.merge.chain import Evolve, Remove
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint, set_fingerprint
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage.errors import NotOurPlace
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.throttle import force_forgotten
from airflow_provider_schemamig.core.upgrade.context.context import (
    LeaderView,
    LeaderWriter,
    Outcome,
    deployment_of,
    keep_fences,
    leading,
    plan_of,
)
from airflow_provider_schemamig.core.upgrade.execute.cancel import built_by
from airflow_provider_schemamig.core.upgrade.execute.cleanup import remove_shards, stale_shards
from airflow_provider_schemamig.core.upgrade.execute.recovery import settle
from airflow_provider_schemamig.core.upgrade.plan.columns.uses import restated_as_before, schemas_rolled_back, uses_since_rollback
from airflow_provider_schemamig.core.upgrade.plan.live_tables import consistent_look
from airflow_provider_schemamig.core.upgrade.plan.unreleased import dropped_before
from airflow_provider_schemamig.core.upgrade.prepare.transfers import RewriteRollback
from airflow_provider_schemamig.core.upgrade.rollback.checks import (
    begun_by,
    check_hold_not_over,
    check_rollback_possible,
    to_roll_back,
)
from airflow_provider_schemamig.core.upgrade.rollback.done_before import cut_off_before, done_before
from airflow_provider_schemamig.core.upgrade.rollback.errors import LossyRollback, NothingToRollBack, another_first
from airflow_provider_schemamig.core.upgrade.rollback.evolutions import (
    RolledBackTables,
    fill_old_columns,
    held_table,
    lossy_casts,
    roll_back_tables,
    source_entry,
    unasked_keys,
)
from airflow_provider_schemamig.core.upgrade.rollback.left_behind import kept_until, lossy, note, rows_came
from airflow_provider_schemamig.core.upgrade.rollback.rewrites import restore_rows_of, warm_up
from airflow_provider_schemamig.core.upgrade.rollback.shard_swaps import (
    ShardSwap,
    announce_swaps,
    check_new_shards,
    check_old_shards,
    hold_again,
    return_to_release,
    rewrites_to_roll_back,
    seal_new_shards,
    shard_swaps,
    unseal_old_shards,
)
from airflow_provider_schemamig.core.upgrade.tables.errors import NotInvertible
from airflow_provider_schemamig.core.upgrade.tables.seals import unseal_leftovers
from airflow_provider_schemamig.exceptions import SchemamigError


def roll_back(
    env: EnvironmentRoot,
    jobs: Callable[[], JobRunner],
    listen: Listener,
    *,
    allow_lossy: bool,
    claim_id: str | None = None,
    generation: Generation | None = None,
    promoted: Generation | None = None,
) -> Outcome:
    """Roll back to the release before.

    Refused once contract has begun, or if rows would be lost and ``allow_lossy`` is not given. ``claim_id``: what is done under it is one
    release back, however often it is asked for; without one every call goes a release further, unless the one before was cut off.
    ``generation``: only this one, and nothing once it is rolled back (UnknownGeneration, NothingToRollBack for another). ``promoted``: only
    this one, and only while it leads and is not committed (Fenced, WrongState).
    """
    started = pendulum.now("UTC")
    ledger = LedgerWriter(env)
    ledger.state().require_current("rollback")
    is_named = claim_id is not None or generation is not None or promoted is not None
    done = done_before(env, ledger, listen, claim_id, generation) if is_named else cut_off_before(env, ledger, listen)
    if done is not None:
        return done
    recall_heads(env)
    found_first: list[Deployment] = []

    def check(state: State) -> Deployment:
        begun = begun_by(state, claim_id, generation) or (None if generation is None else deployment_of(state, generation))
        if begun is not None and begun.state is DeploymentState.ROLLED_BACK:
            return begun
        if begun is None and promoted is None:  # looked at again, it is no other one
            found_first[:] = found_first or [to_roll_back(state)]
            begun = found_first[0]
        return _checked(env, state, jobs, begun, promoted, allow_lossy=allow_lossy)

    deployment = consistent_look(ledger.state, check, lambda found: False)
    try:
        leader = _led(env, ledger, listen, deployment, claim_id)
    except NothingToRollBack:
        done = done_before(env, ledger, listen, claim_id, generation)
        if done is None:
            raise
        return done
    if promoted is None:
        # Killed from here on, nothing else tells that tables may be neither at this release nor at that one, nor who has had no answer.
        note = append_history(env, HistoryEntry.ended("rollback", started, generation=leader.generation, outcome="begun"))
        leader.notes.extend([note] if note else [])
    try:
        keep_fences(leader)
        settle(leader, lambda collection: None, jobs, for_rollback=True, lossy=allow_lossy)
    except BaseException:
        hold_again(leader)
        raise
    if deployment.state is DeploymentState.COMMITTED:
        _roll_back_commit(leader, jobs, allow_lossy)
    else:
        leader.append(lambda state: _closed(state, leader))  # before anything is deleted: nobody goes on with the generation
        leader.notes.append(f"{deployment.target} was never committed: the environment is at {deployment.source}, as before")
        with contextlib.suppress(Fenced):  # who leads by now cleans up
            remove_shards(leader, built_by(leader.state, leader.generation))
            _clean_up_before(leader)
    outcome = leader.outcome()
    return replace(outcome, source=outcome.target, target=outcome.source)


def _checked(
    env: EnvironmentRoot,
    state: State,
    jobs: Callable[[], JobRunner],
    begun: Deployment | None,
    promoted: Generation | None,
    *,
    allow_lossy: bool,
) -> Deployment:
    """Return the deployment that is to be rolled back, before anything is written. ``begun``: what the claim began to roll back, or
    is asked for.

    Raises NothingToRollBack, LossyRollback, and what ``check_rollback_possible`` raises; with ``promoted`` Fenced, WrongState.
    """
    if promoted is not None:
        leading(state, promoted, task="cancel", states=(DeploymentState.PROMOTED,))
    check_hold_not_over(state, begun)
    deployment = to_roll_back(state)
    if begun is not None and begun.generation != deployment.generation:
        raise another_first(deployment, begun.generation)
    if deployment.state is DeploymentState.COMMITTED:
        hold, plan = state.holds[deployment.generation], plan_of(env, deployment)
        check_rollback_possible(env, state, deployment, plan, hold)
        losses = () if allow_lossy else (*lossy(env, state, deployment), *lossy_casts(env, state, plan, hold, jobs))
        if losses:
            raise LossyRollback(losses=losses)
    return deployment


def _led(env: EnvironmentRoot, ledger: LedgerWriter, listen: Listener, deployment: Deployment, claim_id: str | None) -> LeaderWriter:
    """Return the leader of the rollback, under a higher epoch."""
    state = ledger.transact(lambda state: _raise_epoch(state, deployment, claim_id))
    assert state.leader is not None  # just written
    leadership = Leadership(state.leader.generation, state.leader.epoch)
    return LeaderWriter(env, state, state.deployments[deployment.generation], plan_of(env, deployment), leadership, ledger, listen)


def _raise_epoch(state: State, deployment: Deployment, claim_id: str | None) -> Sequence[Update]:
    found = to_roll_back(state)  # again, on the state that is appended to: a contract may have begun meanwhile
    if found.generation != deployment.generation or found.state is not deployment.state:
        raise another_first(found, deployment.generation)
    assert state.leader is not None  # to_roll_back refused otherwise
    updates: list[Update] = [Put(replace(state.leader, epoch=next_epoch(state), since=pendulum.now("UTC")))]
    claims = found.rolled_back_by if claim_id is None else tuple(sorted({*found.rolled_back_by, claim_id}))
    # From here on no task of the generation may begin, nor a contract: it would act under the same epoch.
    updates.append(Put(replace(found, rolled_back_by=claims, rolling_back=found.state is DeploymentState.PROMOTED)))
    if found.state is DeploymentState.COMMITTED:
        updates.append(Put(replace(state.holds[found.generation], state=HoldState.ROLLING_BACK)))
    return updates


def _clean_up_before(leader: LeaderWriter) -> None:
    """Remove what overtaken generations built; no later commit does that.

    What is not ours to delete is left to people: the rollback is done.
    """
    left = [shard for shard in stale_shards(leader.state, leader.generation) if shard.state is ShardState.BUILDING]
    try:
        remove_shards(leader, left)
    except NotOurPlace as refusal:
        leader.notes.append(f"what earlier generations built was not removed: {refusal}")


def _closed(state: State, leader: LeaderView) -> list[Update]:
    evolved = [step for step in leader.plan.target.steps if isinstance(step, Evolve)]
    forgotten = force_forgotten(state, {name for step in evolved for name in (step.old.name, step.collection)})
    return [*forgotten, Put(replace(state.deployments[leader.generation], state=DeploymentState.ROLLED_BACK, rolling_back=False))]


# --- after the commit ----------------------------------------------------------------------------------------------------------------


def _roll_back_commit(leader: LeaderWriter, jobs: Callable[[], JobRunner], allow_lossy: bool) -> None:
    started = time.monotonic()
    _restore(leader, jobs, allow_lossy)
    leader.notes.extend(unasked_keys(leader, leader.plan))  # while nobody waits
    swaps = announce_swaps(leader, shard_swaps(leader))
    rewrites = rewrites_to_roll_back(leader, swaps)
    try:
        warm_up(leader, rewrites, jobs)
        closed = time.monotonic()
        rolled_back, sealed = _while_sealed(leader, swaps, rewrites, jobs, allow_lossy)
        kept = _left_behind(leader, list(sealed))
        unseal_leftovers(leader)
    except BaseException:
        # Nobody is to wait for the next try. What went back already is known to the old shard's log.
        return_to_release(leader, swaps)
        raise
    until = kept_until(leader.deployment)
    leader.append(lambda state: _flip(leader, state, rolled_back, swaps, sealed, until if kept else None))
    leader.notes.extend(note(leader.env, leader.state, leader.deployment, kept, until))
    leader.notes.extend(f"{rewrite.step.collection}: writers were blocked for {time.monotonic() - closed:.1f} s" for rewrite in rewrites)
    leader.report("rollback", None, None, started)


def _left_behind(leader: LeaderView, sealed: Sequence[ShardId]) -> frozenset[ShardId]:
    """Return those of the release's own tables in which rows stay."""
    came = leader.env.each(lambda shard: rows_came(leader.env, leader.state, leader.deployment, shard), sealed)
    return frozenset(shard for shard, is_kept in zip(sealed, came, strict=True) if is_kept)


def _while_sealed(
    leader: LeaderWriter, swaps: Sequence[ShardSwap], rewrites: Sequence[RewriteRollback], jobs: Callable[[], JobRunner], allow_lossy: bool
) -> tuple[RolledBackTables, dict[ShardId, int]]:
    """Seal the new shards, bring their rows into the old ones, and roll all other tables back. Return these, and the versions at which the
    new shards are sealed.

    Raises LossyRollback, as rows may have come in between the first look and the seals, and what ``restore_rows_of`` and
    ``roll_back_tables`` raise."""
    seal_new_shards(leader, swaps)
    losses = () if allow_lossy else lossy(leader.env, leader.state, leader.deployment)
    if losses:
        raise LossyRollback(losses=losses)
    rewritten = [swap for swap in swaps if any(rewrite.old == swap.old for rewrite in rewrites)]
    unseal_old_shards(leader, rewritten, rewrites)
    restored = restore_rows_of(leader, rewrites, jobs)
    unseal_old_shards(leader, swaps, ())
    check_new_shards(leader, swaps, restored)
    check_old_shards(leader, rewritten)
    rolled_back = roll_back_tables(leader, jobs, lossy=allow_lossy)
    return rolled_back, check_new_shards(leader, swaps, restored)


def _restore(leader: LeaderWriter, jobs: Callable[[], JobRunner], allow_lossy: bool) -> None:
    """Bring the rows back; whatever this raises, the release is as it was.

    Raises LossyRollback for a value that came between the first look and now, NotInvertible for one that NULL cannot stand for.
    """
    try:
        fill_old_columns(leader, jobs, lossy=allow_lossy)
    except SchemamigError as error:
        return_to_release(leader, ())
        if not isinstance(error, NotInvertible):
            raise
        stays = error
        if allow_lossy:  # a CHECK that NULL breaks
            raise
        raise LossyRollback(losses=(f"{stays.collection}: {stays.reason}",)) from stays


def _flip(
    leader: LeaderWriter,
    state: State,
    rolled_back: RolledBackTables,
    swaps: Sequence[ShardSwap],
    sealed: Mapping[ShardId, int],
    until: pendulum.DateTime | None,
) -> list[Update]:
    """Return the updates of the ONE append back to the source release. ``until``: of rows that stay behind, if any."""
    updates: list[Update] = []
    hold, goal = state.holds[leader.generation], state.release_set()
    evolved = [step for step in leader.plan.target.steps if isinstance(step, Evolve)]
    for step in evolved:  # all names first: collections may have changed theirs with each other
        goal.pop(step.collection, None)
    for step in evolved:
        updates += _unevolved(leader, state, step, rolled_back, goal)
    for swap in swaps:
        updates += _swapped(leader, state, swap, goal, sealed)
    updates += restated_as_before(state, hold, goal)
    old = {swap.collection for swap in swaps}
    for gone in (step for step in leader.plan.target.steps if isinstance(step, Remove) and step.collection not in old):
        updates.append(Put(dropped_before(state, gone, leader.epoch)))
        goal[gone.collection] = fingerprint(gone.old)
    source, name = leader.deployment.source, leader.plan.target.name
    assert source is not None  # to_roll_back refused otherwise
    reached = leader.plan.target.fingerprint if leader.plan.target.ahead else set_fingerprint(goal)
    passed = tuple((version, digest) for version, digest in leader.plan.target.passed if version <= source)
    updates.append(Put(EnvironmentRelease(name, source, reached, passed)))
    over = replace(hold, state=HoldState.CLOSED)
    updates.append(Put(over if until is None else replace(hold, state=HoldState.KEEPING, until=until, tables=(), restated=())))
    updates += [Drop(Intent, intent.key) for intent in state.intents.values() if intent.generation == leader.generation]
    return one_each(updates + schemas_rolled_back(state, leader.plan, leader.generation) + _closed(state, leader))


def _unevolved(
    leader: LeaderView,
    state: State,
    step: Evolve,
    rolled_back: RolledBackTables,
    goal: dict[CollectionName, Fingerprint],
) -> list[Update]:
    source = step.old.name
    known = state.objects[step.collection]
    physical = rolled_back.physical.get(step.collection, state.entry(step.collection).physical)
    since = rolled_back.versions.get(step.collection, state.entry(step.collection).since_table_version)
    old = source_entry(state, held_table(state, state.holds[leader.generation], source))
    schema_id = state.next_schema_id(source)
    unreleased = state.unreleased.get((source, old.schema_id))
    release = old.release if leader.plan.target.ahead or unreleased else old.release or leader.deployment.source
    physical, names = replace(physical, name=source), rolled_back.names[step.collection]
    uses = uses_since_rollback(state, state.entry(step.collection), old.declared, physical, names, rolled_back.versions[step.collection])
    entry = SchemaEntry(source, schema_id, known.shard, old.declared, physical, since, release, names, uses)
    item = Object(source, known.shard, old.schema_id, fingerprint(old.declared))
    goal |= state.released(item)
    updates: list[Update] = [Put(entry), Put(replace(item, schema_id=schema_id))]
    updates += [Put(replace(unreleased, schema_id=schema_id))] if unreleased is not None else []
    if source != step.collection:
        updates += [Drop(Object, step.collection), Put(replace(state.shards[known.shard], collection=source))]
    return updates


def _swapped(
    leader: LeaderView, state: State, swap: ShardSwap, goal: dict[CollectionName, Fingerprint], sealed: Mapping[ShardId, int]
) -> list[Update]:
    updates: list[Update] = []
    if swap.now is not None and swap.now in state.shards:
        retired: Shard = replace(
            state.shards[swap.now],
            state=ShardState.RETIRED,
            retired_by=leader.generation,
            successor=swap.old,
            sealed_version=sealed.get(swap.now),
        )
        updates.append(Put(retired))
    if swap.old is None or swap.old_name is None or swap.old_name != swap.collection:
        goal.pop(swap.collection, None)
        updates += [Drop(Object, swap.collection)] if swap.collection in state.objects else []
    if swap.old is None or swap.old_name is None:
        return updates
    entry = source_entry(state, held_table(state, state.holds[leader.generation], swap.old_name))
    item = Object(swap.old_name, swap.old, entry.schema_id, fingerprint(entry.declared))
    goal |= state.released(item)
    updates += [Drop(UnreleasedChange, row.key) for row in state.dropped.values() if row.collection == swap.old_name]
    old = replace(state.shards[swap.old], state=ShardState.LIVE, retired_by=None, successor=None, sealed_version=None)
    return [*updates, Put(old), Put(item)]
