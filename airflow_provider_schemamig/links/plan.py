"""The button *Plan*: from a task that waits for a decision, or carries it out, to the page of the task that printed the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink, conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context


class PlanLink(BaseOperatorLink):
    """Leads to the task that planned, in the same run; operators name it in ``plan_task_id``."""

    name = "Plan"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Return the path of the page, below the path of ``[api] base_url``; "" where no task is named: there is no button then."""
        task_id = getattr(operator, "plan_task_id", "")
        if not task_id:
            return ""
        return urlsplit(page_of(ti_key, task_id)).path


def page_of(ti: Any, task_id: str) -> str:
    """Return the address of a task's page, in the run of ``ti``; without ``[api] base_url`` its path alone."""
    return f"{run_page(ti)}/tasks/{quote(task_id)}"


def run_page(ti: Any) -> str:
    """Return the address of the page of a task's run; without ``[api] base_url`` its path alone."""
    root = (conf.get("api", "base_url", fallback="") or "").rstrip("/")
    return f"{root}/dags/{quote(ti.dag_id)}/runs/{quote(ti.run_id)}"


def offer_plan(operator: BaseOperator, context: Context) -> None:
    """Show the button while the task waits; Airflow makes it only when a task has ended."""
    link, ti = PlanLink(), context.get("ti")
    if ti is not None and (url := link.get_link(operator, ti_key=ti)):
        ti.xcom_push(link.xcom_key, url)
