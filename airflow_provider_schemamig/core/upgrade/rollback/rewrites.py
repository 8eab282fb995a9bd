"""A rewrite's rows on a rollback: what came into the new shard since the commit goes back through ``down``.

The old shard stood sealed and untouched, so only these rows are missing in it. They are found by its primary key, where it has one: then a
changed row takes the place of its predecessor whatever ``up`` made of its other columns. Without a key a row is found by all of its values.
Either is what ``down`` gives: a row of before of which it makes another one, or one of two, is not found (RowsNotFound).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_provider_schemamig.core.delta.log.commits import newest_of_ours, rows_changed_since
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.ledger.rows import Deployment
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import ShardId
from airflow_provider_schemamig.core.spark.errors import ChangeDataMissing, DuplicateKeys, SourceVacuumed, TargetDiverged
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.exactly_once import foreign_commits
from airflow_provider_schemamig.core.transfer.tail import Tailed, again, tail, where
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.plan.stages import Copy
from airflow_provider_schemamig.core.upgrade.prepare.build import FILL
from airflow_provider_schemamig.core.upgrade.prepare.transfers import COPY, TAIL, RewriteRollback, backward_transfer
from airflow_provider_schemamig.core.upgrade.rollback.errors import KeysTaken, RollbackFilesGone, RowsNotFound
from airflow_provider_schemamig.core.upgrade.rollback.old_tables import check_unchanged


def committed_at(env: EnvironmentRoot, state: State, deployment: Deployment, shard: ShardId) -> int:
    """Return the version of a new shard at its commit: that of its last fill, or of the last link of its copy and tail.

    What comes after is its users', or a compaction. Raises LogTruncated if the log was cleaned up that far.
    """

    def is_wanted(about: Mapping[str, Any]) -> bool:
        return about.get("generation") == deployment.generation and about.get("action") in (COPY, TAIL, FILL)

    found = newest_of_ours(table_store(env, state, shard), is_wanted)
    return 0 if found is None else found[0]


def rows_since_commit(env: EnvironmentRoot, state: State, deployment: Deployment, shard: ShardId) -> bool:
    """Return whether the shard's users changed rows of it."""
    return rows_changed_since(table_store(env, state, shard), committed_at(env, state, deployment, shard))


def warm_up(leader: LeaderView, rewrites: Sequence[RewriteRollback], jobs: Callable[[], JobRunner]) -> None:
    """Start Spark before writers wait for it, if any rows have to go back."""
    if any(
        rewrite.step.down is not None and rows_since_commit(leader.env, leader.state, leader.deployment, rewrite.now)
        for rewrite in rewrites
    ):
        jobs().start(leader.env.options)


def restore_rows_of(leader: LeaderWriter, rewrites: Sequence[RewriteRollback], jobs: Callable[[], JobRunner]) -> dict[RewriteRollback, int]:
    """Bring the rows since the commit into the old shards, which are open again. Exactly once, whoever else does it.

    Returns the version of each new shard, sealed, that its old one is up to. Without ``down`` nothing goes back: that was agreed to
    (``--allow-lossy``), or there is nothing. Raises RowsNotFound, KeysTaken, RollbackFilesGone.
    """
    return {rewrite: _restore_rows(leader, rewrite, jobs) for rewrite in rewrites if rewrite.step.down is not None}


def _restore_rows(leader: LeaderWriter, rewrite: RewriteRollback, jobs: Callable[[], JobRunner]) -> int:
    started = time.monotonic()
    now, old = (table_store(leader.env, leader.state, shard) for shard in (rewrite.now, rewrite.old))
    upto, start = read_head(now).version, committed_at(leader.env, leader.state, leader.deployment, rewrite.now)
    after = leader.state.shards[rewrite.old].sealed_version or 0
    if any(foreign_commits(old, after)):
        leader.notes.append(f"{rewrite.step.collection}: others wrote to the retired shard {rewrite.old}")
    if not rows_changed_since(now, start):
        return upto  # whatever became of the tables that ``down`` looks up
    (stage,) = (stage for stage in leader.plan.of_kind(Copy) if stage.collection == rewrite.step.collection)
    transfer = backward_transfer(leader.env, leader.state, leader.deployment, rewrite.step, stage, rewrite.now, rewrite.old)
    transfer = replace(transfer, shown_at=upto)

    def followed() -> Tailed:
        check_unchanged(old, leader.state.shards[rewrite.old], read_head(old))  # what others restore now would be without these rows
        reached = where(leader.env, transfer, start, after)
        return tail(leader.env, replace(transfer, made_at=after if reached.version > after else None), reached, upto, jobs())

    try:
        tailed = again(followed)
    except TargetDiverged as missing:
        by = f"their primary key ({', '.join(transfer.match)})" if transfer.match else "all of their values, as it has no primary key"
        raise RowsNotFound(collection=rewrite.step.old.name, uri=missing.uri, rows=missing.rows, by=by) from missing
    except (SourceVacuumed, ChangeDataMissing) as gone:
        raise RollbackFilesGone(collection=rewrite.step.old.name, detail=gone.detail) from gone
    except DuplicateKeys as taken:
        uri = leader.env.table_location(transfer.target_uri).uri
        raise KeysTaken(collection=rewrite.step.old.name, uri=uri, columns=transfer.match, rows=taken.rows) from taken
    leader.report("undo", rewrite.step.collection, tailed.position.version, started)
    return upto
