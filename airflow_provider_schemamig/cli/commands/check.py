"""``schemamig check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.cli.options import JsonOption, ReleaseOption, local_path
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.render.lint import finding_json, show_findings
from airflow_provider_schemamig.exceptions import raise_refusals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from airflow_provider_schemamig.core.release.folder.read import Release
    from airflow_provider_schemamig.core.release.lint.model import LintFinding


@answered
def check(release: ReleaseOption, as_json: JsonOption = False) -> Answer:
    """Check everything that can be known without an environment: files, lock, modules, SQL, chain, lint."""
    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.release.lint.model import Severity

    reviewed = commands.review(local_path(release))
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


def _check_document(found: Release, warnings: Sequence[LintFinding]) -> dict[str, Any]:
    return {
        "name": found.name,
        "version": str(found.version),
        "min_version": str(found.min_version),
        "versions": [str(version) for version in found.versions],
        "refusals": [],
        "warnings": [finding_json(warning) for warning in warnings],
    }
