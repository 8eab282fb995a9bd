"""``schemamig force``."""

from __future__ import annotations

from airflow_provider_schemamig.cli.options import (
    CollectionOption,
    EnvOption,
    JsonOption,
    open_environment,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.tasks import control_answer


@answered
def force(env: EnvOption, collection: CollectionOption, as_json: JsonOption = False) -> Answer:
    """Finish an online change by briefly blocking writers."""
    from airflow_provider_schemamig.core import commands

    opened = open_environment(env)
    control = commands.force(opened, collection)
    return control_answer(control, commands.still_paused(opened, control))
