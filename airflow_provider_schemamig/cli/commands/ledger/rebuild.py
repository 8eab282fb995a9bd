"""``schemamig ledger rebuild``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, ReleaseOption, local_path, open_environment, table_named
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console


@answered
def rebuild(
    env: EnvOption,
    release: ReleaseOption,
    table: Annotated[
        list[str] | None, typer.Option("--table", metavar="NAME=URI", help="A collection's table, where it cannot be told; several times.")
    ] = None,
    as_it_is: Annotated[
        list[str] | None,
        typer.Option(
            "--as-it-is",
            metavar="NAME",
            help="Accept this collection's table as it is, after `end_unknown` and a look at it; several times.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """Rebuild a ledger that was lost without a backup, from the tables and the environment's release."""
    from airflow_provider_schemamig.core import commands

    root = open_environment(env)
    done = commands.rebuild_ledger(root, local_path(release), [table_named(text) for text in table or ()], as_it_is or ())
    document = done.to_json(root)

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.common import show_facts, show_notes

        show_facts(to, {name: value for name, value in document.items() if name not in ("notes", "tables")})
        for found in document["tables"]:
            to.print(f"{found['collection']}: {found['uri']}", markup=False)
        show_notes(to, done.notes)

    return Answer(document, show)
