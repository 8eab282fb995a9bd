"""Older files laid out by the columns that a table is clustered by since a version: which are left, and one batch of them.

As with a backfill (``online.backfill``) there is no checkpoint beside the table: a file is left if it was there at that version. What
came since is not ours to do, whoever wrote it: the next OPTIMIZE of anybody clusters it.
"""

from __future__ import annotations

import contextlib

from airflow_provider_schemamig.core.delta.actions import RawAction, file_id
from airflow_provider_schemamig.core.delta.commit.append import Appended
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import Fence
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.features import check_writable
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.files import active_files, cut
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.delta.metadata.errors import CannotCluster
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.changes import ChangeClustering
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage import ReadStore, Store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.file_rewrite import Rewriting, Rewritten, rewrite_files, why_not

#: Rows lie in order within a batch, not across batches, so it is as large as Delta makes its own clusters: it leaves those of 100 GB and
#: more alone from then on, and aims at 150.
CUBE_BYTES = 128 * 2**30
_CUBE_FILES = 50_000


def older_files(store: ReadStore, head: Head, since: int) -> tuple[RawAction, ...]:
    """Return the files at ``head`` that were there at ``since`` already, the oldest first.

    Where the log does not reach back that far, those that nobody has clustered. Raises as ``active_files`` does.
    """
    active = active_files(store, head.version)
    try:
        came = _came(store, since, head.version)
    except LogTruncated:
        came = {path for (path, _), file in active.items() if file.get("clusteringProvider")}
    files = [file for identity, file in active.items() if identity[0] not in came]
    return tuple(sorted(files, key=lambda file: (int(file["modificationTime"]), file_id(file))))


def _came(store: ReadStore, since: int, upto: int) -> set[str]:
    came: set[str] = set()
    for commit in commits(store, since, upto):
        if commit.restores:
            continue
        gone = {file_id(remove)[0] for remove in commit.removes}
        # A file with another deletion vector, or listed once more (for statistics), is as old as it was.
        again = gone if gone else {file_id(add)[0] for add in commit.adds if not add.get("dataChange", True)}
        came |= {file_id(add)[0] for add in commit.adds} - again
    return came


def next_batch(files: tuple[RawAction, ...], max_files: int | None, lost: int) -> tuple[RawAction, ...]:
    """Return what to begin with. ``lost``: after so many races in a row that others won, each time with half as much."""
    batch = cut(files, min(_CUBE_FILES, max_files or _CUBE_FILES), CUBE_BYTES)[0]
    return batch[: max(1, len(batch) >> lost)]


def check_clustered(store: ReadStore, head: Head, collection: CollectionName, since: int) -> None:
    """Raise CannotCluster if the table is not clustered as at ``since`` (as far as the log reaches back), or its files cannot be written
    anew; UnsupportedFeature."""
    check_writable(head.protocol, head.location.uri)
    reason = why_not(head)
    with contextlib.suppress(LogTruncated):
        if head.clustering != read_head(store, at=since).clustering:
            reason = "somebody changed the clustering meanwhile"
    if reason is not None:
        columns = ", ".join(head.declaration(collection).clustered_by) or "nothing"
        raise CannotCluster(collection=collection, op=ChangeClustering.op, path=columns, reason=reason)


def cluster_batch(
    env: EnvironmentRoot,
    store: Store,
    collection: CollectionName,
    head: Head,
    files: tuple[RawAction, ...],
    fence: Fence,
    tag: Tag,
    jobs: JobRunner,
) -> tuple[Rewritten, Appended]:
    """Cluster ``files``; the receipt is for ``storage.store.confirm``. Raises as ``rewrite_files``: MetadataMoved and FilesMoved mean to
    look again."""
    return rewrite_files(env, store, collection, head, files, Rewriting("cluster", clusters=True), fence, tag, jobs)
