"""The upgrade protocol as a task group, for the shipped DAG and for DAGs of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseNotifier, TaskGroup, TriggerRule, XComArg

from airflow_provider_schemamig.operators.base import DEFAULT_SEAL_SECONDS
from airflow_provider_schemamig.operators.gate import PlanApprovalOperator, PromotionGateOperator, users
from airflow_provider_schemamig.operators.leader import (
    ChangeOperator,
    CleanupOperator,
    ContractOperator,
    CutoverOperator,
    ExpandOperator,
    PromoteLeaderOperator,
)
from airflow_provider_schemamig.operators.read_only import FillChunksOperator, FillOperator, ReadOnlyMigrationOperator, TailOperator
from airflow_provider_schemamig.sensors.fingerprint import FingerprintSensor
from airflow_provider_schemamig.sensors.promotion import PromotionSensor
from airflow_provider_schemamig.task_groups.task_docs import document

#: An empty map is skipped and must not skip what follows; a failure, or everything skipped, must.
_AFTER_MAPS = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS

#: What the page calls a mapped task.
_COLLECTIONS = "{{ task.collections | join(', ') }}"


def upgrade_task_group(
    group_id: str = "upgrade",
    *,
    environment: str,
    release: str,
    gate: str = "approval",
    hold: timedelta | float | str = 24,
    end_hold: bool | str = False,
    ignore_nodes: bool | str = False,
    create: bool | str = False,
    seal_seconds: int | str = DEFAULT_SEAL_SECONDS,
    approval_timeout: timedelta = timedelta(days=1),
    assigned_users: Sequence[str] = (),
    added_columns_pass: bool = False,
    notifiers: Sequence[BaseNotifier] | BaseNotifier = (),
) -> TaskGroup:
    """Make the tasks that upgrade ``environment`` to ``release``, from the fingerprint gate to the contract.

    All arguments but ``group_id``, ``approval_timeout``, ``assigned_users``, ``added_columns_pass`` and ``notifiers`` may be templates.

    :param environment: connection id of type ``schemamig``, or URI or absolute path of the environment.
    :param release: the release folder; a relative path is looked for in the folder of the DAG file.
    :param gate: ``approval`` (a person answers in Airflow), ``ledger`` (``schemamig approve``), ``none``, or ``auto``: nobody is asked
        about a plan that is instant, breaks nobody and can be taken back, else it is ``approval``.
    :param hold: hours, or a timedelta, for which the way back stays open. 0: the last task takes it away at once.
    :param end_hold: whether open holds are ended before their time; the plan lists what is deleted.
    :param ignore_nodes: whether a hold is ended also if live nodes still need what it keeps.
    :param create: whether an environment is made where none is; otherwise preflight fails.
    :param seal_seconds: for how long the cut-over may lock writers out.
    :param approval_timeout: how long the gate waits before it fails.
    :param assigned_users: ids of the users who may answer the approval, as Airflow's auth manager has them; none: all who may run the DAG.
    :param added_columns_pass: for ``auto``: nobody has to be asked about added columns either (``ReadOnlyMigrationOperator``).
    :param notifiers: who is told what happens: ``SchemamigNotifier``, one or several.
    """
    senders = [notifiers] if isinstance(notifiers, BaseNotifier) else list(notifiers)
    with TaskGroup(group_id=group_id) as group:
        about: dict[str, Any] = {"environment": environment, "release": release, "end_hold": end_hold, "ignore_nodes": ignore_nodes}
        about["notifiers"] = senders
        fingerprint = FingerprintSensor(task_id="fingerprint", **about)
        checks: dict[str, Any] = {"create": create, "seal_seconds": seal_seconds, "added_columns_pass": added_columns_pass}
        preflight = ReadOnlyMigrationOperator(task_id="preflight", hold=hold, **checks, **about)
        # By template, not by XComArg: that would make preflight, which succeeds, a direct upstream of every task, and a rejected
        # approval would no longer skip those that need one success.
        generation = f"{{{{ ti.xcom_pull(task_ids='{preflight.task_id}', key='generation') }}}}"
        claimed: dict[str, Any] = {"environment": environment, "generation": generation, "notifiers": senders}
        fills: Any = XComArg(preflight, key="fills")  # a list, once the task runs
        fill_chunks = FillChunksOperator(task_id="fill_chunks", collections=fills, **claimed)
        fill = FillOperator.partial(task_id="fill", map_index_template=_COLLECTIONS, **claimed).expand(collections=fill_chunks.output)
        choice, approval, ledger_approval = _gates(preflight.task_id, gate, claimed, approval_timeout, assigned_users)
        asked = {"approval_task_id": approval.task_id, "plan_task_id": preflight.task_id}
        promote = PromoteLeaderOperator(task_id="promote", trigger_rule=_AFTER_MAPS, **asked, **claimed)
        # Beside the gate, and nothing waits for it: the cut-over follows the tables itself. Nothing to fill or copy: an empty map.
        followed = TailOperator.partial(
            task_id="tail", ends_with=promote.task_id, deferrable=True, map_index_template=_COLLECTIONS, **claimed
        )
        tail = followed.expand(collections=fill_chunks.output)
        fingerprint >> preflight >> fill_chunks >> fill >> [choice, tail]
        preflight >> choice >> [approval, ledger_approval, promote]
        [approval, ledger_approval] >> promote
        _leader_tasks(promote, claimed, ignore_nodes, seal_seconds, preflight.task_id)
    document(group)
    return group


def _gates(
    preflight: str, gate: str, claimed: dict[str, Any], timeout: timedelta, assigned: Sequence[str]
) -> tuple[PromotionGateOperator, PlanApprovalOperator, PromotionSensor]:
    """Make the choice of the gate, and the two gates that wait."""
    prefix = preflight.removesuffix("preflight")
    paths = {"approval": f"{prefix}approval", "ledger": f"{prefix}ledger_approval", "none": f"{prefix}promote"}
    choice = PromotionGateOperator(task_id="gate", gate=gate, paths=paths, plan_task_id=preflight, trigger_rule=_AFTER_MAPS)
    approval = PlanApprovalOperator(
        task_id="approval",
        subject=f"Upgrade {claimed['environment']}?",
        body=f"{{{{ ti.xcom_pull(task_ids='{preflight}', key='plan') }}}}",
        plan_digest=f"{{{{ ti.xcom_pull(task_ids='{preflight}', key='plan_digest') }}}}",
        plan_task_id=preflight,
        response_timeout=timeout,
        assigned_users=users(assigned),
        environment=claimed["environment"],
        notifiers=claimed["notifiers"],
    )
    ledger_approval = PromotionSensor(task_id="ledger_approval", deferrable=True, timeout=timeout, plan_task_id=preflight, **claimed)
    return choice, approval, ledger_approval


def _leader_tasks(
    promote: PromoteLeaderOperator, claimed: dict[str, Any], ignore_nodes: bool | str, seal_seconds: int | str, planned: str
) -> None:
    """Make all tasks after promotion, in the order of the protocol."""
    expand = ExpandOperator(task_id="expand", **claimed)
    to_change = FillChunksOperator(task_id="to_change", **claimed)
    change = ChangeOperator.partial(task_id="change", map_index_template=_COLLECTIONS, **claimed).expand(collections=to_change.output)
    cutover = CutoverOperator(
        task_id="cutover_and_commit", plan_task_id=planned, seal_seconds=seal_seconds, trigger_rule=_AFTER_MAPS, **claimed
    )
    cleanup = CleanupOperator(task_id="cleanup", **claimed)
    # The last task decides the state of the run: a failed cleanup is harmless, a failed or skipped commit is not.
    contract = ContractOperator(
        task_id="contract",
        ignore_nodes=ignore_nodes,
        after_commit=True,
        trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS,
        **claimed,
    )
    promote >> expand >> to_change >> change >> cutover >> cleanup >> contract
    expand >> cutover >> contract
