"""``schemamig rebase``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import JsonOption, ReleaseOption, local_path
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.release.authoring.new import Rebased


@answered
def rebase(
    release: ReleaseOption,
    onto: Annotated[
        str | None,
        typer.Option("--onto", metavar="X.Y.Z", help="The version it comes after; else the newest other one.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """Renumber your unreleased version, because another branch released the same or a later one."""
    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.names import Version

    done = commands.rebase_release(local_path(release), None if onto is None else Version.parse(onto))
    document = {"from": str(done.before), "version": str(done.version), "files": list(done.files), "deleted": list(done.deleted)}
    return Answer(document, lambda to: _show_rebased(to, done))


def _show_rebased(to: Console, done: Rebased) -> None:
    to.print(f"{done.before} is {done.version} now", style="bold")
    for file in done.files:
        to.print(f"  {file}")
    for file in done.deleted:
        to.print(f"  {file} (deleted)")
    to.print("next: merge the other branch if that is not done yet, then `schemamig snapshot` and `schemamig check`.")
