"""Versions of a release folder that a command writes whole: the first one of tables that are there, and the one that takes over a change.

The files of a version are known before one is written, and release.toml, which makes it the head, is written last. So the same command
can be run again after a crash: what it left is what it would write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.authoring.draft import DraftStep
from airflow_provider_schemamig.core.release.authoring.module_text import module_text
from airflow_provider_schemamig.core.release.authoring.new import Part, bump, with_version
from airflow_provider_schemamig.core.release.authoring.scaffold import FIRST_VERSION
from airflow_provider_schemamig.core.release.check import check_reading
from airflow_provider_schemamig.core.release.folder.errors import (
    LOCK_FILE,
    RELEASE_TOML,
    SCHEMA_SQL,
    FolderNotEmpty,
    SchemaNotFrozen,
    VersionAboveHead,
)
from airflow_provider_schemamig.core.release.folder.lock import completed, digest, module_file, render_lock, snapshot_file
from airflow_provider_schemamig.core.release.folder.modules import read_module
from airflow_provider_schemamig.core.release.folder.read import (
    Folder,
    Reading,
    Release,
    ReleaseSettings,
    ReleaseSnapshot,
    read_folder,
    read_lock,
    read_settings,
)
from airflow_provider_schemamig.core.release.merge.validate import validate_pair
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage import Location, StorageOptions, open_store
from airflow_provider_schemamig.exceptions import Refusal, raise_refusals


@dataclass(frozen=True)
class NextVersion:
    """A version and the bytes of its files, in the order in which they are written."""

    path: Path
    name: str
    version: Version
    files: Mapping[str, bytes]

    @cached_property
    def snapshot(self) -> ReleaseSnapshot:
        return ReleaseSnapshot(self.version, SCHEMA_SQL, self.files[SCHEMA_SQL].decode())

    def write(self) -> tuple[str, ...]:
        """Write what is not there yet; the names of these files."""
        store = open_store(Location.of_files(self.path), StorageOptions({}))
        here = _files_of(self.path)
        changed = tuple(file for file, data in self.files.items() if here.get(file) != data)
        for file in changed:
            store.put(file, self.files[file])
        return changed


@dataclass(frozen=True)
class KnownFolder:
    """A release folder as it is, with what is wrong with it. ``is_new``: without a release.toml it holds no release yet."""

    path: Path
    reading: Reading
    refusals: tuple[Refusal, ...]
    is_new: bool

    @property
    def release(self) -> Release:
        """Return what could be read of the release, right or not; raise its errors if that is nothing at all."""
        if self.reading.release is None or self.reading.release.version not in self.reading.release.snapshots:
            raise_refusals(self.refusals)
        assert self.reading.release is not None  # no refusal means a release
        return self.reading.release

    @property
    def head(self) -> Mapping[CollectionName, Declaration]:
        """Return what the head's snapshot declares."""
        return self.release.declarations(self.release.version)

    def checked(self) -> Release:
        """Return the release, if nothing at all is wrong with it."""
        raise_refusals(self.refusals)
        return self.release


def known(path: Path) -> KnownFolder:
    """Read and check the folder at ``path``."""
    reading, refusals = check_reading(path)
    return KnownFolder(path, reading, tuple(refusals), is_new=not (path / RELEASE_TOML).exists())


def first_version(path: Path, schema: str) -> NextVersion:
    """Make version 1.0.0 of a new folder, named after the folder. Raises FolderNotEmpty, InvalidReleaseToml."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", path.absolute().name)
    toml = ReleaseSettings(name, FIRST_VERSION, FIRST_VERSION).toml
    refusals: list[Refusal] = []
    read_settings(Folder(path, {RELEASE_TOML: toml}), refusals)
    raise_refusals(refusals)
    text, frozen = schema.encode(), snapshot_file(FIRST_VERSION)
    files = {frozen: text, LOCK_FILE: render_lock({frozen: digest(text)}).encode(), SCHEMA_SQL: text, RELEASE_TOML: toml}
    here = _files_of(path)
    strange = sorted(entry.name for entry in path.iterdir() if entry.name not in _TOP) if path.exists() else []
    strange += sorted(file for file, data in here.items() if files.get(file) != data)
    if strange:
        raise FolderNotEmpty(file=str(path), found=strange)
    return NextVersion(path, name, FIRST_VERSION, files)


_TOP = frozenset({"snapshots", SCHEMA_SQL, LOCK_FILE})


def next_version(folder: KnownFolder, schema: str, title: str, why: str, steps: Sequence[DraftStep] = ()) -> NextVersion:
    """Make the minor version after the folder's head, with ``schema`` as schema.sql. Raises what is wrong with the folder or would be with
    it.

    What an earlier run of the same command left behind does not count as wrong.
    """
    release = folder.release
    version = bump(release.version, Part.MINOR)
    module = module_text(title, steps, f"Why: {why}").encode()
    text, frozen = schema.encode(), snapshot_file(version)
    toml = with_version(folder.reading.texts[RELEASE_TOML], ReleaseSettings(release.name, version, release.min_version))
    begun = {module_file(version): module, frozen: text}
    files = {**begun, LOCK_FILE: _lock(folder.path, release, version, begun), SCHEMA_SQL: text, RELEASE_TOML: toml}
    made = NextVersion(folder.path, release.name, version, files)
    raise_refusals([*_unexplained(folder, made), *_wrong_with(release, made)])
    return made


def _lock(path: Path, release: Release, version: Version, begun: Mapping[str, bytes]) -> bytes:
    refusals: list[Refusal] = []
    folder = read_folder(path, refusals)
    raise_refusals([refusal for refusal in refusals if folder is None])
    assert folder is not None
    kept = read_lock(folder, {LOCK_FILE: folder.files.get(LOCK_FILE, b"").decode(errors="replace")}, []) or {}
    digests = {**folder.digests(), **{file: digest(data) for file, data in begun.items()}}
    return render_lock(completed(kept, digests, release.min_version, version)).encode()


def _unexplained(folder: KnownFolder, made: NextVersion) -> list[Refusal]:
    """Return the folder's refusals, but for those caused by files of ``made`` from an earlier run."""
    here = _files_of(folder.path)
    written = {file for file, data in made.files.items() if here.get(file) == data}

    def is_ours(refusal: Refusal) -> bool:
        if isinstance(refusal, SchemaNotFrozen):
            return SCHEMA_SQL in written
        return isinstance(refusal, VersionAboveHead) and refusal.file in written

    return [refusal for refusal in folder.refusals if not is_ours(refusal)]


def _wrong_with(release: Release, made: NextVersion) -> list[Refusal]:
    """Return what ``check`` would say of the version once it is written."""
    refusals: list[Refusal] = []
    migration = read_module(made.files[module_file(made.version)].decode(), module_file(made.version), refusals)
    if migration is None:
        return refusals
    snapshots, modules = {**release.snapshots, made.version: made.snapshot}, {**release.modules, made.version: migration}
    future = replace(release, version=made.version, snapshots=snapshots, modules=modules)
    return [*refusals, *validate_pair(future, release.version, made.version)]


def _files_of(path: Path) -> Mapping[str, bytes]:
    if not path.is_dir():
        return {}
    folder = read_folder(path, [])
    return {} if folder is None else folder.files
