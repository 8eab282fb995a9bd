"""The commands about tables that were there before, or were changed by somebody else: ``adopt``, ``unmanage``, ``accept``, ``revert``."""

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
    from collections.abc import Mapping, Sequence

    from rich.console import Console

app = typer.Typer()
PANEL = "Existing tables, and drift"

TableOption = Annotated[
    list[str], typer.Option("--table", metavar="NAME=URI", help="A table and the collection it becomes; several times.", show_default=False)
]
NameOption = Annotated[str, typer.Option("--collection", metavar="NAME", help="The collection.", show_default=False)]
NamesOption = Annotated[
    list[str] | None, typer.Option("--collection", metavar="NAME", help="Only this one; several times. Default: all that drifted.")
]


@app.command(rich_help_panel=PANEL)
@answered
def adopt(env: EnvOption, release: ReleaseOption, table: TableOption, create: CreateOption = False, as_json: JsonOption = False) -> Answer:
    """Take existing Delta tables under management, without a commit on them: write what they are into the release, record them."""
    from airflow_provider_schemamig.core.upgrade.adopt.adopt import adopt as take

    done = take(open_environment(env), local_path(release), [table_named(text) for text in table], create=create)
    tables = [
        {
            "collection": found.collection,
            "uri": found.uri,
            "shard": found.shard,
            "table_version": found.table_version,
            "read_only": found.read_only,
        }
        for found in done.tables
    ]
    document = {
        "version": str(done.version),
        "generation": done.generation,
        "files": list(done.files),
        "tables": tables,
        "notes": list(done.notes),
    }
    return Answer(document, lambda to: _show_adopted(to, document))


@app.command(rich_help_panel=PANEL)
@answered
def unmanage(env: EnvOption, collection: NameOption, as_json: JsonOption = False) -> Answer:
    """Give a collection's table back: the environment forgets it, the table stays as it is."""
    from airflow_provider_schemamig.core.upgrade.drift.unmanage import unmanage as give_back

    done = give_back(open_environment(env), collection)
    document = {"collection": done.collection, "uri": done.uri, "unmanaged": done.uri is not None, "notes": list(done.notes)}

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render import show_notes

        if done.uri is None:
            to.print(f"{done.collection} was given back before.")
            return
        to.print(f"{done.collection} is not managed any more; its table stays at {done.uri}", style="bold")
        show_notes(to, done.notes)
        to.print(f'next: the next version of the release leaves it out of schema.sql, with removal("{done.collection}") in its module.')

    return Answer(document, show)


@app.command(rich_help_panel=PANEL)
@answered
def accept(env: EnvOption, release: ReleaseOption, collection: NamesOption = None, as_json: JsonOption = False) -> Answer:
    """Drift: take what somebody did to tables into the release, as its next version with the steps inferred."""
    from airflow_provider_schemamig.core.schema.describe import change_json
    from airflow_provider_schemamig.core.upgrade.drift.accept import accept as take_over

    done = take_over(open_environment(env), local_path(release), collection or ())
    accepted = [{"collection": name, "changes": [change_json(change) for change in changes]} for name, changes in done.changes]
    document = {
        "version": str(done.version) if done.version else None,
        "files": list(done.files),
        "accepted": accepted,
        "notes": list(done.notes),
    }

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render import show_notes

        if not done.changes:
            to.print("No table drifted: there is nothing to take over.")
            return
        to.print(f"taken over into {done.version}", style="bold")
        for item in accepted:
            _show_changes(to, item)
        _show_files(to, done.files)
        show_notes(to, done.notes)
        to.print("next: read the module, say why, commit the folder, then `schemamig upgrade`: the tables have it already.")

    return Answer(document, show)


@app.command(rich_help_panel=PANEL)
@answered
def revert(
    env: EnvOption,
    collection: NameOption,
    allow_lossy: Annotated[bool, typer.Option("--allow-lossy", help="Even if values are lost with it.")] = False,
    as_json: JsonOption = False,
) -> Answer:
    """Drift: undo what somebody did to a table, in one metadata commit."""
    from airflow_provider_schemamig.core.schema.describe import change_json
    from airflow_provider_schemamig.core.upgrade.drift.revert import revert as undo

    done = undo(open_environment(env), collection, allow_lossy=allow_lossy)
    changes = [change_json(change) for change in done.changes]
    document = {
        "collection": done.collection,
        "table_version": done.table_version,
        "changes": changes,
        "losses": list(done.losses),
        "notes": list(done.notes),
    }

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render import show_notes

        if done.table_version is None:
            to.print(f"{done.collection} is as recorded: there is nothing to undo.")
            return
        to.print(f"{done.collection} is as recorded again, by version {done.table_version} of its table", style="bold")
        _show_changes(to, document)
        show_notes(to, [*done.losses, *done.notes])

    return Answer(document, show)


def _show_adopted(to: Console, document: Mapping[str, Any]) -> None:
    from airflow_provider_schemamig.cli.render import show_notes

    if not document["tables"]:
        to.print("These tables are managed already: there is nothing to do.")
        return
    to.print(f"{len(document['tables'])} table(s) adopted at {document['version']}; none got a commit", style="bold")
    for found in document["tables"]:
        to.print(f"  {found['collection']}  {found['uri']}{'  (read only)' if found['read_only'] else ''}")
    _show_files(to, document["files"])
    show_notes(to, document["notes"])
    to.print("next: commit the release folder; changes of these tables are made by its next versions.")


def _show_changes(to: Console, document: Mapping[str, Any]) -> None:
    for change in document["changes"]:
        to.print(f"  {document['collection']}: {change['text']}")


def _show_files(to: Console, files: Sequence[str]) -> None:
    for file in files:
        to.print(f"  {file}")
