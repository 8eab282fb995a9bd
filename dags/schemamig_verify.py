"""Are the live tables consistent with their schemas? Writes nothing, and fails if one is not.

Scheduled by `[schemamig] verify_schedule`.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG

from airflow_provider_schemamig import config
from airflow_provider_schemamig.operators.verification import VerifyOperator
from airflow_provider_schemamig.task_groups.overlap import unless_running
from airflow_provider_schemamig.task_groups.params import environment_param

with DAG(
    dag_id="schemamig_verify",
    description="Look for rows that break a rule, and for values that are missing or belong to no column",
    doc_md=__doc__,
    schedule=config.schedule("verify"),
    start_date=pendulum.datetime(2025, 1, 1),
    catchup=False,
    tags=["schemamig"],
    default_args={"only_params": True},
    params={"environment": environment_param()},
) as dag:
    VerifyOperator(task_id="verify", environment="{{ params.environment }}", pre_execute=unless_running)
