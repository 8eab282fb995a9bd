"""The answer to a plan, where a person gives it: yes or no, in the ledger and in its history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pendulum

from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history, because, told_reason
from airflow_provider_schemamig.core.ledger.rows import Approval, Rejection
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.execute import promote as promotion
from airflow_provider_schemamig.core.user import user_name
from airflow_provider_schemamig.credentials import blank_typed


def approve(
    env: EnvironmentRoot,
    generation: Generation,
    digest: str,
    by: str | None = None,
    *,
    reason: str | None = None,
    rejected_at: pendulum.DateTime | None = None,
) -> Approval:
    """Record a person's approval of plan ``digest`` (or its first twelve digits) for ``generation``.

    ``rejected_at``: of the no that stood when a gate asked again: also after that one.
    """
    approval = promotion.approve(env, generation, digest, by or user_name(), rejected_at=rejected_at)
    detail = because(approval.plan_digest, reason)
    about: dict[str, Any] = {"generation": generation, "detail": detail, "who": approval.approved_by}
    append_history(env, HistoryEntry.ended("approve", approval.approved_at, **about))
    return approval


def meet_rejection(env: EnvironmentRoot, generation: Generation) -> pendulum.DateTime | None:
    """Return of when the no is that stands against a generation's plan: a gate that asks anew has to know it. Raises PlanRejected where no
    gate has ended by it yet."""
    rejected = promotion.meet_rejection(env, generation)
    return None if rejected is None else rejected.at


@dataclass(frozen=True, slots=True)
class Rejected:
    """``rejection``: of the plan, also an earlier one; None: the generation is over. ``note``: why the history could not be written."""

    plan_digest: str
    rejection: Rejection | None
    note: str = ""


def reject(
    env: EnvironmentRoot,
    generation: Generation,
    digest: str,
    by: str | None = None,
    reason: str | None = None,
    *,
    at_gate: bool = False,
    rejected_at: pendulum.DateTime | None = None,
) -> Rejected:
    """Record that a person does not want plan ``digest`` (or its first twelve digits).

    The claim stays, with what was built for it: nobody leads. It is approved no more, unless its gate asks again. ``at_gate``: it is the
    answer to a gate, which knew of the no of ``rejected_at`` when it asked: one that was recorded since then is taken for this one.
    """
    no = Rejection(blank_typed(by or user_name()), pendulum.now("UTC"), told_reason(reason))
    deployment = promotion.reject(env, generation, digest, no, at_gate=at_gate, rejected_at=rejected_at)
    if deployment.rejected is None or deployment.rejected.at != no.at:
        return Rejected(deployment.plan_digest, deployment.rejected)
    about: dict[str, Any] = {"generation": generation, "detail": because(deployment.plan_digest, no.why), "who": no.by}
    return Rejected(deployment.plan_digest, no, append_history(env, HistoryEntry.ended("reject", no.at, **about)) or "")
