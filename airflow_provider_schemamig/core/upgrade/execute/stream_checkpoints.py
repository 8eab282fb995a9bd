"""Carry transaction versions along when a collection moves to another table.

They stand in the table's log: the checkpoints of the streams that bring rows from other environments, and the numbers of writers that
repeat a write whose end they did not see (``Txn``, Structured Streaming). A worker that stalled before the move cannot bring its batch to
the old table afterwards (``delta.commit.txn_terms``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from airflow_provider_schemamig.core.delta.actions import LogCommit
from airflow_provider_schemamig.core.delta.commit.fence import put_txns, read_txns
from airflow_provider_schemamig.core.delta.commit.txn_terms import NOTHING, TxnPosition, advance, app_ids, txn_position
from airflow_provider_schemamig.core.delta.log.head import TableMissing, read_head
from airflow_provider_schemamig.core.names import RESERVED_PREFIX, STREAM_PREFIX, ShardId
from airflow_provider_schemamig.core.release.merge.merged import Replace, RewriteStep
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.prepare.build import replacement_key
from airflow_provider_schemamig.core.upgrade.prepare.transfers import RewriteRollback


class _Moved(Exception):
    """Another process of this generation did it."""


def txns_to_unseal(leader: LeaderView, old: ShardId, now: ShardId | None, rewrite: RewriteRollback | None) -> dict[str, int]:
    """Return the transaction versions for the commit that opens the sealed table ``old`` again.

    Whoever stood still since before its seal can bring nothing there. The rows that came to ``now``, its successor, which is sealed by
    now, come back through ``down`` and count as written from then on; without it they do not come, and are written again.
    """
    known = _txns(leader, old)
    later = {} if now is None else _txns(leader, now)
    is_restored = rewrite is not None and rewrite.step.down is not None
    found = _newer_than(later, known) if is_restored else {}
    for app_id in app_ids(txn for txn in (*known, *later) if txn.startswith(STREAM_PREFIX)):
        own, there = txn_position(known, app_id), txn_position(later, app_id)
        version = max(own, there).version if is_restored else own.version
        found |= advance(app_id, own, TxnPosition(max(own.term, there.term) + 1, version))
    return found


def copy_checkpoints(leader: LeaderView) -> None:
    """Copy the positions of writers and streams from sealed tables to their successors. The sealed tables are removed later.

    Should a local disk lose the commit, a stream finds it out by itself as long as the old table is there. Raises Fenced.
    """

    def copy_one(tables: tuple[ShardId, ShardId]) -> None:
        source, target = tables
        # Writers wait meanwhile, so where nobody counts the other log is not read.
        there = _txns(leader, source)
        known = _txns(leader, target) if any(map(_is_copied, there)) else {}
        newer = _newer_than(there, known) | _newer_streams(there, known)
        if newer:
            _put(leader, target, newer)

    leader.env.for_each(copy_one, _successions(leader))


def _successions(leader: LeaderView) -> list[tuple[ShardId, ShardId]]:
    """Return each table that is rewritten or replaced, with its successor."""
    steps = [step for step in leader.plan.target.steps if isinstance(step, Replace | RewriteStep) and step.old.name in leader.state.objects]
    rows = [leader.state.replacements[replacement_key(step.collection, leader.deployment)] for step in steps]
    return [(leader.state.objects[step.old.name].shard, row.shard) for step, row in zip(steps, rows, strict=True)]


def _txns(leader: LeaderView, shard: ShardId) -> dict[str, int]:
    """Return the highest number of every application id; none of a table that is not there."""
    try:
        return read_txns(_store(leader, shard), "")
    except TableMissing:
        return {}


def _put(leader: LeaderView, shard: ShardId, txns: Mapping[str, int]) -> None:
    store, fence = _store(leader, shard), leader.fence(shard)
    head = read_head(store)

    def judge(commit: LogCommit) -> None:
        fence.check(commit)
        if any(txn.get("appId") in txns for txn in commit.txns):
            raise _Moved

    with contextlib.suppress(_Moved):
        put_txns(store, head, txns, leader.tag("transactions"), judge)


def _newer_than(there: Mapping[str, int], known: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of writers that ``there`` is ahead in; a number of 0 is one, too."""
    return {app_id: number for app_id, number in there.items() if not _is_own(app_id) and number > known.get(app_id, NOTHING)}


def _newer_streams(there: Mapping[str, int], known: Mapping[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for app_id in app_ids(txn for txn in there if txn.startswith(STREAM_PREFIX)):
        own, before = txn_position(known, app_id), txn_position(there, app_id)
        further = max(own, before)
        found |= {} if further == own else advance(app_id, own, further)
    return found


def _is_copied(app_id: str) -> bool:
    return app_id.startswith(STREAM_PREFIX) or not _is_own(app_id)


def _is_own(app_id: str) -> bool:
    """Return whether an id is of a fence or statement of ours, which belongs to one table; streams have terms."""
    return app_id.startswith(f"{RESERVED_PREFIX}:")


def _store(leader: LeaderView, shard: ShardId) -> Store:
    return table_store(leader.env, leader.state, shard)
