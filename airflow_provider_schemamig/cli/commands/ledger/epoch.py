"""``schemamig ledger epoch``."""

from __future__ import annotations

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, answered, facts


@answered
def epoch(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Show the leading generation and its epoch."""
    from airflow_provider_schemamig.core import commands

    leader = commands.read_state(open_environment(env)).leader
    generation, number = (leader.generation, leader.epoch) if leader is not None else (None, 0)
    return facts({"generation": generation, "epoch": number})
