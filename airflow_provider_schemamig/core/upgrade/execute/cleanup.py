"""Clean-up of stale deploy generations: what *earlier* generations built and nothing references. Failing is harmless."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.ledger.rows import BuildingShard, DeploymentState, HoldState, Intent, Pin, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, Put, Update
from airflow_provider_schemamig.core.names import Generation, ShardId
from airflow_provider_schemamig.core.progress import Event, Listener
from airflow_provider_schemamig.core.storage.own_places import SCRATCH
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.deletion import check_deletable, delete_table, left_alone, left_note
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter, StageResult
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import open_holds
from airflow_provider_schemamig.core.upgrade.plan.stages import Copy
from airflow_provider_schemamig.core.upgrade.tables.pins import release_pin

_UNFINISHED = (DeploymentState.CLAIMED, DeploymentState.PROMOTED)


def clean_up(leader: LeaderWriter) -> None:
    """Remove what this generation and earlier ones left; later generations are never touched."""
    stale = stale_shards(leader.state, leader.generation)
    for generation in sorted({*(shard.generation for shard in (*stale, *_copied(leader))), *_ended_since(leader)}):
        remove_scratch(leader.env, generation)
    remove_shards(leader, stale)

    def forget(state: State) -> list[Update]:
        held = {hold.generation for hold in open_holds(state)}  # a rollback needs to know what they built
        rows = [row for row in state.replacements.values() if row.generation < leader.generation and row.generation not in held]
        updates: list[Update] = [Drop(BuildingShard, row.key) for row in rows]
        updates += [
            Put(replace(deployment, state=DeploymentState.CANCELLED))
            for deployment in state.deployments.values()
            if deployment.generation < leader.generation and deployment.state in _UNFINISHED
        ]
        return updates

    leader.append(forget)
    for pinned in list(leader.state.pins.values()):
        if _is_left_behind(leader.state, pinned, leader.generation):
            release_pin(leader.env, leader.ledger, pinned)


def _is_left_behind(state: State, pinned: Pin, generation: Generation) -> bool:
    """Return whether a pin is a generation's that is over, or its table is gone; a person's stays until the person takes it back."""
    if pinned.shard not in state.shards:
        return True
    return pinned.holder in {str(known) for known in state.deployments if known <= generation}


def remove_scratch(env: EnvironmentRoot, generation: Generation) -> None:
    """Remove what killed statements of a generation left of their scratch tables."""
    env.store().delete_tree(f"{SCRATCH}/{generation}")


def _ended_since(leader: LeaderView) -> list[Generation]:
    """Return the generations since the last release before this one; some of them may have left nothing else.

    The cleanup of that release took care of those before it.
    """
    earlier = [known for known in leader.state.deployments.values() if known.generation < leader.generation]
    last = max((known.generation for known in earlier if known.state is DeploymentState.COMMITTED), default=0)
    return [known.generation for known in earlier if known.generation >= last]


def _copied(leader: LeaderView) -> list[Shard]:
    """Return the shards that this generation copied: a killed copy leaves scratch tables."""
    rows = [row for row in leader.state.replacements.values() if row.generation == leader.generation]
    return [leader.state.shards[row.shard] for row in rows if row.shard in leader.state.shards and leader.plan.of_kind(Copy)]


def remove_shards(leader: LeaderWriter, shards: Sequence[Shard]) -> None:
    """Remove the files, and after them the rows: a crash in between is found and finished by the next cleanup."""
    deleted = delete_tables(leader.env, leader.state, shards, "cleanup", leader.listen)
    leader.results += deleted.results
    leader.notes += deleted.notes
    if shards:
        leader.append(functools.partial(forget_shards, {shard.shard for shard in shards}))


@dataclass(frozen=True, slots=True)
class Deleted:
    """``notes``: the tables that are left where they are."""

    results: tuple[StageResult, ...]
    notes: tuple[str, ...]


def delete_tables(env: EnvironmentRoot, state: State, shards: Sequence[Shard], kind: str, listen: Listener) -> Deleted:
    """Delete the files of ``shards``; their rows stay until ``forget_shards``. Raises NotOurPlace before the first is deleted."""
    check_deletable(env, state, shards)
    left = left_alone(env, state, shards)

    def delete(shard: Shard) -> None:
        if shard.shard not in left:
            delete_table(env, shard)

    results, told_at = [], time.monotonic()
    with contextlib.closing(env.each(delete, shards)) as deleted:
        for number, (shard, _) in enumerate(zip(shards, deleted, strict=True), start=1):
            seconds, told_at = time.monotonic() - told_at, time.monotonic()  # side by side they share it, as of ``LeaderWriter.report``
            results.append(StageResult(kind, shard.collection, None, seconds))
            listen(Event(kind, shard.collection, number, len(shards), seconds))
    return Deleted(tuple(results), tuple(left_note(shard, left[shard.shard]) for shard in shards if shard.shard in left))


def forget_shards(gone: Set[ShardId], state: State) -> list[Update]:
    """Return the updates that drop the rows of deleted shards, with their building rows and intents."""
    updates: list[Update] = [Drop(Shard, shard) for shard in gone if shard in state.shards]
    updates += [Drop(BuildingShard, row.key) for row in state.replacements.values() if row.shard in gone]
    return updates + [Drop(Intent, intent.key) for intent in state.intents.values() if intent.shard in gone]


def stale_shards(state: State, generation: Generation) -> tuple[Shard, ...]:
    """Return the shards of ended generations that no object points at.

    Such a generation was building them, or brought them and took them back. Of this generation, whose release is in, those that it gave up
    for another (a process that died in between left them).
    """
    used = {item.shard for item in state.objects.values()}
    used |= {row.shard for row in state.replacements.values() if row.generation == generation}
    return tuple(
        shard
        for _, shard in sorted(state.shards.items())
        if shard.generation <= generation and shard.shard not in used and not shard.adopted and _is_stale(state, shard)
    )


def _is_stale(state: State, shard: Shard) -> bool:
    if shard.state is ShardState.RETIRED and shard.retired_by == shard.generation:  # its own rollback took it back
        hold = state.holds.get(shard.generation)
        kept = hold is not None and hold.state is not HoldState.CLOSED  # its users wrote into it, or into another one beside it
        return state.deployments[shard.generation].state is DeploymentState.ROLLED_BACK and not kept
    return shard.state is ShardState.BUILDING
