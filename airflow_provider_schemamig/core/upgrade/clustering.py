"""The loop of a clustering's REORG: batch after batch until no older file is left, at the pace that people said (seed 002, DB_REORG)."""

from __future__ import annotations

import random
import time

from airflow_provider_schemamig.core.deltalog.actions import RawAction
from airflow_provider_schemamig.core.deltalog.commit import MetadataMoved
from airflow_provider_schemamig.core.deltalog.fence import check_fence
from airflow_provider_schemamig.core.deltalog.head import Head, read_head
from airflow_provider_schemamig.core.elements.clustering import check_clustered, cluster_batch, next_batch, older_files
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.shards.file_rewrite import Rewritten
from airflow_provider_schemamig.core.shards.file_rewrite_errors import FilesMoved
from airflow_provider_schemamig.core.shards.pace import Pace
from airflow_provider_schemamig.core.shards.report import Reporter
from airflow_provider_schemamig.core.storage import confirm
from airflow_provider_schemamig.core.upgrade.errors import CommitLost
from airflow_provider_schemamig.core.upgrade.fill import Jobs
from airflow_provider_schemamig.core.upgrade.tables import table_store
from airflow_provider_schemamig.core.upgrade.work import Work

#: What progress of it is called in the ledger, and its commits in their tag.
STAGE = "cluster"
#: Writers that are faster than us each time: the task is tried again later, and goes on from what is done.
_TRIES = 8
_LONGEST_PAUSE_SECONDS = 5.0


def recluster(work: Work, collection: CollectionName, shard: ShardId, since: int, jobs: Jobs) -> int:
    """Lay out anew what was there at ``since``, the commit that clustered the table; the version at which nothing of it was left.

    Killed or raced at any point, the log says what is left. Raises FilesMoved or MetadataMoved if writers are faster each time,
    CannotCluster, LogTruncated, Fenced, and what Spark raises.
    """
    return _Clustering(work, collection, shard, since, jobs).run()


class _Clustering:
    def __init__(self, work: Work, collection: CollectionName, shard: ShardId, since: int, jobs: Jobs) -> None:
        self._work = work
        self._collection = collection
        self._shard = shard
        self._since = since
        self._jobs = jobs
        self._store = table_store(work.env, work.state, shard)
        self._pace = Pace(work.newest, work.listen)

    def run(self) -> int:
        head = read_head(self._store)
        left = older_files(self._store, head, self._since)
        if not left:
            return head.version
        report = Reporter(self._work.ledger, self._work.listen, self._collection, self._work.generation, STAGE, "files")
        report(0, len(left), 0)
        done, rows, lost = 0, 0, 0
        while left:
            try:
                rewritten = self._batch(head, left, lost)
            except (MetadataMoved, FilesMoved) as conflict:
                lost += 1
                note = f"tries again: {conflict.message}"
                self._work.listen(Event(STAGE, self._collection, note=note, measures={"aborted_tries": 1}))
                if lost == _TRIES:
                    conflict.collection = self._collection
                    raise
                time.sleep(random.uniform(0.0, min(0.2 * 2**lost, _LONGEST_PAUSE_SECONDS)))
            else:
                lost, done, rows = 0, done + rewritten.files, rows + rewritten.rows
            head = read_head(self._store)
            left = older_files(self._store, head, self._since)
            report(done, done + len(left), rows)
        return head.version

    def _batch(self, head: Head, left: tuple[RawAction, ...], lost: int) -> Rewritten:
        work, collection, started = self._work, self._collection, time.monotonic()
        control = self._pace.begin(STAGE, collection)
        fence = work.fence(self._shard)
        check_fence(self._store, fence, self._since, head.version)
        check_clustered(self._store, head, collection, self._since)
        files = next_batch(left, control.max_files, lost)
        done, appended = cluster_batch(work.env, self._store, collection, head, files, fence, work.tag(STAGE), self._jobs())
        if confirm([appended.receipt]):
            raise CommitLost(collection=collection, uri=self._store.location.uri, version=done.version)
        work.report(STAGE, collection, done.version, started, len(files), len(left))
        self._pace.end(control, done.rows, time.monotonic() - started)
        return done
