"""Where a stream goes on when the origin's rows have moved to another shard."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_schemamig.core.access.releases import planned_steps
from airflow_provider_schemamig.core.delta.actions import LogCommit
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.listing import list_log
from airflow_provider_schemamig.core.delta.properties import CONSTRAINT
from airflow_provider_schemamig.core.ledger.rows import DeploymentState, SchemaEntry, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import SEAL_PREFIX, Fingerprint, ShardId
from airflow_provider_schemamig.core.release.merge.merged import RewriteStep
from airflow_provider_schemamig.core.replication.errors import LogCleaned, OriginReplaced
from airflow_provider_schemamig.core.replication.stream.events import entry_at, next_events, row_of
from airflow_provider_schemamig.core.replication.stream.provenance import is_event, provenance_of
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

_SEAL = CONSTRAINT + SEAL_PREFIX


@dataclass(frozen=True, slots=True)
class Successor:
    """The stream goes on after version ``after`` of ``shard``, whose rows by then are those of the shard before, of schema ``entry``.

    Only for a target that has made the same release: its own rewrite is what its rows went through.
    """

    shard: ShardId
    after: int
    entry: SchemaEntry
    fingerprint: Fingerprint


def successor(env: EnvironmentRoot, state: State, shard: ShardId, seen: int) -> Successor | None:
    """Return the table that took the place of ``shard``.

    None as long as ``shard`` is the collection's own, or has something after version ``seen`` that is still to be brought. Raises
    OriginReplaced if the rows that the origin has now did not come from it; LogCleaned if it cannot be told any more where they begin;
    PlanMissing.
    """
    row = row_of(state, shard)
    if row.state is not ShardState.RETIRED:
        return None
    left = next_events(env, state, row.collection, shard, seen)
    if left.seen < left.head_version:
        return None
    new = None if row.successor is None else state.shards.get(row.successor)
    if new is None or row.retired_by is None:
        raise OriginReplaced(collection=row.collection, shard=shard, reason="its collection was removed")
    was_rolled_back = state.deployments[row.retired_by].state is DeploymentState.ROLLED_BACK
    step = _rewrite(env, state, row, was_rolled_back)
    if step is None or (was_rolled_back and step.down is None):
        raise OriginReplaced(collection=row.collection, shard=shard, reason=f"{new.shard} took its place with other rows")
    after = _opened_after(env, new, shard) if was_rolled_back else _filled(env.table_store(new.uri, new.table_id), new, state.config.env_id)
    entry = entry_at(state, new.shard, after)
    assert entry is not None  # a shard in place has one
    return Successor(new.shard, after, entry, fingerprint(entry.declared))


def _rewrite(env: EnvironmentRoot, state: State, row: Shard, was_rolled_back: bool) -> RewriteStep | None:
    """Return the step that retired the shard; the one that made it, if a rollback did."""
    assert row.retired_by is not None
    for planned in planned_steps(env, state.deployments[row.retired_by]):
        step = planned.step
        if isinstance(step, RewriteStep) and (step.collection if was_rolled_back else step.old.name) == row.collection:
            return step
    return None


def _filled(store: ReadStore, shard: Shard, env_id: str) -> int:
    """Return the last commit of the copy and its tail: all up to the first event."""
    after = 0
    try:
        for commit in commits(store, 0):
            if is_event(commit, provenance_of(commit), env_id):
                break
            after = commit.version
    except LogTruncated as error:
        raise LogCleaned(collection=shard.collection, uri=store.location.uri, after=after, first=error.version + 1) from error
    return after


def was_left_after(env: EnvironmentRoot, shard: Shard, rolled_back: ShardId, at: int) -> bool:
    """Return whether the shard, which is live again, was sealed for ``rolled_back`` at version ``at`` or later. Raises LogCleaned."""
    return any(_is_seal(commit, rolled_back) for commit in _commits(env.table_store(shard.uri, shard.table_id), shard, max(at - 1, 0)))


def _opened_after(env: EnvironmentRoot, shard: Shard, rolled_back: ShardId) -> int:
    """Return the newest version with a seal for ``rolled_back`` in a shard that was opened again.

    What a rollback then brought into it was seen before. Raises OriginReplaced, LogCleaned.
    """
    store = env.table_store(shard.uri, shard.table_id)
    for version in range(list_log(store).version, 0, -1):
        if any(_is_seal(commit, rolled_back) for commit in _commits(store, shard, version - 1, version)):
            return version
    raise OriginReplaced(collection=shard.collection, shard=shard.shard, reason="it was never sealed")


def _commits(store: ReadStore, shard: Shard, after: int, upto: int | None = None) -> Iterator[LogCommit]:
    try:
        yield from commits(store, after, upto)
    except LogTruncated as error:
        raise LogCleaned(collection=shard.collection, uri=store.location.uri, after=after, first=error.version + 1) from error


def _is_seal(commit: LogCommit, moved_to: ShardId) -> bool:
    return commit.metadata is not None and f"{_SEAL}{moved_to}" in (commit.metadata.get("configuration") or {})
