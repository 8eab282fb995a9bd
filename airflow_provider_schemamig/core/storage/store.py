"""What the layers above know of storage, and the guards around put-if-absent."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Sequence
from typing import BinaryIO, Protocol

from airflow_provider_schemamig.core.names import RESERVED_PREFIX
from airflow_provider_schemamig.core.storage.errors import ObjectExists, ObjectMissing, PutIfAbsentIgnored, StoreUnfit, UnsafeLogStore
from airflow_provider_schemamig.core.storage.local import LocalStore
from airflow_provider_schemamig.core.storage.location import Location, StorageOptions
from airflow_provider_schemamig.core.storage.log_stores import unconditional_commit
from airflow_provider_schemamig.core.storage.memory import Memory
from airflow_provider_schemamig.core.storage.receipt import WriteReceipt

#: Spark's local LogStore replaced a linked commit at most 4.1 ms after the link, over 1,272 duels.
CONFIRM_SECONDS = 0.05


class ReadStore(Protocol):
    """Objects below ``location`` by key (a relative path). All methods raise StorageUnreachable and StorageForbidden."""

    @property
    def location(self) -> Location: ...

    @property
    def options(self) -> StorageOptions: ...

    @property
    def table_id(self) -> str | None:
        """Return the id of the Delta table that is known to lie here; None: whichever does. ``read_head`` refuses another one."""

    @property
    def memory(self) -> Memory:
        """Return what is remembered of places as long as their environment is open."""

    def get(self, key: str) -> bytes:
        """Read the whole object. Raises ObjectMissing."""

    def open_random(self, key: str) -> BinaryIO:
        """Return the object for reading parts of it: seek, tell, read, close. Raises ObjectMissing."""

    def exists(self, key: str) -> bool: ...

    def names(self, prefix: str, start_after: str | None = None) -> list[str]:
        """List file names directly below ``prefix`` in order, only those after ``start_after``; empty if there is no such folder."""

    def listing(self, prefix: str, start_after: str | None = None) -> dict[str, str]:
        """List as ``names`` does, each with a tag: an object that is written anew, with the same bytes too, has another one."""

    def folders(self, prefix: str) -> list[str]:
        """List the folders directly below ``prefix`` (empty: below the location itself) in order; empty if there is no such folder."""


class Store(ReadStore, Protocol):
    """Writes are durable when they return. They raise StorageReadOnly and StorageFull, too, and leave nothing half written."""

    def put_if_absent(self, key: str, data: bytes) -> WriteReceipt:
        """Write unless the key is taken. Raises ObjectExists, PutIfAbsentIgnored (no hard links)."""

    def put(self, key: str, data: bytes) -> None:
        """Write or replace, atomically."""

    def delete(self, key: str) -> None:
        """Delete an object; a missing one is no error."""

    def delete_tree(self, prefix: str) -> None:
        """Delete all below the folder ``prefix``: one of those that we make (``own_places``). Missing is fine. Raises NotOurPlace."""

    def refuse_links(self, prefix: str) -> None:
        """Raise NotOurPlace if a symbolic link is on the way to ``prefix``: ``delete_tree`` would. An object store has none."""


def open_store(location: Location, options: StorageOptions, table_id: str | None = None, memory: Memory | None = None) -> Store:
    """Open the store of a location. Reads nothing; a wrong bucket or credential shows at the first use. ``table_id``, ``memory``: see
    ``ReadStore``."""
    if location.scheme == "file":
        return LocalStore(location, options, table_id, memory)
    from airflow_provider_schemamig.core.storage.objects import ObjectStore  # a fifth of what an environment takes to import

    return ObjectStore(location, options, table_id, memory)


def confirm(receipts: Sequence[WriteReceipt]) -> list[WriteReceipt]:
    """Return the receipts whose file was replaced since: those writes never happened and have to be made again.

    Spark's store for local files checks and then renames, which overwrites; so a batch waits once until 50 ms after its last write and
    compares inodes. Object stores with conditional put have no such window and are not asked.
    """
    local = [receipt for receipt in receipts if receipt.inode is not None]
    if not local:
        return []
    time.sleep(max(0.0, CONFIRM_SECONDS - (time.monotonic() - max(receipt.written_at for receipt in local))))
    return [receipt for receipt in local if LocalStore(receipt.location, StorageOptions()).inode(receipt.key) != receipt.inode]


def probe_put_if_absent(store: Store, prefix: str) -> None:
    """Check, before the first write to an environment, what a log rests on: a second put-if-absent is refused, what was written is read and
    listed at once, and a listing from a name on has what comes after it. Leaves nothing behind.

    Raises PutIfAbsentIgnored, StoreUnfit. It finds servers that do not keep that; it cannot prove atomicity under a race.
    """
    folder = prefix.rstrip("/")
    name = f".{RESERVED_PREFIX}-probe-{uuid.uuid4().hex}"
    one, two = f"{name}-1", f"{name}-2"
    keys = [f"{folder}/{probe}".lstrip("/") for probe in (one, two)]
    try:
        store.put_if_absent(keys[0], b"first")
        _check_read(store, keys[0], b"first")
        with contextlib.suppress(ObjectExists):
            store.put_if_absent(keys[0], b"second")
            raise PutIfAbsentIgnored(uri=store.location.uri)
        _check_read(store, keys[0], b"first")
        store.put(keys[0], b"third")
        _check_read(store, keys[0], b"third")
        store.put_if_absent(keys[1], b"first")
        _check_listing(store, folder, one, two)
    finally:
        for key in keys:
            store.delete(key)


def _check_read(store: ReadStore, key: str, expected: bytes) -> None:
    try:
        found = store.get(key)
    except ObjectMissing:
        raise StoreUnfit(uri=store.location.uri, reason="it does not have what it has just acknowledged") from None
    if found == b"second":
        raise PutIfAbsentIgnored(uri=store.location.uri)
    if found != expected:
        raise StoreUnfit(uri=store.location.uri, reason="a read does not give what was written last")


def _check_listing(store: ReadStore, folder: str, one: str, two: str) -> None:
    if not {one, two} <= set(store.names(folder)):
        raise StoreUnfit(uri=store.location.uri, reason="its listing lacks what it has just acknowledged")
    after = store.names(folder, start_after=one)
    if two not in after or one in after:
        raise StoreUnfit(uri=store.location.uri, reason="a listing that begins at a name does not have what comes after it")


def needs_log_store(location: Location, options: StorageOptions) -> bool:
    """Return whether a Spark that writes here may replace commits of others. On S3 it may, unless somebody declared the opposite."""
    return location.scheme in ("s3", "s3a") and not options.conditional_log_store


def require_safe_log_store(store: ReadStore) -> None:
    """Refuse commits of ours to a table on S3 to which Spark is known to commit without put-if-absent (``log_stores``); asks nothing.

    Raises UnsafeLogStore, unless the connection declares that it is none of Delta's own LogStores.
    """
    if needs_log_store(store.location, store.options) and (found := unconditional_commit(store.location.uri)) is not None:
        raise UnsafeLogStore(uri=store.location.uri, who=f"the Spark that made its version {found.version} ({found.engine})")
