"""One approval for the upgrades of several environments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import cast

from airflow.sdk import BaseNotifier, TaskGroup, TriggerRule

from airflow_provider_schemamig.operators.arguments import BadArgument
from airflow_provider_schemamig.operators.gate import PlansApprovalOperator, PromotionGateOperator, users
from airflow_provider_schemamig.operators.leader import PromoteLeaderOperator
from airflow_provider_schemamig.operators.read_only import FillOperator, ReadOnlyMigrationOperator


def approve_together(
    groups: Sequence[TaskGroup],
    *,
    task_id: str = "approval",
    approval_timeout: timedelta = timedelta(days=1),
    assigned_users: Sequence[str] = (),
    notifiers: Sequence[BaseNotifier] | BaseNotifier = (),
) -> PlansApprovalOperator:
    """Make one approval that shows the plans of all ``groups``, and lets none of them promote before it is given.

    A rejection leaves every environment as it is. An environment that is at the release already is left out. Nobody is asked while the
    preflight or the copy of one of them is red. One run of the DAG may be active at a time: of two, each could wait for what the other one
    has claimed, and neither would come to its approval.

    :param groups: of ``upgrade_task_group`` with ``gate="none"``, in one DAG.
    :param task_id: of the approval.
    :param approval_timeout: how long it waits before it fails.
    :param assigned_users: as in ``upgrade_task_group``.
    :param notifiers: who is told that it waits.

    Raises BadArgument if the DAG lets several runs be active.
    """
    dag = groups[0].dag
    if dag.max_active_runs != 1:
        wanted = "1, so that no two runs wait for each other"
        raise BadArgument.of("max_active_runs of the DAG", dag.max_active_runs, wanted)
    preflights = [cast(ReadOnlyMigrationOperator, _task(group, "preflight")) for group in groups]
    environments = ", ".join(preflight.environment for preflight in preflights)
    approval = PlansApprovalOperator(
        task_id=task_id,
        subject=f"Upgrade {environments}?",
        body="\n\n".join(_pulled(preflight, "plan") for preflight in preflights),
        plan_digest=" ".join(_pulled(preflight, "plan_digest") for preflight in preflights),
        environment=environments,
        plans={preflight.task_id: preflight.environment for preflight in preflights},
        response_timeout=approval_timeout,
        assigned_users=users(assigned_users),
        notifiers=notifiers,
        trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
        doc_md="Waits for a person: tab *Required Actions*. It shows the plan for each environment; the answer is for all of them.",
    )
    for group, preflight in zip(groups, preflights, strict=True):
        promote = cast(PromoteLeaderOperator, _task(group, "promote"))
        promote.approval_task_id = approval.task_id
        [preflight, cast(FillOperator, _task(group, "fill"))] >> approval >> cast(PromotionGateOperator, _task(group, "gate"))
    return approval


def _task(group: TaskGroup, name: str) -> object:
    return group.children[f"{group.group_id}.{name}"]


def _pulled(preflight: ReadOnlyMigrationOperator, key: str) -> str:
    """Return the template of what the preflight found; nothing where it was skipped."""
    return f"{{{{ ti.xcom_pull(task_ids='{preflight.task_id}', key='{key}') or '' }}}}"
