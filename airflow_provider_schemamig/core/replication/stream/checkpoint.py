"""How far a stream has come: the target table's own transaction identifiers, moved by the very commits that bring rows.

Delta skips a statement whose transaction version is not above the last one of its application id, and aborts it if that id went on while it
was in flight. So of all who bring a batch that begins where the table stands one gets through, if they all mean the same batch: where it
ends is *agreed* on before, by an object that whoever comes first puts there. Who agrees reads the checkpoint once more: while that is still
``lo`` the object for ``lo`` has not been taken away, for that is done only by who has seen it pass. A process that stopped in between and
goes on much later therefore has either the one agreed end, which Delta then knows, or a checkpoint that says no.

Where that would not be enough, because the rows it holds came by another way (a restore, a rollback that opens the table again), its
identifier is closed, and the checkpoint goes on in the next term (``delta.commit.txn_terms``).
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from airflow_provider_schemamig.core.delta.actions import LogCommit
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import put_txns, read_txns
from airflow_provider_schemamig.core.delta.commit.txn_terms import TxnPosition, term_id, txn_position
from airflow_provider_schemamig.core.delta.features import check_writable
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.names import RESERVED_PREFIX, Epoch, Fingerprint, Generation, ShardId
from airflow_provider_schemamig.core.replication.model import EnvId, Stream
from airflow_provider_schemamig.core.storage import ObjectExists, ObjectMissing, ReadStore, Store, confirm, require_safe_log_store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import Conflict

#: What commits of a stream call themselves: rows (or nothing but a checkpoint), and all rows anew.
REPLICA, RESTORE = "replica", "restore"
_SINCE = re.compile(r"(\d+)-(-?\d+)")


class CheckpointMoved(Conflict):
    """A twin of this stream, or another change of the table, was first; nothing was written."""

    code = "checkpoint_moved"
    message = "the checkpoint of {uri} was moved by somebody else, or the table was changed in that moment."
    next_action = "Try again: the stream goes on from where it is now."
    uri: str


@dataclass(frozen=True, slots=True)
class OtherCheckpoint:
    """How far rows of a third environment came along with a restore: up to version ``hi`` of its table, with that commit's hash or ""."""

    origin: EnvId
    shard: ShardId
    hi: int
    commit_hash: str


@dataclass(frozen=True, slots=True)
class RestoredOver:
    """What a restore was made over: version ``version`` of the target's table. What was appended after that is still there.

    ``others``: of third environments whose rows came along. ``claim_id``: under which it was made, so that whoever repeats it finds it.
    """

    version: int
    others: tuple[OtherCheckpoint, ...]
    claim_id: str | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """Versions ``since.version + 1`` .. ``hi`` of ``shard``, the origin's table, as one commit of the target brings them.

    ``commit_hash``: of the origin's commit ``hi``, which another log of the same length does not have; "": not known. ``over``: all of
    the target's rows are made anew.
    """

    stream: Stream
    shard: ShardId
    since: TxnPosition
    hi: int
    schema_hash: Fingerprint | None
    commit_hash: str
    over: RestoredOver | None = None

    @property
    def action(self) -> str:
        return REPLICA if self.over is None else RESTORE

    @property
    def txn_app_id(self) -> str:
        return term_id(self.stream.txn_app_id(self.shard), self.since.term)

    @property
    def user_metadata(self) -> str:
        """Return ``{"schemamig": {"action", "commit_hash", "hi", "lo", "origin", "schema_hash", "shard"}}``.

        It is the same for whoever brings the batch. A restore's has ``"over"``, and ``"others"``: ``{"commit_hash", "hi", "origin",
        "shard"}`` each, and ``"claim_id"`` if it has one.
        """
        about: dict[str, Any] = {"shard": self.shard, "lo": self.since.version, "hi": self.hi, "schema_hash": self.schema_hash}
        about |= {"action": self.action, "origin": self.stream.origin, "commit_hash": self.commit_hash}
        if self.over is not None:
            about |= {"over": self.over.version, "others": [asdict(other) for other in self.over.others]}
            about |= {"claim_id": self.over.claim_id} if self.over.claim_id is not None else {}
        return canonical({RESERVED_PREFIX: about})


@dataclass(frozen=True, slots=True)
class CheckpointNote(Tag):
    """What a commit of ours says of itself, in the same words as Spark's commits."""

    span: Span

    @property
    def user_metadata(self) -> str:
        return self.span.user_metadata


def note_of(span: Span) -> CheckpointNote:
    """Return the note for a checkpoint's commit, which belongs to no generation."""
    return CheckpointNote(Generation(0), Epoch(0), span.action, span)


def position(table: ReadStore, stream: Stream, shard: ShardId, at: int | None = None) -> TxnPosition:
    """Return the version of ``shard``, the origin's table, up to which ``table`` has (``at``: had at this version) the rows.

    ``NOTHING`` if it has none. Raises TableMissing, LogTruncated.
    """
    app_id = stream.txn_app_id(shard)
    return txn_position(read_txns(table, app_id, at), app_id)


def move_checkpoint(table: Store, head: Head, span: Span) -> int:
    """Move the checkpoint from ``span.since`` to ``span.hi`` by a commit without rows; the table's version of it.

    ``head``: of the table. Raises CheckpointMoved (a seal is one reason), UnsafeLogStore, UnsupportedFeature, TableMissing.
    """
    require_safe_log_store(table)
    check_writable(head.protocol, table.location.uri)
    moved = CheckpointMoved(collection=span.stream.collection, uri=table.location.uri)
    if head.sealed_for is not None or position(table, span.stream, span.shard) != span.since:
        raise moved

    def judge(commit: LogCommit) -> None:
        # Ours may follow no other of its id, and none may follow a seal, which is to be the last commit of its table.
        if commit.metadata is not None or any(txn.get("appId") == span.txn_app_id for txn in commit.txns):
            raise moved

    appended = put_txns(table, head, {span.txn_app_id: span.hi}, note_of(span), judge)
    if confirm([appended.receipt]):  # on a local disk a driver that was about to commit may have put its own there
        raise moved
    return appended.version


# --- where a batch ends --------------------------------------------------------------------------------------------------------------


def agree(target: EnvironmentRoot, stream: Stream, shard: ShardId, since: TxnPosition, hi: int) -> int:
    """Return where the batch after the checkpoint ``since`` ends: at ``hi``, or where others agreed on before.

    The caller reads the checkpoint again. Raises CheckpointMoved.
    """
    store, key = target.store(), f"{scratch_key(stream, shard, since)}.json"
    try:
        store.put_if_absent(key, canonical({"hi": hi}).encode())
    except ObjectExists:
        try:
            return int(json.loads(store.get(key))["hi"])
        except ObjectMissing:  # its batch was brought meanwhile
            raise CheckpointMoved(collection=stream.collection, uri=store.location.uri) from None
    return hi


def scratch_key(stream: Stream, shard: ShardId, since: TxnPosition) -> str:
    """Return the key for what a process leaves while it brings events after ``since``.

    It is also the name by which the end is agreed on.
    """
    return f"{_folder(stream)}/{shard}-{since.term}-{since.version}"


def forget(target: EnvironmentRoot, stream: Stream, shard: ShardId, at: TxnPosition) -> None:
    """Delete the agreements before the checkpoint ``at``, and the leftovers of killed processes that read for them."""
    store, folder = target.store(), _folder(stream)
    for name in store.names(folder):
        if _is_passed(name.removesuffix(".json"), shard, at):
            store.delete(f"{folder}/{name}")
    for name in store.folders(folder):
        if _is_passed(name, shard, at):
            store.delete_tree(f"{folder}/{name}")


def _folder(stream: Stream) -> str:
    """Return the folder of a stream's objects beside its state."""
    return stream.key.removesuffix(".json")


def _is_passed(name: str, shard: ShardId, at: TxnPosition) -> bool:
    """Parse ``name``: ``<shard>-<term>-<version>``; the version may be -1."""
    found = _SINCE.fullmatch(name.removeprefix(f"{shard}-"))
    return found is not None and TxnPosition(int(found[1]), int(found[2])) < at
