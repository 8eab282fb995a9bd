"""Compaction: files of an older schema in today's, the same rows for everybody (docs/compaction.md)."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.commit.append import Appended
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import Fence
from airflow_provider_schemamig.core.delta.features import check_writable
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.errors import CannotCompact
from airflow_provider_schemamig.core.transfer.file_rewrite import Rewriting, Rewritten, rewrite_files, why_not

_COMPACT = Rewriting("compact")


def check_compactable(head: Head, collection: CollectionName) -> None:
    """Raise CannotCompact for tables whose files cannot be written anew one by one, UnsupportedFeature, CatalogManagedTable."""
    check_writable(head.protocol, head.location.uri)
    reason = why_not(head)
    if reason is not None:
        raise CannotCompact(collection=collection, reason=reason)


def compact_files(
    env: EnvironmentRoot,
    store: Store,
    collection: CollectionName,
    head: Head,
    files: Sequence[RawAction],
    fence: Fence,
    tag: Tag,
    jobs: JobRunner,
) -> tuple[Rewritten, Appended]:
    """Call ``rewrite_files`` with the values as they are."""
    return rewrite_files(env, store, collection, head, files, _COMPACT, fence, tag, jobs)
