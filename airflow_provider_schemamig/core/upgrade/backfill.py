"""The loop of a backfill: batch after batch until nothing is due, at the pace that people said (seed 002, DB_REORG)."""

from __future__ import annotations

import random
import time

from airflow_provider_schemamig.core.deltalog.commit import MetadataMoved
from airflow_provider_schemamig.core.deltalog.fence import check_fence
from airflow_provider_schemamig.core.deltalog.head import Head, read_head
from airflow_provider_schemamig.core.deltalog.seal import opened
from airflow_provider_schemamig.core.elements.backfill import Batch, DueFiles, Effort, Fill, due_files, fill_batch
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.shards.file_rewrite import Rewritten
from airflow_provider_schemamig.core.shards.file_rewrite_errors import FilesMoved
from airflow_provider_schemamig.core.shards.pace import BATCH_BYTES, BATCH_FILES, Pace
from airflow_provider_schemamig.core.shards.report import Reporter
from airflow_provider_schemamig.core.storage import confirm
from airflow_provider_schemamig.core.upgrade.errors import CommitLost
from airflow_provider_schemamig.core.upgrade.fill import Jobs
from airflow_provider_schemamig.core.upgrade.tables import table_store
from airflow_provider_schemamig.core.upgrade.work import Work

#: Writers that are faster than us each time: the task is tried again later, and goes on from what is filled.
_TRIES = 8
_LONGEST_PAUSE_SECONDS = 5.0


def stage_of(column: str) -> str:
    """What progress of a column's fill is called in the ledger."""
    return f"backfill {column}"


def backfill(work: Work, collection: CollectionName, shard: ShardId, fill: Fill, jobs: Jobs) -> int:
    """Fill what is due until nothing is; the version at which nothing was. Killed or raced at any point, the log says what is left.

    Raises FilesMoved or MetadataMoved if writers are faster each time, BackfillStarved, CannotBackfill, Fenced, and what Spark raises.
    """
    return _Backfill(work, collection, shard, fill, jobs).run()


class _Backfill:
    def __init__(self, work: Work, collection: CollectionName, shard: ShardId, fill: Fill, jobs: Jobs) -> None:
        self._work = work
        self._collection = collection
        self._shard = shard
        self._fill = fill
        self._jobs = jobs
        self._store = table_store(work.env, work.state, shard)
        self._pace = Pace(work.newest, work.listen)

    def run(self) -> int:
        head = self._head()
        due = due_files(self._store, head, self._fill)
        if not due:
            return due.version
        work, collection, stage = self._work, self._collection, stage_of(self._fill.column)
        report = Reporter(work.ledger, work.listen, collection, work.generation, stage, "files")
        report(0, due.files, 0)
        effort, done, rows, tries = Effort(due.files), 0, 0, 0
        while due:
            effort.check(self._fill, collection)
            try:
                rewritten = self._batch(head, due)
            except (MetadataMoved, FilesMoved) as lost:
                tries += 1
                work.listen(Event(stage, collection, note=f"tries again: {lost.message}", measures={"aborted_tries": 1}))
                if tries == _TRIES:
                    raise
                time.sleep(random.uniform(0.0, min(0.2 * 2**tries, _LONGEST_PAUSE_SECONDS)))
            else:
                tries, done, rows, effort = 0, done + rewritten.files, rows + rewritten.rows, effort.after(rewritten)
            head = self._head()
            due = due_files(self._store, head, self._fill, due)
            report(done, done + due.files, rows)
        return due.version

    def _head(self) -> Head:
        """Behind a seal that keeps others off while columns change places (``seals.closed``) the table is as it was."""
        return opened(read_head(self._store), self._shard)

    def _batch(self, head: Head, due: DueFiles) -> Rewritten:
        work, collection, started = self._work, self._collection, time.monotonic()
        control = self._pace.begin("backfill", collection)
        batch: Batch = due.batches(min(BATCH_FILES, control.max_files or BATCH_FILES), BATCH_BYTES)[0]
        fence = work.fence(self._shard)
        check_fence(self._store, fence, self._fill.since, head.version)
        done, appended = fill_batch(
            work.env, self._store, collection, head, batch, self._fill, fence, work.tag(self._fill.action), self._jobs()
        )
        if confirm([appended.receipt]):
            raise CommitLost(collection=collection, uri=self._store.location.uri, version=done.version)
        work.report("backfill", collection, done.version, started, len(batch.files), due.files)
        self._pace.end(control, done.rows, time.monotonic() - started)
        return done
