"""The commands on release folders and schema files: nothing here needs an environment, and only ``init`` and ``snapshot`` write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import JsonOption, ReleaseOption, local_path
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

app = typer.Typer()
PANEL = "Write a release"


@app.command(rich_help_panel=PANEL)
@answered
def init(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder to make; its name becomes the data product's.")],
    as_json: JsonOption = False,
) -> Answer:
    """Make a release folder at version 1.0.0 that passes check."""
    from airflow_provider_schemamig.core.release import scaffold
    from airflow_provider_schemamig.core.storage import Location

    path = local_path(folder)
    name = re.sub(r"[^A-Za-z0-9_-]", "_", path.absolute().name)
    written = scaffold.init(path, name)
    uri = Location.parse(str(path)).uri
    document = {"uri": uri, "name": name, "version": str(written.version), "files": list(written.files)}
    return Answer(document, lambda to: _show_files(to, f"{name} {written.version} in {path}", written.files))


@app.command(rich_help_panel=PANEL)
@answered
def snapshot(release: ReleaseOption, as_json: JsonOption = False) -> Answer:
    """Freeze schema.sql as snapshots/<version>.sql and update the lock."""
    from airflow_provider_schemamig.core.release import scaffold

    written = scaffold.snapshot(local_path(release))
    document = {"version": str(written.version), "files": list(written.files)}
    title = f"{written.version} is frozen" if written.files else f"{written.version} was frozen already"
    return Answer(document, lambda to: _show_files(to, title, written.files))


@app.command(rich_help_panel=PANEL)
@answered
def check(release: ReleaseOption, as_json: JsonOption = False) -> Answer:
    """Everything that can be known without an environment: files, lock, modules, SQL, chain."""
    from airflow_provider_schemamig.core.release.check import load_checked

    found = load_checked(local_path(release))
    versions = [str(version) for version in found.versions]
    document = {
        "name": found.name,
        "version": str(found.version),
        "min_version": str(found.min_version),
        "versions": versions,
        "refusals": [],
    }
    count = len(found.declarations(found.version))
    text = f"{found.name} {found.version}: {count:,} collection(s), {len(versions)} version(s) from {found.min_version} on. All is well."
    return Answer(document, lambda to: to.print(text))


@app.command(rich_help_panel=PANEL)
@answered
def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A .sql file, or a Spark StructType as .json.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The same for afterwards.")],
    as_json: JsonOption = False,
) -> Answer:
    """What changes from one schema to another, and what that costs: none, instant, online or rewrite."""
    from airflow_provider_schemamig.cli.compare import compare_files

    document = compare_files(local_path(old), local_path(new))

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render import show_diff

        show_diff(to, document)

    return Answer(document, show)


def _show_files(to: Console, title: str, files: Sequence[str]) -> None:
    to.print(title, style="bold")
    for file in files:
        to.print(f"  {file}")
