"""Promotion: the plan is made again, and the leader row taken in the same compare-and-append."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pendulum

from airflow_provider_schemamig.core.delta.commit.fence import Fenced
from airflow_provider_schemamig.core.ledger.nodes import live_nodes
from airflow_provider_schemamig.core.ledger.numbers import next_epoch
from airflow_provider_schemamig.core.ledger.rows import Approval, Deployment, DeploymentState, Leader
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.throttle import check_not_paused
from airflow_provider_schemamig.core.upgrade.context.context import CLAIM_ANEW, deployment_of, plan_of
from airflow_provider_schemamig.core.upgrade.context.pausing import collections_of
from airflow_provider_schemamig.core.upgrade.errors import PlanChanged, WrongState
from airflow_provider_schemamig.core.upgrade.plan.live_tables import read_heads
from airflow_provider_schemamig.core.upgrade.plan.open_holds import HoldOptions
from airflow_provider_schemamig.core.upgrade.plan.planner import Plan, View, build_plan
from airflow_provider_schemamig.core.upgrade.plan.target import fingerprint_reached
from airflow_provider_schemamig.core.upgrade.prepare.build import check_built
from airflow_provider_schemamig.exceptions import raise_refusals


def approve(env: EnvironmentRoot, generation: Generation, digest: str, approved_by: str) -> Approval:
    """Record that a person read plan ``digest`` of ``generation`` and wants it. Refused if that is not the generation's plan."""
    ledger = LedgerWriter(env)
    approval = Approval(generation, digest, approved_by, pendulum.now("UTC"))

    def decide(state: State) -> Sequence[Update]:
        deployment = deployment_of(state, generation)
        if deployment.plan_digest != digest:
            raise PlanChanged(approved=digest, current=deployment.plan_digest)
        known = state.approvals.get(generation)
        return [] if known is not None and known.plan_digest == digest else [Put(approval)]

    ledger.transact(decide)
    return approval


def is_approved(state: State, generation: Generation) -> bool:
    """Return whether the plan that the generation has now was approved."""
    deployment, approval = deployment_of(state, generation), state.approvals.get(generation)
    return approval is not None and approval.plan_digest == deployment.plan_digest


def promote(env: EnvironmentRoot, generation: Generation) -> State:
    """Make ``generation`` the leader. Done already: nothing happens. Another plan than the checked one: ``PlanChanged``.

    Raises Paused.
    """
    ledger = LedgerWriter(env)
    plan = plan_of(env, deployment_of(ledger.state(), generation))
    names = collections_of(plan)

    def decide(state: State) -> Sequence[Update]:
        deployment = deployment_of(state, generation)
        if _is_leader(state, deployment):
            return []
        state.require_current("promote")
        check_not_paused(state, "promote", names)
        _check_plan(env, state, deployment, plan)
        check_built(env, state, deployment, plan)
        epoch = next_epoch(state)
        leader = Leader(generation, epoch, pendulum.now("UTC"))
        return [Put(leader), Put(replace(deployment, state=DeploymentState.PROMOTED))]

    return ledger.transact(decide)


def _is_leader(state: State, deployment: Deployment) -> bool:
    """Return whether the deployment leads already; refused if it never may again."""
    generation, leader = deployment.generation, state.leader
    if leader is not None and leader.generation > generation:
        raise Fenced(what=f"generation {generation}", held_epoch=0, current_epoch=leader.epoch)
    if deployment.state in (DeploymentState.PROMOTED, DeploymentState.COMMITTED):
        return True
    if deployment.state is not DeploymentState.CLAIMED:
        raise WrongState(generation=generation, state=deployment.state.value, task="promote", first=CLAIM_ANEW)
    return False


def _check_plan(env: EnvironmentRoot, state: State, deployment: Deployment, plan: Plan) -> None:
    source = state.release.version if state.release is not None else None
    if source != plan.target.source:
        raise PlanChanged(approved=plan.digest, current=f"from {source}")
    if fingerprint_reached(state, plan.target) != plan.target.fingerprint:
        raise PlanChanged(approved=plan.digest, current="of other tables")
    now = pendulum.now("UTC")
    view = View(state, read_heads(env, state), live_nodes(env, now), now)
    planned = build_plan(plan.target, view, HoldOptions(deployment.end_hold, deployment.ignore_nodes))
    raise_refusals(planned.refusals)
    if not planned.plan.still_is(plan, state):
        raise PlanChanged(approved=plan.digest, current=planned.plan.digest)
