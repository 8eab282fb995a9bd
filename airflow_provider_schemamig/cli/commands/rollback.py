"""``schemamig rollback``."""

from __future__ import annotations

import functools
from typing import Annotated

import typer

from airflow_provider_schemamig.cli.options import (
    DEFAULT_SPARK,
    EnvOption,
    JsonOption,
    RollbackClaimOption,
    SparkOption,
    open_environment,
    spark_at,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.tasks import run_task
from airflow_provider_schemamig.core.names import Generation


@answered
def rollback(
    env: EnvOption,
    allow_lossy: Annotated[bool, typer.Option("--allow-lossy", help="Roll back even if rows are lost.")] = False,
    claim_id: RollbackClaimOption = None,
    generation: Annotated[int | None, typer.Option("--generation", min=1, metavar="N", help="Only this one; refused for another.")] = None,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Go back to the release before, while its hold is open, or out of an upgrade that stopped in the middle."""
    from airflow_provider_schemamig.core import commands

    run = functools.partial(commands.rollback, open_environment(env), allow_lossy=allow_lossy, claim_id=claim_id)
    only = None if generation is None else Generation(generation)
    return run_task(lambda listen: run(generation=only, jobs=spark_at(spark, listen), listen=listen))
