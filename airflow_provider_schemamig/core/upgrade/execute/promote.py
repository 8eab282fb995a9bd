"""Promotion: the plan is made again, and the leader row taken in the same compare-and-append."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pendulum

from airflow_provider_schemamig import __version__
from airflow_provider_schemamig.core.ledger.leadership import overtaken
from airflow_provider_schemamig.core.ledger.numbers import next_epoch
from airflow_provider_schemamig.core.ledger.objects.nodes import live_nodes
from airflow_provider_schemamig.core.ledger.rows import Approval, Deployment, DeploymentState, Leader, Rejection
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import Epoch, Generation
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.times import minute_of
from airflow_provider_schemamig.core.transfer.throttle import check_not_paused
from airflow_provider_schemamig.core.upgrade.context.context import (
    CLAIM_ANEW,
    deployment_of,
    ends_rollback,
    only_settles,
    plan_of,
)
from airflow_provider_schemamig.core.upgrade.context.pausing import collections_of
from airflow_provider_schemamig.core.upgrade.errors import PlanChanged, PlanRejected, WrongState
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import HoldOptions
from airflow_provider_schemamig.core.upgrade.plan.live_tables import read_heads
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.planner import View, build_plan
from airflow_provider_schemamig.core.upgrade.plan.target import fingerprint_reached
from airflow_provider_schemamig.core.upgrade.prepare.build import check_built
from airflow_provider_schemamig.exceptions import SchemamigError, raise_refusals

#: How many digits of a digest are shown to people: so many tell one plan of a generation from another.
_SHOWN = 12
_ROLL_BACK = (
    "It is past its gate: `schemamig cancel --generation {}` takes it back while it is promoted, `schemamig rollback` once it is committed."
)


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """A yes that was given elsewhere. ``plan``: the digest of what was asked about, None where the gate does not say. ``rejected_at``: of
    the no that stood when it asked anew: any other one is the last word."""

    by: str
    plan: str | None
    rejected_at: pendulum.DateTime | None


def approve(
    env: EnvironmentRoot, generation: Generation, digest: str, approved_by: str, *, rejected_at: pendulum.DateTime | None = None
) -> Approval:
    """Record that a person read plan ``digest`` of ``generation`` and wants it. Refused if that is another plan, or it is over.

    The beginning that status, report and logs show of it will do. A rejected one is refused, too, unless its gate asks again, and knew
    of that no (``rejected_at``) when it did.
    """
    ledger, approved_at = LedgerWriter(env), pendulum.now("UTC")

    def decide(state: State) -> Sequence[Update]:
        deployment = deployment_of(state, generation)
        current = deployment.plan_digest
        if deployment.state not in (DeploymentState.CLAIMED, DeploymentState.PROMOTED):
            raise WrongState(generation=generation, state=deployment.state.value, task="approve", first=CLAIM_ANEW)
        _check_digest(deployment, digest)
        check_not_rejected(deployment, rejected_at)
        if deployment.rejected is not None:
            return [Put(replace(deployment, rejected=None)), Put(Approval(generation, current, approved_by, approved_at))]
        known = state.approvals.get(generation)
        return [] if known is not None and known.plan_digest == current else [Put(Approval(generation, current, approved_by, approved_at))]

    state = ledger.transact(decide)
    return Approval(generation, deployment_of(state, generation).plan_digest, approved_by, approved_at)


def reject(
    env: EnvironmentRoot,
    generation: Generation,
    digest: str,
    rejected: Rejection,
    *,
    at_gate: bool = False,
    rejected_at: pendulum.DateTime | None = None,
) -> Deployment:
    """Record that a person does not want plan ``digest`` of ``generation``, unless the generation is over.

    ``at_gate``: it is the answer to a gate, which knew of the no of ``rejected_at`` when it asked (None: of none); one that was recorded
    since then is this one, from our page. Raises WrongState once it was promoted, PlanChanged where the plan is another one.
    """

    def decide(state: State) -> Sequence[Update]:
        deployment = deployment_of(state, generation)
        if deployment.state in (DeploymentState.PROMOTED, DeploymentState.COMMITTED):
            raise WrongState(generation=generation, state=deployment.state.value, task="reject", first=_ROLL_BACK.format(generation))
        _check_digest(deployment, digest)
        if deployment.state is not DeploymentState.CLAIMED:
            return []
        stands = deployment.rejected
        no = stands if at_gate and stands is not None and stands.at != rejected_at else rejected
        return _now_rejected(deployment, replace(no, met=at_gate))

    return deployment_of(LedgerWriter(env).transact(decide), generation)


def meet_rejection(env: EnvironmentRoot, generation: Generation) -> Rejection | None:
    """Return the rejection of a generation's plan, for a gate that begins to ask anew; None if there is none.

    Raises PlanRejected where no gate has ended by it yet: that one does, and who has it ask again knows of it. It is noted that it has.
    """
    ledger = LedgerWriter(env)
    before = deployment_of(ledger.state(), generation)
    if before.rejected is not None and not before.rejected.met:
        _note_met(ledger, generation, before.rejected)
        check_not_rejected(before)
    return before.rejected


def _note_met(ledger: LedgerWriter, generation: Generation, no: Rejection | None) -> None:
    """Note that a gate, or the promotion after it, has ended by this very no, if it still stands: nobody was told of a later one."""

    def decide(state: State) -> Sequence[Update]:
        deployment = deployment_of(state, generation)
        return [] if no is None or deployment.rejected != no else _now_rejected(deployment, replace(no, met=True))

    ledger.transact(decide)


def _now_rejected(deployment: Deployment, no: Rejection) -> list[Update]:
    return [] if deployment.rejected == no else [Put(replace(deployment, rejected=no))]


def _check_digest(deployment: Deployment, digest: str) -> None:
    """Raise PlanChanged unless ``digest`` is that of the plan, or as much of it as people are shown."""
    current = deployment.plan_digest
    if not (current.startswith(digest) and len(digest) >= _SHOWN):
        raise PlanChanged(approved=digest, current=current, generation=deployment.generation)


def check_not_rejected(deployment: Deployment, rejected_at: pendulum.DateTime | None = None) -> None:
    """Raise PlanRejected where the last word on its plan was a no. ``rejected_at``: of a no after which its gate has asked again.

    No two times are compared by which is later, because they may be of two machines.
    """
    no = deployment.rejected
    if no is not None and no.at != rejected_at:
        at = minute_of(no.at.isoformat())
        raise PlanRejected(generation=deployment.generation, plan=deployment.plan_digest, by=no.by, at=at, why=no.why)


def is_approved(state: State, generation: Generation) -> bool:
    """Return whether the plan that the generation has now was approved. Raises PlanRejected where it was rejected since."""
    deployment, approval = deployment_of(state, generation), state.approvals.get(generation)
    check_not_rejected(deployment)
    return approval is not None and approval.plan_digest == deployment.plan_digest


def promote(
    env: EnvironmentRoot,
    generation: Generation,
    by: str,
    answer: GateAnswer | None = None,
    bundle: str | None = None,
    *,
    over_rollback: bool = False,
    again: bool = True,
) -> State:
    """Make ``generation`` the leader. Done already: nothing happens. Another plan than the checked or approved one: ``PlanChanged``.

    ``by``: who promotes it; ``answer``: the approval of its plan elsewhere, ``bundle``: of the run that does it; both are recorded.
    ``over_rollback``: whether it goes on although a rollback of it, or a cancel, has begun. ``again``: whether the tables are looked at
    again for it; else they are as this process saw them. Raises PlanRejected, Paused, WrongState.
    """
    ledger = LedgerWriter(env)
    plan = plan_of(env, deployment_of(ledger.state(), generation))
    names = collections_of(plan)
    looked_at: list[Rejection | None] = []

    def decide(state: State) -> Sequence[Update]:
        deployment = deployment_of(state, generation)
        looked_at.append(deployment.rejected)
        leads = is_leader(state, deployment)
        if leads and not deployment.rolling_back:
            return []
        state.require_current("promote")
        if leads and not over_rollback:
            raise WrongState(generation=generation, state="being rolled back", task="promote", first=ends_rollback(state, generation))
        check_not_paused(state, "promote", names)
        if leads:  # under another epoch than the rollback, which has deleted nothing yet, and ends at its next write
            return [Put(Leader(generation, next_epoch(state), pendulum.now("UTC"))), Put(replace(deployment, rolling_back=False))]
        _check_plan(env, state, deployment, plan, again)
        check_built(env, state, deployment, plan)
        leader = Leader(generation, next_epoch(state), pendulum.now("UTC"))
        if answer is None:
            approval = state.approvals.get(generation) if is_approved(state, generation) else None
        else:
            _check_digest(deployment, answer.plan or deployment.plan_digest)
            check_not_rejected(deployment, answer.rejected_at)
            approval = Approval(generation, deployment.plan_digest, answer.by, leader.since)
        who = by if approval is None else approval.approved_by
        promoted = replace(
            deployment,
            state=DeploymentState.PROMOTED,
            promoted_by=who,
            promoted_with=__version__,
            promoted_from=bundle,
            rejected=None,
        )
        return [Put(leader), Put(promoted), *([] if answer is None or approval is None else [Put(approval)])]

    try:
        return ledger.transact(decide)
    except PlanRejected:
        _note_met(ledger, generation, looked_at[-1])
        raise


def attempts(
    env: EnvironmentRoot,
    generation: Generation,
    by: str,
    answer: GateAnswer | None,
    bundle: str | None,
    *,
    over_rollback: bool,
    again: bool,
) -> Callable[[], State]:
    """Return what promotes as ``promote`` does whenever it is called; from the second time on, after a pause, it looks at the tables."""
    looks = itertools.chain([again], itertools.repeat(True))
    return lambda: promote(env, generation, by, answer, bundle, over_rollback=over_rollback, again=next(looks))


def is_leader(state: State, deployment: Deployment) -> bool:
    """Return whether the deployment leads already; refused if it never may again."""
    generation, leader = deployment.generation, state.leader
    if leader is not None and leader.generation > generation:
        raise overtaken(state, generation, Epoch(0))
    if deployment.state in (DeploymentState.PROMOTED, DeploymentState.COMMITTED):
        return True
    if deployment.state is not DeploymentState.CLAIMED:
        raise WrongState(generation=generation, state=deployment.state.value, task="promote", first=CLAIM_ANEW)
    return False


def _check_plan(env: EnvironmentRoot, state: State, deployment: Deployment, plan: Plan, again: bool) -> None:
    """Raise PlanChanged, or what refuses the plan: never by a table as it was seen before, as the ledger may know of more since."""
    source = state.release_version
    if source != plan.target.source:
        raise PlanChanged(approved=plan.digest, current=f"from {source}")
    if fingerprint_reached(state, plan.target) != plan.target.fingerprint:
        raise PlanChanged(approved=plan.digest, current="of other tables")
    try:
        _check_made_anew(env, state, deployment, plan, again)
    except SchemamigError:
        if again:
            raise
        _check_made_anew(env, state, deployment, plan, again=True)


def _check_made_anew(env: EnvironmentRoot, state: State, deployment: Deployment, plan: Plan, again: bool) -> None:
    now = pendulum.now("UTC")
    view = View(state, read_heads(env, state, again=again), live_nodes(env, now), now, only_settles=only_settles(env, state))
    planned = build_plan(plan.target, view, HoldOptions(deployment.end_hold, deployment.ignore_nodes))
    raise_refusals(planned.refusals)
    if not planned.plan.still_is(plan, state):
        raise PlanChanged(approved=plan.digest, current=planned.plan.digest)
