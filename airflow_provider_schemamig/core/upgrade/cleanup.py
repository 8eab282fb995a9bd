"""Clean-up of stale deploy generations: what *earlier* generations built and nothing references (seed 000). Failing is harmless."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_schemamig.core.ledger.rows import DeploymentState, Intent, Replacement, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, Put, Update
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.plan import open_holds
from airflow_provider_schemamig.core.upgrade.tables import table_store
from airflow_provider_schemamig.core.upgrade.work import Work

_UNFINISHED = (DeploymentState.CLAIMED, DeploymentState.PROMOTED)


def clean_up(work: Work) -> None:
    """Later generations are never touched."""
    remove_shards(work, stale_shards(work.state, work.generation), "cleanup")

    def forget(state: State) -> list[Update]:
        held = {hold.generation for hold in open_holds(state)}  # a rollback needs to know what they built
        rows = [row for row in state.replacements.values() if row.generation < work.generation and row.generation not in held]
        updates: list[Update] = [Drop(Replacement, row.key) for row in rows]
        updates += [
            Put(replace(deployment, state=DeploymentState.CANCELLED))
            for deployment in state.deployments.values()
            if deployment.generation < work.generation and deployment.state in _UNFINISHED
        ]
        return updates

    work.append(forget)


def remove_shards(work: Work, shards: Sequence[Shard], kind: str) -> None:
    """Files first, rows after: a crash in between is found and finished by the next clean-up."""
    for number, shard in enumerate(shards, start=1):
        started = time.monotonic()
        table_store(work.env, work.state, shard.shard).delete_tree("")
        work.report(kind, shard.collection, None, started, number, len(shards))
    gone = {shard.shard for shard in shards}

    def forget(state: State) -> list[Update]:
        updates: list[Update] = [Drop(Shard, shard) for shard in gone if shard in state.shards]
        updates += [Drop(Replacement, row.key) for row in state.replacements.values() if row.shard in gone]
        return updates + [Drop(Intent, intent.key) for intent in state.intents.values() if intent.shard in gone]

    if gone:
        work.append(forget)


def stale_shards(state: State, generation: Generation) -> tuple[Shard, ...]:
    """Shards that an earlier generation was building when it ended, and that no object points at."""
    used = {item.shard for item in state.objects.values()}
    return tuple(
        shard
        for _, shard in sorted(state.shards.items())
        if shard.state is ShardState.BUILDING and shard.generation < generation and shard.shard not in used and not shard.adopted
    )
