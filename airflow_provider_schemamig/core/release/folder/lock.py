"""``snapshots.lock``: the sha256 of every snapshot and of every released migration module.

The file is flat TOML, one line a file, sorted by kind and version, so that two branches that claim one version conflict in it.
Released is every version below the head; the head's snapshot is locked too, but may be frozen again.
"""

from __future__ import annotations

import hashlib
import re
import reprlib
import tomllib
from collections.abc import Mapping

from airflow_provider_schemamig.core.names import InvalidName, Version
from airflow_provider_schemamig.core.release.folder.conflicts import DuplicateVersion, duplicate_line
from airflow_provider_schemamig.core.release.folder.errors import (
    EditedModule,
    EditedSnapshot,
    FileRefusal,
    InvalidLock,
    LockedFileMissing,
    NotLocked,
)
from airflow_provider_schemamig.exceptions import Refusal

HEADER = "# Written by `schemamig snapshot`. A line guards what was released: it changes only if its version was never deployed.\n"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SNAPSHOT = re.compile(r"snapshots/(.+)\.sql")
_MODULE = re.compile(r"migrations/v(.+)\.py")


def digest(data: bytes) -> str:
    """Return ``sha256:<64 hex digits>`` of a file's bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def snapshot_file(version: Version) -> str:
    return f"snapshots/{version}.sql"


def module_file(version: Version) -> str:
    return f"migrations/{version.module_name}.py"


def version_of(file: str) -> Version | None:
    """Return the version a snapshot or module belongs to by its name, or None for any other name."""
    match = _SNAPSHOT.fullmatch(file) or _MODULE.fullmatch(file)
    if match is None:
        return None
    text = match[1] if match.re is _SNAPSHOT else match[1].replace("_", ".")
    try:
        version = Version.parse(text)
    except InvalidName:
        return None
    return version if file in (snapshot_file(version), module_file(version)) else None


def is_snapshot(file: str) -> bool:
    return file.startswith("snapshots/")


def parse_lock(text: str, refusals: list[Refusal]) -> Mapping[str, str] | None:
    """Map file to digest for the lines that are right; None if the text is not TOML. What is wrong is appended to ``refusals``."""
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not TOML; a number of more digits than Python reads; nested beyond the stack
        twice = duplicate_line(text)
        refusals.append(InvalidLock(reason=str(error).rstrip(".")) if twice is None else DuplicateVersion(name=twice[0], line=twice[1]))
        return None
    entries: dict[str, str] = {}
    for file, value in values.items():
        if version_of(file) is None:
            refusals.append(InvalidLock(reason=f"{reprlib.repr(file)} is neither snapshots/<version>.sql nor migrations/v<version>.py"))
        elif not isinstance(value, str) or _DIGEST.fullmatch(value) is None:
            refusals.append(InvalidLock(reason=f"{reprlib.repr(file)} has no digest of the form sha256:<64 hex digits>"))
        else:
            entries[file] = value
    return entries


def render_lock(entries: Mapping[str, str]) -> str:
    """Return the file's text; equal entries give equal bytes."""
    return HEADER + "".join(f'"{file}" = "{entries[file]}"\n' for file in sorted(entries, key=by_version))


def by_version(file: str) -> tuple[bool, Version | None, str]:
    """Sort file names by this key: modules before snapshots, each by version."""
    return is_snapshot(file), version_of(file), file


def must_be_locked(file: str, minimum: Version, head: Version) -> bool:
    """Return whether ``file`` is a supported snapshot or a released module; the head's module is still being written."""
    version = version_of(file)
    if version is None:
        return False
    return minimum <= version <= head if is_snapshot(file) else minimum < version < head


def completed(kept: Mapping[str, str], digests: Mapping[str, str], minimum: Version, head: Version) -> dict[str, str]:
    """Return the lines of a lock: those that are ``kept``, and one for each other file that must have one."""
    missing = {file: found for file, found in digests.items() if file not in kept and must_be_locked(file, minimum, head)}
    return {**kept, **missing}


def is_too_old(file: str, minimum: Version) -> bool:
    """Return whether ``file`` is of a version that is no longer supported; no step leads to ``minimum`` itself any more."""
    version = version_of(file)
    return version is not None and (version < minimum or (version == minimum and not is_snapshot(file)))


def verify_lock(entries: Mapping[str, str], digests: Mapping[str, str], minimum: Version, head: Version) -> list[FileRefusal]:
    """Compare the lock with the files' digests. Released modules and all supported snapshots must be in it, unchanged."""
    refusals: list[FileRefusal] = []
    for file, found in digests.items():
        version = version_of(file)
        if version is None or not must_be_locked(file, minimum, head):
            continue
        locked = entries.get(file)
        if locked is None:
            refusals.append(NotLocked(file=file, digest=found))
        elif locked != found:
            kind = EditedSnapshot if is_snapshot(file) else EditedModule
            refusals.append(kind(file=file, version=version, locked=locked, digest=found, is_head=version == head))
    refusals.extend(LockedFileMissing(file=file) for file in entries if file not in digests)
    return refusals
