"""``schemamig ledger upgrade``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console


@answered
def upgrade(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Bring the ledger to this software's format. Older software is refused here afterwards."""
    from airflow_provider_schemamig.core import commands

    document = commands.upgrade_ledger(open_environment(env)).to_json()

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.ledger import show_format_upgrade

        show_format_upgrade(to, document)

    return Answer(document, show)
