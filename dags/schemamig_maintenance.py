"""End the holds whose time is over: take away what only the release before needed. Then rewrite files of older schemas.

Scheduled by `[schemamig] maintenance_schedule`; without it holds end only when somebody triggers this.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG

from airflow_provider_schemamig import config
from airflow_provider_schemamig.operators.compaction import CompactOperator
from airflow_provider_schemamig.operators.leader import ContractOperator
from airflow_provider_schemamig.task_groups.overlap import unless_running
from airflow_provider_schemamig.task_groups.params import environment_param

with DAG(
    dag_id="schemamig_maintenance",
    description="Contract the releases whose hold is over, and rewrite files of older schemas",
    doc_md=__doc__,
    schedule=config.schedule("maintenance"),
    start_date=pendulum.datetime(2025, 1, 1),
    catchup=False,
    tags=["schemamig"],
    default_args={"only_params": True},
    params={"environment": environment_param()},
) as dag:
    contract = ContractOperator(task_id="contract", environment="{{ params.environment }}", pre_execute=unless_running)
    # Contract is skipped most hours. What it drops is in the files still, so compaction comes after it.
    compact = CompactOperator(
        task_id="compact", environment="{{ params.environment }}", pre_execute=unless_running, trigger_rule="none_failed"
    )
    contract >> compact
