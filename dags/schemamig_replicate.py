"""Bring what one environment's collections get to another one, again and again; where the schemas do not match, wait for the upgrade.

A run follows its collections for some minutes, each in a task of its own; with `[schemamig] replicate_schedule = @continuous` the next one
begins at once. A stream that waits is deferred, one that lost its place (a gap) fails: restore it with `RestoreCollectionOperator` or
`schemamig replicate --restore`.
"""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Param

from airflow_provider_schemamig import config
from airflow_provider_schemamig.task_groups.flat import flat
from airflow_provider_schemamig.task_groups.params import environment_param
from airflow_provider_schemamig.task_groups.replicate import replicate_task_group

with DAG(
    dag_id="schemamig_replicate",
    description="Replicate collections from one environment to another",
    doc_md=__doc__,
    schedule=config.schedule("replicate"),
    start_date=pendulum.datetime(2025, 1, 1),
    catchup=False,
    max_active_runs=1,  # as a continuous schedule wants it
    tags=["schemamig"],
    default_args={"only_params": True},
    params={
        "origin": environment_param(config.default_origin(), "Origin"),
        "target": environment_param(title="Target"),
        "collections": Param([], type="array", items={"type": "string"}, title="Collections", description="None: all the origin has."),
        "minutes": Param(
            config.replicate_minutes(),
            type="integer",
            minimum=0,
            title="Minutes",
            description="How long a run follows; 0: until all is brought.",
        ),
    },
) as dag:
    group = replicate_task_group(
        origin="{{ params.origin }}",
        target="{{ params.target }}",
        collections="{{ params.collections | join(',') }}",
        minutes="{{ params.minutes }}",
    )
    flat(group)
