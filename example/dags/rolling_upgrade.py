"""A release goes through three environments that replicate, one after the other, while rows go on from the first to the two others.

`lake_west` writes; `lake_east` and `lake_north` are its replicas, each kept by a DAG of its own that never stops. The replicas are upgraded
first: they accept the rows of the schema that they had just before, so nothing waits. Not so if the release rewrites: then ORDER has to
begin with the origin, the streams are paused meanwhile (deferred, in Airflow), and go on by themselves when their replica is upgraded.
"""

from __future__ import annotations

from typing import Any

import pendulum
from airflow.sdk import DAG, Param, chain

from airflow_provider_schemamig.operators.replicas import ReplicateCollectionOperator
from airflow_provider_schemamig.sensors.fingerprint import FingerprintSensor
from airflow_provider_schemamig.sensors.replicas import SchemaMatchSensor
from airflow_provider_schemamig.task_groups.params import release_param
from airflow_provider_schemamig.task_groups.replicate import replicate_task_group
from airflow_provider_schemamig.task_groups.upgrade import upgrade_task_group

ORIGIN, REPLICAS = "lake_west", ("lake_east", "lake_north")
ORDER = (*REPLICAS, ORIGIN)
COMMON: dict[str, Any] = {"start_date": pendulum.datetime(2025, 1, 1), "max_active_runs": 1, "tags": ["schemamig", "example"]}


def is_there(environment: str) -> FingerprintSensor:
    """Nobody goes on after an approval that was rejected, which fails nothing. An environment that was there before skipped its upgrade."""
    arrival: dict[str, Any] = {"looks_for": "arrival", "version": "{{ params.version }}", "timeout": 0, "trigger_rule": "none_failed"}
    return FingerprintSensor(task_id=f"{environment}_is_there", environment=environment, **arrival)


with DAG(
    "rolling_upgrade",
    schedule=None,
    doc_md=__doc__,
    params={"release": release_param(), "version": Param("1.1.0", type="string", title="Version", description="The release's.")},
    **COMMON,
) as rolling_upgrade:
    steps: list[Any] = []
    for name in ORDER:
        steps += [upgrade_task_group(f"upgrade_{name}", environment=name, release="{{ params.release }}"), is_there(name)]
        if name in REPLICAS:
            steps.append(SchemaMatchSensor(task_id=f"{name}_accepts", origin=ORIGIN, target=name, deferrable=True))
    steps.append([ReplicateCollectionOperator(task_id=f"{name}_has_all", origin=ORIGIN, target=name) for name in REPLICAS])
    chain(*steps)

for name in REPLICAS:
    with DAG(f"replicate_to_{name}", schedule="@continuous", **COMMON) as dag:
        replicate_task_group(origin=ORIGIN, target=name)
    globals()[dag.dag_id] = dag
