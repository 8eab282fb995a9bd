"""Reads a release folder: ``release.toml``, ``schema.sql``, snapshots, lock and migration modules.

Everything that is wrong is collected and raised together; nothing is ever run or written here.
"""

from __future__ import annotations

import re
import reprlib
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from airflow_provider_schemamig.core.names import CollectionName, InvalidName, Version
from airflow_provider_schemamig.core.release.folder.conflicts import MergeConflict, conflict_line
from airflow_provider_schemamig.core.release.folder.errors import (
    LOCK_FILE,
    RELEASE_TOML,
    SCHEMA_SQL,
    InvalidLock,
    InvalidReleaseToml,
    MissingModule,
    MissingSnapshot,
    SchemaNotFrozen,
    UnexpectedFile,
    UnreadableFile,
    VersionAboveHead,
    VersionBelowMinimum,
)
from airflow_provider_schemamig.core.release.folder.lock import (
    by_version,
    digest,
    is_snapshot,
    is_too_old,
    module_file,
    parse_lock,
    snapshot_file,
    verify_lock,
    version_of,
)
from airflow_provider_schemamig.core.release.folder.modules import Migration, read_module
from airflow_provider_schemamig.core.release.steps import Step, digest_of
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.exceptions import Refusal, raise_refusals

_RELEASE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_TOML_KEYS = ("name", "version", "min_version")
#: A thousand times what people write; what is larger was not meant, and is not read into memory.
_MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class ReleaseSnapshot:
    """The schema at one version. The text is parsed when it is first asked for; ``file`` is where its author would fix it."""

    version: Version
    file: str
    text: str

    @cached_property
    def declarations(self) -> Mapping[CollectionName, Declaration]:
        """Return every collection of this version by name. Raises the parser's refusals (SqlSyntax, UnknownType,
        DuplicateCollection...)."""
        from airflow_provider_schemamig.core.release.sql.parse import parse_schema

        return {declaration.name: declaration for declaration in parse_schema(self.text, self.file)}


@dataclass(frozen=True)
class Release:
    """A release folder as read; ``version`` is the head. ``modules`` holds one migration for each version above ``min_version``."""

    path: Path
    name: str
    version: Version
    min_version: Version
    snapshots: Mapping[Version, ReleaseSnapshot]
    modules: Mapping[Version, Migration]

    @cached_property
    def versions(self) -> tuple[Version, ...]:
        """Return every supported version, ``min_version`` first and the head last."""
        return tuple(sorted(self.snapshots))

    def declarations(self, version: Version) -> Mapping[CollectionName, Declaration]:
        """Return the collections of one supported version. Raises the parser's refusals."""
        return self.snapshots[version].declarations

    def steps(self, version: Version) -> tuple[Step, ...]:
        """Return the steps from the version before to ``version``; none for ``min_version``."""
        migration = self.modules.get(version)
        return () if migration is None else migration.steps

    def step_digests(self, upto: Version) -> dict[Version, str]:
        """Return a digest of the steps of each version above ``min_version`` up to ``upto``."""
        return {version: digest_of(module.steps) for version, module in sorted(self.modules.items()) if version <= upto}


@dataclass(frozen=True, slots=True)
class ReleaseSettings:
    """``release.toml``."""

    name: str
    version: Version
    min_version: Version

    @property
    def toml(self) -> bytes:
        """Return a new file that says this and nothing else."""
        return f'name = "{self.name}"\nversion = "{self.version}"\nmin_version = "{self.min_version}"\n'.encode()


@dataclass(frozen=True)
class Folder:
    """The bytes of a release folder, before they mean anything. ``files`` is keyed by path relative to it.

    ``conflicted`` are the files that git left in conflict; their bytes mean nothing and are not in ``files``.
    """

    path: Path
    files: Mapping[str, bytes]
    conflicted: frozenset[str] = frozenset()

    def digests(self) -> dict[str, str]:
        """Return snapshot and module files by name, with their digests."""
        return {file: digest(data) for file, data in self.files.items() if version_of(file) is not None}


@dataclass(frozen=True)
class Reading:
    """What was read of a folder, right or not. ``release`` holds what could be read of it, None if not even ``release.toml`` could.

    ``unfrozen`` is schema.sql, where it is not the copy of the head's snapshot. ``texts`` are the files as read, by name.
    """

    release: Release | None
    refusals: list[Refusal]
    unfrozen: ReleaseSnapshot | None = None
    texts: Mapping[str, str] = field(default_factory=dict)


def load_release(path: Path) -> Release:
    """Read the release at ``path``. Raises every refusal about its files at once (``Refused``), or the only one.

    The steps are not yet held against the snapshots: ``check.load_checked`` does that too.
    """
    reading = read_release(path)
    raise_refusals(reading.refusals)
    assert reading.release is not None  # no refusal means a release
    return reading.release


def read_release(path: Path) -> Reading:
    """Read all of a release folder and collect all that is wrong with its files."""
    refusals: list[Refusal] = []
    folder = read_folder(path, refusals)
    if folder is None:
        return Reading(None, refusals)
    settings = read_settings(folder, refusals)
    texts = dict(_decoded(folder, refusals))
    modules = {file: read_module(text, file, refusals) for file, text in texts.items() if file.startswith("migrations/")}
    lock = read_lock(folder, texts, refusals)
    if settings is None:
        return Reading(None, refusals)
    refusals.extend(_range_refusals(folder, lock or {}, settings))
    refusals.extend(_head_refusals(folder, settings))
    if lock is not None:
        missing = {refusal.file for refusal in refusals if isinstance(refusal, MissingSnapshot | MissingModule)} | folder.conflicted
        found = verify_lock(lock, folder.digests(), settings.min_version, settings.version)
        refusals.extend(refusal for refusal in found if refusal.file not in missing)
    release = _assemble(folder, settings, texts, modules)
    head = release.snapshots.get(settings.version)
    is_frozen = SCHEMA_SQL not in texts or (head is not None and head.text == texts[SCHEMA_SQL])
    return Reading(release, refusals, None if is_frozen else ReleaseSnapshot(settings.version, SCHEMA_SQL, texts[SCHEMA_SQL]), texts)


def read_folder(path: Path, refusals: list[Refusal]) -> Folder | None:
    """Read the folder's files; what cannot be read or does not belong is appended to ``refusals``."""
    try:
        if not path.is_dir():
            reason = "it is not a folder" if path.exists() else "there is no such folder"
            refusals.append(UnreadableFile(file=str(path), reason=reason, is_no_folder=True))
            return None
    except OSError as error:  # a folder above it may not be entered
        refusals.append(UnreadableFile(file=str(path), reason=error.strerror or str(error)))
        return None
    if not any((path / name).exists() for name in (RELEASE_TOML, SCHEMA_SQL, LOCK_FILE, "snapshots", "migrations")):
        reason = f"it has no {RELEASE_TOML}, no {SCHEMA_SQL} and no snapshots, so it is no release folder"
        refusals.append(UnreadableFile(file=str(path), reason=reason, is_no_folder=True))
        return None
    snapshots, modules = _listing(path, "snapshots", ".sql", refusals), _listing(path, "migrations", ".py", refusals)
    names = [RELEASE_TOML, SCHEMA_SQL, LOCK_FILE, *snapshots, *modules]
    files: dict[str, bytes] = {}
    conflicted: set[str] = set()
    for name in names:
        try:
            files[name] = _read(path / name)
        except OSError as error:
            if name == LOCK_FILE and isinstance(error, FileNotFoundError):
                continue  # `schemamig snapshot` writes the first one; a reader finds every file unlocked
            refusals.append(UnreadableFile(file=name, reason=error.strerror or str(error)))
            continue
        line = conflict_line(files[name])
        if line is not None:
            refusals.append(MergeConflict(file=name, line=line))
            conflicted.add(name)
            del files[name]
    return Folder(path, files, frozenset(conflicted))


def _read(path: Path) -> bytes:
    """Read a regular file of sane size: a pipe would block, a device never ends."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise OSError("it is not a regular file")
    if found.st_size > _MAX_BYTES:
        raise OSError(f"it is larger than {_MAX_BYTES // 1024 // 1024} MiB")
    return path.read_bytes()


def _listing(path: Path, folder: str, suffix: str, refusals: list[Refusal]) -> list[str]:
    """Return the snapshots or modules, by version."""
    expected = "snapshots/1.0.0.sql" if suffix == ".sql" else "migrations/v1_1_0.py"
    try:
        names = [entry.name for entry in (path / folder).iterdir() if entry.name.endswith(suffix) and entry.name != "__init__.py"]
    except FileNotFoundError:
        return []  # what must be in it is reported as missing, file by file
    except OSError as error:
        refusals.append(UnreadableFile(file=folder, reason=error.strerror or str(error)))
        return []
    # A name that is no UTF-8 could not even be printed.
    files = [f"{folder}/{name}".encode(errors="backslashreplace").decode() for name in sorted(names)]
    refusals.extend(UnexpectedFile(file=file, expected=expected) for file in files if version_of(file) is None)
    return sorted((file for file in files if version_of(file) is not None), key=by_version)


def _decoded(folder: Folder, refusals: list[Refusal]) -> Iterator[tuple[str, str]]:
    for file, data in folder.files.items():
        try:
            yield file, data.decode()
        except UnicodeDecodeError as error:
            if file != RELEASE_TOML:  # its own reader says so
                refusals.append(UnreadableFile(file=file, reason=f"byte {error.start} is not UTF-8"))


def folder_and_settings(path: Path) -> tuple[Folder, ReleaseSettings]:
    """Read the folder and its settings, when the folder may be wrong in other ways. Raises all that keeps them from being read."""
    refusals: list[Refusal] = []
    folder = read_folder(path, refusals)
    raise_refusals(refusals)
    assert folder is not None  # no refusal means a folder
    settings = read_settings(folder, refusals)
    raise_refusals(refusals)
    assert settings is not None
    return folder, settings


def read_settings(folder: Folder, refusals: list[Refusal]) -> ReleaseSettings | None:
    """Read ``release.toml``; None with the reasons appended to ``refusals`` if it is wrong."""
    data = folder.files.get(RELEASE_TOML)
    if data is None:
        return None
    try:
        values = tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        refusals.append(UnreadableFile(file=RELEASE_TOML, reason=f"byte {error.start} is not UTF-8"))
        return None
    except (ValueError, RecursionError) as error:  # not TOML; a number of more digits than Python reads; nested beyond the stack
        refusals.append(InvalidReleaseToml(reason=str(error).rstrip(".")))
        return None
    found = len(refusals)
    refusals.extend(InvalidReleaseToml(reason=f"{reprlib.repr(key)} is not a setting") for key in values if key not in _TOML_KEYS)
    name = values.get("name")
    if not isinstance(name, str) or _RELEASE_NAME.fullmatch(name) is None:
        refusals.append(InvalidReleaseToml(reason=f"name is {_shown(name)}, not 1 to 63 letters, digits, _ or -, a letter first"))
    version, minimum = (_version(values, key, refusals) for key in ("version", "min_version"))
    if version is None or minimum is None or len(refusals) > found:
        return None
    if version < minimum:
        refusals.append(VersionBelowMinimum(file=RELEASE_TOML, version=version, minimum=minimum))
        return None
    return ReleaseSettings(str(name), version, minimum)


def _version(values: Mapping[str, object], key: str, refusals: list[Refusal]) -> Version | None:
    text = values.get(key)
    try:
        if isinstance(text, str):
            return Version.parse(text)
    except InvalidName:
        pass  # the same words for a wrong type and a wrong form
    refusals.append(InvalidReleaseToml(reason=f'{key} is {_shown(text)}, not a string of the form "1.2.3"'))
    return None


def _shown(value: object) -> str:
    """Return a setting as a message may hold it: short, and never a number of more digits than Python prints."""
    return reprlib.repr(value) if isinstance(value, str) else "missing" if value is None else f"a {type(value).__name__}"


def read_lock(folder: Folder, texts: Mapping[str, str], refusals: list[Refusal]) -> Mapping[str, str] | None:
    """Return the lock's lines, or None if it cannot be read, which is then in ``refusals``."""
    if LOCK_FILE in folder.conflicted:
        return None
    if LOCK_FILE not in folder.files:
        refusals.append(InvalidLock(reason="there is no such file"))
        return None
    return parse_lock(texts[LOCK_FILE], refusals) if LOCK_FILE in texts else None


def _range_refusals(folder: Folder, lock: Mapping[str, str], settings: ReleaseSettings) -> Iterator[Refusal]:
    """Yield refusals unless snapshots are exactly min..head, and modules exactly those above min."""
    low, head = settings.min_version, settings.version
    known = {low, head}
    present = {*folder.files, *folder.conflicted}
    for file in dict.fromkeys([*folder.files, *sorted(folder.conflicted), *lock]):
        version = version_of(file)
        if version is None:
            continue
        if low <= version <= head:
            known.add(version)
        if file not in present:
            continue
        if version > head:
            yield VersionAboveHead(file=file, version=version, head=head)
        elif is_too_old(file, low):
            yield VersionBelowMinimum(file=file, version=version, minimum=low)
    for version in sorted(known):
        if snapshot_file(version) not in present:
            yield MissingSnapshot(file=snapshot_file(version), version=version, is_head=version == head)
        if version > low and module_file(version) not in present:
            yield MissingModule(file=module_file(version), version=version)


def _head_refusals(folder: Folder, settings: ReleaseSettings) -> Iterator[Refusal]:
    file = snapshot_file(settings.version)
    schema, frozen = folder.files.get(SCHEMA_SQL), folder.files.get(file)
    if schema is not None and frozen is not None and schema != frozen:
        yield SchemaNotFrozen(file=file, version=settings.version, digest=digest(schema))


def _assemble(folder: Folder, settings: ReleaseSettings, texts: Mapping[str, str], modules: Mapping[str, Migration | None]) -> Release:
    supported = {file: v for file in texts if (v := version_of(file)) is not None and settings.min_version <= v <= settings.version}
    snapshots = {version: ReleaseSnapshot(version, file, texts[file]) for file, version in supported.items() if is_snapshot(file)}
    head = snapshots.get(settings.version)
    if head is not None and head.text == texts.get(SCHEMA_SQL):
        snapshots[settings.version] = ReleaseSnapshot(settings.version, SCHEMA_SQL, head.text)
    migrations = {version: found for file, version in supported.items() if (found := modules.get(file)) is not None}
    return Release(folder.path, settings.name, settings.version, settings.min_version, snapshots, migrations)
