"""One commit of ours put at the end of a log: put-if-absent, and when somebody was faster, read what they did and judge it.

The loop never waits and never plans: a commit goes to the next free number unless the judge raises. Commits of data alone disturb
metadata as little as we disturb them (57 of 57, at most 2 tries, next to 4 busy appenders).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_schemamig import __version__
from airflow_provider_schemamig.core.delta.actions import LogCommit, RawAction, encode_actions
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.head import KnownHead, known_head
from airflow_provider_schemamig.core.delta.log.listing import commit_key, list_on, read_commit
from airflow_provider_schemamig.core.delta.properties import is_on
from airflow_provider_schemamig.core.schema.delta_rules.table_features import IN_COMMIT_TIMESTAMPS
from airflow_provider_schemamig.core.storage import ObjectExists, ReadStore, StorageUnreachable, Store, WriteReceipt
from airflow_provider_schemamig.core.times import now_millis
from airflow_provider_schemamig.exceptions import Conflict

#: Raises if a commit that came in between forbids ours.
Judge = Callable[[LogCommit], None]


class MetadataMoved(Conflict):
    """Somebody changed the table's metadata, protocol or clustering since it was looked at; nothing was written."""

    code = "metadata_moved"
    next_action = "Try again: the change is planned again on top of what is there."
    uri: str
    version: int | None = None

    @property
    def message(self) -> str:
        at = "" if self.version is None else f" (version {self.version})"
        return f"the schema of {self.uri} was changed by somebody else meanwhile{at}."


@dataclass(frozen=True, slots=True)
class Entry:
    """What is to be committed. ``parameters``: commitInfo.operationParameters, values as text. ``actions`` without commitInfo."""

    tag: Tag
    actions: Sequence[RawAction]
    parameters: Mapping[str, str] = field(default_factory=dict)
    operation: str | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    version: int
    receipt: WriteReceipt


def append(store: Store, base: int, entry: Entry, judge: Judge, *, in_commit_timestamps: bool) -> Appended:
    """Commit ``entry`` at the first free version above ``base``. Durable when it returns.

    The commit carries an id of its own, by which it is recognised when the store's answer was lost.
    Raises what ``judge`` raises; MetadataMoved if the log is another one than was looked at; StorageUnreachable if the outcome cannot be
    found out.
    """
    txn_id = str(uuid.uuid4())
    version, known = base + 1, known_head(store)
    if store.location.local_path is not None:  # where a look costs no request
        _check_same_log(store, base, known)
    while True:
        data = _encode(store, version, base, entry, txn_id, in_commit_timestamps)
        receipt = _put(store, version, data, txn_id)
        if receipt is not None:
            return Appended(version, receipt)
        _check_same_log(store, base, known)
        version = _judge_winners(store, version, judge)


def _check_same_log(store: Store, base: int, known: KnownHead | None) -> None:
    """Raise MetadataMoved unless the log still has the commit that was looked at last: else it is of a table that was made in its place."""
    if known is None or known.head.version < base or list_on(store, known.head.version, known.tag) is not None:
        return
    store.memory.pop(store.location.uri, None)
    raise MetadataMoved(uri=store.location.uri, version=known.head.version)


def uses_in_commit_timestamps(metadata: RawAction) -> bool:
    return is_on(metadata, IN_COMMIT_TIMESTAMPS)


def _put(store: Store, version: int, data: bytes, txn_id: str) -> WriteReceipt | None:
    """Write the commit at ``version`` and return its receipt; None if another commit has the version."""
    key = commit_key(version)
    try:
        return store.put_if_absent(key, data)
    except (ObjectExists, StorageUnreachable) as error:
        found_id = _id_at(store, version)
        if found_id == txn_id:
            return WriteReceipt(store.location, key, time.monotonic())
        if found_id is None and isinstance(error, StorageUnreachable):
            raise
        return None


def _id_at(store: ReadStore, version: int) -> str | None:
    """Return the txnId of a commit ("" if it has none); None if there is no commit."""
    try:
        return str(read_commit(store, version).info.get("txnId", ""))
    except LogTruncated:
        return None


def _judge_winners(store: ReadStore, version: int, judge: Judge) -> int:
    """Pass the commit at ``version`` and all after it to ``judge``, and return the first free version."""
    judge(read_commit(store, version))
    while True:
        version += 1
        try:
            commit = read_commit(store, version)
        except LogTruncated:
            return version
        judge(commit)


def _encode(store: ReadStore, version: int, base: int, entry: Entry, txn_id: str, in_commit_timestamps: bool) -> bytes:
    now = now_millis()
    info: dict[str, Any] = {
        "timestamp": now,
        "operation": entry.operation or entry.tag.operation,
        "operationParameters": dict(entry.parameters),
        "isolationLevel": "Serializable",
        "isBlindAppend": not any("remove" in action for action in entry.actions),
        "operationMetrics": {},
        "engineInfo": f"schemamig/{__version__}",
        "txnId": txn_id,
        "userMetadata": entry.tag.user_metadata,
    }
    if base >= 0:
        info["readVersion"] = base
    if in_commit_timestamps:
        info = {"inCommitTimestamp": max(now, _timestamp_of(store, version - 1) + 1), **info}
    return encode_actions([{"commitInfo": info}, *entry.actions])


def _timestamp_of(store: ReadStore, version: int) -> int:
    """Return a commit's timestamp, above which the next one has to be: in-commit timestamps grow strictly, whatever the clocks say."""
    info = read_commit(store, version).info
    return int(info.get("inCommitTimestamp", info.get("timestamp", 0)))
