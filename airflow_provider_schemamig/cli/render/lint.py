"""Findings of ``lint``: as JSON, and one line each as compilers have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.release.lint.model import LintFinding

_STYLES = {"error": "bold red", "warning": "yellow", "notice": "dim"}


def finding_json(finding: LintFinding) -> dict[str, Any]:
    hit, rule = finding.hit, finding.rule
    return {
        "rule": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "collection": hit.collection,
        "file": hit.file,
        "line": hit.line,
        "text": hit.text,
    }


def show_findings(to: Console, findings: Sequence[LintFinding]) -> None:
    """Print one line a finding, as compilers do, so that editors find the place."""
    from rich.text import Text  # here: the JSON of a finding needs no Rich

    from airflow_provider_schemamig.cli.render.common import print_indented

    for finding in findings:
        severity = finding.rule.severity.value
        head = Text.assemble(
            f"{finding.where}: ", (finding.rule.code, _STYLES[severity]), f" {finding.rule.name} ({severity})", style="default"
        )
        if finding.hit.collection:
            head.append(f"  {finding.hit.collection}", style="cyan")
        to.print(head, soft_wrap=True)
        print_indented(to, Text(finding.hit.text))
