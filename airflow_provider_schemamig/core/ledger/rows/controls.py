"""The ledger's typed rows about work on tables' rows: what people told it, how far it has come, what history it keeps.

A part of ``ledger.rows``, and imported from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pendulum

from airflow_provider_schemamig.core.names import CollectionName, Generation, ShardId


@dataclass(frozen=True, slots=True)
class Control:
    """What a person told the work on rows of a collection (``*``: of all): wait, go slowly, or go on only in some hours.

    ``last_step``: it is about the commit that comes after the rows of an online change: that waits while ``paused``, else it is made even
    if writers have to wait.

    ``window``: (from, to) in full hours UTC, the only ones in which batches begin; from may be later than to (over midnight).
    """

    COLLECTION: ClassVar[str] = "pauses"
    scope: str
    paused: bool = False
    rows_per_second: int | None = None
    max_files: int | None = None
    commits_per_minute: int | None = None
    window: tuple[int, int] | None = None
    #: Who paused it, when and why; None while it is not paused.
    paused_by: str | None = None
    paused_at: pendulum.DateTime | None = None
    reason: str | None = None
    last_step: bool = False

    @property
    def key(self) -> str:
        return f"last_step/{self.scope}" if self.last_step else self.scope


@dataclass(frozen=True, slots=True)
class Progress:
    """How far work on rows has come, written at most every 30 s; ``done`` of ``total`` in ``unit`` ("files", "versions")."""

    COLLECTION: ClassVar[str] = "checkpoints"
    collection: CollectionName
    generation: Generation
    stage: str
    unit: str
    done: int
    total: int
    rows: int
    started_at: pendulum.DateTime
    updated_at: pendulum.DateTime
    #: What the processes before this one had done and written when it started: no part of its rate.
    done_before: int = 0
    rows_before: int = 0

    @property
    def key(self) -> str:
        return f"{self.collection}/{self.stage}/{self.generation}"


@dataclass(frozen=True, slots=True)
class Pin:
    """A longer history of a live table, asked for by ``holder`` (a generation, or a person's name for it).

    ``properties``: (key, value before or None), written down by the first pin of a shard and put back by its last unpin. ``asked``: all
    hours that pins of the shard have asked for since the first, by which a setting of theirs is told from somebody else's. ``given_up``: it
    asks for nothing any more, and goes once the table shows that.
    """

    COLLECTION: ClassVar[str] = "pins"
    shard: ShardId
    holder: str
    hours: int
    properties: tuple[tuple[str, str | None], ...]
    asked: tuple[int, ...]
    pinned_by: str
    pinned_at: pendulum.DateTime
    given_up: bool

    @property
    def key(self) -> str:
        return f"{self.shard}/{self.holder}"


@dataclass(frozen=True, slots=True)
class Use:
    """A column was a release's that was rolled back, in the versions of the table after ``after`` up to ``upto``.

    ``column``: by its name in the data files. ``after`` 0: rows from before had their values, too, because it came with a DEFAULT.
    """

    column: str
    after: int
    upto: int
