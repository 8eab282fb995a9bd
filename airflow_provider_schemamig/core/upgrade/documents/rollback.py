"""What a rollback would do, before anybody asks for it: where it leads, what stays or is lost, what stands in its way."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.merge.merged import Create, Evolve, MergedStep, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import plan_of
from airflow_provider_schemamig.core.upgrade.documents.deployment import report_of
from airflow_provider_schemamig.core.upgrade.plan.live_tables import consistent_look, drift_of, drift_refusal, read_heads
from airflow_provider_schemamig.core.upgrade.rollback.checks import check_rollback_possible, to_roll_back
from airflow_provider_schemamig.core.upgrade.rollback.left_behind import lossy
from airflow_provider_schemamig.exceptions import Refusal, Refused


def rollback_document(env: EnvironmentRoot) -> dict[str, Any]:
    """Return what a rollback would do now. Raises NothingToRollBack, NoEnvironment. Writes nothing."""
    return consistent_look(LedgerReader(env).state, lambda state: _document(env, state), lambda found: True)


def _document(env: EnvironmentRoot, state: State) -> dict[str, Any]:
    deployment = to_roll_back(state)
    plan, hold = plan_of(env, deployment), state.holds.get(deployment.generation)
    refusals: list[Refusal | Any] = []
    losses: tuple[str, ...] = ()
    if deployment.state is DeploymentState.COMMITTED:
        losses = lossy(env, state, deployment)
        if hold is not None:
            try:
                check_rollback_possible(env, state, deployment, plan, hold)
            except Refused as refused:
                refusals = list(refused.refusals)
            except Refusal as refusal:
                refusals = [refusal]
    drifted = dict(_drifted(env, state, {refusal.collection for refusal in refusals}))
    if deployment.state is DeploymentState.PROMOTED:  # its inverses end where the table is nowhere on its way
        begun = {name for name in drifted if state.intents_of(state.objects[name].shard)}
        refusals += [drift_refusal(state, name, drifted.pop(name)) for name in sorted(begun)]
    told = (report_of(env, deployment) or {}).get("explanations", [])
    explained = {stage["collection"] for stage in told if stage["rollback"]}
    source = deployment.source or "nothing"
    lines = [f"cannot: {refusal}" for refusal in refusals]
    lines += [f"{deployment.target} goes back to {source} (generation {deployment.generation})"]
    lines += [f"{step.collection}: {_does(step)}" for step in plan.target.steps if step.collection not in explained]
    lines += [f"{stage['collection']}: {text}" for stage in told for text in stage["rollback"]]
    lines += [f"would be lost, and goes on only if that is checked below: {text}" for text in losses]
    lines += [f"{name}: drifted, and stays as it is: {'; '.join(found)}" for name, found in drifted.items()]
    return {
        "environment": env.location.uri,
        "generation": int(deployment.generation),
        "from": str(deployment.target),
        "to": None if deployment.source is None else str(deployment.source),
        "lines": list(dict.fromkeys(lines)),
        "losses": list(losses),
        "refusals": [refusal.to_json() for refusal in refusals],
    }


def _drifted(env: EnvironmentRoot, state: State, but: Collection[str | None]) -> Iterator[tuple[CollectionName, tuple[str, ...]]]:
    """Yield the live tables with drift, each with its drift in words. Those of ``but`` are told of already."""
    for name, head in sorted(read_heads(env, state).items()):
        found = drift_of(state, name, head) if head is not None and name not in but else ()
        if found:
            yield name, found


def _does(step: MergedStep) -> str:
    match step:
        case Create():
            return "the new table is sealed and kept for the time of the hold"
        case Evolve():
            return "its columns get the names and the order of before; what came is hidden where rows carry it"
        case Replace():
            return "the old table is unsealed; rows written into the new one stay there"
        case RewriteStep(down=None):
            return "the old table is unsealed; rows written into the new one stay there, for there is no `down`"
        case RewriteStep():
            return "the old table is unsealed, and rows written since are brought back through `down`"
        case Remove():
            return "the old table is unsealed"
