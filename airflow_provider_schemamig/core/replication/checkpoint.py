"""How far a stream has come: the target table's own transaction identifiers, moved by the very commits that bring rows (seed 004).

Delta skips a statement whose transaction version is not above the last one of its application id, and aborts it if that id went on while it
was in flight. So of all who bring a batch that begins where the table stands one gets through, if they all mean the same batch: where it
ends is *agreed* on before, by an object that whoever comes first puts there. Who agrees reads the checkpoint once more: while that is still
``lo`` the object for ``lo`` has not been taken away, for that is done only by who has seen it pass. A process that stopped in between and
goes on much later therefore has either the one agreed end, which Delta then knows, or a checkpoint that says no.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.deltalog.actions import Commit
from airflow_provider_schemamig.core.deltalog.features import check_writable
from airflow_provider_schemamig.core.deltalog.fence import put_txns, read_fence
from airflow_provider_schemamig.core.deltalog.head import Head
from airflow_provider_schemamig.core.deltalog.tag import Tag
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.jsonable import canonical, from_json, to_json
from airflow_provider_schemamig.core.names import RESERVED_PREFIX, Epoch, Fingerprint, Generation, ShardId
from airflow_provider_schemamig.core.replication.model import Stream
from airflow_provider_schemamig.core.storage import ObjectExists, ObjectMissing, ReadStore, Store, confirm, require_safe_log_store
from airflow_provider_schemamig.exceptions import Conflict

#: What commits of a stream call themselves: rows (or nothing but a checkpoint), and all rows anew.
REPLICA, RESTORE = "replica", "restore"
#: The checkpoint of a target that has none: every version of the origin is above it.
NOTHING = -1


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
    """Versions ``lo + 1`` .. ``hi`` of ``shard``, the origin's table, as one commit of the target brings them."""

    stream: Stream
    shard: ShardId
    lo: int
    hi: int
    schema_hash: Fingerprint | None
    action: str = REPLICA

    @property
    def txn_app_id(self) -> str:
        return self.stream.txn_app_id(self.shard)

    @property
    def user_metadata(self) -> str:
        """``{"schemamig": {"action", "hi", "lo", "origin", "schema_hash", "shard"}}``: the same for whoever brings it."""
        about: dict[str, Any] = {"action": self.action, "origin": self.stream.origin, "shard": self.shard, "lo": self.lo, "hi": self.hi}
        return canonical({RESERVED_PREFIX: {**about, "schema_hash": self.schema_hash}})


@dataclass(frozen=True, slots=True)
class _Note(Tag):
    """What a commit of ours without rows says of itself, which is what Spark's say."""

    span: Span

    @property
    def user_metadata(self) -> str:
        return self.span.user_metadata


def position(table: ReadStore, stream: Stream, shard: ShardId, at: int | None = None) -> int:
    """Up to which version of ``shard``, the origin's, ``table`` has (``at``: had at this version) the rows; ``NOTHING`` if it has none.

    Raises TableMissing, LogTruncated.
    """
    found = read_fence(table, stream.txn_app_id(shard), at)
    return NOTHING if found is None else found


def move(table: Store, head: Head, span: Span) -> int:
    """Move the checkpoint from ``span.lo`` (``NOTHING``: from none) to ``span.hi`` by a commit without rows; the table's version of it.

    ``head``: of the table, unsealed. Raises CheckpointMoved, UnsafeLogStore, UnsupportedFeature, TableMissing.
    """
    require_safe_log_store(table)
    check_writable(head.protocol, table.location.uri)

    def judge(commit: Commit) -> None:
        # Ours may follow no other of its id, and none may follow a seal, which is to be the last commit of its table.
        if commit.metadata is not None or any(txn.get("appId") == span.txn_app_id for txn in commit.txns):
            raise CheckpointMoved(collection=span.stream.collection, uri=table.location.uri)

    if position(table, span.stream, span.shard) != span.lo:
        raise CheckpointMoved(collection=span.stream.collection, uri=table.location.uri)
    appended = put_txns(table, head, {span.txn_app_id: span.hi}, _Note(Generation(0), Epoch(0), span.action, span), judge)
    if confirm([appended.receipt]):  # on a local disk a driver that was about to commit may have put its own there
        raise CheckpointMoved(collection=span.stream.collection, uri=table.location.uri)
    return appended.version


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


def agree(target: Environment, stream: Stream, shard: ShardId, lo: int, claim: Claim) -> Claim:
    """What follows the checkpoint ``lo``: ``claim``, or what was agreed on before. The caller reads the checkpoint again.

    Raises CheckpointMoved.
    """
    store, key = target.store(), _key(stream, shard, lo)
    try:
        store.put_if_absent(key, canonical(to_json(claim)).encode())
    except ObjectExists:
        try:
            return from_json(Claim, json.loads(store.get(key)))  # type: ignore[no-any-return]
        except ObjectMissing:  # its batch was brought meanwhile
            raise CheckpointMoved(collection=stream.collection, uri=store.location.uri) from None
    return claim


def give_up(target: Environment, stream: Stream, shard: ShardId, lo: int) -> None:
    """Take a restore back that is not going to be. Not for batches: who holds one may be about to bring it."""
    target.store().delete(_key(stream, shard, lo))


def _key(stream: Stream, shard: ShardId, lo: int) -> str:
    return f"{folder(stream)}/{shard}-{lo}.json"


def forget(target: Environment, stream: Stream, shard: ShardId, at: int, kept: Collection[int]) -> None:
    """Take away what was agreed on for batches that the checkpoint ``at`` has passed, and what killed processes left of reading them.

    ``kept``: what follows these checkpoints is still agreed on."""
    store = target.store()
    for name in store.names(folder(stream)):
        if _is_passed(name.removesuffix(".json"), shard, at, kept):
            store.delete(f"{folder(stream)}/{name}")
    for name in store.folders(folder(stream)):
        if _is_passed(name, shard, at, kept):
            store.delete_tree(f"{folder(stream)}/{name}")


def folder(stream: Stream) -> str:
    """Of a stream's objects beside its state."""
    return stream.key.removesuffix(".json")


def _is_passed(name: str, shard: ShardId, at: int, kept: Collection[int]) -> bool:
    """``name``: ``<shard>-<lo>``; ``lo`` may be -1."""
    lo = name.removeprefix(f"{shard}-")
    return lo != name and lo.lstrip("-").isdigit() and int(lo) < at and int(lo) not in kept
