"""What meets what: a writer that planned before a commit of ours and commits after it, for every operation.

One table of what is expected: Spark is held to it by test_interleavings.py, delta-rs by test_online_writers.py (tests/unit/upgrade/online),
and docs/online-changes.md shows it (the same).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a commit of ours is to somebody who commits after it."""

    METADATA = "metadata"
    #: What a table is clustered by: no metadata, and no row.
    DOMAIN = "domain"
    #: A batch of a backfill: files go, files come.
    FILES = "files"
    #: A batch of a clustering: the same, but no row changes.
    LAYOUT = "layout"


@dataclass(frozen=True)
class Step:
    """A commit on the table."""

    name: str
    kind: Kind


def metadata(name: str) -> Step:
    return Step(name, Kind.METADATA)


def domain(name: str) -> Step:
    return Step(name, Kind.DOMAIN)


_BATCH = Step("REORG: a batch", Kind.FILES)
_LAID_OUT = Step("REORG: a layout", Kind.LAYOUT)
#: Three files in batches of at most two: afterwards there are two, so that OPTIMIZE still has something to do.
BACKFILL, FILES, MAX_FILES = (_BATCH, _BATCH), 3, 2

#: Why delta-rs cannot write to the table any more.
DEFAULTS, WIDENING, MAPPING = "AllowColumnDefaults", "TypeWidening", "Column mapping is not supported"
CLUSTERING = "ClusteredTable"


@dataclass(frozen=True)
class Case:
    """``before``, ``after``: columns of collection ``t``, which has rows; ``evolution``: more arguments of its step.

    ``others``: collections beside it, in both releases; ``layout``: what stands behind its columns (before, after).

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
    others: str = ""
    layout: tuple[str, str] = ("", "")

    @property
    def first(self) -> str:
        """``schema.sql`` of the release before."""
        return f"{self.others}CREATE TABLE t ({self.before}){self.layout[0]};\n"

    @property
    def second(self) -> str:
        return f"{self.others}CREATE TABLE t ({self.after}){self.layout[1]};\n"

    @property
    def step(self) -> str:
        """The line of the migration."""
        return f'evolution("t"{self.evolution and ", "}{self.evolution})'

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
    "add a FOREIGN KEY": Case(_OLD, f"{_OLD}, FOREIGN KEY (s) REFERENCES p", (), others="CREATE TABLE p (k STRING PRIMARY KEY);\n"),
    "CLUSTER BY": Case(_OLD, _OLD, (domain("WRITE"), _LAID_OUT, _LAID_OUT), shut_out=CLUSTERING, layout=("", " CLUSTER BY (n)")),
    "CLUSTER BY NONE": Case(_OLD, _OLD, (domain("ABSENT"),), shut_out=CLUSTERING, shut_after=0, layout=(" CLUSTER BY (n)", "")),
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

#: Statements about whole tables by hand, and their commits on the table that others write to; it is ``t`` before.
TABLES: Mapping[str, tuple[str, tuple[Step, ...]]] = {
    "create a table": ("CREATE TABLE other (id BIGINT)", ()),
    "rename a table": ("ALTER TABLE t RENAME TO other", ()),
    "drop a table": ("DROP TABLE t", (metadata("sealed"),)),
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
#: Spark minds its features no more than what the table is clustered by; delta-rs would have to know them.
_DOMAIN = Outcome(COMMITS, RS_METADATA)

#: What others do (an ALTER of theirs: Spark's is an append that brings a column) against what our commit is.
_BLIND = {Kind.METADATA: _ABORTS, Kind.DOMAIN: _DOMAIN, Kind.FILES: Outcome(COMMITS, RS_DELETED), Kind.LAYOUT: Outcome(COMMITS, RS_DELETED)}
_READS = {
    Kind.METADATA: _ABORTS,
    Kind.DOMAIN: _DOMAIN,
    Kind.FILES: Outcome(CONCURRENT_APPEND, RS_ADDED),
    Kind.LAYOUT: Outcome(CONCURRENT_APPEND, RS_DELETED),
}

OUTCOMES: Mapping[str, Mapping[Kind, Outcome]] = {
    "append": _BLIND,
    "update": _READS,
    "delete": _READS,
    "merge": _READS,
    # Spark tries the commit of an OPTIMIZE again by itself if the files it has read are still there: no row changes.
    "optimize": {
        Kind.METADATA: Outcome(COMMITS, RS_METADATA),
        Kind.DOMAIN: _DOMAIN,
        Kind.FILES: Outcome(CONCURRENT_DELETE_READ, RS_DELETED),
        Kind.LAYOUT: Outcome(CONCURRENT_DELETE_READ, RS_DELETED),
    },
    "another ALTER": _BLIND,
}
