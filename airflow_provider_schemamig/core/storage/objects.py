"""An object store through obstore: S3 and its likes, Google Cloud Storage, Azure, and memory for tests."""

from __future__ import annotations

import contextlib
import functools
import io
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from airflow_provider_schemamig.core.storage.errors import (
    InvalidStorageOption,
    ObjectExists,
    ObjectMissing,
    StorageForbidden,
    StorageUnreachable,
    is_panic,
)
from airflow_provider_schemamig.core.storage.location import Location, StorageOptions
from airflow_provider_schemamig.core.storage.own_places import check_own_place
from airflow_provider_schemamig.core.storage.receipt import WriteReceipt
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    import obstore
    import obstore.store

#: Options of the HTTP client: obstore takes them apart from the store's own.
_CLIENT = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "timeout",
        "user_agent",
    }
)
_PREFIXES = ("aws_", "google_", "azure_")


class ObjectStore:
    """``Store`` over a bucket's prefix. A write is durable when the store has acknowledged it."""

    def __init__(self, location: Location, options: StorageOptions, table_id: str | None = None) -> None:
        self.location = location
        self.options = options
        self.table_id = table_id
        scheme, _, rest = location.uri.partition("://")
        bucket, _, path = rest.partition("/")
        self._bucket = f"{scheme}://{bucket}"
        self._root = f"{path}/" if path else ""

    def get(self, key: str) -> bytes:
        import obstore

        with self._errors(key):
            return bytes(obstore.get(self._store, self._root + key).bytes())

    def open_random(self, key: str) -> BinaryIO:
        import obstore

        with self._errors(key):
            return cast(BinaryIO, io.BufferedReader(_RandomReader(obstore.open_reader(self._store, self._root + key))))

    def exists(self, key: str) -> bool:
        import obstore

        try:
            with self._errors(key):
                obstore.head(self._store, self._root + key)
        except ObjectMissing:
            return False
        return True

    def names(self, prefix: str, start_after: str | None = None) -> list[str]:
        import obstore

        folder = (self._root + prefix).rstrip("/")
        below = f"{folder}/" if folder else ""
        offset = None if start_after is None else f"{below}{start_after}"
        with self._errors(prefix):
            pages = obstore.list(self._store, folder or None, offset=offset, chunk_size=1000)
            found = [entry["path"].removeprefix(below) for page in pages for entry in page]
        return sorted(name for name in found if "/" not in name)

    def folders(self, prefix: str) -> list[str]:
        import obstore

        with self._errors(prefix):
            listed = obstore.list_with_delimiter(self._store, (self._root + prefix).rstrip("/") or None)
        return sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in listed["common_prefixes"])

    def put_if_absent(self, key: str, data: bytes) -> WriteReceipt:
        import obstore

        try:
            with self._errors(key):
                obstore.put(self._store, self._root + key, data, mode="create")
        except ObjectExists:
            # The client repeats a request whose answer was lost, and then meets its own object.
            if self.get(key) != data:
                raise
        return WriteReceipt(self.location, key, time.monotonic())

    def put(self, key: str, data: bytes) -> None:
        import obstore

        with self._errors(key):
            obstore.put(self._store, self._root + key, data)

    def delete(self, key: str) -> None:
        import obstore

        with contextlib.suppress(ObjectMissing), self._errors(key):
            obstore.delete(self._store, self._root + key)

    def refuse_links(self, prefix: str) -> None:
        """Do nothing: object stores have no links."""

    def delete_tree(self, prefix: str) -> None:
        import obstore

        check_own_place(self.location, prefix)
        with self._errors(prefix):
            for page in obstore.list(self._store, (self._root + prefix).rstrip("/") or None, chunk_size=1000):
                obstore.delete(self._store, [entry["path"] for entry in page])

    @functools.cached_property
    def _store(self) -> obstore.store.ObjectStore:
        import obstore.exceptions as failures

        try:
            return _client(self._bucket, self.options)
        except (failures.BaseError, ValueError) as error:
            raise InvalidStorageOption(uri=self.location.uri, reason=self._text(error)) from None
        except BaseException as error:
            if not is_panic(error):
                raise
            raise InvalidStorageOption(uri=self.location.uri, reason=self._text(error)) from None

    @contextlib.contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        """Raise obstore's errors as ours, ``from None``: the originals quote whole requests, headers included."""
        import obstore.exceptions as failures

        uri = f"{self.location.uri}/{key}" if key else self.location.uri
        try:
            yield
        except (FileNotFoundError, failures.NotFoundError):
            raise ObjectMissing(uri=uri) from None
        except (failures.AlreadyExistsError, failures.PreconditionError):
            raise ObjectExists(uri=uri) from None
        except (failures.PermissionDeniedError, failures.UnauthenticatedError) as error:
            raise StorageForbidden(uri=uri, reason=self._text(error)) from None
        except (failures.BaseError, OSError) as error:
            raise StorageUnreachable(uri=uri, reason=self._text(error)) from None
        except BaseException as error:
            if not is_panic(error):
                raise
            raise InvalidStorageOption(uri=uri, reason=self._text(error)) from None

    def _text(self, error: BaseException) -> str:
        """Return the first line of an error, without secrets; the rest is Rust's debug output."""
        return visible(self.options.redact(str(error).splitlines()[0] if str(error) else type(error).__name__)).rstrip(".")


class _RandomReader(io.RawIOBase):
    """obstore's reader as a Python file: pyarrow wants bytes and a context manager."""

    def __init__(self, reader: obstore.ReadableFile) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        return self._reader.tell()

    def readinto(self, buffer: Any) -> int:
        data = self._reader.read(len(buffer))
        buffer[: len(data)] = memoryview(data)
        return len(data)


def _split(options: StorageOptions) -> tuple[dict[str, str], dict[str, str]]:
    """Split options into (store's, client's) in lower case; schemamig's own are neither."""
    store: dict[str, str] = {}
    client: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        bare = next((lower.removeprefix(prefix) for prefix in _PREFIXES if lower.startswith(prefix)), lower)
        if lower.startswith("schemamig."):
            continue
        if bare in _CLIENT:
            client[bare] = value
        else:
            store[lower] = value
    return store, client


@functools.lru_cache(maxsize=32)
def _client(bucket: str, options: StorageOptions) -> obstore.store.ObjectStore:
    """Return one client per bucket and options: a thousand tables share its connections (and a test's memory:// its objects)."""
    from obstore.store import MemoryStore, from_url

    if bucket.startswith("memory://"):
        return MemoryStore()
    store_options, client_options = _split(options)
    retries: dict[str, Any] = {"max_retries": 4}
    config, client, retry = cast(Any, store_options), cast(Any, client_options), cast(Any, retries)
    return from_url(bucket, config=config, client_options=client, retry_config=retry)
