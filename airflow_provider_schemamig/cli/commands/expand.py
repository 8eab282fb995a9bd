"""``schemamig expand``."""

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
def expand(env: EnvOption, generation: GenerationOption, spark: SparkOption = DEFAULT_SPARK, as_json: JsonOption = False) -> Answer:
    """Finish or undo the work of an earlier leader, then make every change that readers and writers do not notice."""
    from airflow_provider_schemamig.core import commands

    root, number = open_environment(env), Generation(generation)
    return run_task(lambda listen: commands.expand(root, number, jobs=spark_at(spark, listen), listen=listen))
