"""A folder on a local disk (or a mount that has hard links).

Hand-written on purpose: object_store's local put-if-absent links without fsync, so an acknowledged commit could be gone after a power
failure; and a receipt needs the inode. Measured: 0.1 ms a write plus what the disk takes for two fsyncs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from typing import BinaryIO

from airflow_provider_schemamig.core.storage.errors import (
    A_FILE_ON_THE_WAY,
    InvalidLocation,
    NotOurPlace,
    ObjectExists,
    ObjectMissing,
    PutIfAbsentIgnored,
    StorageForbidden,
    StorageFull,
    StorageReadOnly,
    StorageUnreachable,
)
from airflow_provider_schemamig.core.storage.location import Location, StorageOptions
from airflow_provider_schemamig.core.storage.memory import Memory
from airflow_provider_schemamig.core.storage.own_places import check_own_place
from airflow_provider_schemamig.core.storage.receipt import WriteReceipt
from airflow_provider_schemamig.exceptions import SchemamigError

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_NAME = frozenset({errno.ENAMETOOLONG, errno.ELOOP})
_DENIED = frozenset({errno.EACCES, errno.EPERM})
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EXDEV, errno.EMLINK, errno.ENOSYS})
#: What a killed process leaves beside the file that it was about to make: ours, and object_store's, which delta-rs writes with.
_STAGED = re.compile(r"\..+\.[0-9a-f]{32}\.tmp|.+#\d+", re.DOTALL)


class LocalStore:
    """``Store`` over a folder. Writes are durable when they return: file and folder are synced (but for a throw-away environment's)."""

    def __init__(self, location: Location, options: StorageOptions, table_id: str | None = None, memory: Memory | None = None) -> None:
        if location.scheme != "file":
            raise InvalidLocation(uri=location.uri, rule="it is not on the local file system")
        self.location = location
        self.options = options
        self.table_id = table_id
        self.memory = Memory() if memory is None else memory
        self._root = location.uri.removeprefix("file://").rstrip("/")
        self._synced = not options.throwaway

    def get(self, key: str) -> bytes:
        with self._errors(key), open(self._path(key), "rb", buffering=0) as file:
            return file.readall()

    def open_random(self, key: str) -> BinaryIO:
        with self._errors(key):
            return open(self._path(key), "rb")

    def exists(self, key: str) -> bool:
        return os.path.isfile(self._path(key))

    def names(self, prefix: str, start_after: str | None = None) -> list[str]:
        return [entry.name for entry in self._entries(prefix, start_after)]

    def listing(self, prefix: str, start_after: str | None = None) -> dict[str, str]:
        found: dict[str, str] = {}
        for entry in self._entries(prefix, start_after):
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                found[entry.name] = _tag(entry.stat())
        return found

    def _entries(self, prefix: str, start_after: str | None) -> list[os.DirEntry[str]]:
        """Return the files in order, without what is only staged: to a reader of the store it is not there."""
        try:
            with self._errors(prefix), os.scandir(self._path(prefix)) as entries:
                later = (entry for entry in entries if start_after is None or entry.name > start_after)
                found = [entry for entry in later if entry.is_file() and _STAGED.fullmatch(entry.name) is None]
        except ObjectMissing:
            return []
        return sorted(found, key=lambda entry: entry.name)

    def folders(self, prefix: str) -> list[str]:
        try:
            with self._errors(prefix), os.scandir(self._path(prefix)) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except ObjectMissing:
            return []

    def put_if_absent(self, key: str, data: bytes) -> WriteReceipt:
        path = self._path(key)
        with self._errors(key), _no_file_on_the_way(self.location):
            temp, stat = self._write_temp(path, data)
            try:
                self._link(temp, path, key)
            finally:
                os.unlink(temp)
            self._sync_folder(path)
        # Without an inode nobody looks again whether Spark's local store replaced it: nobody but us writes to a throw-away environment.
        return WriteReceipt(self.location, key, time.monotonic(), stat.st_ino if self._synced else None, _tag(stat))

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        with self._errors(key), _no_file_on_the_way(self.location):
            temp, _ = self._write_temp(path, data)
            try:
                os.replace(temp, path)
            except OSError:
                os.unlink(temp)
                raise
            self._sync_folder(path)

    def delete(self, key: str) -> None:
        path = self._path(key)
        with contextlib.suppress(ObjectMissing), self._errors(key):
            os.unlink(path)
            self._sync_folder(path)

    def delete_tree(self, prefix: str) -> None:
        check_own_place(self.location, prefix)
        self.refuse_links(prefix)
        with contextlib.suppress(ObjectMissing), self._errors(prefix):
            shutil.rmtree(self._path(prefix), onerror=_unless_gone)

    def inode(self, key: str) -> int | None:
        """Return the inode that has the name now; None if the name is gone."""
        try:
            return os.stat(self._path(key)).st_ino
        except FileNotFoundError:
            return None

    def refuse_links(self, prefix: str) -> None:
        """Raise NotOurPlace for a symbolic link on the way: what is deleted lies below this location, not where a link leads."""
        path = self._root
        for part in prefix.split("/"):
            path = f"{path}/{part}"
            if os.path.islink(path):
                raise NotOurPlace(uri=f"{self.location.uri}/{prefix}", rule=f"{path} is a symbolic link", is_link=True)

    def _path(self, key: str) -> str:
        if not key:
            return self._root
        if key.startswith("/") or ".." in key.split("/"):
            raise InvalidLocation(uri=f"{self.location.uri}/{key}", rule="a key may not lead out of its location")
        return f"{self._root}/{key}"

    def _write_temp(self, path: str, data: bytes) -> tuple[str, os.stat_result]:
        """Write a synced file next to ``path``, hidden by its leading dot from everything that lists a table; return it and its stat."""
        folder, name = os.path.split(path)
        temp = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            descriptor = os.open(temp, flags, 0o644)
        except FileNotFoundError:
            _make_folders(folder)
            descriptor = os.open(temp, flags, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if self._synced:
                os.fsync(descriptor)
            return temp, os.fstat(descriptor)
        except OSError:
            os.unlink(temp)
            raise
        finally:
            os.close(descriptor)

    def _sync_folder(self, path: str) -> None:
        if self._synced:
            _sync_folder(os.path.dirname(path))

    def _link(self, temp: str, path: str, key: str) -> None:
        try:
            os.link(temp, path)
        except OSError as error:
            if error.errno in _NO_LINKS:
                reason = "its file system has no hard links"
                raise PutIfAbsentIgnored(uri=f"{self.location.uri}/{key}", reason=reason) from error
            raise

    @contextlib.contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _as_ours(error, f"{self.location.uri}/{key}" if key else self.location.uri) from error


@contextlib.contextmanager
def _no_file_on_the_way(location: Location) -> Iterator[None]:
    """Raise InvalidLocation in a write if a folder of the path is a file, so that nothing can ever be put there."""
    try:
        yield
    except NotADirectoryError as error:
        raise InvalidLocation(uri=location.uri, rule=A_FILE_ON_THE_WAY) from error


def _tag(stat: os.stat_result) -> str:
    return f"{stat.st_ino}-{stat.st_mtime_ns}-{stat.st_size}"


def _as_ours(error: OSError, uri: str) -> SchemamigError:
    if error.errno in _ABSENT:
        return ObjectMissing(uri=uri)
    if error.errno == errno.EEXIST:
        return ObjectExists(uri=uri)
    if error.errno in _NO_NAME:
        return InvalidLocation(uri=uri, rule=f"its file system cannot have such a path ({error.strerror})")
    if error.errno == errno.EROFS:
        return StorageReadOnly(uri=uri)
    if error.errno in _FULL:
        return StorageFull(uri=uri)
    reason = error.strerror or str(error)
    return StorageForbidden(uri=uri, reason=reason) if error.errno in _DENIED else StorageUnreachable(uri=uri, reason=reason)


def _make_folders(folder: str) -> None:
    """Make folders as ``os.makedirs`` does, but durably: a new folder's name is synced in its parent."""
    parent = os.path.dirname(folder)
    if not os.path.isdir(parent):
        _make_folders(parent)
    try:
        os.mkdir(folder)
    except FileExistsError:
        pass
    except FileNotFoundError as error:
        if not os.path.isdir(parent):
            raise
        raise PermissionError(errno.EACCES, "its file system makes no folders") from error  # /proc says it in this way
    _sync_folder(parent)


def _unless_gone(function: object, path: str, caught: tuple[type[BaseException], BaseException, object]) -> None:
    """Ignore what a twin deleted just before us; raise the rest."""
    if not isinstance(caught[1], FileNotFoundError):
        raise caught[1]


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
