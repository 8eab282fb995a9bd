"""Checkpoints of the streams into a collection, which are said by its table's log: where its rows go, they have to go, too.

A process of a stream may stand still while the rows move to another table, and be about to bring its batch to the one that it knew when
that is open again: it is turned away then (``deltalog.terms``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from airflow_provider_schemamig.core.deltalog.actions import Commit
from airflow_provider_schemamig.core.deltalog.fence import put_txns, read_txns
from airflow_provider_schemamig.core.deltalog.head import read_head
from airflow_provider_schemamig.core.deltalog.terms import Reached, app_ids, go_to, reached
from airflow_provider_schemamig.core.names import STREAM_PREFIX, ShardId
from airflow_provider_schemamig.core.storage import ReadStore, Store
from airflow_provider_schemamig.core.upgrade.rewrites import Followed
from airflow_provider_schemamig.core.upgrade.tables import table_store
from airflow_provider_schemamig.core.upgrade.undo import Undo
from airflow_provider_schemamig.core.upgrade.work import Work


class _Moved(Exception):
    """Another process of this generation did it."""


def opened(work: Work, old: ShardId, now: ShardId | None, undo: Undo | None) -> dict[str, int]:
    """For the commit that opens the sealed table ``old`` again: whoever stood still since before its seal can bring nothing there.

    The rows that streams brought to ``now``, its successor, which is sealed by now, come back through ``down`` and count as brought from
    then on; without it they do not come, and are brought again.
    """
    known = read_txns(_store(work, old), STREAM_PREFIX)
    later = {} if now is None else read_txns(_store(work, now), STREAM_PREFIX)
    come_back = undo is not None and undo.step.down is not None
    found: dict[str, int] = {}
    for app_id in app_ids((*known, *later)):
        own, there = reached(known, app_id), reached(later, app_id)
        version = max(own, there).version if come_back else own.version
        found |= go_to(app_id, own, Reached(max(own.term, there.term) + 1, version))
    return found


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
    there = read_txns(rows_from, STREAM_PREFIX)
    known = read_txns(to, STREAM_PREFIX) if there else {}
    found: dict[str, int] = {}
    for app_id in app_ids(there):
        own, before = reached(known, app_id), reached(there, app_id)
        further = max(own, before)
        found |= {} if further == own else go_to(app_id, own, further)
    return found


def _store(work: Work, shard: ShardId) -> Store:
    return table_store(work.env, work.state, shard)
