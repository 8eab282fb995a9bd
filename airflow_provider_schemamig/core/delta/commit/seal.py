"""The seal: one commit after which no writer, Spark or delta-rs, gets anything into a table, and those in flight abort.

Measured: everything but RESTORE is refused (docs/decisions/seals.md). The constraint's name tells foreign writers where
the rows went. Lifting it takes one more commit and gives the table back as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from airflow_provider_schemamig.core.delta.actions import LogCommit
from airflow_provider_schemamig.core.delta.commit.commit import Committed, commit_edited
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import Fence
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.metadata.edit import sealed, unsealed
from airflow_provider_schemamig.core.delta.metadata.validate import TableState
from airflow_provider_schemamig.core.names import ShardId
from airflow_provider_schemamig.core.storage import Store

#: What a seal names where no shard has the rows.
_NOWHERE = ShardId("nowhere")


def seal_name(successor: ShardId | None) -> ShardId:
    """Return what the seal of a retired table names: the shard that has its rows since; None: no shard has."""
    return _NOWHERE if successor is None else successor


def seal(store: Store, head: Head, moved_to: str, fence: Fence, tag: Tag, *, since: int) -> Committed:
    """Seal the table for ``moved_to`` (a shard); a seal for another shard is replaced. Raises as ``commit_changes`` does."""
    after = TableState(*sealed(head.protocol, head.metadata, moved_to))
    return commit_edited(store, head, after, fence, tag, parameters={"movedTo": moved_to}, since=since)


def unsealed_head(head: Head, moved_to: str) -> Head:
    """Return the table as it would be without its seal, if that is for ``moved_to``; else as it is.

    This is for commits of whoever holds the seal.
    """
    if head.sealed_for != moved_to:
        return head
    protocol, metadata = unsealed(head.protocol, head.metadata)
    return replace(head, protocol=protocol, metadata=metadata)


def opens(commit: LogCommit) -> bool | None:
    """Return whether a commit of ours opened a sealed table or closed it; None if it is another one: others open it by RESTORE."""
    action = None if commit.about is None else commit.about["action"]
    return action == "unseal" if action in ("seal", "settle", "unseal") else None


def unseal(store: Store, head: Head, fence: Fence, tag: Tag, *, since: int, txns: Mapping[str, int] = MappingProxyType({})) -> Committed:
    """Unseal, whatever seal of ours it is. ``txns``: transaction versions by application id, known to the table from that commit on.

    Raises as ``commit_changes`` does.
    """
    after = TableState(*unsealed(head.protocol, head.metadata))
    return commit_edited(store, head, after, fence, tag, parameters={}, since=since, txns=txns)
