"""A backfill: older rows get their value of a column, batch by batch."""

from __future__ import annotations

from airflow_provider_schemamig.core.delta.commit.append import Appended
from airflow_provider_schemamig.core.delta.commit.fence import Fence
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.online.backfill import DueFiles, Effort, due_files, fill_batch
from airflow_provider_schemamig.core.online.unfilled import Fill
from airflow_provider_schemamig.core.transfer.file_rewrite import Rewritten
from airflow_provider_schemamig.core.transfer.throttle import BATCH_FILES
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter
from airflow_provider_schemamig.core.upgrade.plan.live_tables import check_not_exchanged
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.core.upgrade.tables.batches import Batches, Rush

_NAME = "backfill"


def stage_of(column: str) -> str:
    """Return what progress of a column's fill is called in the ledger."""
    return f"{_NAME} {column}"


def backfill(
    leader: LeaderWriter,
    collection: CollectionName,
    shard: ShardId,
    fill: Fill,
    jobs: Jobs,
    *,
    is_held: bool = True,
    rush: Rush | None = None,
) -> int:
    """Fill what is due until nothing is; the version at which nothing was. ``is_held``: by pauses and hours; ``rush``: see ``Batches``.

    Raises BackfillStarved, CannotBackfill, what Spark raises, and as ``Batches.run``.
    """
    return _Backfill(leader, collection, shard, fill, jobs, is_held, rush).run()


class _Backfill(Batches[DueFiles]):
    def __init__(
        self, leader: LeaderWriter, collection: CollectionName, shard: ShardId, fill: Fill, jobs: Jobs, is_held: bool, rush: Rush | None
    ) -> None:
        super().__init__(leader, collection, shard, jobs, fill.since, _NAME, stage_of(fill.column), is_held=is_held, rush=rush)
        self._fill = fill
        self._effort: Effort | None = None

    def _due(self, head: Head, before: DueFiles | None) -> DueFiles:
        return due_files(self._store, head, self._fill, before)

    def _files(self, due: DueFiles) -> int:
        return due.files

    def _batch(self, head: Head, due: DueFiles, control: Control, lost: int, fence: Fence) -> tuple[int, Rewritten, Appended]:
        check_not_exchanged(self._leader.state, self._shard, head)
        effort = self._effort or Effort(due.files)
        effort.check(self._fill, self._collection)
        most = self._size.bytes if self._rush is None else self._rush.bytes
        batch = due.batches(min(BATCH_FILES, control.max_files or BATCH_FILES), most)[0]
        env, tag = self._leader.env, self._leader.tag(self._fill.action)
        done, appended = fill_batch(env, self._store, self._collection, head, batch, self._fill, fence, tag, self._jobs())
        self._effort = effort.after(done)
        return len(batch.files), done, appended
