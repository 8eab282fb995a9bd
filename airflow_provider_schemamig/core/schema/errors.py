"""Why two declarations cannot be compared, one not reached from the other in one step, or a change not be applied."""

from __future__ import annotations

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.exceptions import Refusal


class UnknownRename(Refusal):
    """A declared rename that the two declarations do not show."""

    code = "unknown_rename"
    message = "the rename of {path} to {name} is not allowed: {reason}."
    next_action = "Correct the step's rename: old dotted path to new last name."
    path: str
    name: str
    reason: str


class HiddenConflict(Refusal):
    """The table still has something that an earlier, rolled-back upgrade left, and the release wants something else in its place."""

    code = "hidden_conflict"
    message = "an upgrade that was rolled back left {path} ({found}) on the table, where this release wants {wanted}."
    path: str
    found: str
    wanted: str
    #: The release that was rolled back, where it has another column of that name and takes its own back.
    release: Version | None = None

    @property
    def next_action(self) -> str:
        other = f"eclare another name, or what is there; or drop {self.path} with Spark's ALTER TABLE ... DROP COLUMN"
        note = "have the ledger take note of that with `schemamig accept`, and run this again."
        if self.release is None:
            return f"D{other}, {note}"
        return f"Upgrade to {self.release} at once, as before: it takes its own columns back, with their values. Or d{other}, {note}"


class NameTaken(Refusal):
    """A new column takes the name of one that is renamed or dropped, and something has to use it before the old one is gone."""

    code = "name_taken"
    message = "{path} is a new column, its name belongs to another column until cut-over, and {used_by} needs it before that."
    next_action = "Rename or drop the old column in one release, and declare the new one in the next."
    path: str
    used_by: str


class NotApplicable(Refusal):
    """A change that contradicts the declaration it is applied to."""

    code = "not_applicable"
    message = "{op} {path} does not fit: {reason}."
    next_action = "Plan again from what is there now."
    op: str
    path: str
    reason: str
