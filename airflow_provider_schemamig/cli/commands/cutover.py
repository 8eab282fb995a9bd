"""``schemamig cutover``."""

from __future__ import annotations

import functools

from airflow_provider_schemamig.cli.options import (
    DEFAULT_SEAL_SECONDS,
    DEFAULT_SPARK,
    EnvOption,
    GenerationOption,
    JsonOption,
    SealSecondsOption,
    SparkOption,
    open_environment,
    spark_at,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.tasks import run_task
from airflow_provider_schemamig.core.names import Generation


@answered
def cutover(
    env: EnvOption,
    generation: GenerationOption,
    seal_seconds: SealSecondsOption = DEFAULT_SEAL_SECONDS,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Follow and check what is rewritten, seal, catch up, rename, swap, commit: the environment is at the release after it."""
    from airflow_provider_schemamig.core import commands

    root, number = open_environment(env), Generation(generation)
    run = functools.partial(commands.cutover, root, number, seal_seconds=seal_seconds)
    answer = run_task(lambda listen: run(jobs=spark_at(spark, listen), listen=listen))
    commands.write_report_file(root, number)
    return answer
