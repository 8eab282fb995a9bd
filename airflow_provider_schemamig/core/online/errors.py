"""Why a change cannot be made on a live table, or went back."""

from __future__ import annotations

from airflow_provider_schemamig.exceptions import Conflict, Refusal


class NotOnline(Refusal):
    """A change that cannot be made on a live table: rows stand against it, and no operation makes it.

    ``is_early``: a later release may have it. ``stop``: a release on the way, of several.
    """

    code = "not_online"
    op: str
    path: str
    reason: str
    is_early: bool = False
    stop: str = ""

    @property
    def next_action(self) -> str:
        remedy = "declare a rewrite (docs/schema-changes.md), or give an added column a default."
        if self.is_early:
            remedy = "leave the key out of this release, and add it in the next one."
        if not self.stop:
            return remedy[0].upper() + remedy[1:]
        first = f"Upgrade to {self.stop} first (with that release's folder): what goes release by release may not go in one."
        return f"{first} If it is refused from there, too: {remedy}"

    @property
    def message(self) -> str:
        what = f"{self.op} of {self.path}" if self.path else self.op
        return f"{what} cannot be made while others read and write: {self.reason}."


class CannotBackfill(Refusal):
    """A table whose files schemamig cannot write anew with other values."""

    code = "cannot_backfill"
    message = "older rows cannot get a value of {column}: {reason}."
    next_action = "Declare a rewrite of the collection instead, or take away what stands in the way."
    column: str
    reason: str


class BackfillLogGone(Refusal):
    """Log cleanup removed the commits that record the filled files and the writers of their NULLs.

    ``since``: where the backfill began.
    """

    code = "backfill_log_gone"
    message = (
        "the backfill of {column} began at version {since} of {uri}, and version {version} of its log is gone: which rows are filled can "
        "no longer be known."
    )
    next_action = (
        "Take the change back with `schemamig rollback`, then start it again; raise delta.logRetentionDuration before, if the backfill "
        "takes longer than that."
    )
    uri: str
    column: str
    since: int
    version: int


class BackfillStarved(Conflict):
    """Writers make rows due faster than they are filled. ``first``: files due at the beginning; ``rewritten``: since then."""

    code = "backfill_starved"
    message = (
        "{rewritten:,} files were rewritten to fill {column}, and {first:,} were due at first: others change them again as fast as they "
        "are filled."
    )
    next_action = (
        "Try again when fewer UPDATEs, MERGEs and OPTIMIZEs run on the table: what is filled stays filled. `schemamig force --collection "
        "{collection}` lets them wait until it is done."
    )
    column: str
    first: int
    rewritten: int
