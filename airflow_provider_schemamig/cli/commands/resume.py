"""``schemamig resume``."""

from __future__ import annotations

from airflow_provider_schemamig.cli.options import (
    EnvOption,
    JsonOption,
    ScopeOption,
    open_environment,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.tasks import control_answer


@answered
def resume(env: EnvOption, collection: ScopeOption = None, as_json: JsonOption = False) -> Answer:
    """End a pause, a postponement or a force. Limits stay."""
    from airflow_provider_schemamig.core import commands

    opened = open_environment(env)
    control = commands.resume(opened, collection)
    return control_answer(control, commands.still_paused(opened, control))
