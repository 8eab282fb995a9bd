"""``schemamig tail``."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_provider_schemamig.cli.options import (
    DEFAULT_SPARK,
    EnvOption,
    GenerationOption,
    JsonOption,
    SparkOption,
    open_environment,
    spark_at,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.tasks import run_task
from airflow_provider_schemamig.core.names import Generation


@answered
def tail(
    env: EnvOption,
    generation: GenerationOption,
    once: Annotated[bool, typer.Option("--once", help="One round: everything committed until now.")] = False,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Bring new commits of the old tables into their copies, until the generation is promoted, rejected or cancelled."""
    from airflow_provider_schemamig.core import commands

    return run_task(
        lambda listen: commands.tail(open_environment(env), Generation(generation), jobs=spark_at(spark, listen), once=once, listen=listen)
    )
