"""Where an environment lies: a root URI with one ledger and a set of collections; what every layer takes to get there."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, ClassVar, Self, TypeVar

from airflow_provider_schemamig.core.storage import (
    InvalidStorageOption,
    Location,
    StorageOptions,
    Store,
    WriteReceipt,
    check_addresses,
    open_store,
    with_account,
)
from airflow_provider_schemamig.core.storage.memory import Memory
from airflow_provider_schemamig.core.storage.own_places import SYSTEM_FOLDER
from airflow_provider_schemamig.core.storage.pool import LOCAL_SECONDS_ALONE, REQUESTS_AT_ONCE, Pool
from airflow_provider_schemamig.visible import visible

T = TypeVar("T")
R = TypeVar("R")

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)

WriteHook = Callable[[str, str, str], None]
"""``hook(moment, what, key)``. ``moment``: "before" or "after" one durable write. ``what``: "ledger" or "history" (key: the commit id),
"put_if_absent", "put", "delete" or "delete_tree" (key: the object's key)."""


class OpenObjects(threading.local):
    """What is open of an environment, one object a type and thread: no two threads ever share one."""

    def __init__(self) -> None:
        self._objects: dict[type[Any], Any] = {}

    def __reduce__(self) -> tuple[type[OpenObjects], tuple[()]]:
        return OpenObjects, ()  # an environment may be sent to another process, which opens all anew

    def get(self, kind: type[T]) -> T | None:
        return self._objects.get(kind)

    def keep(self, opened: T) -> T:
        self._objects[type(opened)] = opened
        return opened

    def forget(self, kind: type[Any]) -> None:
        self._objects.pop(kind, None)


@dataclass(frozen=True)
class EnvironmentRoot:
    """Where an environment lies and how to get there. Opening one reads nothing.

    ``on_write`` is the seam for crash tests: called just before and just after every durable write of ours, in the ledger and through the
    stores made here; what it raises goes through as if the write itself had failed (before) or its answer had been lost (after).
    ``waits``: work that a person told to wait does so in its own process; False: it ends with ``Paused``, and whoever runs it waits and
    runs it again. ``who``: in whose name it is worked here, as the audit log will say; None: the user of the process.
    ``pool``: what makes requests side by side.
    ``opened``, ``memory``: what was opened through this very object, or looked at, and is open still; another one of the same place opens
    it anew.
    """

    location: Location
    options: StorageOptions
    on_write: WriteHook | None = field(default=None, repr=False, compare=False)
    waits: bool = field(default=True, repr=False, compare=False)
    who: str | None = field(default=None, repr=False, compare=False)
    pool: Pool = field(default_factory=Pool, repr=False, compare=False)
    opened: OpenObjects = field(default_factory=OpenObjects, init=False, repr=False, compare=False)
    memory: Memory = field(default_factory=Memory, init=False, repr=False, compare=False)

    SYSTEM_FOLDER: ClassVar[str] = SYSTEM_FOLDER

    @classmethod
    def open(cls, uri: str, options: Mapping[str, str] | None = None) -> Self:
        """Open an environment. Raises InvalidLocation, InvalidStorageOption (an address that is no URL, or holds a password; a number).

        ``uri``: a path or a file, s3, gs, abfs(s), az URI. ``options``: storage options by object_store's names.
        """
        location = Location.parse(uri)
        check_addresses(location, options or {})
        known = StorageOptions(options or {})
        try:
            at_once = known.requests_at_once or REQUESTS_AT_ONCE
        except ValueError as error:
            raise InvalidStorageOption(uri=location.uri, reason=str(error)) from None
        alone = 0.0 if location.local_path is None else LOCAL_SECONDS_ALONE
        return cls(with_account(location, known), known, pool=Pool(at_once, alone))

    def store(self) -> Store:
        """Open the store of the environment's root."""
        return self._open(self.location)

    def table_store(self, shard_uri: str, table_id: str | None = None) -> Store:
        """Return the folder of one Delta table; a relative URI is below the root, an adopted table has its own.

        ``table_id``: what the ledger knows the table by (``Shard.table_id``); None: whichever table is there is looked at.
        """
        return self._open(self.table_location(shard_uri), table_id)

    def table_location(self, shard_uri: str) -> Location:
        """Return the location of a table. Raises InvalidLocation for a relative URI that would lead out of the root."""
        if _SCHEME.match(shard_uri) or shard_uri.startswith("/"):
            return with_account(Location.parse(shard_uri), self.options)
        return self.location.child(*shard_uri.split("/"))

    @property
    def ledger_uri(self) -> str:
        return self.location.child(self.SYSTEM_FOLDER, "ledger").uri

    @property
    def history_uri(self) -> str:
        return self.location.child(self.SYSTEM_FOLDER, "history").uri

    @property
    def delta_options(self) -> dict[str, str]:
        """Return the options as delta-rs takes them: object_store's names; our own are left out, they would only be warned about."""
        return {name: value for name, value in self.options.items() if not name.startswith("schemamig.")}

    def each(self, act: Callable[[T], R], items: Iterable[T], *, remote: bool = False) -> Generator[R, None, None]:
        """Yield ``act`` of each item, in their order, made side by side: what takes requests, and asks nothing of the ledger.

        After a failure nothing more is begun, what is under way ends, and the failure is raised. Where somebody counts our writes
        (``on_write``) they come one by one. Whoever may fail between two results of what writes closes it (``contextlib.closing``):
        what is under way would go on while the failure is dealt with. ``remote``: also a local environment asks somebody far away.
        """
        pool = replace(self.pool, seconds_alone=0.0) if remote else self.pool
        yield from pool.map(act, items) if self.on_write is None else map(act, items)

    def for_each(self, act: Callable[[T], object], items: Iterable[T]) -> None:
        """Do ``act`` to each item as ``each`` does, without results."""
        for _ in self.each(act, items):
            pass

    def before_write(self, what: str, key: str) -> None:
        if self.on_write is not None:
            self.on_write("before", what, key)

    def after_write(self, what: str, key: str) -> None:
        if self.on_write is not None:
            self.on_write("after", what, key)

    def first_line(self, error: Exception | None) -> str:
        """Return the first line of a library's error, without secrets: Rust's go on for pages, and may quote requests."""
        text = str(error) if error is not None else ""
        return visible(self.options.redact(text.splitlines()[0] if text else type(error).__name__)).rstrip(".")

    def _open(self, location: Location, table_id: str | None = None) -> Store:
        store = open_store(location, self.options, table_id, self.memory)
        return store if self.on_write is None else _ObservedStore(store, self)


class _ObservedStore:
    """A store that tells the environment's hook of every write."""

    def __init__(self, store: Store, env: EnvironmentRoot) -> None:
        self._store = store
        self._env = env
        self.location = store.location
        self.options = store.options
        self.table_id = store.table_id
        self.memory = store.memory

    def get(self, key: str) -> bytes:
        return self._store.get(key)

    def open_random(self, key: str) -> BinaryIO:
        return self._store.open_random(key)

    def exists(self, key: str) -> bool:
        return self._store.exists(key)

    def names(self, prefix: str, start_after: str | None = None) -> list[str]:
        return self._store.names(prefix, start_after)

    def listing(self, prefix: str, start_after: str | None = None) -> dict[str, str]:
        return self._store.listing(prefix, start_after)

    def folders(self, prefix: str) -> list[str]:
        return self._store.folders(prefix)

    def put_if_absent(self, key: str, data: bytes) -> WriteReceipt:
        self._env.before_write("put_if_absent", key)
        receipt = self._store.put_if_absent(key, data)
        self._env.after_write("put_if_absent", key)
        return receipt

    def put(self, key: str, data: bytes) -> None:
        self._env.before_write("put", key)
        self._store.put(key, data)
        self._env.after_write("put", key)

    def delete(self, key: str) -> None:
        self._env.before_write("delete", key)
        self._store.delete(key)
        self._env.after_write("delete", key)

    def refuse_links(self, prefix: str) -> None:
        self._store.refuse_links(prefix)

    def delete_tree(self, prefix: str) -> None:
        self._env.before_write("delete_tree", prefix)
        self._store.delete_tree(prefix)
        self._env.after_write("delete_tree", prefix)
