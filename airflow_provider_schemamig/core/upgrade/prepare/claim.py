"""Claiming a generation: the one thing read-only mode writes about a deployment before it is promoted."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pendulum

from airflow_provider_schemamig.core.ledger.numbers import next_generation
from airflow_provider_schemamig.core.ledger.objects.plan_store import read_plan
from airflow_provider_schemamig.core.ledger.rows import Deployment, DeploymentState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import check_label
from airflow_provider_schemamig.core.times import LONGEST_HOURS, check_range
from airflow_provider_schemamig.core.upgrade.context.context import CLAIM_ANEW, ends_rollback
from airflow_provider_schemamig.core.upgrade.errors import EnvironmentMoved, WrongState
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import KEEP_HOLDS, HoldOptions, begun_rollbacks
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan

#: How long the way back stays open, if nobody says anything else.
DEFAULT_HOLD = timedelta(hours=24)
_OPEN = (DeploymentState.CLAIMED, DeploymentState.PROMOTED)
_UNDER_CLAIM = "an upgrade under its claim"


@dataclass(frozen=True, slots=True)
class Claim:
    """How a deployment is to be claimed. ``claim_id``: Airflow's dag and run id, so that a retry finds its generation; None: the newest
    open one with the same plan is resumed. ``hold`` None: what an earlier try asked for, else a day. Raises InvalidName for an id that is
    empty, or holds a credential; OutOfRange for the hold."""

    claim_id: str | None = None
    hold: timedelta | None = None
    holds: HoldOptions = KEEP_HOLDS

    def __post_init__(self) -> None:
        if self.claim_id is not None:
            check_label("claim", self.claim_id)
        hours = self.kept / timedelta(hours=1)
        check_range("a hold", int(hours) if hours.is_integer() else hours, "hours", 0, LONGEST_HOURS)

    @property
    def kept(self) -> timedelta:
        """Return for how long the way back of a new claim stays open."""
        return DEFAULT_HOLD if self.hold is None else self.hold

    @property
    def hold_seconds(self) -> int:
        return int(self.kept.total_seconds())


def claim(ledger: LedgerWriter, plan: Plan, request: Claim, now: pendulum.DateTime) -> Deployment:
    """Return the deployment this attempt belongs to: its own earlier claim, else a new generation. Safe to repeat and to race.

    A generation has one plan for ever, because what it built was built for that. A claim whose plan is another now (the release was
    edited, the lake went on), or was rejected, is cancelled, and a new one made. Raises EnvironmentMoved: the plan does not start where
    the environment is.
    """
    claimed: list[Deployment] = []
    claim_id = request.claim_id or str(uuid.uuid4())

    def decide(state: State) -> Sequence[Update]:
        _check_readable(state)
        _check_not_taken_back(state, request)
        _check_source(state, plan)
        known = _own_claim(ledger, state, plan, request)
        if known is not None and _goes_on(ledger, state, known, plan):
            claimed[:] = [_as_asked_now(state, known, request)]
            return [] if claimed == [known] else [Put(claimed[0])]
        deployment = Deployment(
            generation=next_generation(state),
            claim_id=claim_id,
            source=plan.target.source,
            target=plan.target.version,
            plan_digest=plan.digest,
            state=DeploymentState.CLAIMED,
            created_at=now,
            hold_seconds=request.hold_seconds,
            end_hold=request.holds.end_hold,
            ignore_nodes=request.holds.ignore_nodes,
        )
        claimed[:] = [deployment]
        if known is not None and known.state is DeploymentState.CLAIMED:
            return [Put(replace(known, state=DeploymentState.CANCELLED)), Put(deployment)]
        return [Put(deployment)]

    ledger.transact(decide)
    return claimed[0]


def _as_asked_now(state: State, known: Deployment, request: Claim) -> Deployment:
    """Return a claim with the longer of its hold and the one asked for now, and with what is asked for now about live nodes.

    A way back that somebody was told of never gets shorter. What nodes need is looked at now, so only who asks now can pass over it; and
    not for somebody else, who had it approved without that.
    """
    if known.state is not DeploymentState.CLAIMED:  # from promotion on its leader writes the row
        return known
    may_ignore = known.ignore_nodes or known.generation not in state.approvals
    ignores = request.holds.ignore_nodes and may_ignore
    kept = known.hold_seconds if request.hold is None else max(known.hold_seconds, request.hold_seconds)
    return replace(known, hold_seconds=kept, ignore_nodes=ignores)


def as_claimed(ledger: LedgerReader, state: State | None, plan: Plan, request: Claim) -> Claim:
    """Return the request with the hold of an earlier try's claim: a plan is judged by that one."""
    known = None if state is None or plan.is_empty else _own_claim(ledger, state, plan, request)
    if state is None or known is None or not _goes_on(ledger, state, known, plan):
        return request
    return replace(request, hold=timedelta(seconds=_as_asked_now(state, known, request).hold_seconds))


def other_hold(deployment: Deployment, request: Claim) -> tuple[str, ...]:
    """Return a note if the way back of a claim that goes on is another one than is asked for now, or than is usual."""
    if deployment.hold_seconds == request.hold_seconds:
        return ()
    kept, asked = (_words(seconds) for seconds in (deployment.hold_seconds, request.hold_seconds))
    unless = f", and not for {asked}" if request.hold is not None else ""
    return (f"the way back is kept for {kept}, as generation {deployment.generation} was claimed for{unless}",)


def _words(seconds: int) -> str:
    return pendulum.duration(seconds=seconds).in_words() if seconds else "no time"


def _check_readable(state: State) -> None:
    """Raise LedgerDamaged for a row that only the work after the claim reads: a repair is refused while somebody holds a claim."""
    for rows in (state.controls, state.pins, state.holds):
        tuple(rows.values())


def _check_not_taken_back(state: State, request: Claim) -> None:
    """Raise WrongState for a claim whose deployment was rolled back or cancelled, or is about to be: a retry does not do again what a
    person took back.

    What a cleanup cancelled, because a later deployment went past it, or a claim of another plan did may be claimed again.
    """
    own = [deployment for deployment in state.deployments.values() if deployment.claim_id == request.claim_id]
    newest = max((deployment.generation for deployment in own), default=None)
    for found in own:
        if _is_rolling_back(state, found):
            raise WrongState(
                generation=found.generation, state="being rolled back", task=_UNDER_CLAIM, first=ends_rollback(state, found.generation)
            )
        if found.state is DeploymentState.ROLLED_BACK:
            raise WrongState(generation=found.generation, state="rolled back", task=_UNDER_CLAIM, first=CLAIM_ANEW)
        if found.rolling_back or (found.generation == newest and found.cancelled_by is not None):
            raise WrongState(generation=found.generation, state="cancelled", task=_UNDER_CLAIM, first=CLAIM_ANEW)


def _is_rolling_back(state: State, deployment: Deployment) -> bool:
    """Return whether a rollback of it has begun and can go on. None can after another generation has taken the lead before its commit."""
    leads = state.leader is not None and state.leader.generation == deployment.generation
    return (leads and deployment.rolling_back) or any(hold.generation == deployment.generation for hold in begun_rollbacks(state))


def _check_source(state: State, plan: Plan) -> None:
    """Raise EnvironmentMoved if another process committed or rolled back a release since the plan was made."""
    current, planned = state.release_version, plan.target.source
    if current != planned:
        raise EnvironmentMoved(planned=str(planned or "none"), current=str(current or "none"))


def _goes_on(ledger: LedgerReader, state: State, known: Deployment, plan: Plan) -> bool:
    """Return whether an earlier try's claim is taken up: nobody has rejected it, and its plan is this one."""
    return known.rejected is None and _has_plan(ledger, state, known, plan)


def _has_plan(ledger: LedgerReader, state: State, known: Deployment, plan: Plan) -> bool:
    """Return whether a claim has this plan, also if holds that it was to end have ended since."""
    if known.plan_digest == plan.digest:
        return True
    return known.end_hold and plan.still_is(Plan.from_document(read_plan(ledger.env, known.plan_digest)), state)


def _own_claim(ledger: LedgerReader, state: State, plan: Plan, request: Claim) -> Deployment | None:
    leader = state.leader.generation if state.leader is not None else 0
    candidates = [
        deployment
        for _, deployment in sorted(state.deployments.items(), reverse=True)
        if deployment.state in _OPEN and deployment.generation >= leader
    ]
    for deployment in candidates:
        if request.claim_id is not None and deployment.claim_id == request.claim_id:
            return deployment
        if request.claim_id is None and _has_plan(ledger, state, deployment, plan):
            return deployment
    return None
