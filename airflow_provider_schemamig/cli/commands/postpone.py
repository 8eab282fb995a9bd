"""``schemamig postpone``."""

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
def postpone(env: EnvOption, collection: ScopeOption = None, reason: ReasonOption = None, as_json: JsonOption = False) -> Answer:
    """Hold back the last step of online changes until `resume`. Rows are still filled; a change of type holds back the cut-over."""
    from airflow_provider_schemamig.core import commands

    opened = open_environment(env)
    control = commands.postpone(opened, collection, reason=reason)
    return control_answer(control, commands.still_paused(opened, control))
