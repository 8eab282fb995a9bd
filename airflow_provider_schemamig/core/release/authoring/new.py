"""``new`` begins the next version of a release folder, ``rebase`` renumbers the one that is being written.

Neither touches what was released. Every file is replaced whole or not at all, in an order in which the same command can be run again
after a crash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.authoring.draft import Ask, DraftStep, draft_steps
from airflow_provider_schemamig.core.release.authoring.errors import (
    InvalidTitle,
    NothingToRebase,
    VersionNotNewer,
    VersionNotReplaced,
    VersionTaken,
)
from airflow_provider_schemamig.core.release.authoring.module_text import module_text
from airflow_provider_schemamig.core.release.folder.errors import LOCK_FILE, RELEASE_TOML, MissingModule, SchemaNotFrozen
from airflow_provider_schemamig.core.release.folder.lock import is_snapshot, module_file, render_lock, snapshot_file, version_of
from airflow_provider_schemamig.core.release.folder.read import (
    Folder,
    ReleaseSettings,
    folder_and_settings,
    read_lock,
    read_release,
    read_settings,
)
from airflow_provider_schemamig.core.storage import Location, StorageOptions, Store, open_store
from airflow_provider_schemamig.exceptions import Refusal, raise_refusals

_LONGEST_TITLE = 200
_VERSION_LINE = re.compile(r"""^(\s*"?version"?\s*=\s*)("[^"\n]*"|'[^'\n]*')""", re.MULTILINE)


class Part(StrEnum):
    """Which number of a version grows; those after it begin at 0."""

    MAJOR = "major"
    MINOR = "minor"
    PATCH = "patch"


@dataclass(frozen=True, slots=True)
class Begun:
    """The version that ``new`` began, the files it wrote, and the steps it drafted with their open questions."""

    version: Version
    files: tuple[str, ...]
    drafts: tuple[DraftStep, ...]


@dataclass(frozen=True, slots=True)
class Rebased:
    """``version`` is what the migration is called now; ``files`` were written, ``deleted`` are gone."""

    before: Version
    version: Version
    files: tuple[str, ...]
    deleted: tuple[str, ...]


def bump(version: Version, part: Part) -> Version:
    """Return the next version: ``1.2.3`` becomes ``2.0.0``, ``1.3.0`` or ``1.2.4``."""
    match part:
        case Part.MAJOR:
            return Version(version.major + 1, 0, 0)
        case Part.MINOR:
            return Version(version.major, version.minor + 1, 0)
        case Part.PATCH:
            return Version(version.major, version.minor, version.patch + 1)


def new(path: Path, title: str, *, version: Version | None = None, part: Part = Part.MINOR, ask: Ask | None = None) -> Begun:
    """Begin the next version: raise it in release.toml and write its module, with the steps that schema.sql calls for.

    schema.sql is compared with the head's snapshot; ``ask`` answers whether a column or collection was renamed, without it the question
    stays in the module. Nothing is frozen: that is ``snapshot``'s. Raises InvalidTitle, VersionNotNewer, VersionNotReplaced, and whatever
    else is wrong with the folder (all together), but not that schema.sql was edited.
    """
    title = _checked_title(title)
    reading = read_release(path)
    raise_refusals([refusal for refusal in reading.refusals if not isinstance(refusal, SchemaNotFrozen)])
    release = reading.release
    assert release is not None  # no refusal means a release
    target = bump(release.version, part) if version is None else version
    if target <= release.version:
        raise VersionNotNewer(version=target, head=release.version)
    head = release.snapshots[release.version]
    schema = reading.unfrozen or head
    drafts = draft_steps(head.declarations, schema.declarations, ask)
    toml = with_version(reading.texts[RELEASE_TOML], ReleaseSettings(release.name, target, release.min_version))
    module = module_file(target)
    store = _store(path)
    store.put(module, module_text(title, drafts).encode())
    store.put(RELEASE_TOML, toml)
    return Begun(target, (RELEASE_TOML, module), drafts)


def rebase(path: Path, onto: Version | None = None) -> Rebased:
    """Renumber the migration to release.toml's version, so that it comes after ``onto``.

    That version was never deployed. ``onto`` None: after the newest other version of the folder. The migration's snapshot and lock lines
    are taken away, for they were made without what the other branch changes: ``snapshot`` makes new ones once both are merged. Raises
    NothingToRebase, VersionTaken, VersionNotReplaced, MissingModule, and what keeps the folder from being read.
    """
    folder, settings = folder_and_settings(path)
    own = settings.version
    others = sorted({found for file in folder.files if is_snapshot(file) and (found := version_of(file)) is not None and found != own})
    target = _target(own, others, onto)
    module = folder.files.get(module_file(own)) or folder.files.get(module_file(target))  # the latter: cut short, and run again
    if module is None:
        raise MissingModule(file=module_file(own), version=own)
    _refuse_taken(folder, target, module)
    return _renumber(path, folder, settings, target, module)


def _target(own: Version, others: Sequence[Version], onto: Version | None) -> Version:
    before = [version for version in others if version < own]
    if not before:
        raise NothingToRebase(version=own, reason="it is the oldest version of the folder, and has no migration")
    newest = max(others)
    if onto is None and newest < own:
        raise NothingToRebase(version=own, reason="it is on top already")
    base = newest if onto is None else onto
    target = bump(base, _part(before[-1], own))
    if target <= own:
        raise NothingToRebase(version=own, reason=f"it comes after {base} already")
    return target


def _part(before: Version, after: Version) -> Part:
    if after.major != before.major:
        return Part.MAJOR
    return Part.MINOR if after.minor != before.minor else Part.PATCH


def _refuse_taken(folder: Folder, target: Version, module: bytes) -> None:
    for file, data in folder.files.items():
        version = version_of(file)
        if version is not None and version >= target and (file != module_file(target) or data != module):
            raise VersionTaken(file=file, version=version, target=target)


def _renumber(path: Path, folder: Folder, settings: ReleaseSettings, target: Version, module: bytes) -> Rebased:
    own = settings.version
    toml = with_version(folder.files[RELEASE_TOML].decode(), ReleaseSettings(settings.name, target, settings.min_version))
    files = {module_file(target): module, LOCK_FILE: _lock_without(folder, own), RELEASE_TOML: toml}
    store = _store(path)
    store.put(module_file(target), module)
    gone = tuple(file for file in (module_file(own), snapshot_file(own)) if file in folder.files)
    for file in gone:
        store.delete(file)
    store.put(LOCK_FILE, files[LOCK_FILE])
    store.put(RELEASE_TOML, toml)  # last: until then the same command begins anew
    return Rebased(own, target, tuple(files), gone)


def _lock_without(folder: Folder, version: Version) -> bytes:
    refusals: list[Refusal] = []
    lines: Mapping[str, str] = {}
    if LOCK_FILE in folder.files:
        lines = read_lock(folder, {LOCK_FILE: folder.files[LOCK_FILE].decode(errors="replace")}, refusals) or {}
    raise_refusals(refusals)
    return render_lock({file: line for file, line in lines.items() if version_of(file) != version}).encode()


def _checked_title(title: str) -> str:
    text = title.strip()
    if not text:
        raise InvalidTitle(reason="it is empty")
    if len(text) > _LONGEST_TITLE or not text.isprintable():
        raise InvalidTitle(reason=f"it is one line of at most {_LONGEST_TITLE} printable characters")
    return text


def with_version(text: str, wanted: ReleaseSettings) -> bytes:
    """Return release.toml with another version, and everything else as its author wrote it."""
    data = _VERSION_LINE.sub(lambda found: f'{found[1]}"{wanted.version}"', text, count=1).encode()
    if read_settings(Folder(Path(), {RELEASE_TOML: data}), []) != wanted:
        raise VersionNotReplaced()
    return data


def _store(path: Path) -> Store:
    return open_store(Location.of_files(path), StorageOptions({}))
