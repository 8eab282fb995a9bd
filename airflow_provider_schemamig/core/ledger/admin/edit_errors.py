"""Why a ledger row is not edited or deleted by hand. Nothing was written."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_schemamig.core.ledger.admin.findings import LedgerFinding
from airflow_provider_schemamig.exceptions import Refusal


class LooksAlive(Refusal):
    """Somebody seems to be at work. ``signs``: who, in words."""

    code = "looks_alive"
    message = "somebody seems to be at work in this environment: {signs:; }."
    next_action = "Stop them or wait; if they are known to be dead, say --force."
    signs: Sequence[str]


class EditUnsound(Refusal):
    """The ledger would be less sound than before. ``findings``: what ``verify`` would find then and does not now."""

    code = "edit_unsound"
    next_action = "Correct the value; if it is one of several edits that are right only together, say --force and verify at the end."
    findings: Sequence[LedgerFinding]

    @property
    def message(self) -> str:
        found = "; ".join(f"{finding.code} at {finding.where} ({finding.text})" for finding in self.findings)
        return f"after that `schemamig ledger verify` would find: {found}."


class RowChanged(Refusal):
    """The row is not what it was when it was looked at. ``seen`` and ``found``: what is stored under the key; None: nothing."""

    code = "row_changed"
    next_action = "Look again with `schemamig ledger dump`, and decide on what is there now."
    where: str
    seen: str | None
    found: str | None

    @property
    def message(self) -> str:
        seen, found = ("nothing" if value is None else value for value in (self.seen, self.found))
        return f"somebody changed {self.where} since it was looked at: it was {seen}, now it is {found}."


class InvalidRow(Refusal):
    """A value that is no row of the collection, or not the one of the key."""

    code = "invalid_row"
    message = "the value is no row for {where}: {reason}."
    next_action = "Take the row that `schemamig ledger dump --format jsonl` prints, and change in it what is wrong."
    where: str
    reason: str


class UnknownRow(Refusal):
    """A collection, or a key of ``config`` or ``leader``, that this software does not know: nothing could check the value."""

    code = "unknown_row"
    message = "this software knows no rows like {where}."
    next_action = "Choose one of {known}. `schemamig ledger delete --force` takes away what no software needs."
    where: str
    known: Sequence[str]


class RowProtected(Refusal):
    """The row with the environment's id and format, not changed by hand even with ``--force``."""

    code = "row_protected"
    message = "{where} is not changed by hand: {reason}."
    next_action = (
        "If it is damaged, bring a backup back: `schemamig ledger restore FOLDER`; the format is changed by `schemamig ledger upgrade`."
    )
    where: str
    reason: str


class NotAudited(Refusal):
    """An edit by hand has to stand in the audit log, which cannot be written."""

    code = "not_audited"
    message = "{note}; so nothing was changed."
    next_action = "Repair the audit log (it is a Delta table of its own); if the ledger cannot wait, say --force."
    note: str
