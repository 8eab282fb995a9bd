"""Writes release folders: ``init`` makes the first one, ``snapshot`` freezes the head.

Neither touches what was released. Equal input gives equal bytes, and every file is replaced whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.folder.errors import (
    LOCK_FILE,
    RELEASE_TOML,
    SCHEMA_SQL,
    FolderNotEmpty,
    UnreadableFile,
    UnwritableFile,
    VersionAboveHead,
)
from airflow_provider_schemamig.core.release.folder.lock import (
    completed,
    digest,
    is_too_old,
    module_file,
    render_lock,
    snapshot_file,
    verify_lock,
    version_of,
)
from airflow_provider_schemamig.core.release.folder.modules import read_module
from airflow_provider_schemamig.core.release.folder.read import (
    Folder,
    ReleaseSettings,
    ReleaseSnapshot,
    folder_and_settings,
    read_lock,
    read_settings,
)
from airflow_provider_schemamig.core.storage import Location, StorageOptions, open_store
from airflow_provider_schemamig.exceptions import Refusal, raise_refusals

FIRST_VERSION = Version(1, 0, 0)
_SCHEMA_TEMPLATE = """\
-- What every collection looks like at this release, one CREATE TABLE each in Spark SQL. For instance:
--
-- CREATE TABLE flights (
--     flight_id BIGINT NOT NULL COMMENT 'one per departure',
--     origin    STRING,
--     departed  TIMESTAMP
-- ) CLUSTER BY (origin);
"""


@dataclass(frozen=True, slots=True)
class WrittenFolder:
    """What a command wrote: the head's version, and the files that changed, relative to the folder. ``replaced``: the head's snapshot was
    locked, or there without a line in the lock, with another schema."""

    version: Version
    files: tuple[str, ...]
    replaced: bool = False


def init(path: Path, name: str) -> WrittenFolder:
    """Make a release folder for the data product ``name`` at version 1.0.0; it passes ``check``.

    Raises FolderNotEmpty, InvalidReleaseToml for a name that cannot be, UnreadableFile, UnwritableFile.
    """
    refusals: list[Refusal] = []
    try:
        found = sorted(entry.name for entry in path.iterdir()) if path.exists() else []
    except OSError as error:
        raise UnreadableFile(file=str(path), reason=error.strerror or str(error)) from error
    if found:
        raise FolderNotEmpty(file=str(path), found=found)
    toml = ReleaseSettings(name, FIRST_VERSION, FIRST_VERSION).toml
    read_settings(Folder(path, {RELEASE_TOML: toml}), refusals)
    raise_refusals(refusals)
    schema = _SCHEMA_TEMPLATE.encode()
    frozen = snapshot_file(FIRST_VERSION)
    files = {RELEASE_TOML: toml, SCHEMA_SQL: schema, frozen: schema, LOCK_FILE: render_lock({frozen: digest(schema)}).encode()}
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableFile(file=str(path), reason=error.strerror or str(error)) from error
    return WrittenFolder(FIRST_VERSION, _write(path, {}, files))


def snapshot(path: Path) -> WrittenFolder:
    """Freeze schema.sql as the head's snapshot, and lock every snapshot and released module that has no line yet.

    Raises, together, whatever makes that wrong: a released file that was edited, a version above the head, SQL that does not parse...
    """
    folder, settings = folder_and_settings(path)
    refusals: list[Refusal] = []
    locked = _locked(folder, refusals)
    files = _frozen(folder, settings, locked, refusals)
    raise_refusals(refusals)
    name = snapshot_file(settings.version)
    was = locked.get(name) or folder.digests().get(name)  # what was deployed was locked, whatever became of the file since
    replaced = was not in (None, digest(files[name]))
    return WrittenFolder(settings.version, _write(path, folder.files, files), replaced)


def _locked(folder: Folder, refusals: list[Refusal]) -> Mapping[str, str]:
    """Return the lines of the lock as it is; none if there is no lock."""
    if LOCK_FILE not in folder.files:
        return {}
    return read_lock(folder, {LOCK_FILE: folder.files[LOCK_FILE].decode(errors="replace")}, refusals) or {}


def _frozen(folder: Folder, settings: ReleaseSettings, locked: Mapping[str, str], refusals: list[Refusal]) -> dict[str, bytes]:
    """Return the snapshot and the lock that are to be written; reasons against them are appended to ``refusals``."""
    head, schema = settings.version, folder.files[SCHEMA_SQL]
    _must_parse(folder, settings, refusals)
    digests = {**folder.digests(), snapshot_file(head): digest(schema)}
    for file in digests:
        version = version_of(file)
        if version is not None and version > head:
            refusals.append(VersionAboveHead(file=file, version=version, head=head))
    # What is no longer supported leaves the lock; the head's own lines are made anew.
    mine = {snapshot_file(head), module_file(head)}
    kept = {file: line for file, line in locked.items() if file not in mine and not is_too_old(file, settings.min_version)}
    entries = completed(kept, digests, settings.min_version, head)
    refusals.extend(verify_lock(entries, digests, settings.min_version, head))
    return {snapshot_file(head): schema, LOCK_FILE: render_lock(entries).encode()}


def _must_parse(folder: Folder, settings: ReleaseSettings, refusals: list[Refusal]) -> None:
    """Append a refusal for each file that cannot be read: freezing or locking such a file helps nobody."""
    for file, data in folder.files.items():
        version = version_of(file)
        if file != SCHEMA_SQL and (version is None or version >= settings.version or not file.startswith("migrations/")):
            continue
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            refusals.append(UnreadableFile(file=file, reason=f"byte {error.start} is not UTF-8"))
            continue
        if file != SCHEMA_SQL:
            read_module(text, file, refusals)
            continue
        try:
            _ = ReleaseSnapshot(settings.version, SCHEMA_SQL, text).declarations
        except Refusal as refusal:
            refusals.append(refusal)


def _write(path: Path, before: Mapping[str, bytes], files: Mapping[str, bytes]) -> tuple[str, ...]:
    store = open_store(Location.of_files(path), StorageOptions({}))
    changed = tuple(file for file, data in files.items() if before.get(file) != data)
    for file in changed:
        store.put(file, files[file])
    return changed
