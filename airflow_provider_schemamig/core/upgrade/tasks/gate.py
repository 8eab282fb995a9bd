"""The answer to a plan, where a person gives it: yes or no, in the ledger and in its history."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from typing import Any

import pendulum

from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history, because, told_reason
from airflow_provider_schemamig.core.ledger.rows import Approval, Rejection
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.execute import promote as promotion
from airflow_provider_schemamig.credentials import blank_typed


def approve(
    env: EnvironmentRoot,
    generation: Generation,
    digest: str,
    by: str | None = None,
    *,
    reason: str | None = None,
    asked_at: pendulum.DateTime | None = None,
) -> Approval:
    """Record a person's approval of plan ``digest`` (or its first twelve digits) for ``generation``.

    ``asked_at``: since when a gate waits for it: also after a no from before that.
    """
    approval = promotion.approve(env, generation, digest, by or getpass.getuser(), asked_at=asked_at)
    detail = because(approval.plan_digest, reason)
    about: dict[str, Any] = {"generation": generation, "detail": detail, "who": approval.approved_by}
    append_history(env, HistoryEntry.ended("approve", approval.approved_at, **about))
    return approval


@dataclass(frozen=True, slots=True)
class Rejected:
    """``rejection``: of the plan, also an earlier one; None: the generation is over. ``note``: why the history could not be written."""

    plan_digest: str
    rejection: Rejection | None
    note: str = ""


def reject(env: EnvironmentRoot, generation: Generation, digest: str, by: str | None = None, reason: str | None = None) -> Rejected:
    """Record that a person does not want plan ``digest`` (or its first twelve digits).

    The claim stays, with what was built for it: nobody leads. It is approved no more, unless its gate asks again.
    """
    no = Rejection(blank_typed(by or getpass.getuser()), pendulum.now("UTC"), told_reason(reason))
    deployment = promotion.reject(env, generation, digest, no)
    if deployment.rejected != no:
        return Rejected(deployment.plan_digest, deployment.rejected)
    about: dict[str, Any] = {"generation": generation, "detail": because(deployment.plan_digest, no.why), "who": no.by}
    return Rejected(deployment.plan_digest, no, append_history(env, HistoryEntry.ended("reject", no.at, **about)) or "")
