"""Why a change cannot be made on a live table, or went back."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Conflict, Refusal


@dataclass(eq=False)
class NotOnline(Refusal):
    """A change that rows stand against, and that no operation makes on a live table."""

    code = "not_online"
    op: str
    path: str
    reason: str

    @property
    def message(self) -> str:
        what = f"{self.op} of {self.path}" if self.path else self.op
        return f"{what} cannot be made while others read and write: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Declare a rewrite (docs/schema-changes.md), or give an added column a default."


@dataclass(eq=False)
class CannotBackfill(Refusal):
    """A table whose files schemamig cannot write anew with other values."""

    code = "cannot_backfill"
    column: str
    reason: str

    @property
    def message(self) -> str:
        return f"older rows cannot get a value of {self.column}: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Declare a rewrite of the collection instead, or take away what stands in the way; nothing was written."


@dataclass(eq=False)
class BackfillLogGone(Refusal):
    """Commits that say which files are filled, and whose NULLs are whose, were cleaned up. ``since``: where the backfill began."""

    code = "backfill_log_gone"
    uri: str
    column: str
    since: int
    version: int

    @property
    def message(self) -> str:
        return (
            f"the backfill of {self.column} began at version {self.since} of {self.uri}, and version {self.version} of its log is gone: "
            "which rows are filled can no longer be known."
        )

    @property
    def next_action(self) -> str:
        return (
            "Take the change back with `schemamig rollback`, then start it again; "
            "raise delta.logRetentionDuration before, if the backfill takes longer than that."
        )


@dataclass(eq=False)
class BackfillStarved(Conflict):
    """Writers make rows due faster than they are filled. ``first``: files due at the beginning; ``rewritten``: since then."""

    code = "backfill_starved"
    column: str
    first: int
    rewritten: int

    @property
    def message(self) -> str:
        return (
            f"{self.rewritten:,} files were rewritten to fill {self.column}, and {self.first:,} were due at first: "
            "others change them again as fast as they are filled."
        )

    @property
    def next_action(self) -> str:
        again = "Try again when fewer UPDATEs, MERGEs and OPTIMIZEs run on the table: what is filled stays filled"
        return f"{again}. `schemamig force --collection {self.collection}` lets them wait until it is done."
