"""Say something to work on rows that is under way: wait, go on, go slowly, keep the history longer, give up."""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Param

from airflow_provider_schemamig.operators.control import ControlOperator
from airflow_provider_schemamig.task_groups.params import environment_param

ACTIONS = ["pause", "postpone", "resume", "throttle", "force", "cancel", "pin", "unpin"]


def number(title: str, description: str) -> Param:
    return Param(None, type=["null", "integer"], minimum=1, title=title, description=description)


with DAG(
    dag_id="schemamig_control",
    description="Pause, postpone, resume, throttle, force or cancel work on rows; pin a table's history",
    doc_md=__doc__,
    schedule=None,
    start_date=pendulum.datetime(2025, 1, 1),
    tags=["schemamig"],
    params={
        "environment": environment_param(),
        "action": Param("pause", enum=ACTIONS, title="Action", description="What to say."),
        "collection": Param("", type="string", title="Collection", description="Empty: all of them; force, pin and unpin need one."),
        "rows_per_second": number("Rows a second", "throttle: on average. Limits that are left empty are taken back."),
        "max_files": number("Files a batch", "throttle: so many files of the source in one batch."),
        "commits_per_minute": number("Commits a minute", "throttle: each batch is one."),
        "window": Param("", type="string", title="Hours", description="throttle: batches begin only in these hours UTC, such as 22-6."),
        "generation": number("Generation", "cancel: the deployment to give up. pin, unpin: the one that needs the history."),
        "reason": Param(None, type=["null", "string"], title="Reason", description="pause, postpone: why; shown wherever something waits."),
        "hours": number("Hours of history", "pin: keep the collection's history for at least so long."),
    },
) as dag:
    ControlOperator(
        task_id="control",
        environment="{{ params.environment }}",
        action="{{ params.action }}",
        collection="{{ params.collection }}",
        rows_per_second="{{ params.rows_per_second or '' }}",
        max_files="{{ params.max_files or '' }}",
        commits_per_minute="{{ params.commits_per_minute or '' }}",
        window="{{ params.window }}",
        generation="{{ params.generation or '' }}",
        hours="{{ params.hours or '' }}",
        reason="{{ params.reason or '' }}",
    )
