"""What an approval asks about, as its task pushes it: an answer counts for these plans alone, whatever is planned while it waits."""

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
    generation: int
    plan_digest: str


@dataclass(frozen=True, slots=True)
class AskedPlans:
    """``at``: since when it asks. ``plans``: by the id of the task that planned."""

    at: pendulum.DateTime
    plans: Mapping[str, AskedPlan]

    @classmethod
    def of_now(cls, context: Context, planned_by: Mapping[str, str]) -> AskedPlans:
        """Return what these tasks of the run have planned, without those that had nothing to do."""
        plans = {}
        for task_id in planned_by:
            generation, digest = (context["ti"].xcom_pull(task_ids=task_id, key=key) for key in ("generation", "plan_digest"))
            if generation is not None:
                plans[task_id] = AskedPlan(int(generation), str(digest))
        return cls(pendulum.now("UTC"), plans)

    @classmethod
    def from_xcom(cls, found: Mapping[str, Any]) -> AskedPlans:
        plans = {task_id: AskedPlan(int(plan["generation"]), str(plan["plan_digest"])) for task_id, plan in found["plans"].items()}
        return cls(pendulum.instance(datetime.fromisoformat(found["at"])), plans)

    def to_xcom(self) -> dict[str, Any]:
        plans = {task_id: {"generation": plan.generation, "plan_digest": plan.plan_digest} for task_id, plan in self.plans.items()}
        return {"at": self.at.isoformat(), "plans": plans}


def pull_asked(context: Context, task_id: str) -> AskedPlans | None:
    """Return what an approval of this run asked about; None if that task pushed nothing."""
    found = context["ti"].xcom_pull(task_ids=task_id, key=ASKED)
    return None if found is None else AskedPlans.from_xcom(found)
