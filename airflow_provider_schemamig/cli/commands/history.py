"""``schemamig history``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_LIMIT = 50


@answered
def history(
    env: EnvOption,
    collection: Annotated[
        str | None, typer.Option("--collection", metavar="NAME", help="Only entries about this collection.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="The newest N.")] = DEFAULT_LIMIT,
    as_json: JsonOption = False,
) -> Answer:
    """List what was done in the environment, newest first: tasks and online changes with duration and outcome. Writes nothing."""
    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.upgrade.documents.history import entry_json, once_each

    root = open_environment(env)
    known = commands.read_state(root).objects  # refused where no environment is, and where newer software wrote it
    found = [entry for entry in commands.read_history(root) if collection in (None, entry.collection)]
    document = {"entries": [entry_json(entry) for entry in reversed(found[-limit:])]}
    each = once_each(found)
    shown, older = [entry_json(entry) for entry in reversed(each[-limit:])], len(each) - limit

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.rows import show_history

        if shown:
            show_history(to, shown)
            if older > 0:
                to.print(f"{older:,} older: --limit {len(each)} shows all.", style="dim")
        elif collection is not None and collection not in known:
            to.print(f"There are no entries, and no collection of the name {collection}.")
        else:
            to.print("There are no entries.")

    return Answer(document, show)
