"""Change one live table while others read and write it, outside of a release; the next release has to contain the change."""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Param

from airflow_provider_schemamig.operators.alter import AlterOperator
from airflow_provider_schemamig.task_groups.params import environment_param

with DAG(
    dag_id="schemamig_alter",
    description="Make one ALTER, CREATE or DROP TABLE outside of a release",
    doc_md=__doc__,
    schedule=None,
    start_date=pendulum.datetime(2025, 1, 1),
    tags=["schemamig"],
    default_args={"only_params": True},
    params={
        "environment": environment_param(),
        "statement": Param(type="string", minLength=1, title="Statement", description="One ALTER, CREATE or DROP TABLE in Spark SQL."),
        "hold": Param(
            0, type="number", minimum=0, maximum=87_600, title="Hold", description="Hours for which it can be rolled back after its commit."
        ),
    },
) as dag:
    AlterOperator(task_id="alter", environment="{{ params.environment }}", statement="{{ params.statement }}", hold="{{ params.hold }}")
