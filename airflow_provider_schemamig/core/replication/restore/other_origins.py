"""Rows of third environments that a restore brings along and takes away, because both of its ends follow those.

A copy of the origin's table has them as far as the origin's own streams from there have come. So the commit that puts it in the place of
the target's table puts the target's streams from there to the same positions: what is missing comes once more, what came along not again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.delta.commit.fence import read_txns
from airflow_provider_schemamig.core.delta.commit.txn_terms import NOTHING, TxnPosition, advance, app_ids, txn_position
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.names import STREAM_PREFIX, ShardId
from airflow_provider_schemamig.core.replication.errors import RestoreWouldLose
from airflow_provider_schemamig.core.replication.model import EnvId, Stream
from airflow_provider_schemamig.core.replication.restore.since_restore import commits_since_restore
from airflow_provider_schemamig.core.replication.stream.apply import EventTable
from airflow_provider_schemamig.core.replication.stream.checkpoint import OtherCheckpoint
from airflow_provider_schemamig.core.replication.stream.position import RowPosition, StreamEnds, checkpoint_hash
from airflow_provider_schemamig.core.replication.stream.stored_state import read_state


@dataclass(frozen=True, slots=True)
class OtherPosition:
    """``shard``: a table of the third environment. ``own``: how far the target's table has its rows; ``copied``: the copy of the origin's.

    ``seen``: up to where nothing is an event after ``copied``. ``is_followed``: the origin has a stream from that environment.
    """

    stream: Stream
    shard: ShardId
    own: TxnPosition
    copied: TxnPosition
    seen: int
    is_followed: bool
    #: The table that the target's stream stands in, by its own object; None if that is lost.
    stands: ShardId | None


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """The origin's table as it was looked at, with the positions of streams that it has there: its log may be cleaned up meanwhile."""

    table: EventTable
    txns: Mapping[str, int]

    @classmethod
    def of(cls, table: EventTable) -> CopiedTable:
        """Read the positions. Raises LogTruncated."""
        return cls(table, read_txns(table.store, STREAM_PREFIX, table.head.version))


def other_positions(ends: StreamEnds, stream: Stream, source: CopiedTable, table: EventTable) -> tuple[OtherPosition, ...]:
    """Return where the streams from third environments stand in ``table``, the target's, and in ``source``."""
    ours, theirs = read_txns(table.store, STREAM_PREFIX, table.head.version), source.txns
    followed = {_parsed(app_id)[0] for app_id in app_ids(theirs) if txn_position(theirs, app_id).version != NOTHING}
    found = []
    for app_id in app_ids((*ours, *theirs)):
        origin, shard = _parsed(app_id)
        if origin not in (stream.origin, stream.target):
            own, copied = txn_position(ours, app_id), txn_position(theirs, app_id)
            seen = _seen(ends, _to_origin(stream, origin), shard, copied)
            other = Stream(origin, stream.target, stream.collection)
            state = read_state(ends.target.env, other)
            stands = None if state is None else state.shard
            found.append(OtherPosition(other, shard, own, copied, seen, is_followed=origin in followed, stands=stands))
    return tuple(found)


def other_txns(stream: Stream, table: EventTable, positions: Sequence[OtherPosition]) -> Mapping[str, int]:
    """Return the transaction versions that move the target's streams, in a new term: who holds a batch of one cannot bring that on top.

    One whose rows are gone stands nowhere, and stops until it is restored.
    """
    found: dict[str, int] = {}
    has_rows = bool(positions and active_files(table.store, table.head.version))
    for other in positions:
        if other.is_followed or (has_rows and _has_more(stream, table, other)):
            to = TxnPosition(other.own.term + 1, other.copied.version)
            found |= advance(other.stream.txn_app_id(other.shard), other.own, to)
    return found


def other_checkpoints(
    ends: StreamEnds, stream: Stream, source: CopiedTable, positions: Sequence[OtherPosition]
) -> tuple[OtherCheckpoint, ...]:
    """Return which commits of third environments the copied positions are: the target has no other commit that would tell."""
    found = []
    for other in positions:
        if other.is_followed and other.copied.version != NOTHING:
            where = RowPosition(other.shard, other.copied.version, other.copied)
            known = checkpoint_hash(ends.origin, _to_origin(stream, other.stream.origin), source.table, where)
            found.append(OtherCheckpoint(other.stream.origin, other.shard, other.copied.version, known))
    return tuple(found)


def check_others(stream: Stream, positions: Sequence[OtherPosition], table: EventTable) -> None:
    """Raise RestoreWouldLose for rows of a third environment that the target has and the origin does not."""
    # A table that the third environment has left, and the origin never followed: of the next one it has all that the target has. Not the
    # other way round: whoever is level in a table that was left has nothing of the next one.
    level = {
        other.stream.origin
        for other in positions
        if NOTHING not in (other.own.version, other.copied.version)
        and not _is_behind(other)
        and _newest_shard(stream, table, other) in (None, other.shard)
    }
    left = [other for other in positions if other.copied.version == NOTHING and other.stream.origin in level]
    for other in positions:
        if other not in left and _has_more(stream, table, other):
            raise RestoreWouldLose(collection=stream.collection, uri=table.uri, of=other.stream.origin, is_followed=other.is_followed)


def _newest_shard(stream: Stream, table: EventTable, other: OtherPosition) -> str | None:
    """Return the table of the third environment whose rows came to ``table`` last; None if neither log nor stream tells."""
    with contextlib.suppress(LogTruncated):
        for commit in commits_since_restore(stream, table):
            if commit.about.get("origin") == other.stream.origin:
                return str(commit.about.get("shard"))
    return other.stands


def _is_behind(other: OtherPosition) -> bool:
    return other.own.version > other.seen


def _has_more(stream: Stream, table: EventTable, other: OtherPosition) -> bool:
    """Return whether the target may have rows of a third environment that the copy lacks.

    Those of before a rewrite of the target's table came with that, and those of a release that was rolled back with the rollback.
    """
    if not _is_behind(other):
        return False
    try:
        for commit in commits_since_restore(stream, table):
            is_its = any(_is_of(other, brought) for brought in (commit.about, *commit.about.get("others", ())))
            if commit.changes_rows and (commit.rolled_back is not None or is_its):
                return True
            if commit.is_restore:
                return False
    except LogTruncated:
        return True
    return table.shard.generation > 1


def _is_of(other: OtherPosition, brought: Mapping[str, Any]) -> bool:
    """Return whether rows of the third environment came that the copy lacks: by its own stream, or along with a restore from elsewhere."""
    return (brought.get("origin"), brought.get("shard")) == (other.stream.origin, other.shard) and int(brought["hi"]) > other.seen


def _seen(ends: StreamEnds, there: Stream, shard: ShardId, copied: TxnPosition) -> int:
    """Return the last version that the origin's stream has looked at from its position ``copied`` on.

    If the stream stands elsewhere now, it is the version of ``copied``.
    """
    state = read_state(ends.origin.env, there)
    is_there = state is not None and (state.shard, state.checkpoint) == (shard, copied.version)
    return max(copied.version, state.seen) if state is not None and is_there else copied.version


def _to_origin(stream: Stream, other: EnvId) -> Stream:
    return Stream(other, stream.origin, stream.collection)


def _parsed(app_id: str) -> tuple[EnvId, ShardId]:
    origin, _, shard = app_id.removeprefix(STREAM_PREFIX).partition(":")
    return EnvId(origin), ShardId(shard)
