"""``schemamig promote``."""

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
def promote(env: EnvOption, generation: GenerationOption, as_json: JsonOption = False) -> Answer:
    """Make the generation the leader, if its plan is still the one that was checked."""
    from airflow_provider_schemamig.core import commands

    follow = ", ".join(f"`schemamig {task} --generation {generation}`" for task in ("expand", "change", "cutover"))
    return run_task(
        lambda listen: commands.promote(open_environment(env), Generation(generation), listen=listen),
        without_stages=f"It leads. next: {follow}, in this order; `schemamig rollback` takes it back.",
    )
