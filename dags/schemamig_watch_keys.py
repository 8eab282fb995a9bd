"""Look for new rows that break a key. Each row is checked once; the run fails until the reported rows are fixed.

Scheduled by `[schemamig] watch_keys_schedule`.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG

from airflow_provider_schemamig import config
from airflow_provider_schemamig.operators.verification import VerifyOperator
from airflow_provider_schemamig.task_groups.overlap import unless_running
from airflow_provider_schemamig.task_groups.params import environment_param

with DAG(
    dag_id="schemamig_watch_keys",
    description="Look for rows that came since the last time and break a UNIQUE, a PRIMARY KEY or a FOREIGN KEY",
    doc_md=__doc__,
    schedule=config.schedule("watch_keys"),
    start_date=pendulum.datetime(2025, 1, 1),
    catchup=False,
    tags=["schemamig"],
    default_args={"only_params": True},
    params={"environment": environment_param()},
) as dag:
    VerifyOperator(task_id="watch_keys", environment="{{ params.environment }}", pre_execute=unless_running, new_rows=True)
