"""Checkpoints of the streams into a collection, which are said by its table's log: where its rows go, they have to go, too.

A process of a stream may stand still while the rows move to another table, and bring its batch to the one that it knew when that is open
again. What has come there by another way meanwhile it has to find as its own transaction (``replication.checkpoint``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from airflow_provider_schemamig.core.deltalog.actions import Commit
from airflow_provider_schemamig.core.deltalog.fence import put_txns, read_txns
from airflow_provider_schemamig.core.deltalog.head import read_head
from airflow_provider_schemamig.core.names import STREAM_PREFIX, ShardId
from airflow_provider_schemamig.core.storage import ReadStore, Store
from airflow_provider_schemamig.core.upgrade.rewrites import Followed
from airflow_provider_schemamig.core.upgrade.tables import table_store
from airflow_provider_schemamig.core.upgrade.undo import Undo
from airflow_provider_schemamig.core.upgrade.work import Work


class _Moved(Exception):
    """Another process of this generation did it."""


def known_from_here(work: Work, undo: Undo) -> Mapping[str, int]:
    """What the table that is opened again has to know of streams when it is: the rows that they brought to its successor, which is sealed
    by now, come back through ``down``. Without it they do not, and are brought again."""
    return {} if undo.step.down is None else _ahead(_store(work, undo.now), _store(work, undo.old))


def hand_on(work: Work, followed: Sequence[Followed]) -> None:
    """Let the tables that take over know how far streams have come in those that are sealed, which are removed some day.

    Should a local disk lose the commit, a stream finds it out by itself as long as the old table is there. Raises Fenced.
    """
    for item in followed:
        ahead = _ahead(_store(work, item.flow.source), _store(work, item.flow.target))
        if ahead:
            _put(work, item.flow.target, ahead)


def _put(work: Work, shard: ShardId, txns: Mapping[str, int]) -> None:
    store, fence = _store(work, shard), work.fence(shard)
    head = read_head(store)

    def judge(commit: Commit) -> None:
        fence.check(commit)
        if any(txn.get("appId") in txns for txn in commit.txns):
            raise _Moved

    with contextlib.suppress(_Moved):
        put_txns(store, head, txns, work.tag("streams"), judge)


def _ahead(rows_from: ReadStore, to: ReadStore) -> dict[str, int]:
    """Writers wait meanwhile, so where no stream comes the other log is not read."""
    found = read_txns(rows_from, STREAM_PREFIX)
    known = read_txns(to, STREAM_PREFIX) if found else {}
    return {app_id: version for app_id, version in found.items() if version > known.get(app_id, -1)}


def _store(work: Work, shard: ShardId) -> Store:
    return table_store(work.env, work.state, shard)
