"""Every hour: did others bring rows that break a key? Each row is looked at once; fails, each time, until they are mended."""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import DAG

from airflow_provider_schemamig.operators.verification import VerifyOperator
from airflow_provider_schemamig.task_groups.params import environment_param

with DAG(
    dag_id="schemamig_watch_keys",
    description="Look for rows that came since the last time and break a UNIQUE, a PRIMARY KEY or a FOREIGN KEY",
    doc_md=__doc__,
    schedule=timedelta(hours=1),
    start_date=pendulum.datetime(2025, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["schemamig"],
    params={"environment": environment_param()},
) as dag:
    VerifyOperator(task_id="watch_keys", environment="{{ params.environment }}", new_rows=True)
