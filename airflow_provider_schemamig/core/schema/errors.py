"""Why two declarations cannot be compared, one not reached from the other in one step, or a change not be applied."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Refusal


@dataclass(eq=False)
class UnknownRename(Refusal):
    """A declared rename that the two declarations do not show."""

    code = "unknown_rename"
    path: str
    name: str
    reason: str

    @property
    def message(self) -> str:
        return f"the rename of {self.path} to {self.name} cannot be: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Correct the step's rename: old dotted path to new last name."


@dataclass(eq=False)
class HiddenConflict(Refusal):
    """The table still has something that an earlier, rolled-back upgrade left, and the release wants something else in its place."""

    code = "hidden_conflict"
    path: str
    found: str
    wanted: str

    @property
    def message(self) -> str:
        return f"an upgrade that was rolled back left {self.path} ({self.found}) on the table, where this release wants {self.wanted}."

    @property
    def next_action(self) -> str:
        return (
            "Declare another name, or what is there; or drop it with Spark's ALTER TABLE ... DROP COLUMN, "
            "have the ledger take note of that with `schemamig accept`, and run this again."
        )


@dataclass(eq=False)
class NameTaken(Refusal):
    """A new column takes the name of one that is renamed or dropped, and something has to use it before the old one is gone."""

    code = "name_taken"
    path: str
    used_by: str

    @property
    def message(self) -> str:
        return f"{self.path} is a new column, its name belongs to another column until cut-over, and {self.used_by} needs it before that."

    @property
    def next_action(self) -> str:
        return "Rename or drop the old column in one release, and declare the new one in the next."


@dataclass(eq=False)
class NotApplicable(Refusal):
    """A change that contradicts what it is applied to."""

    code = "not_applicable"
    op: str
    path: str
    reason: str

    @property
    def message(self) -> str:
        return f"{self.op} {self.path} does not fit: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Plan again from what is there now."
