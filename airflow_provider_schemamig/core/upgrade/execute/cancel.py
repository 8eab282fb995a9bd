"""Giving up a generation that was never promoted: nobody but it ever saw what it built."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from airflow_provider_schemamig.core.ledger.history import here
from airflow_provider_schemamig.core.ledger.rows import DeploymentState, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.progress import Listener
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import Outcome, deployment_of, pending_holds
from airflow_provider_schemamig.core.upgrade.errors import WrongState
from airflow_provider_schemamig.core.upgrade.execute.cleanup import Deleted, delete_tables, forget_shards, remove_scratch

_ROLL_BACK = "Its release is in: `schemamig rollback` goes back to the one before while the hold is open."
_OVER = (DeploymentState.CANCELLED, DeploymentState.ROLLED_BACK)


def give_back_claim(env: EnvironmentRoot, seen: State, claim_id: str, listen: Listener) -> Generation | None:
    """Cancel the claim of a run that finds nothing left to do, as another one was faster. Under the same id it may claim again.

    ``seen``: where nothing was left to do; what was claimed since, or has got something to do again, stays. Returns its generation; None
    if there is none to give back. Killed in between, the next call deletes what is left.
    """
    built = {shard.generation for shard in seen.shards.values() if shard.state is ShardState.BUILDING}
    own = [item for item in seen.deployments.values() if item.claim_id == claim_id]
    left = [item.generation for item in own if item.state is DeploymentState.CLAIMED]
    left += [item.generation for item in own if item.state is DeploymentState.CANCELLED and item.generation in built]
    ledger, given_back = LedgerWriter(env), None
    for generation in left:
        state = ledger.transact(functools.partial(_given_back, seen, generation))
        if _is_cancelled(state, generation):
            delete_built(env, ledger, state, generation, listen)
            given_back = generation
    return given_back


def _given_back(seen: State, generation: Generation, state: State) -> Sequence[Update]:
    deployment = deployment_of(state, generation)
    if state.release != seen.release or deployment.state is not DeploymentState.CLAIMED:
        return []
    return [Put(replace(deployment, state=DeploymentState.CANCELLED))]


def _is_cancelled(state: State, generation: Generation) -> bool:
    return deployment_of(state, generation).state is DeploymentState.CANCELLED


def cancel_claim(env: EnvironmentRoot, generation: Generation, listen: Listener) -> Outcome:
    """Cancel a claim: its state first, which copies that still run see, and end; then its files, its rows last.

    Raises WrongState once it was promoted.
    """
    ledger = LedgerWriter(env)

    def give_up(state: State) -> Sequence[Update]:
        deployment = deployment_of(state, generation)
        if deployment.state not in (DeploymentState.CLAIMED, *_OVER):
            raise WrongState(generation=generation, state=deployment.state.value, task="cancel", first=_ROLL_BACK)
        if deployment.state is DeploymentState.ROLLED_BACK or deployment.cancelled_by is not None:
            return []
        return [Put(replace(deployment, state=DeploymentState.CANCELLED, cancelled_by=env.who or here()))]

    deleted = delete_built(env, ledger, ledger.transact(give_up), generation, listen)
    state = ledger.state()
    at = state.release_version  # not the claim's source: one that is over may be of long ago
    return Outcome(at, at, generation, None, deleted.results, pending_holds(state), (*deleted.notes, *_goes_on(state, generation)))


def delete_built(env: EnvironmentRoot, ledger: LedgerWriter, state: State, generation: Generation, listen: Listener) -> Deleted:
    """Delete what an ended generation was building, and then forget it. Raises NotOurPlace."""
    shards = built_by(state, generation)
    deleted = delete_tables(env, state, shards, "cleanup", listen)
    remove_scratch(env, generation)
    ledger.transact(functools.partial(forget_shards, {shard.shard for shard in shards}))
    return deleted


def built_by(state: State, generation: Generation) -> list[Shard]:
    """Return what a generation is still building, or was when it came to its end."""
    return [shard for shard in state.shards.values() if shard.state is ShardState.BUILDING and shard.generation == generation]


def _goes_on(state: State, generation: Generation) -> Iterator[str]:
    """Say which generation goes on under the same claim, after a later plan replaced this one."""
    claim_id = state.deployments[generation].claim_id
    for other in state.deployments.values():
        if other.claim_id == claim_id and other.state is DeploymentState.CLAIMED:
            way = f"`schemamig cancel --generation {other.generation}` gives it up, too"
            yield f"generation {other.generation} was claimed since under the same claim, and goes on: {way}"
