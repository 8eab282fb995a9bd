"""``schemamig pause``."""

from __future__ import annotations

from airflow_provider_schemamig.cli.options import (
    EnvOption,
    JsonOption,
    ReasonOption,
    ScopeOption,
    open_environment,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.tasks import control_answer


@answered
def pause(env: EnvOption, collection: ScopeOption = None, reason: ReasonOption = None, as_json: JsonOption = False) -> Answer:
    """Stop upgrades where they are: no batch of rows, promotion, seal or commit begins. What is in flight ends."""
    from airflow_provider_schemamig.core import commands

    return control_answer(commands.pause(open_environment(env), collection, reason=reason))
