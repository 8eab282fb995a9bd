"""The commands on release folders and schema files: nothing here needs an environment, and only ``init`` and ``snapshot`` write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_schemamig.cli.lint import finding_json, show_findings
from airflow_provider_schemamig.cli.options import JsonOption, ReleaseOption, local_path
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.exceptions import raise_refusals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from airflow_provider_schemamig.core.release.folder.read import Release
    from airflow_provider_schemamig.core.release.lint.model import Finding

app = typer.Typer()
PANEL = "Write a release"


@app.command(rich_help_panel=PANEL)
@answered
def init(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder to make; its name becomes the data product's.")],
    as_json: JsonOption = False,
) -> Answer:
    """Make a release folder at version 1.0.0 that passes check."""
    from airflow_provider_schemamig.core.release.authoring import scaffold
    from airflow_provider_schemamig.core.storage import Location

    path = local_path(folder)
    name = re.sub(r"[^A-Za-z0-9_-]", "_", path.absolute().name)
    written = scaffold.init(path, name)
    uri = Location.of_files(path).uri
    document = {"uri": uri, "name": name, "version": str(written.version), "files": list(written.files)}
    return Answer(document, lambda to: _show_files(to, f"{name} {written.version} in {path}", written.files))


@app.command(rich_help_panel=PANEL)
@answered
def snapshot(release: ReleaseOption, as_json: JsonOption = False) -> Answer:
    """Freeze schema.sql as snapshots/<version>.sql and update the lock."""
    from airflow_provider_schemamig.core.release.authoring import scaffold

    written = scaffold.snapshot(local_path(release))
    document = {"version": str(written.version), "files": list(written.files)}
    title = f"{written.version} is frozen" if written.files else f"{written.version} was frozen already"
    return Answer(document, lambda to: _show_files(to, title, written.files))


@app.command(rich_help_panel=PANEL)
@answered
def check(release: ReleaseOption, as_json: JsonOption = False) -> Answer:
    """Everything that can be known without an environment: files, lock, modules, SQL, chain, lint."""
    from airflow_provider_schemamig.core.release.lint.model import Severity
    from airflow_provider_schemamig.core.release.lint.run import review

    reviewed = review(local_path(release))
    raise_refusals([*reviewed.refusals, *reviewed.errors])
    found = reviewed.release
    assert found is not None  # no refusal means a release
    warnings = [finding for finding in reviewed.findings if finding.rule.severity is Severity.WARNING]
    document = _check_document(found, warnings)
    count, versions = len(found.declarations(found.version)), len(document["versions"])
    last = "All is well." if not warnings else f"{len(warnings)} warning(s)."
    text = f"{found.name} {found.version}: {count:,} collection(s), {versions} version(s) from {found.min_version} on. {last}"

    def show(to: Console) -> None:
        show_findings(to, warnings)
        to.print(text)

    return Answer(document, show)


def _check_document(found: Release, warnings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "name": found.name,
        "version": str(found.version),
        "min_version": str(found.min_version),
        "versions": [str(version) for version in found.versions],
        "refusals": [],
        "warnings": [finding_json(warning) for warning in warnings],
    }


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
