"""Take an environment back to the release before: while an upgrade is under way, or while its hold is open."""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Param

from airflow_provider_schemamig.operators.rollback import RollbackOperator
from airflow_provider_schemamig.task_groups.params import environment_param

with DAG(
    dag_id="schemamig_rollback",
    description="Take an environment back to the release before",
    doc_md=__doc__,
    schedule=None,
    start_date=pendulum.datetime(2025, 1, 1),
    tags=["schemamig"],
    default_args={"only_params": True},
    params={
        "environment": environment_param(),
        "generation": Param(
            None, type=["null", "integer"], minimum=1, title="Generation", description="Only this one; empty: the newest, a release back."
        ),
        "allow_lossy": Param(False, type="boolean", title="Allow loss", description="Go on even if rows written since stay behind."),
    },
) as dag:
    RollbackOperator(
        task_id="rollback",
        environment="{{ params.environment }}",
        generation="{{ params.generation or '' }}",
        allow_lossy="{{ params.allow_lossy }}",
    )
