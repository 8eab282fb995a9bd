"""``schemamig cleanup``."""

from __future__ import annotations

from airflow_provider_schemamig.cli.options import (
    EnvOption,
    GenerationOption,
    JsonOption,
    open_environment,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.tasks import run_task
from airflow_provider_schemamig.core.names import Generation


@answered
def cleanup(env: EnvOption, generation: GenerationOption, as_json: JsonOption = False) -> Answer:
    """Delete what earlier generations left and nothing references."""
    from airflow_provider_schemamig.core import commands

    return run_task(lambda listen: commands.cleanup(open_environment(env), Generation(generation), listen=listen))
