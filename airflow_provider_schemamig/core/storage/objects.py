"""An object store through obstore: S3 and its likes, Google Cloud Storage, Azure, and memory for tests."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from airflow_provider_schemamig.core.storage.answers import StoreAnswer, failure_of
from airflow_provider_schemamig.core.storage.errors import (
    InvalidStorageOption,
    ObjectExists,
    ObjectMissing,
    PutIfAbsentIgnored,
    StorageForbidden,
    StorageThrottled,
    StorageUnreachable,
    is_panic,
)
from airflow_provider_schemamig.core.storage.location import Location, StorageOptions
from airflow_provider_schemamig.core.storage.log_stores import note
from airflow_provider_schemamig.core.storage.memory import Memory
from airflow_provider_schemamig.core.storage.own_places import check_own_place
from airflow_provider_schemamig.core.storage.receipt import WriteReceipt
from airflow_provider_schemamig.core.storage.surroundings import option_of, split, variables, with_surroundings
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    import obstore
    import obstore.store

T = TypeVar("T")

#: How long a store that throttles, or that has gone away, is left alone, each time by chance half as long to half as long again. Before
#: each of them obstore has tried five times within two seconds.
_THROTTLE_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0)
#: How long a conditional write of somebody else, which may come to nothing, is waited for.
_CONFLICT_SECONDS = (0.05, 0.2, 0.8)
_TOLD_EVERY = 5.0
#: A store that refuses connections is tried five times in less than this; one that hangs takes longer for one answer.
_QUICK_SECONDS = 5.0
_log = logging.getLogger(__name__)


class ObjectStore:
    """``Store`` over a bucket's prefix. A write is durable when the store has acknowledged it."""

    def __init__(self, location: Location, options: StorageOptions, table_id: str | None = None, memory: Memory | None = None) -> None:
        self.location = location
        self.options = options
        self.table_id = table_id
        self.memory = Memory() if memory is None else memory
        scheme, _, rest = location.uri.partition("://")
        bucket, _, path = rest.partition("/")
        self._bucket = f"{scheme}://{bucket}"
        self._root = f"{path}/" if path else ""

    def get(self, key: str) -> bytes:
        import obstore

        def get(store: Any) -> bytes:
            found = obstore.get(store, self._root + key)
            attributes, data = found.attributes, bytes(found.bytes())
            note(self.location.uri, key, data, {str(name): value for name, value in attributes.items()})
            return data

        return self._ask(key, get)

    def open_random(self, key: str) -> BinaryIO:
        import obstore

        reader = self._ask(key, lambda store: obstore.open_reader(store, self._root + key))
        return cast(BinaryIO, io.BufferedReader(_RandomReader(reader, lambda size: self._ask(key, lambda _: reader.read(size)))))

    def exists(self, key: str) -> bool:
        import obstore

        try:
            self._ask(key, lambda store: obstore.head(store, self._root + key))
        except ObjectMissing:
            return False
        except (StorageForbidden, StorageUnreachable):
            self.get(key)  # an answer to HEAD has no text: this one says why
            raise
        return True

    def names(self, prefix: str, start_after: str | None = None) -> list[str]:
        return list(self.listing(prefix, start_after))

    def listing(self, prefix: str, start_after: str | None = None) -> dict[str, str]:
        folder = (self._root + prefix).rstrip("/")
        below = f"{folder}/" if folder else ""
        found = self._entries(prefix, folder, None if start_after is None else f"{below}{start_after}")
        if start_after is not None and not found:
            # There are servers that leave an offset out of account (Azurite), and some that answer nothing to one (OneLake).
            found = self._entries(prefix, folder, None)
        named = ((entry["path"].removeprefix(below), str(entry["e_tag"] or entry["last_modified"])) for entry in found)
        return dict(sorted((name, tag) for name, tag in named if "/" not in name and (start_after is None or name > start_after)))

    def _entries(self, prefix: str, folder: str, offset: str | None) -> list[obstore.ObjectMeta]:
        import obstore

        def listed(store: Any) -> list[obstore.ObjectMeta]:
            return [entry for page in obstore.list(store, folder or None, offset=offset, chunk_size=1000) for entry in page]

        return self._ask(prefix, listed)

    def folders(self, prefix: str) -> list[str]:
        import obstore

        listed = self._ask(prefix, lambda store: obstore.list_with_delimiter(store, (self._root + prefix).rstrip("/") or None))
        return sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in listed["common_prefixes"])

    def put_if_absent(self, key: str, data: bytes) -> WriteReceipt:
        tag = None
        for wait in (*_CONFLICT_SECONDS, None):
            try:
                tag = self._put(key, data, "create")
                break
            except ObjectExists:
                found = self._found(key)
                if found == data:
                    break  # the client repeated a request whose answer was lost, and met its own object
                if found is not None:
                    raise
                if wait is None:
                    raise StorageUnreachable(uri=f"{self.location.uri}/{key}", reason="another write of it goes on and on") from None
                time.sleep(wait)
        return WriteReceipt(self.location, key, time.monotonic(), tag=tag)

    def _found(self, key: str) -> bytes | None:
        try:
            return self.get(key)
        except ObjectMissing:
            return None

    def put(self, key: str, data: bytes) -> None:
        self._put(key, data, "overwrite")

    def _put(self, key: str, data: bytes, mode: Any) -> str | None:
        """Write an object, and return its tag."""
        import obstore

        return self._ask(key, lambda store: obstore.put(store, self._root + key, data, mode=mode), conditional=mode == "create")["e_tag"]

    def delete(self, key: str) -> None:
        import obstore

        with contextlib.suppress(ObjectMissing):
            self._ask(key, lambda store: obstore.delete(store, self._root + key))

    def refuse_links(self, prefix: str) -> None:
        """Do nothing: object stores have no links."""

    def delete_tree(self, prefix: str) -> None:
        import obstore

        check_own_place(self.location, prefix)

        def delete(store: Any) -> None:
            for page in obstore.list(store, (self._root + prefix).rstrip("/") or None, chunk_size=1000):
                obstore.delete(store, [entry["path"] for entry in page])

        self._ask(prefix, delete)

    @functools.cached_property
    def _store(self) -> obstore.store.ObjectStore:
        import obstore.exceptions as failures

        try:
            around = tuple(sorted(variables(self.location.scheme).items()))
            return _client(self._bucket, self.options, around)
        except (failures.BaseError, ValueError) as error:
            raise InvalidStorageOption(uri=self.location.uri, reason=self._text(error)) from None
        except BaseException as error:
            if not is_panic(error):
                raise
            raise InvalidStorageOption(uri=self.location.uri, reason=self._text(error)) from None

    def _ask(self, key: str, request: Callable[[Any], T], *, conditional: bool = False) -> T:
        """Return what the store answers; while it throttles, or has gone away, wait and ask again.

        Raises obstore's errors as ours, ``from None``: the originals quote whole requests, headers included.
        """
        for wait in (*_THROTTLE_SECONDS, None):
            began = time.monotonic()
            try:
                found = self._once(key, request, conditional)
            except StorageThrottled as throttled:
                if wait is None:
                    raise
                _wait(throttled, wait)
            except StorageUnreachable as gone:
                # One that never answered is a wrong address, and one that hung has been waited for.
                if wait is None:
                    _answered.discard(self._bucket)  # who asks it next, as to tell what is left, does not wait as long again
                if wait is None or self._bucket not in _answered or time.monotonic() - began > _QUICK_SECONDS:
                    raise
                _wait(gone, wait)
            else:
                _answered.add(self._bucket)
                return found
        raise AssertionError("the last turn returns or raises")

    def _once(self, key: str, request: Callable[[Any], T], conditional: bool) -> T:
        import obstore.exceptions as failures

        uri = f"{self.location.uri}/{key}" if key else self.location.uri
        try:
            return request(self._store)
        except (failures.BaseError, OSError, NotImplementedError) as error:
            if conditional and (
                isinstance(error, NotImplementedError | failures.NotSupportedError) or StoreAnswer.of(error).is_not_implemented
            ):
                raise PutIfAbsentIgnored(uri=uri, reason="it knows no conditional writes") from None
            raise failure_of(error, uri, self.options) from None
        except BaseException as error:
            if not is_panic(error):
                raise
            raise InvalidStorageOption(uri=uri, reason=self._text(error)) from None

    def _text(self, error: BaseException) -> str:
        """Return the first line of an error, without secrets; the rest is Rust's debug output."""
        return visible(self.options.redact(str(error).splitlines()[0] if str(error) else type(error).__name__)).rstrip(".")


class _Told:
    """When somebody was told last that a store throttles, or is gone: many requests wait at once, and one line says it for all."""

    lock = threading.Lock()
    at = -_TOLD_EVERY


#: The buckets that have answered this process.
_answered: set[str] = set()


def _wait(error: StorageThrottled | StorageUnreachable, wait: float) -> None:
    seconds = wait * random.uniform(0.5, 1.5)
    _tell(error, seconds)
    time.sleep(seconds)


def _tell(error: StorageThrottled | StorageUnreachable, seconds: float) -> None:
    with _Told.lock:
        if time.monotonic() - _Told.at < _TOLD_EVERY:
            return
        _Told.at = time.monotonic()
    _log.warning("%s Waiting for %.1f s.", error.message, seconds)


class _RandomReader(io.RawIOBase):
    """obstore's reader as a Python file: pyarrow wants bytes and a context manager."""

    def __init__(self, reader: obstore.ReadableFile, read: Callable[[int], Any]) -> None:
        self._reader = reader
        self._read = read

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        return self._reader.tell()

    def readinto(self, buffer: Any) -> int:
        data = self._read(len(buffer))
        buffer[: len(data)] = memoryview(data)
        return len(data)


@functools.lru_cache(maxsize=32)
def _client(bucket: str, options: StorageOptions, around: tuple[tuple[str, str], ...]) -> obstore.store.ObjectStore:
    """Return one client per bucket, options and environment: a thousand tables share its connections (and a test's memory:// its
    objects)."""
    from obstore.store import MemoryStore, from_url

    scheme = bucket.partition("://")[0]
    if scheme == "memory":
        return MemoryStore()
    store_options, client_options = split(options, scheme)
    _refuse_plain_http(with_surroundings(options), scheme, client_options)
    retries: dict[str, Any] = {"max_retries": 4}
    config, client, retry = cast(Any, store_options), cast(Any, client_options or None), cast(Any, retries)
    return from_url(bucket, config=config, client_options=client, retry_config=retry)


def _refuse_plain_http(options: dict[str, str], scheme: str, client: dict[str, str]) -> None:
    """Raise ValueError for an endpoint without TLS that nobody allowed: the client's own error does not say what is wrong."""
    name = {"s3": "aws_endpoint_url", "s3a": "aws_endpoint_url"}.get(scheme, "azure_storage_endpoint")
    endpoint = option_of(options, name) or ""
    if endpoint.lower().startswith("http://") and client.get("allow_http", "").lower() not in ("true", "1", "yes", "on", "y", "t"):
        raise ValueError(f"its endpoint is plain http, which has to be allowed by the option {name.partition('_')[0]}_allow_http=true")
