"""The fence: Delta's own ``txn`` action keeps older leaders' Spark jobs and commits off a table.

A fence commit disturbs nobody else: it has no metaData. A statement of an older epoch that is in flight fails with
ConcurrentTransactionException, one that starts later is skipped by Delta, and our own
committer stops with ``Fenced``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.delta.actions import LogCommit, RawAction
from airflow_provider_schemamig.core.delta.commit.append import Appended, Entry, Judge, append, uses_in_commit_timestamps
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.features import check_writable
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import Head, known_head, read_head, remember
from airflow_provider_schemamig.core.delta.log.listing import LogFiles, list_log, read_commit
from airflow_provider_schemamig.core.delta.log.snapshot import LogSnapshot, read_checkpoint, read_crc
from airflow_provider_schemamig.core.names import RESERVED_PREFIX, Epoch, ShardId
from airflow_provider_schemamig.core.schema.delta_rules.properties import FORGETS
from airflow_provider_schemamig.core.storage import ReadStore, Store, require_safe_log_store
from airflow_provider_schemamig.core.times import now_millis
from airflow_provider_schemamig.exceptions import Refusal

#: Transaction versions of one epoch: its fence is ``epoch * EPOCH_STRIDE``, its n-th Spark statement ``epoch * EPOCH_STRIDE + n``.
EPOCH_STRIDE = 2**32


class Fenced(Refusal):
    """Another leader took over. Not retryable: a fenced process never claims again."""

    code = "fenced"
    message = "{what} belongs to epoch {held_epoch}, but the environment is led by epoch {current_epoch} now."
    next_action = "Nothing is to be done here: `schemamig status` shows who leads; start a new deployment if one is still needed."
    what: str
    held_epoch: int
    current_epoch: int


@dataclass(frozen=True, slots=True)
class Fence:
    """The right of an epoch to write to one shard."""

    env_id: str
    shard: ShardId
    epoch: Epoch

    @property
    def app_id(self) -> str:
        """Return the application id of Delta's transaction identifiers; one per environment and shard."""
        return f"{RESERVED_PREFIX}:{self.env_id}:{self.shard}"

    @property
    def version(self) -> int:
        return self.epoch * EPOCH_STRIDE

    @property
    def last_version(self) -> int:
        """Return the version after which no statement of the epoch comes any more."""
        return self.version + EPOCH_STRIDE - 1

    def check(self, commit: LogCommit) -> None:
        """Raise Fenced if the commit is of a later epoch, a fence or one of its statements."""
        self.check_version(max((int(txn["version"]) for txn in commit.txns if txn.get("appId") == self.app_id), default=None))

    def check_version(self, version: int | None) -> None:
        """Raise Fenced if a transaction version is of a later epoch."""
        if version is not None and version // EPOCH_STRIDE > self.epoch:
            raise Fenced(what=f"shard {self.shard}", held_epoch=self.epoch, current_epoch=version // EPOCH_STRIDE)


def check_fence(store: ReadStore, fence: Fence, since: int, upto: int) -> None:
    """Look for a later epoch in the commits ``since + 1`` .. ``upto``. Raises Fenced."""
    try:
        for commit in commits(store, since, upto):
            fence.check(commit)
    except LogTruncated:  # cleaned up meanwhile: the state has it, too
        fence.check_version(read_fence(store, fence.app_id))


def read_fence(store: ReadStore, app_id: str) -> int | None:
    """Return the highest transaction version a table has of an application id, or None.

    Raises TableMissing, LogTruncated.
    """
    return _newest(_parts(store, list_log(store)), app_id)


def _newest(parts: Iterable[LogCommit | LogSnapshot], app_id: str) -> int | None:
    return max((int(txn["version"]) for part in parts for txn in part.txns or () if txn.get("appId") == app_id), default=None)


def newest_fence(store: ReadStore, head: Head, app_id: str) -> int | None:
    """Return what ``read_fence`` does, and remember it with ``head``, the table's newest one.

    Where it was seen at that very head, or before commits of which none can have made the table forget it, nothing is read.
    Raises as ``read_fence`` does.
    """
    known = known_head(store)
    if known is None or known.head is not head:
        return read_fence(store, app_id)
    if known.fence is not None and known.fence[0] == app_id:
        return known.fence[1]
    files = list_log(store)
    parts = list(_parts(store, files))
    found = _newest(parts, app_id)
    # A checkpoint that comes late is of a version since the oldest of the parts: in none of them may the table have been one that forgets.
    forgot = any(FORGETS in ((part.metadata or {}).get("configuration") or {}) for part in parts) or FORGETS in head.properties
    if found is not None and not forgot and files.tag == known.tag:
        remember(store, head, known.tag, is_conditional=known.is_conditional, fence=(app_id, found))
    return found


def read_txns(store: ReadStore, prefix: str, at: int | None = None) -> dict[str, int]:
    """Return the highest transaction version (``at``: at this version) of every application id that begins with ``prefix``.

    Raises as ``read_fence`` does.
    """
    found: dict[str, int] = {}
    for txn in (txn for part in _parts(store, list_log(store, at)) for txn in part.txns or ()):
        app_id = str(txn.get("appId"))
        if app_id.startswith(prefix):
            found[app_id] = max(int(txn["version"]), found.get(app_id, int(txn["version"])))
    return found


def _parts(store: ReadStore, files: LogFiles) -> Iterator[LogCommit | LogSnapshot]:
    """Yield the parts of a log that tell a table's transaction identifiers, the newest first."""
    for version in range(files.version, -1, -1):
        checksum = read_crc(store, version) if version in files.crcs else None
        if checksum is not None and checksum.txns is not None:
            yield checksum
            return
        if version in files.checkpoints:
            yield read_checkpoint(store, files.checkpoints[version], with_txns=True)
            return
        yield read_commit(store, version)


def txn_of(app_id: str, version: int) -> RawAction:
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": now_millis()}}


def put_fence(store: Store, fence: Fence, tag: Tag, *, closes: bool = False) -> int:
    """Commit the fence unless the epoch (or a statement of it) is there already; the table version that stands behind it.

    ``closes``: against the epoch's own statements, too. Raises Fenced if a later epoch was there first, UnsupportedFeature,
    CatalogManagedTable, UnsafeLogStore, TableMissing.
    """
    require_safe_log_store(store)
    head = read_head(store)
    check_writable(head.protocol, store.location.uri)
    current = newest_fence(store, head, fence.app_id)
    fence.check_version(current)
    wanted = fence.last_version if closes else fence.version
    if current is not None and current >= wanted:
        return head.version
    put = put_txns(store, head, {fence.app_id: wanted}, tag, fence.check)
    if put.version == head.version + 1:
        seen = None if FORGETS in head.properties else (fence.app_id, wanted)
        remember(store, replace(head, version=put.version), put.receipt.tag, is_conditional=True, fence=seen)
    return put.version


def fence_txns(store: ReadStore, fence: Fence) -> dict[str, int]:
    """Return the fence for a commit that makes the table remember transaction identifiers again.

    What the table still remembers is not taken back.
    """
    return {fence.app_id: max(fence.version, read_fence(store, fence.app_id) or 0)}


def put_txns(store: Store, head: Head, txns: Mapping[str, int], tag: Tag, judge: Judge) -> Appended:
    """Commit application id -> version and nothing else. ``judge`` is asked about each commit after ``head`` and raises what it likes:
    Delta believes the newest version of an id, not the highest, so who may have been faster is for the caller to say.

    Raises what ``append`` raises.
    """
    entry = Entry(tag, [txn_of(app_id, version) for app_id, version in txns.items()])
    return append(store, head.version, entry, judge, in_commit_timestamps=uses_in_commit_timestamps(head.metadata))
