"""Why rows could not be copied or followed (the layer's branch of the error tree)."""

from __future__ import annotations

import pendulum

from airflow_provider_schemamig.core.times import minute
from airflow_provider_schemamig.exceptions import Conflict, Refusal


class CardinalityChanged(Refusal):
    """``up`` gave more or fewer rows than it read, and the step does not say that it may."""

    code = "cardinality_changed"
    message = "the rewrite read {rows_in:,} rows and made {rows_out:,} of them."
    next_action = 'Correct `up`, or say cardinality="any" in the step if rows may be split or left out.'
    rows_in: int
    rows_out: int


class RewriteDiffers(Conflict):
    """The new shard does not hold what ``up`` makes of the old one; nothing was committed, and the copy is made anew."""

    code = "rewrite_differs"
    message = "{at}: the digest of the new shard ({found}) is not that of the rewritten rows ({expected})."
    next_action = (
        "Run the upgrade again: it copies again. If it happens twice, `up` gives other rows each time (a session setting, floating point "
        "sums) or somebody writes into the new shard."
    )
    at: str
    expected: str
    found: str


class CopyTooOld(Conflict):
    """The version the copy began at is further back than the table keeps its history: the copy has to begin anew."""

    code = "copy_too_old"
    next_action = (
        "Run preflight again: it starts a new copy. `schemamig pin --collection NAME --hours N` keeps the history longer, if a copy takes "
        "that long."
    )
    shard: str
    version: int
    since: pendulum.DateTime
    kept_hours: float

    @property
    def message(self) -> str:
        return (
            f"the copy of shard {self.shard} follows it from version {self.version} ({minute(self.since)}), and the table keeps "
            f"only {self.kept_hours:.0f} hours of removed files and log."
        )


class StepAlreadyMade(Conflict):
    """Another process of this generation made the very step; look again and go on from there."""

    code = "twin_was_first"
    message = "another process of this generation has just done {step}."
    next_action = "Try again: it goes on from there."
    step: str


class Paused(Conflict):
    """A person told this work to wait. Nothing is wrong, and it goes on where it is when it is run again.

    ``scopes``: the keys of the controls that say so; ``hours``: whether their hours count, too (``throttle.is_over``).
    """

    code = "paused"
    message = "{stage} waits: {why}."
    next_action = "Run it again when that is over; {how_to_end}."
    stage: str
    why: str
    scopes: tuple[str, ...]
    hours: bool

    @property
    def how_to_end(self) -> str:
        """Return the commands that end it; each takes back only the controls of its own scope."""
        names = dict.fromkeys(scope.removeprefix("last_step/") for scope in self.scopes)
        commands = ["`schemamig resume`" if name == "*" else f"`schemamig resume --collection {name}`" for name in names]
        return f"{', '.join(commands)} {'ends' if len(commands) == 1 else 'end'} a pause or a postponement"


class NeverSettles(Conflict):
    """Catching up with a table's writers takes as long after every round, and longer than they may be locked out.

    ``limit``: for how long they may be; half of that is left for the digest. ``tables``: how many are sealed together, and are caught up
    with one after the other; the slowest is ``collection``.
    """

    code = "tail_never_settles"
    next_action = (
        "Try again when fewer writers are at work, give Spark more cores, or let writers wait longer (`--seal-seconds`, `seal_seconds` of "
        "the operator)."
    )
    seconds: float
    limit: float
    tables: int = 1

    @property
    def message(self) -> str:
        whose = "its writers are" if self.tables == 1 else f"the writers of {self.tables} tables are"
        return (
            f"{whose} too fast: after each round {self.seconds:.0f} s of changes remain, and writers may be blocked for "
            f"{self.limit:.0f} s at most, digests included."
        )


class CannotCompact(Refusal):
    """A table with files that schemamig cannot replace one by one. It is read right all the same."""

    code = "cannot_compact"
    message = "its files cannot be rewritten: {reason}."
    next_action = "Leave it as it is (readers see no difference), or let Delta rewrite it: REORG TABLE ... APPLY (PURGE)."
    reason: str


class FilesMoved(Conflict):
    """Somebody deleted, changed or compacted one of the files meanwhile; nothing was committed."""

    code = "files_moved"
    message = "version {version} of {uri} touched files that were being rewritten."
    next_action = "Try again: what is still to be rewritten is looked up again."
    uri: str
    version: int


class FilesDiffer(Refusal):
    """The new files are not what the old ones were; nothing was committed."""

    code = "files_differ"
    message = "the rewritten files have {what}, the old ones {expected}; nothing was committed."
    next_action = "Check with Spark whether the table can be read as a whole; report it with the table's DESCRIBE DETAIL."
    what: str
    expected: str
