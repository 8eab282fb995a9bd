"""``schemamig new``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import JsonOption, ReleaseOption, local_path
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.release.authoring.draft import Ask, RenameQuestion
    from airflow_provider_schemamig.core.release.authoring.new import Begun


_PARTS = ("major", "minor", "patch")


@answered
def new(
    title: Annotated[str, typer.Argument(metavar="TITLE", help="What changes, in one line.")],
    release: ReleaseOption,
    part: Annotated[str, typer.Option("--part", metavar="PART", help="What grows: major, minor or patch.")] = "minor",
    version: Annotated[str | None, typer.Option("--version", metavar="X.Y.Z", help="The version itself.", show_default=False)] = None,
    as_json: JsonOption = False,
) -> Answer:
    """Begin the next version: draft the steps from the last snapshot to schema.sql."""
    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.names import Version
    from airflow_provider_schemamig.core.release.authoring.new import Part

    if part not in _PARTS:
        raise typer.BadParameter(f"{part!r} is not one of {', '.join(_PARTS)}.", param_hint="'--part'")
    wanted = None if version is None else Version.parse(version)
    ask = None if as_json or not sys.stdin.isatty() else _ask()
    begun = commands.new_release(local_path(release), title, version=wanted, part=Part(part), ask=ask)
    document = {
        "version": str(begun.version),
        "files": list(begun.files),
        "steps": [{"kind": draft.step.kind, "collection": draft.step.collection} for draft in begun.drafts],
        "questions": [question for draft in begun.drafts for question in draft.questions],
    }
    return Answer(document, lambda to: _show_begun(to, begun))


def _ask() -> Ask:
    """Return a function that asks on the terminal (stderr); Ctrl-C and Ctrl-D end the command before anything is written."""

    def ask(question: RenameQuestion) -> bool:
        try:
            return typer.confirm(question.text, default=False, err=True)
        except typer.Abort as stopped:
            raise KeyboardInterrupt("Ctrl-D" if isinstance(stopped.__context__, EOFError) else "") from None

    return ask


def _show_begun(to: Console, begun: Begun) -> None:
    to.print(f"{begun.version} is begun", style="bold")
    for file in begun.files:
        to.print(f"  {file}")
    count = sum(len(draft.questions) for draft in begun.drafts)
    file = begun.files[-1]
    first = f"decide the {count + 1} question(s) in {file} (one is why)" if count else f"say why in {file}"
    to.print(f"next: {first}, then `schemamig snapshot` and `schemamig check`.")
