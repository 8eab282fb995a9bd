"""Copy one collection anew from its origin: the way on for a stream that lost its place (a gap). It goes on from there afterwards."""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Param

from airflow_provider_schemamig import config
from airflow_provider_schemamig.operators.replicas import RestoreCollectionOperator
from airflow_provider_schemamig.task_groups.params import environment_param

with DAG(
    dag_id="schemamig_restore",
    description="Copy one collection of a replica anew from its origin",
    doc_md=__doc__,
    schedule=None,
    start_date=pendulum.datetime(2025, 1, 1),
    tags=["schemamig"],
    default_args={"only_params": True},
    params={
        "origin": environment_param(config.default_origin(), "Origin"),
        "target": environment_param(title="Target"),
        "collection": Param("", type="string", title="Collection", description="The collection whose rows are copied."),
        "version": Param(
            None, type=["null", "integer"], minimum=0, title="Version", description="Of the origin's table; empty: its newest."
        ),
        "allow_schema_change": Param(
            False,
            type="boolean",
            title="Allow a schema change",
            description="Also rows of a schema that the target never had, if they fit.",
        ),
        "allow_lossy": Param(False, type="boolean", title="Allow loss", description="Even if commits of the target's own are lost."),
    },
) as dag:
    RestoreCollectionOperator(
        task_id="restore",
        origin="{{ params.origin }}",
        target="{{ params.target }}",
        collection="{{ params.collection }}",
        version="{{ '' if params.version is none else params.version }}",
        allow_schema_change="{{ params.allow_schema_change }}",
        allow_lossy="{{ params.allow_lossy }}",
    )
