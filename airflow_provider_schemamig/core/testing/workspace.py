"""Throw-away environments and cut release folders: where a path is taken."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.maintenance import compact
from airflow_provider_schemamig.core.ledger.store import LedgerWriter
from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.folder.errors import LOCK_FILE, RELEASE_TOML, SCHEMA_SQL
from airflow_provider_schemamig.core.release.folder.lock import completed, digest, module_file, render_lock, snapshot_file
from airflow_provider_schemamig.core.release.folder.read import Release, ReleaseSettings
from airflow_provider_schemamig.core.storage import THROWAWAY, Location, StorageOptions
from airflow_provider_schemamig.core.storage.root import WriteHook

OPTIONS = {THROWAWAY: "true"}
#: A hundred versions of twenty collections take a tenth of it.
_ROOM_BYTES = 2 * 1024**3
_MEMORY = "/dev/shm"


@contextmanager
def workplace() -> Iterator[Path]:
    """Make a temporary folder for all environments, gone afterwards: in memory where there is room, unless TMPDIR says otherwise."""
    with tempfile.TemporaryDirectory(prefix="schemamig-test-", dir=_memory(), ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _memory() -> str | None:
    """Return the folder in memory if it can be used, else None."""
    if os.environ.get("TMPDIR") or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return None
    found = os.statvfs(_MEMORY)
    return _MEMORY if found.f_bavail * found.f_frsize >= _ROOM_BYTES else None


def throwaway(folder: Path, on_write: WriteHook | None = None) -> Environment:
    """Return the environment in ``folder``: nothing of it outlives the test, so nothing is synced."""
    return Environment(Location.parse(str(folder)), StorageOptions(OPTIONS), on_write)


def copy_environment(source: Path, target: Path) -> Path:
    """Copy an environment in milliseconds: its files never change, so they are linked (URIs are relative to the root)."""
    shutil.copytree(source, target, copy_function=_link)
    return target


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)


def tidy(env: Environment) -> None:
    """Reduce the ledger to one file of rows and nothing older, as the retention of a long maintained one does.

    It then opens as fast as on the first day, and there is less to copy.
    """
    writer = LedgerWriter(env)
    compact(writer)
    ledger = Path(env.ledger_uri.removeprefix("file://"))
    active, newest = set(writer.table.files()), writer.table.last_checkpoint()
    for path in ledger.glob("*.parquet"):
        if path.name not in active:
            path.unlink()
    for path in (ledger / "_delta_log").glob("0*"):
        if int(path.name.partition(".")[0]) < newest:
            path.unlink()


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def cut(release: Release, versions: Sequence[Version], folder: Path) -> Path:
    """Return the release folder as it was when the last of ``versions`` was its head and the first its ``min_version``.

    Snapshots and modules are the very bytes of ``release``: what is released never changes, which the lock holds. Made once.
    """
    minimum, head = versions[0], versions[-1]
    if folder.exists():
        return folder
    files = {snapshot_file(version): release.snapshots[version].text.encode() for version in versions}
    files |= {module_file(version): (release.path / module_file(version)).read_bytes() for version in versions[1:]}
    lock = completed({}, {file: digest(data) for file, data in files.items()}, minimum, head)
    files[LOCK_FILE] = render_lock(lock).encode()
    files[SCHEMA_SQL] = files[snapshot_file(head)]
    files[RELEASE_TOML] = ReleaseSettings(release.name, head, minimum).toml
    made = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    for name in ("snapshots", "migrations"):
        (made / name).mkdir(parents=True)
    for file, data in files.items():
        (made / file).write_bytes(data)
    try:
        made.rename(folder)
    except OSError:  # another process was faster, with the same bytes
        remove(made)
    return folder
