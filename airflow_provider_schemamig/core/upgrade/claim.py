"""Claiming a generation: the one thing read-only mode writes about a deployment before it is promoted (DESIGN section 4, seed 000)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pendulum

from airflow_provider_schemamig.core.ledger.rows import Deployment, DeploymentState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.plan import Plan

_OPEN = (DeploymentState.CLAIMED, DeploymentState.PROMOTED)


@dataclass(frozen=True, slots=True)
class Claim:
    """How to claim. ``claim_id``: Airflow's dag and run id, so that a retry finds its generation; None: the newest open
    deployment of the same plan is resumed. ``fresh_id`` names a new one then."""

    claim_id: str | None
    fresh_id: str
    hold: timedelta
    end_hold: bool
    now: pendulum.DateTime


def claim(ledger: LedgerWriter, plan: Plan, request: Claim) -> Deployment:
    """The deployment this attempt belongs to: its own earlier claim, else a new generation. Safe to repeat and to race.

    A generation has one plan for ever, because what it built was built for that. A claim whose plan is another now (the release was
    edited, the lake went on) is cancelled, and a new one made.
    """
    claimed: list[Deployment] = []

    def decide(state: State) -> Sequence[Update]:
        known = _own_claim(state, plan, request)
        if known is not None and known.plan_digest == plan.digest:
            claimed[:] = [known]
            return []
        deployment = _deployment(state, plan, request)
        claimed[:] = [deployment]
        if known is not None and known.state is DeploymentState.CLAIMED:
            return [Put(replace(known, state=DeploymentState.CANCELLED)), Put(deployment)]
        return [Put(deployment)]

    ledger.transact(decide)
    return claimed[0]


def _own_claim(state: State, plan: Plan, request: Claim) -> Deployment | None:
    leader = state.leader.generation if state.leader is not None else 0
    candidates = [
        deployment
        for _, deployment in sorted(state.deployments.items(), reverse=True)
        if deployment.state in _OPEN and deployment.generation >= leader
    ]
    for deployment in candidates:
        if request.claim_id is not None and deployment.claim_id == request.claim_id:
            return deployment
        if request.claim_id is None and deployment.plan_digest == plan.digest:
            return deployment
    return None


def _deployment(state: State, plan: Plan, request: Claim) -> Deployment:
    return Deployment(
        generation=Generation(max(state.deployments, default=0) + 1),
        claim_id=request.claim_id or request.fresh_id,
        source=plan.target.source,
        target=plan.target.version,
        plan_digest=plan.digest,
        state=DeploymentState.CLAIMED,
        created_at=request.now,
        hold_seconds=int(request.hold.total_seconds()),
        end_hold=request.end_hold,
    )
