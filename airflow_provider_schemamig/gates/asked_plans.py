"""What an approval asks about, as its task pushes it: an answer counts for that alone, whatever is planned or said while it waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pendulum

if TYPE_CHECKING:
    from airflow.sdk import Context

#: The key of the XCom.
ASKED = "asked"


@dataclass(frozen=True, slots=True)
class AskedPlan:
    """``rejected_at``: of the no that stood when it asked; None: there was none."""

    environment: str
    generation: int
    plan_digest: str
    rejected_at: pendulum.DateTime | None = None


#: By the id of the task that planned.
AskedPlans = Mapping[str, AskedPlan]


def plan_line(generation: int, digest: str) -> str:
    """Return the line of a text for people that names its plan."""
    return f"Generation {generation}, plan `{digest}`"


def asked_from(found: Mapping[str, Any]) -> AskedPlans:
    """Return what an approval pushed."""
    return {
        task_id: AskedPlan(
            str(plan["environment"]),
            int(plan["generation"]),
            str(plan["plan_digest"]),
            None if plan["rejected_at"] is None else pendulum.instance(datetime.fromisoformat(plan["rejected_at"])),
        )
        for task_id, plan in found.items()
    }


def push_asked(context: Context, asked: AskedPlans) -> None:
    """Push what an approval asks about."""
    found = {
        task_id: {
            "environment": plan.environment,
            "generation": plan.generation,
            "plan_digest": plan.plan_digest,
            "rejected_at": None if plan.rejected_at is None else plan.rejected_at.isoformat(),
        }
        for task_id, plan in asked.items()
    }
    context["ti"].xcom_push(key=ASKED, value=found)


def answered_by(answer: Mapping[str, Any] | None) -> str | None:
    """Return the name of the person in the result of an approval; None if nobody answered."""
    user = (answer or {}).get("responded_by_user")
    if not user:
        return None
    return str(user.get("name") or user.get("id")) if isinstance(user, Mapping) else str(getattr(user, "name", user))
