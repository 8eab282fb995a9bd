"""What meets what: a writer that planned before a commit of ours and commits after it, for every operation (issue 6).

One table of what is expected: Spark is held to it by test_interleavings.py, delta-rs by tests/unit/upgrade/test_online_writers.py, and
docs/online-changes.md shows it (the same).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a commit of ours is to somebody who commits after it."""

    METADATA = "metadata"
    #: A batch of a backfill: files go, files come.
    FILES = "files"


@dataclass(frozen=True)
class Step:
    """A commit on the table."""

    name: str
    kind: Kind


def metadata(name: str) -> Step:
    return Step(name, Kind.METADATA)


_BATCH = Step("REORG: a batch", Kind.FILES)
#: Three files in batches of at most two: afterwards there are two, so that OPTIMIZE still has something to do.
BACKFILL, FILES, MAX_FILES = (_BATCH, _BATCH), 3, 2

#: Why delta-rs cannot write to the table any more.
DEFAULTS, WIDENING, MAPPING = "AllowColumnDefaults", "TypeWidening", "Column mapping is not supported"


@dataclass(frozen=True)
class Case:
    """``before``, ``after``: columns of collection ``t``, which has rows; ``evolution``: more arguments of its step.

    ``id`` and ``n`` are what writers write, ``s`` is what is changed; ``steps``: all commits on the table up to the end of the hold.
    ``shut_out``: why delta-rs cannot write any more after the first ``shut_after`` steps; with MAPPING it can, but not OPTIMIZE nor ALTER.
    """

    before: str
    after: str
    steps: tuple[Step, ...]
    evolution: str = ""
    shut_out: str | None = None
    shut_after: int = 1
    #: Where the values of ``s`` are in the end.
    kept: str | None = "s"

    def says_no(self, statement: str, steps: int) -> str | None:
        """What delta-rs says that plans after so many steps; None: it may write."""
        refused = self.shut_out != MAPPING or statement in ("optimize", "another ALTER")
        return self.shut_out if refused and steps >= self.shut_after else None


_OLD = "id BIGINT, n INT, s STRING"

OPERATIONS: Mapping[str, Case] = {
    "add a column": Case(_OLD, f"{_OLD}, x STRING", (metadata("PUBLIC"),)),
    "add a column with a default": Case(_OLD, f"{_OLD}, x INT DEFAULT 7", (metadata("WRITE"), *BACKFILL), shut_out=DEFAULTS),
    "add a column NOT NULL with a default": Case(
        _OLD,
        f"{_OLD}, x INT NOT NULL DEFAULT 7",
        (metadata("WRITE"), *BACKFILL, metadata("CHECK"), metadata("PUBLIC")),
        shut_out=DEFAULTS,
    ),
    "add a CHECK": Case(_OLD, f"{_OLD}, CONSTRAINT pos CHECK (id > 0)", (metadata("CHECK"),)),
    "set NOT NULL": Case(_OLD, "id BIGINT NOT NULL, n INT, s STRING", (metadata("CHECK"), metadata("PUBLIC"))),
    "add UNIQUE": Case(_OLD, f"{_OLD}, UNIQUE (id)", ()),
    "drop a CHECK": Case(f"{_OLD}, CONSTRAINT pos CHECK (id > 0)", _OLD, (metadata("ABSENT"),)),
    "change a default": Case(f"{_OLD} DEFAULT 'a'", f"{_OLD} DEFAULT 'b'", (metadata("PUBLIC"),), shut_out=DEFAULTS, shut_after=0),
    "widen a type": Case(_OLD + ", w INT", _OLD + ", w BIGINT", (metadata("PUBLIC"),), shut_out=WIDENING),
    "another type": Case(
        _OLD,
        "id BIGINT, n INT, s INT",
        (metadata("WRITE"), *BACKFILL, metadata("PUBLIC"), metadata("the hold ends")),
        shut_out=MAPPING,
        shut_after=4,
    ),
    "rename a column": Case(_OLD, "id BIGINT, n INT, r STRING", (metadata("PUBLIC"),), 'rename={"s": "r"}', shut_out=MAPPING, kept="r"),
    "drop a column": Case(_OLD, "id BIGINT, n INT", (metadata("ABSENT"),), 'drop=["s"]', shut_out=MAPPING, kept=None),
}

#: Of Delta's Spark, by the condition in the error; of delta-rs, by the words of its one error for them all (CommitFailedError).
COMMITS = "commits"
METADATA_CHANGED, CONCURRENT_APPEND = "DELTA_METADATA_CHANGED", "DELTA_CONCURRENT_APPEND"
CONCURRENT_DELETE_READ, CONCURRENT_DELETE_DELETE = "DELTA_CONCURRENT_DELETE_READ", "DELTA_CONCURRENT_DELETE_DELETE"
RS_METADATA, RS_ADDED, RS_DELETED = "Metadata changed|Protocol changed", "added new data", "deleted data this operation read"


@dataclass(frozen=True)
class Outcome:
    """How a statement that planned before a commit of ours ends."""

    spark: str
    delta_rs: str


_ABORTS = Outcome(METADATA_CHANGED, RS_METADATA)

#: What others do (an ALTER of theirs: Spark's is an append that brings a column) against what our commit is.
OUTCOMES: Mapping[str, Mapping[Kind, Outcome]] = {
    "append": {Kind.METADATA: _ABORTS, Kind.FILES: Outcome(COMMITS, RS_DELETED)},
    "update": {Kind.METADATA: _ABORTS, Kind.FILES: Outcome(CONCURRENT_APPEND, RS_ADDED)},
    "delete": {Kind.METADATA: _ABORTS, Kind.FILES: Outcome(CONCURRENT_APPEND, RS_ADDED)},
    "merge": {Kind.METADATA: _ABORTS, Kind.FILES: Outcome(CONCURRENT_APPEND, RS_ADDED)},
    # Spark tries the commit of an OPTIMIZE again by itself if the files it has read are still there: no row changes.
    "optimize": {Kind.METADATA: Outcome(COMMITS, RS_METADATA), Kind.FILES: Outcome(CONCURRENT_DELETE_READ, RS_DELETED)},
    "another ALTER": {Kind.METADATA: _ABORTS, Kind.FILES: Outcome(COMMITS, RS_DELETED)},
}
