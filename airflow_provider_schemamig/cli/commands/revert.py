"""``schemamig revert``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import (
    EnvOption,
    JsonOption,
    open_environment,
)
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console
from airflow_provider_schemamig.cli.options import CollectionOption
from airflow_provider_schemamig.cli.output import show_changes


@answered
def revert(
    env: EnvOption,
    collection: CollectionOption,
    allow_lossy: Annotated[bool, typer.Option("--allow-lossy", help="Revert even if values are lost.")] = False,
    as_json: JsonOption = False,
) -> Answer:
    """Revert drift: bring a table back to what the ledger records, in one metadata commit."""
    from airflow_provider_schemamig.core import commands

    done = commands.revert(open_environment(env), collection, allow_lossy=allow_lossy)
    document = done.to_json()

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.common import show_notes

        if done.table_version is None:
            to.print(f"{done.collection} is as recorded: there is nothing to undo.")
            return
        to.print(f"{done.collection} is as recorded again, by version {done.table_version} of its table", style="bold")
        show_changes(to, document)
        show_notes(to, [*done.losses, *done.notes])

    return Answer(document, show)
