"""``schemamig ledger compact``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from airflow_provider_schemamig.core.ledger.store import LedgerWriter
from airflow_provider_schemamig.cli.output import facts


@answered
def compact(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Consolidate the history until now into one file. Older versions cannot be read afterwards."""
    from airflow_provider_schemamig.core import commands

    state = commands.compact_ledger(_writer(env))
    return facts({"version": state.version, "since": state.since})


def _writer(env: str) -> LedgerWriter:
    from airflow_provider_schemamig.core.ledger.store import LedgerWriter

    return LedgerWriter(open_environment(env))
