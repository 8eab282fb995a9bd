"""``schemamig lint``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_schemamig.cli.options import JsonOption, ReleaseOption, local_path
from airflow_provider_schemamig.cli.output import Answer, Exit, answered, failure_document
from airflow_provider_schemamig.cli.render.lint import finding_json, show_findings
from airflow_provider_schemamig.exceptions import error_of

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.release.lint.run import Review
    from airflow_provider_schemamig.exceptions import SchemamigError


_FORMATS = ("text", "json", "github")


def lint(
    release: ReleaseOption,
    format_: Annotated[str, typer.Option("--format", metavar="FORMAT", help="text, json, or github (annotations of a workflow).")] = "text",
    as_json: JsonOption = False,
) -> None:
    """Report what is legal but unwise in a release: see docs/lint. Exit 1 if a finding is an error."""
    if format_ not in _FORMATS:
        raise typer.BadParameter(f"{format_!r} is not one of {', '.join(_FORMATS)}.", param_hint="'--format'")
    _lint(release=release, github=format_ == "github", as_json=as_json or format_ == "json")


@answered
def _lint(*, release: str, github: bool, as_json: bool) -> Answer:
    from airflow_provider_schemamig.core import commands

    folder = local_path(release)
    found = commands.review(folder)
    refusals = [*found.refusals, *found.errors]

    def show(to: Console) -> None:
        if github:
            to.print(*_annotations(folder, found), sep="\n", soft_wrap=True)
        else:
            _show(to, found)

    document = lint_document(found)
    if not refusals:
        return Answer(document, show)
    failed = bool(found.refusals) and not github  # on stderr as every failure; findings are what was asked for
    return Answer({**failure_document(error_of(refusals)), **document}, show, Exit.REFUSED, failed=failed)


def lint_document(found: Review) -> dict[str, Any]:
    """Return ``{"version", "findings", "allowed"}``; version is null where the folder cannot be read."""
    return {
        "version": None if found.release is None else str(found.release.version),
        "findings": [finding_json(finding) for finding in found.findings],
        "allowed": [{**finding_json(finding), "reason": finding.reason} for finding in found.allowed],
    }


def _show(to: Console, found: Review) -> None:
    if found.refusals:
        from airflow_provider_schemamig.cli.render.common import show_error

        show_error(to, error_of(found.refusals))
        return
    show_findings(to, found.findings)
    allowed = f", {len(found.allowed)} allowed" if found.allowed else ""
    assert found.release is not None  # no refusals means a release
    to.print(f"{found.release.name} {found.release.version}: {len(found.findings)} finding(s){allowed}.")


def _annotations(folder: Path, found: Review) -> Iterator[str]:
    """Yield the findings as GitHub's workflow commands, one line each: ``::error file=...,line=...,title=...::text``."""
    for refusal in found.refusals:
        yield _command("error", _place(folder, refusal), f"schemamig {refusal.code}", f"{refusal.message} {refusal.next_action}")
    for finding in found.findings:
        place = {"file": str(folder / finding.hit.file), "line": str(finding.hit.line)}
        text = f"{finding.hit.collection}: {finding.hit.text}" if finding.hit.collection else finding.hit.text
        yield _command(finding.rule.severity.value, place, f"{finding.rule.code} {finding.rule.name}", text)
    if not found.refusals and not found.findings:
        yield "nothing found"


def _place(folder: Path, refusal: SchemamigError) -> Mapping[str, str]:
    file, line = getattr(refusal, "file", None), getattr(refusal, "line", None)
    return {**({"file": str(folder / file)} if file else {}), **({"line": str(line)} if line else {})}


def _command(level: str, place: Mapping[str, str], title: str, text: str) -> str:
    properties = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in {**place, "title": title}.items())
    return f"::{level} {properties}::{_escaped(text, '')}"


def _escaped(text: str, also: str) -> str:
    """Escape a text for GitHub's workflow commands: percent signs and line ends, and in properties colons and commas."""
    for character in f"%\r\n{also}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
