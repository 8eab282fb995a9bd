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
    """Let busy writers wait for the last step of an online change after one lost race, not two, and for a fill that they outrun."""
    from airflow_provider_schemamig.core import commands

    return control_answer(commands.force(open_environment(env), collection))
