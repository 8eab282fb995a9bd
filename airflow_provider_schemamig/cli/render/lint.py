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
    """Print each rule once, and under it its places, each on a line as compilers have them, so that editors find them."""
    from rich.text import Text  # here: the JSON of a finding needs no Rich

    from airflow_provider_schemamig.cli.render.common import print_indented

    by_rule: dict[str, list[LintFinding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule.code, []).append(finding)
    for code, alike in by_rule.items():
        rule = alike[0].rule
        to.print(Text.assemble((code, _STYLES[rule.severity.value]), f" {rule.name} ({rule.severity.value})"), soft_wrap=True)
        for text, mine in _by_text(alike).items():
            for finding in mine:
                to.print(Text.assemble(f"  {finding.where}", (f"  {finding.hit.collection or ''}".rstrip(), "cyan")), soft_wrap=True)
            print_indented(to, Text(text), by=4)


def _by_text(findings: Sequence[LintFinding]) -> dict[str, list[LintFinding]]:
    """Group findings by their text, to say it once."""
    found: dict[str, list[LintFinding]] = {}
    for finding in findings:
        found.setdefault(finding.hit.text, []).append(finding)
    return found
