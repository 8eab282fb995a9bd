"""``schemamig ledger compact``."""

from __future__ import annotations

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, open_ledger_to_write
from airflow_provider_schemamig.cli.output import Answer, answered, facts


@answered
def compact(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Consolidate the history until now into one file. Older versions cannot be read afterwards."""
    from airflow_provider_schemamig.core import commands

    state = commands.compact_ledger(open_ledger_to_write(env))
    return facts({"version": state.version, "since": state.since})
