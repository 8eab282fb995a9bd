"""The loop of work on the files of a live table: batch after batch until nothing is due, at the pace that people said.

What is due is read off the table's log each time, so whoever is killed or raced at any point goes on from there.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from airflow_provider_schemamig.core.delta.commit.append import Appended, MetadataMoved
from airflow_provider_schemamig.core.delta.commit.fence import Fence, check_fence
from airflow_provider_schemamig.core.delta.commit.seal import unsealed_head
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.storage import confirm
from airflow_provider_schemamig.core.transfer.errors import FilesMoved
from airflow_provider_schemamig.core.transfer.file_rewrite import Rewritten
from airflow_provider_schemamig.core.transfer.progress import Reporter
from airflow_provider_schemamig.core.transfer.throttle import BatchSize, Pace, control_of
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter
from airflow_provider_schemamig.core.upgrade.errors import CommitLost
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.core.upgrade.tables.seals import held_seals

Due = TypeVar("Due")

#: Writers that are faster than us each time: the task is tried again later, and goes on from what is done.
_TRIES = 8
_LONGEST_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Rush:
    """Others wait for these batches: no pause, hours or limits hold them up, and they are small. ``check`` raises if it takes too long."""

    check: Callable[[], None]
    files: int = 32
    bytes: int = 2**30


class Batches(ABC, Generic[Due]):
    """Work of one kind on one table. ``since``: the version of the metadata commit that it began with."""

    def __init__(
        self,
        leader: LeaderWriter,
        collection: CollectionName,
        shard: ShardId,
        jobs: Jobs,
        since: int,
        name: str,
        stage: str,
        *,
        is_held: bool = True,
        rush: Rush | None = None,
    ) -> None:
        """``name``: of the work; ``stage``: what its progress is called in the ledger; ``is_held``: by pauses and hours."""
        self._rush = rush
        self._leader = leader
        self._collection = collection
        self._shard = shard
        self._jobs = jobs
        self._since = since
        self._name = name
        self._stage = stage
        self._store = table_store(leader.env, leader.state, shard)
        self._is_held = is_held
        self._size = BatchSize()
        self._pace = Pace(leader.newest, leader.listen, waits=leader.env.waits)

    @abstractmethod
    def _due(self, head: Head, before: Due | None) -> Due:
        """Return what is due at ``head``; ``before``: at an earlier one."""

    @abstractmethod
    def _files(self, due: Due) -> int:
        """Return how many files those are; 0: the work is done."""

    @abstractmethod
    def _batch(self, head: Head, due: Due, control: Control, lost: int, fence: Fence) -> tuple[int, Rewritten, Appended]:
        """Do a part of it. How many files it was made of, and what ``rewrite_files`` says. ``lost``: races in a row."""

    def run(self) -> int:
        """Run until nothing is due, and return the version at which nothing was.

        Raises FilesMoved or MetadataMoved if writers are faster each time, Fenced, CommitLost, and what ``_due`` and ``_batch`` raise.
        """
        head = self._head()
        due = self._due(head, None)
        if not self._files(due):
            return head.version
        report = Reporter(self._leader.ledger, self._leader.listen, self._collection, self._leader.generation, self._stage, "files")
        report(0, self._files(due), 0)
        done, rows, lost = 0, 0, 0
        while self._files(due):
            try:
                rewritten = self._one(head, due, lost)
            except (MetadataMoved, FilesMoved) as conflict:
                lost += 1
                note = f"tries again: {conflict.message}"
                self._leader.listen(Event(self._stage, self._collection, note=note, measures={"aborted_tries": 1}))
                if lost == _TRIES:
                    conflict.collection = self._collection
                    raise
                time.sleep(random.uniform(0.0, min(0.2 * 2**lost, _LONGEST_PAUSE_SECONDS)))
            else:
                lost, done, rows = 0, done + rewritten.files, rows + rewritten.rows
            head = self._head()
            due = self._due(head, due)
            report(done, done + self._files(due), rows)
        return head.version

    def _head(self) -> Head:
        """Return the head as it was before a seal that keeps others off while columns change places (``seals.closed``)."""
        return unsealed_head(read_head(self._store), self._shard)

    def _begin(self) -> Control:
        """Wait until a batch may begin, but not while writers wait behind our seal; the limits it has to keep."""
        if self._rush is not None:
            self._rush.check()
            self._leader.refresh()  # Fenced, where another leads by now
            return Control(self._collection, max_files=self._rush.files)
        if self._is_held and not any(intent.shard == self._shard for intent in held_seals(self._leader)):
            return self._pace.begin(self._name, self._collection)
        return control_of(self._leader.newest(), self._collection)

    def _one(self, head: Head, due: Due, lost: int) -> Rewritten:
        leader, control = self._leader, self._begin()
        started = time.monotonic()
        fence = leader.fence(self._shard)
        check_fence(self._store, fence, self._since, head.version)
        files, done, appended = self._batch(head, due, control, lost, fence)
        if confirm([appended.receipt]):
            raise CommitLost(collection=self._collection, uri=self._store.location.uri, version=done.version)
        leader.report(self._name, self._collection, done.version, started, files, self._files(due))
        seconds = time.monotonic() - started
        self._size.after(done.bytes, seconds)
        self._pace.end(control, done.rows, seconds)
        return done
