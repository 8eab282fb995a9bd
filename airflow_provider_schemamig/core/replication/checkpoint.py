"""How far a stream has come: the target table's own transaction identifiers, moved by the very commits that bring rows (seed 004).

Delta skips a statement whose transaction version is not above the last one of its application id, and aborts it if that id went on while it
was in flight. So of all who bring a batch that begins where the table stands one gets through, if they all mean the same batch: where it
ends is *agreed* on before, by an object that whoever comes first puts there. Who agrees reads the checkpoint once more: while that is still
``lo`` the object for ``lo`` has not been taken away, for that is done only by who has seen it pass. A process that stopped in between and
goes on much later therefore has either the one agreed end, which Delta then knows, or a checkpoint that says no.

Where that would not be enough, because the rows it holds came by another way (a restore, a rollback that opens the table again), its
identifier is closed, and the checkpoint goes on in the next term (``deltalog.terms``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.deltalog.actions import Commit
from airflow_provider_schemamig.core.deltalog.features import check_writable
from airflow_provider_schemamig.core.deltalog.fence import put_txns, read_txns
from airflow_provider_schemamig.core.deltalog.head import Head, read_head
from airflow_provider_schemamig.core.deltalog.tag import Tag
from airflow_provider_schemamig.core.deltalog.terms import Reached, go_to, reached, term_id
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.jsonable import canonical, from_json, to_json
from airflow_provider_schemamig.core.names import RESERVED_PREFIX, Epoch, Fingerprint, Generation, ShardId
from airflow_provider_schemamig.core.replication.model import Stream
from airflow_provider_schemamig.core.storage import ObjectExists, ObjectMissing, ReadStore, Store, confirm, require_safe_log_store
from airflow_provider_schemamig.exceptions import Conflict

#: What commits of a stream call themselves: rows (or nothing but a checkpoint), all rows anew, and an end for who stood still.
REPLICA, RESTORE, TURN_AWAY = "replica", "restore", "turn away"
_CLAIMED = re.compile(r"(\d+)-(-?\d+)")


@dataclass(eq=False)
class CheckpointMoved(Conflict):
    """A twin of this stream, or another change of the table, was first; nothing was written."""

    code = "checkpoint_moved"
    uri: str

    @property
    def message(self) -> str:
        return f"the checkpoint of {self.uri} was moved by somebody else, or the table was changed in that moment."

    @property
    def next_action(self) -> str:
        return "Try again: the stream goes on from where it is now."


@dataclass(frozen=True, slots=True)
class Span:
    """Versions ``since.version + 1`` .. ``hi`` of ``shard``, the origin's table, as one commit of the target brings them."""

    stream: Stream
    shard: ShardId
    since: Reached
    hi: int
    schema_hash: Fingerprint | None
    action: str = REPLICA

    @property
    def txn_app_id(self) -> str:
        return term_id(self.stream.txn_app_id(self.shard), self.since.term)

    @property
    def user_metadata(self) -> str:
        """``{"schemamig": {"action", "hi", "lo", "origin", "schema_hash", "shard"}}``: the same for whoever brings it."""
        about: dict[str, Any] = {"shard": self.shard, "lo": self.since.version, "hi": self.hi, "schema_hash": self.schema_hash}
        return _said(self.stream, self.action, about)


@dataclass(frozen=True, slots=True)
class _Note(Tag):
    """A commit of ours without rows: what it says of itself is what Spark's say."""

    said: str

    @property
    def user_metadata(self) -> str:
        return self.said


def position(table: ReadStore, stream: Stream, shard: ShardId, at: int | None = None) -> Reached:
    """Up to which version of ``shard``, the origin's, ``table`` has (``at``: had at this version) the rows; ``NOTHING`` if it has none.

    Raises TableMissing, LogTruncated.
    """
    app_id = stream.txn_app_id(shard)
    return reached(read_txns(table, app_id, at), app_id)


def move(table: Store, head: Head, span: Span) -> int:
    """Move the checkpoint from ``span.since`` to ``span.hi`` by a commit without rows; the table's version of it.

    ``head``: of the table. Raises CheckpointMoved (a seal is one reason), UnsafeLogStore, UnsupportedFeature, TableMissing.
    """
    if position(table, span.stream, span.shard) != span.since:
        raise CheckpointMoved(collection=span.stream.collection, uri=table.location.uri)
    return _put(table, head, span.stream, {span.txn_app_id: span.hi}, span.action, span.user_metadata)


def turn_away(table: Store, stream: Stream, shards: Collection[ShardId]) -> None:
    """Whoever holds a batch or a restore from one of ``shards`` cannot commit it to ``table`` any more. No checkpoint goes elsewhere.

    Raises as ``move`` does.
    """
    head = read_head(table)
    txns: dict[str, int] = {}
    for shard in shards:
        own = position(table, stream, shard)
        txns |= go_to(stream.txn_app_id(shard), own, Reached(own.term + 1, own.version))
    _put(table, head, stream, txns, TURN_AWAY, _said(stream, TURN_AWAY, {"shards": sorted(shards)}))


def _put(table: Store, head: Head, stream: Stream, txns: Mapping[str, int], action: str, said: str) -> int:
    require_safe_log_store(table)
    check_writable(head.protocol, table.location.uri)
    if head.sealed_for is not None:  # a seal is to be the last commit of its table
        raise CheckpointMoved(collection=stream.collection, uri=table.location.uri)

    def judge(commit: Commit) -> None:
        if commit.metadata is not None or any(txn.get("appId") in txns for txn in commit.txns):
            raise CheckpointMoved(collection=stream.collection, uri=table.location.uri)

    appended = put_txns(table, head, txns, _Note(Generation(0), Epoch(0), action, said), judge)
    if confirm([appended.receipt]):  # on a local disk a driver that was about to commit may have put its own there
        raise CheckpointMoved(collection=stream.collection, uri=table.location.uri)
    return appended.version


def _said(stream: Stream, action: str, about: Mapping[str, Any]) -> str:
    return canonical({RESERVED_PREFIX: {"action": action, "origin": stream.origin, **about}})


# --- where a batch ends --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wish:
    """What a restore is asked for. ``version`` None: the origin's newest. ``allow_schema_change``, ``allow_lossy``: it may take away what
    of the target's columns and own rows the origin does not have. ``is_first``: of a target without rows, where there is nothing to take
    away. ``depth``: how many previous schemas are no change."""

    version: int | None = None
    allow_schema_change: bool = False
    allow_lossy: bool = False
    is_first: bool = False
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Claim:
    """What follows the checkpoint. ``wish``: a restore does, at ``hi`` or later, and whoever finds that begun finishes it: a batch on top
    of rows that a restore may replace in that moment would count twice. Restores themselves are right on top of anything."""

    hi: int
    wish: Wish | None = None


def agree(target: Environment, stream: Stream, shard: ShardId, since: Reached, claim: Claim) -> Claim:
    """What follows the checkpoint ``since``: ``claim``, or what was agreed on before. The caller reads the checkpoint again.

    Raises CheckpointMoved.
    """
    store, key = target.store(), f"{scratch_key(stream, shard, since)}.json"
    try:
        store.put_if_absent(key, canonical(to_json(claim)).encode())
    except ObjectExists:
        try:
            return from_json(Claim, json.loads(store.get(key)))  # type: ignore[no-any-return]
        except ObjectMissing:  # its batch was brought meanwhile
            raise CheckpointMoved(collection=stream.collection, uri=store.location.uri) from None
    return claim


def scratch_key(stream: Stream, shard: ShardId, since: Reached) -> str:
    """Where a process that brings what follows ``since`` leaves things beside the claim, which has the same name."""
    return f"{_folder(stream)}/{shard}-{since.term}-{since.version}"


def forget(target: Environment, stream: Stream, shard: ShardId, at: Reached) -> None:
    """Take away what was agreed on for what the checkpoint ``at`` has passed, and what killed processes left of reading that."""
    store, folder = target.store(), _folder(stream)
    for name in store.names(folder):
        if _is_passed(name.removesuffix(".json"), shard, at):
            store.delete(f"{folder}/{name}")
    for name in store.folders(folder):
        if _is_passed(name, shard, at):
            store.delete_tree(f"{folder}/{name}")


def _folder(stream: Stream) -> str:
    """Of a stream's objects beside its state."""
    return stream.key.removesuffix(".json")


def _is_passed(name: str, shard: ShardId, at: Reached) -> bool:
    """``name``: ``<shard>-<term>-<version>``; the version may be -1."""
    found = _CLAIMED.fullmatch(name.removeprefix(f"{shard}-"))
    return found is not None and Reached(int(found[1]), int(found[2])) < at
