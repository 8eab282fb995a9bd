"""``schemamig ledger size``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console

from airflow_provider_schemamig.cli.options import open_ledger


@answered
def size(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Show what the ledger stores, how it grew from release to release, and how much `compact` would free."""
    from airflow_provider_schemamig.core import commands

    document = commands.ledger_size(open_ledger(env)).to_json()

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.ledger import show_size

        show_size(to, document)

    return Answer(document, show)
