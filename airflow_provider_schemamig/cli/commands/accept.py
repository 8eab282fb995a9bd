"""``schemamig accept``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import (
    EnvOption,
    JsonOption,
    ReleaseOption,
    local_path,
    open_environment,
)
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console
from airflow_provider_schemamig.cli.output import show_changes, show_files

NamesOption = Annotated[
    list[str] | None, typer.Option("--collection", metavar="NAME", help="Only this one; several times. Default: all that drifted.")
]


@answered
def accept(env: EnvOption, release: ReleaseOption, collection: NamesOption = None, as_json: JsonOption = False) -> Answer:
    """Accept drift: write what somebody did to tables into the release, as its next version with inferred steps."""
    from airflow_provider_schemamig.core import commands

    done = commands.accept(open_environment(env), local_path(release), collection or ())
    document = done.to_json()

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.common import show_notes

        if not done.changes:
            to.print("Nothing was taken over." if done.notes else "No table drifted: there is nothing to take over.")
            show_notes(to, done.notes)
            return
        where = f" into {done.version}" if done.files else f"; {done.version} needs no new version for it"
        to.print(f"taken over{where}", style="bold")
        for item in document["accepted"]:
            show_changes(to, item)
        show_files(to, done.files)
        show_notes(to, done.notes)
        if done.files:
            first = "read the module, " if any(name.startswith("migrations/") for name in done.files) else ""
            to.print(f"next: {first}commit the folder, then `schemamig upgrade`: the tables have it already.")

    return Answer(document, show)
