"""Why a ledger row is not edited or deleted by hand. Nothing was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.core.ledger.admin.findings import LedgerFinding
from airflow_provider_schemamig.exceptions import Refusal


@dataclass(eq=False)
class LooksAlive(Refusal):
    """Somebody seems to be at work. ``signs``: who, in words."""

    code = "looks_alive"
    signs: Sequence[str]

    @property
    def message(self) -> str:
        return f"somebody seems to be at work in this environment: {'; '.join(self.signs)}."

    @property
    def next_action(self) -> str:
        return "Stop them or wait; if they are known to be dead, say --force."


@dataclass(eq=False)
class EditUnsound(Refusal):
    """The ledger would be less sound than before. ``findings``: what ``verify`` would find then and does not now."""

    code = "edit_unsound"
    findings: Sequence[LedgerFinding]

    @property
    def message(self) -> str:
        found = "; ".join(f"{finding.code} at {finding.where} ({finding.text})" for finding in self.findings)
        return f"after that `schemamig ledger verify` would find: {found}."

    @property
    def next_action(self) -> str:
        return "Correct the value; if it is one of several edits that are right only together, say --force and verify at the end."


@dataclass(eq=False)
class RowChanged(Refusal):
    """The row is not what it was when it was looked at. ``seen`` and ``found``: what is stored under the key; None: nothing."""

    code = "row_changed"
    where: str
    seen: str | None
    found: str | None

    @property
    def message(self) -> str:
        seen, found = ("nothing" if value is None else value for value in (self.seen, self.found))
        return f"somebody changed {self.where} since it was looked at: it was {seen}, now it is {found}."

    @property
    def next_action(self) -> str:
        return "Look again with `schemamig ledger dump`, and decide on what is there now."


@dataclass(eq=False)
class InvalidRow(Refusal):
    """A value that is no row of the collection, or not the one of the key."""

    code = "invalid_row"
    where: str
    reason: str

    @property
    def message(self) -> str:
        return f"the value is no row for {self.where}: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Take the row that `schemamig ledger dump --format jsonl` prints, and change in it what is wrong."


@dataclass(eq=False)
class UnknownRow(Refusal):
    """A collection, or a key of ``config`` or ``leader``, that this software does not know: nothing could check the value."""

    code = "unknown_row"
    where: str
    known: Sequence[str]

    @property
    def message(self) -> str:
        return f"this software knows no rows like {self.where}."

    @property
    def next_action(self) -> str:
        return f"Choose one of {', '.join(self.known)}. `schemamig ledger delete --force` takes away what no software needs."


@dataclass(eq=False)
class RowProtected(Refusal):
    """The row that says who the environment is and how to read it; ``--force`` changes nothing about that."""

    code = "row_protected"
    where: str
    reason: str

    @property
    def message(self) -> str:
        return f"{self.where} is not changed by hand: {self.reason}."

    @property
    def next_action(self) -> str:
        return "If it is damaged, bring a backup back: `schemamig ledger restore`; the format is changed by `schemamig ledger upgrade`."


@dataclass(eq=False)
class NotAudited(Refusal):
    """What is done by hand has to stand in the audit log, and that cannot be written."""

    code = "not_audited"
    note: str

    @property
    def message(self) -> str:
        return f"{self.note}; so nothing was changed."

    @property
    def next_action(self) -> str:
        return "Mend the audit log (it is a Delta table of its own); if the ledger cannot wait, say --force."
