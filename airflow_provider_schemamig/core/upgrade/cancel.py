"""Giving up a generation that was never promoted: nobody but it ever saw what it built."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import DeploymentState, Replacement, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.progress import Event, Listener
from airflow_provider_schemamig.core.upgrade.cleanup import remove_scratch
from airflow_provider_schemamig.core.upgrade.errors import WrongState
from airflow_provider_schemamig.core.upgrade.work import CLAIM_ANEW, Outcome, StageResult, deployment_of

_OVER = (DeploymentState.CANCELLED, DeploymentState.ROLLED_BACK)


def cancel_claim(env: Environment, generation: Generation, listen: Listener) -> Outcome:
    """Refused (WrongState) once it was promoted. The state first: copies that still run see it and end; then files, rows last."""
    ledger = LedgerWriter(env)

    def give_up(state: State) -> Sequence[Update]:
        deployment = deployment_of(state, generation)
        if deployment.state not in (DeploymentState.CLAIMED, *_OVER):
            raise WrongState(generation=generation, state=deployment.state.value, task="cancel", first=CLAIM_ANEW)
        return [Put(replace(deployment, state=DeploymentState.CANCELLED))] if deployment.state is DeploymentState.CLAIMED else []

    state = ledger.transact(give_up)
    shards = [shard for shard in state.shards.values() if shard.state is ShardState.BUILDING and shard.generation == generation]
    results = []
    for number, shard in enumerate(shards, start=1):
        started = time.monotonic()
        env.table_store(shard.uri).delete_tree("")
        results.append(StageResult("cleanup", shard.collection, None, time.monotonic() - started))
        listen(Event("cleanup", shard.collection, number, len(shards)))
    remove_scratch(env, generation)
    gone = {shard.shard for shard in shards}

    def forget(state: State) -> Sequence[Update]:
        updates: list[Update] = [Drop(Shard, shard) for shard in gone if shard in state.shards]
        return updates + [Drop(Replacement, row.key) for row in state.replacements.values() if row.shard in gone]

    ledger.transact(forget)
    deployment = deployment_of(ledger.state(), generation)
    return Outcome(deployment.source, deployment.source, generation, None, tuple(results))
