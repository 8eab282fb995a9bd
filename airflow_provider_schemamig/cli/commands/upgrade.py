"""``schemamig upgrade``."""

from __future__ import annotations

import functools

from airflow_provider_schemamig.cli.options import (
    DEFAULT_SEAL_SECONDS,
    DEFAULT_SPARK,
    ClaimHoldOption,
    ClaimOption,
    CreateOption,
    EndHoldOption,
    EnvOption,
    IgnoreNodesOption,
    JsonOption,
    ReleaseOption,
    SealSecondsOption,
    SparkOption,
    local_path,
    open_environment,
    parse_hold,
    spark_at,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.tasks import run_task


@answered
def upgrade(
    env: EnvOption,
    release: ReleaseOption,
    hold: ClaimHoldOption = None,
    end_hold: EndHoldOption = False,
    ignore_nodes: IgnoreNodesOption = False,
    claim_id: ClaimOption = None,
    create: CreateOption = False,
    seal_seconds: SealSecondsOption = DEFAULT_SEAL_SECONDS,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Take the environment to the release: every task in order. With --create a new one is made at the release's head."""
    from airflow_provider_schemamig.core import commands

    root, folder, kept = open_environment(env), local_path(release), None if hold is None else parse_hold(hold)
    run = functools.partial(commands.upgrade, root, folder, hold=kept, end_hold=end_hold, ignore_nodes=ignore_nodes)
    return run_task(
        lambda listen: run(claim_id=claim_id, create=create, seal_seconds=seal_seconds, jobs=spark_at(spark, listen), listen=listen)
    )
