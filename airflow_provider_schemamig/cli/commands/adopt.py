"""``schemamig adopt``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_schemamig.cli.options import (
    CreateOption,
    EnvOption,
    JsonOption,
    ReleaseOption,
    local_path,
    open_environment,
    table_named,
)
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console
from airflow_provider_schemamig.cli.output import show_files

TableOption = Annotated[
    list[str] | None, typer.Option("--table", metavar="NAME=URI", help="A table and the collection it becomes; several times.")
]
DiscoverOption = Annotated[
    list[str] | None,
    typer.Option("--discover", metavar="URI", help="A folder: each table right below it becomes a collection called like its folder."),
]


@answered
def adopt(
    env: EnvOption,
    release: ReleaseOption,
    table: TableOption = None,
    discover: DiscoverOption = None,
    create: CreateOption = False,
    as_json: JsonOption = False,
) -> Answer:
    """Take existing Delta tables under management, without a commit on them: write what they are into the release, record them."""
    from airflow_provider_schemamig.core import commands

    if not table and not discover:
        raise typer.BadParameter("name tables, or a folder that has some.", param_hint="'--table', '--discover'")
    named = [table_named(text) for text in table or ()]
    done = commands.adopt(open_environment(env), local_path(release), named, below=discover or (), create=create)
    document = done.to_json()
    return Answer(document, lambda to: _show_adopted(to, document))


def _show_adopted(to: Console, document: Mapping[str, Any]) -> None:
    from airflow_provider_schemamig.cli.render.common import show_notes

    if not document["tables"]:
        to.print("These tables are managed already: there is nothing to do.")
        return
    to.print(f"{len(document['tables'])} table(s) adopted at {document['version']}; none got a commit", style="bold")
    for found in document["tables"]:
        to.print(f"  {found['collection']}  {found['uri']}{'  (read only)' if found['read_only'] else ''}")
    show_files(to, document["files"])
    show_notes(to, document["notes"])
    first = "commit the release folder; " if document["files"] else ""
    to.print(f"next: {first}`schemamig new TITLE` begins its next version.")
