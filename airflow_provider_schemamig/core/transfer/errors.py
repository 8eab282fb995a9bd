"""Why rows could not be copied or followed (the layer's branch of the error tree)."""

from __future__ import annotations

from dataclasses import dataclass

import pendulum

from airflow_provider_schemamig.core.times import minute
from airflow_provider_schemamig.exceptions import Conflict, Refusal


@dataclass(eq=False)
class CardinalityChanged(Refusal):
    """``up`` gave more or fewer rows than it read, and the step does not say that it may."""

    code = "cardinality_changed"
    rows_in: int
    rows_out: int

    @property
    def message(self) -> str:
        return f"the rewrite read {self.rows_in:,} rows and made {self.rows_out:,} of them."

    @property
    def next_action(self) -> str:
        return 'Correct `up`, or say cardinality="any" in the step if rows may be split or left out.'


@dataclass(eq=False)
class RewriteDiffers(Conflict):
    """The new shard does not hold what ``up`` makes of the old one; nothing was committed, and the copy is made anew."""

    code = "rewrite_differs"
    at: str
    expected: str
    found: str

    @property
    def message(self) -> str:
        return f"{self.at}: the digest of the new shard ({self.found}) is not that of the rewritten rows ({self.expected})."

    @property
    def next_action(self) -> str:
        return (
            "Run the upgrade again: it copies anew. If it happens twice, `up` gives other rows each time (a session setting, "
            "floating point sums) or somebody writes into the new shard."
        )


@dataclass(eq=False)
class CopyTooOld(Conflict):
    """The version the copy began at is further back than the table keeps its history: the copy has to begin anew."""

    code = "copy_too_old"
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

    @property
    def next_action(self) -> str:
        return "Run preflight again: the copy begins anew. `schemamig pin` keeps the history longer, if a copy takes that long."


@dataclass(eq=False)
class TwinWasFirst(Conflict):
    """Another process of this generation made the very step; look again and go on from there."""

    code = "twin_was_first"
    step: str

    @property
    def message(self) -> str:
        return f"another process of this generation has just done {self.step}."

    @property
    def next_action(self) -> str:
        return "Try again: it goes on from there."


@dataclass(eq=False)
class Paused(Conflict):
    """A person told this work to wait. Nothing is wrong, and it goes on where it is when it is run again.

    ``scopes``: of the controls that say so; ``hours``: whether their hours count, too (``throttle.is_over``).
    """

    code = "paused"
    stage: str
    why: str
    scopes: tuple[str, ...]
    hours: bool

    @property
    def message(self) -> str:
        return f"{self.stage} waits: {self.why}."

    @property
    def next_action(self) -> str:
        return "Run it again when that is over; `schemamig resume` takes a pause or a postponement back."


@dataclass(eq=False)
class NeverSettles(Conflict):
    """Catching up with a table's writers takes as long after every round, and longer than they may be locked out."""

    code = "tail_never_settles"
    seconds: float

    @property
    def message(self) -> str:
        return f"catching up with its writers still takes {self.seconds:.0f} s after every round, too long to lock them out."

    @property
    def next_action(self) -> str:
        return "Try again when fewer writers are at work, or give Spark more cores."


@dataclass(eq=False)
class CannotCompact(Refusal):
    """A table that is read right, but whose files schemamig cannot replace one by one."""

    code = "cannot_compact"
    reason: str

    @property
    def message(self) -> str:
        return f"its files cannot be rewritten: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Leave it as it is (readers see no difference), or let Delta rewrite it: REORG TABLE ... APPLY (PURGE)."


@dataclass(eq=False)
class FilesMoved(Conflict):
    """Somebody deleted, changed or compacted one of the files meanwhile; nothing was committed."""

    code = "files_moved"
    uri: str
    version: int

    @property
    def message(self) -> str:
        return f"version {self.version} of {self.uri} touched files that were being rewritten."

    @property
    def next_action(self) -> str:
        return "Try again: what is still to be rewritten is found anew."


@dataclass(eq=False)
class FilesDiffer(Refusal):
    """The new files are not what the old ones were; nothing was committed."""

    code = "files_differ"
    what: str
    expected: str

    @property
    def message(self) -> str:
        return f"the rewritten files have {self.what}, the old ones {self.expected}; nothing was committed."

    @property
    def next_action(self) -> str:
        return "Check with Spark whether the table can be read as a whole; report it with the table's DESCRIBE DETAIL."
