"""A clustering's REORG: what was there before the columns were set is laid out anew, batch by batch."""

from __future__ import annotations

from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.commit.append import Appended
from airflow_provider_schemamig.core.delta.commit.fence import Fence
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.online.clustering import check_clustered, cluster_batch, next_batch, older_files
from airflow_provider_schemamig.core.online.unfilled import CLUSTER
from airflow_provider_schemamig.core.transfer.file_rewrite import Rewritten
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.core.upgrade.tables.batches import Batches

#: What progress of it is called in the ledger, and its commits in their tag.
STAGE = CLUSTER


def recluster(leader: LeaderWriter, collection: CollectionName, shard: ShardId, since: int, jobs: Jobs) -> int:
    """Rewrite the files older than ``since``, the commit that clustered the table; return the version at which none of them was left.

    Raises CannotCluster, LogTruncated, what Spark raises, and as ``Batches.run``.
    """
    return _Clustering(leader, collection, shard, jobs, since, STAGE, STAGE).run()


class _Clustering(Batches[tuple[RawAction, ...]]):
    def _due(self, head: Head, before: tuple[RawAction, ...] | None) -> tuple[RawAction, ...]:
        return older_files(self._store, head, self._since)

    def _files(self, due: tuple[RawAction, ...]) -> int:
        return len(due)

    def _batch(self, head: Head, due: tuple[RawAction, ...], control: Control, lost: int, fence: Fence) -> tuple[int, Rewritten, Appended]:
        check_clustered(self._store, head, self._collection, self._since)
        files = next_batch(due, control.max_files, lost)
        tag = self._leader.tag(STAGE)
        return len(files), *cluster_batch(self._leader.env, self._store, self._collection, head, files, fence, tag, self._jobs())
