"""Take an environment to a release: checked before anything is written, behind a gate, with a way back for the hold time.

Does nothing while the environment is at the release. Of one environment, a run waits for the run before it; others do not wait. Runs by
itself only with a schedule in the configuration (`[schemamig] upgrade_schedule`), on the environment that is configured there.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Param

from airflow_provider_schemamig import config
from airflow_provider_schemamig.task_groups.flat import flat
from airflow_provider_schemamig.task_groups.params import environment_param, release_param
from airflow_provider_schemamig.task_groups.upgrade import upgrade_task_group

with DAG(
    dag_id="schemamig_upgrade",
    description="Upgrade the schemas of a set of Delta tables to a release",
    doc_md=__doc__,
    schedule=config.schedule("upgrade"),
    start_date=pendulum.datetime(2025, 1, 1),
    catchup=False,
    tags=["schemamig"],
    default_args={"only_params": True},
    params={
        "environment": environment_param(),
        "release": release_param(),
        "gate": Param("approval", enum=["approval", "auto", "ledger", "none"], title="Gate", description="Who lets the plan through."),
        "hold": Param(
            24, type="number", minimum=0, maximum=87_600, title="Hold", description="Hours for which a rollback stays possible; 0: none."
        ),
        "create": Param(False, type="boolean", title="Create", description="Make the environment if there is none."),
        "end_hold": Param(False, type="boolean", title="End hold", description="End open holds early; the plan lists what goes."),
        "ignore_nodes": Param(False, type="boolean", title="Ignore nodes", description="End a hold also if live nodes still need it."),
    },
) as dag:
    group = upgrade_task_group(
        environment="{{ params.environment }}",
        release="{{ params.release }}",
        gate="{{ params.gate }}",
        hold="{{ params.hold }}",
        end_hold="{{ params.end_hold }}",
        ignore_nodes="{{ params.ignore_nodes }}",
        create="{{ params.create }}",
    )
    flat(group)
