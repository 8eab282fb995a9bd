"""``schemamig ledger verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption
from airflow_provider_schemamig.cli.output import Answer, Exit, answered
from airflow_provider_schemamig.exceptions import Refusal

if TYPE_CHECKING:
    from rich.console import Console

from airflow_provider_schemamig.cli.options import open_ledger


class LedgerUnsound(Refusal):
    """``ledger verify`` found something; the findings are in the same document."""

    code = "ledger_unsound"
    message = "the ledger has {findings} finding(s)."
    next_action = "Stop upgrades of this environment, make a backup, and do what each finding says (docs/ledger.md)."
    findings: int


@answered
def verify(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Check everything that must hold: files, rows, between rows, and whether tables and plans are there. Exit 1 with the findings."""
    from airflow_provider_schemamig.core import commands

    findings = [finding.to_json() for finding in commands.verify_ledger(open_ledger(env))]
    document: dict[str, Any] = {"findings": findings}
    if findings:
        document["error"] = LedgerUnsound(findings=len(findings)).to_json()

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.ledger import show_findings

        show_findings(to, findings)

    return Answer(document, show, Exit.REFUSED if findings else Exit.DONE)
