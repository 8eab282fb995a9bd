"""The commits of a target's table since it was last made equal to its origin's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.delta.commit.txn_terms import NOTHING
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.replication.model import RestoredRows, Stream
from airflow_provider_schemamig.core.replication.stream.apply import EventTable, table_at
from airflow_provider_schemamig.core.replication.stream.checkpoint import REPLICA, RESTORE
from airflow_provider_schemamig.core.replication.stream.position import StreamEnds
from airflow_provider_schemamig.core.replication.stream.provenance import Provenance


@dataclass(frozen=True, slots=True)
class TargetCommit:
    """``about``: what a commit of ours says of itself. ``is_restore``: it put the origin's rows in the place of all others."""

    version: int
    changes_rows: bool
    about: Mapping[str, Any]
    is_restore: bool

    @property
    def action(self) -> str:
        return str(self.about.get("action", ""))

    @property
    def is_ours(self) -> bool:
        return "generation" in self.about or self.action in (REPLICA, RESTORE)

    @property
    def is_backfill(self) -> bool:
        """Return whether it filled a column in use: a stream brings that to other environments, like a writer's commit."""
        made = Provenance(self.action)
        return made.fills is not None and not made.is_housekeeping

    @property
    def rolled_back(self) -> ShardId | None:
        """Return the table from which a rollback brought rows back with this commit, if one did."""
        return Provenance(self.action).rolled_back


def commits_since_restore(stream: Stream, table: EventTable, oldest: int = NOTHING) -> Iterator[TargetCommit]:
    """Yield the commits above ``oldest``, newest first, and as the last one the target's last restore from the stream's origin.

    Rows that were appended while that was on its way stand beside it, so their commits come before it. Raises LogTruncated.
    """
    restored = None
    for version in range(table.head.version, -1, -1):
        if version <= oldest:
            break
        commit = read_commit(table.store, version)
        about = commit.about or {}
        found = TargetCommit(version, commit.changes_rows, about, (about.get("origin"), about.get("action")) == (stream.origin, RESTORE))
        if not found.is_restore:
            yield found
        elif restored is None:
            restored, oldest = found, max(oldest, int(about["over"]))
    if restored is not None:
        yield restored


def last_restore(ends: StreamEnds, collection: CollectionName) -> RestoredRows | None:
    """Return the stream's last restore, with what it was made under, if the target's table tells."""
    if collection not in ends.target.state.objects:
        return None
    table = table_at(ends.target.env, ends.target.state.shard_of(collection))
    try:
        for commit in commits_since_restore(ends.stream(collection), table):
            if commit.is_restore:
                about, rows = commit.about, int(read_commit(table.store, commit.version).info["operationParameters"]["rows"])
                shard, hi, commit_hash = ShardId(about["shard"]), int(about["hi"]), str(about["commit_hash"])
                return RestoredRows(shard, hi, commit.version, rows, commit_hash, about.get("claim_id"))
    except LogTruncated:  # it was longer ago than the tries of a task lie apart
        pass
    return None
