"""Rows of third environments that a restore brings along and takes away, because both of its ends follow those.

A copy of the origin's table has them as far as the origin's own streams from there have come. So the commit that puts it in the place of
the target's table puts the target's streams from there to the same positions: what is missing comes once more, what came along not again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_schemamig.core.delta.commit.fence import read_txns
from airflow_provider_schemamig.core.delta.commit.txn_terms import TxnPosition, advance, app_ids, txn_position
from airflow_provider_schemamig.core.names import STREAM_PREFIX, ShardId
from airflow_provider_schemamig.core.replication.errors import RestoreWouldLose
from airflow_provider_schemamig.core.replication.model import EnvId, Stream
from airflow_provider_schemamig.core.replication.stream.apply import EventTable


@dataclass(frozen=True, slots=True)
class OtherPosition:
    """``shard``: a table of the third environment. ``own``: how far the target's table has its rows; ``copied``: the copy of the origin's.

    ``is_followed``: the origin has a stream from that environment.
    """

    stream: Stream
    shard: ShardId
    own: TxnPosition
    copied: TxnPosition
    is_followed: bool

    @property
    def txns(self) -> Mapping[str, int]:
        """Return the transaction versions that move the target's stream, in a new term: who holds a batch of it cannot bring that on top.

        None if the origin follows nothing there: what the target had is gone, and nothing tells from where it would come again.
        """
        if not self.is_followed:
            return {}
        return advance(self.stream.txn_app_id(self.shard), self.own, TxnPosition(self.own.term + 1, self.copied.version))


def other_positions(stream: Stream, source: EventTable, table: EventTable) -> tuple[OtherPosition, ...]:
    """Return where the streams from third environments stand in ``table``, the target's, and in ``source``, as it was looked at."""
    ours = read_txns(table.store, STREAM_PREFIX, table.head.version)
    theirs = read_txns(source.store, STREAM_PREFIX, source.head.version)
    followed = {origin for origin, _ in map(_parsed, app_ids(theirs))}
    found = []
    for app_id in app_ids((*ours, *theirs)):
        origin, shard = _parsed(app_id)
        if origin not in (stream.origin, stream.target):
            other = Stream(origin, stream.target, stream.collection)
            own, copied = txn_position(ours, app_id), txn_position(theirs, app_id)
            found.append(OtherPosition(other, shard, own, copied, is_followed=origin in followed))
    return tuple(found)


def check_others(positions: tuple[OtherPosition, ...], table: EventTable) -> None:
    """Raise RestoreWouldLose for rows of a third environment that the target has and the origin does not."""
    for found in _behind(positions):
        raise RestoreWouldLose(collection=found.stream.collection, uri=table.uri, of=found.stream.origin, is_followed=found.is_followed)


def _behind(positions: tuple[OtherPosition, ...]) -> Iterator[OtherPosition]:
    return (found for found in positions if found.own.version > found.copied.version)


def _parsed(app_id: str) -> tuple[EnvId, ShardId]:
    origin, _, shard = app_id.removeprefix(STREAM_PREFIX).partition(":")
    return EnvId(origin), ShardId(shard)
