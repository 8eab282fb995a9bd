"""``schemamig cancel``."""

from __future__ import annotations

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
def cancel(env: EnvOption, generation: GenerationOption, spark: SparkOption = DEFAULT_SPARK, as_json: JsonOption = False) -> Answer:
    """Cancel a generation and delete what it built. A promoted one is rolled back; a committed one is refused."""
    from airflow_provider_schemamig.core import commands

    root, number = open_environment(env), Generation(generation)
    return run_task(
        lambda listen: commands.cancel(root, number, jobs=spark_at(spark, listen), listen=listen),
        without_stages=f"Generation {generation} is over; what it was building is deleted.",
    )
