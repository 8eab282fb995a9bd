"""Control a running upgrade, or resolve drift. Choose an action; only the fields whose description names it are used."""

from __future__ import annotations

from typing import Any

import pendulum
from airflow.providers.standard.operators.python import BranchPythonOperator
from airflow.sdk import DAG, Param

from airflow_provider_schemamig.operators import control, drift, leader
from airflow_provider_schemamig.task_groups.params import environment_param, optional_number, optional_text

LIMITS = ("rows_per_second", "max_files", "commits_per_minute", "window")
ACTIONS = ["pause", "postpone", "resume", "throttle", "force", "cancel", "approve", "pin", "unpin", "revert", "unmanage", "end_hold"]


def given(*names: str) -> dict[str, Any]:
    """What the form says, an empty text where it says nothing."""
    return {name: f"{{{{ params.{name} or '' }}}}" for name in ("environment", *names)}


with DAG(
    dag_id="schemamig_control",
    description="Pause, postpone, resume, throttle, force, approve or cancel an upgrade; pin a table's history; revert or unmanage a table",
    doc_md=__doc__,
    schedule=None,
    start_date=pendulum.datetime(2025, 1, 1),
    tags=["schemamig"],
    params={
        "environment": environment_param(),
        "action": Param("pause", type="string", enum=ACTIONS, title="Action", description="What is to be done."),
        "collection": optional_text("Collection", "Empty: all of them. force, pin, unpin, revert and unmanage need one."),
        "reason": optional_text("Reason", "pause, postpone: why; shown wherever something waits."),
        "generation": optional_number("Generation", "cancel, approve, end_hold: the deployment. pin, unpin: who needs it."),
        "plan": optional_text("Plan", "approve: the digest of the plan that you read, or its first 12 digits."),
        "rows_per_second": optional_number("Rows a second", "On average. A limit that is left empty is removed.", "throttle"),
        "max_files": optional_number("Files a batch", "So many files of the source in one batch.", "throttle"),
        "commits_per_minute": optional_number("Commits a minute", "Each batch is one.", "throttle"),
        "window": optional_text("Hours UTC", "Batches begin only in these hours, such as 22-6.", "throttle"),
        "hours": optional_number("Hours of history", "Keep the collection's history for at least so long.", "pin"),
        "ignore_nodes": Param(False, type="boolean", title="Ignore nodes", description="Even if live nodes need it.", section="end_hold"),
        "allow_lossy": Param(False, type="boolean", title="Allow loss", description="Revert even if values are lost.", section="revert"),
    },
) as dag:
    BranchPythonOperator(task_id="action", doc_md="To the task of the action.", python_callable=lambda params: str(params["action"])) >> [
        control.PauseOperator(task_id="pause", **given("collection", "reason")),
        control.PostponeOperator(task_id="postpone", **given("collection", "reason")),
        control.ResumeOperator(task_id="resume", **given("collection")),
        control.ThrottleOperator(task_id="throttle", **given("collection", *LIMITS)),
        control.ForceOperator(task_id="force", **given("collection")),
        control.CancelOperator(task_id="cancel", **given("generation")),
        control.ApproveOperator(task_id="approve", **given("generation", "plan")),
        control.PinOperator(task_id="pin", holder="{{ params.generation or '' }}", **given("collection", "hours")),
        control.UnpinOperator(task_id="unpin", holder="{{ params.generation or '' }}", **given("collection")),
        drift.RevertOperator(task_id="revert", allow_lossy="{{ params.allow_lossy }}", **given("collection")),
        drift.UnmanageOperator(task_id="unmanage", **given("collection")),
        leader.ContractOperator(task_id="end_hold", at_once=True, ignore_nodes="{{ params.ignore_nodes }}", **given("generation")),
    ]
