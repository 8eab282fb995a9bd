"""A table's history since a version: its commits, and what they brought (for settling, drift and inverses, DESIGN section 5)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_provider_schemamig.core.deltalog.actions import Commit, RawAction
from airflow_provider_schemamig.core.deltalog.head import Head
from airflow_provider_schemamig.core.deltalog.listing import list_log, read_commit
from airflow_provider_schemamig.core.deltalog.names import physical_path
from airflow_provider_schemamig.core.storage import ReadStore


def commits(store: ReadStore, after: int, upto: int | None = None) -> Iterator[Commit]:
    """Commits ``after + 1`` .. ``upto`` (None: the newest), oldest first. Raises LogTruncated if one of them is gone, TableMissing."""
    last = list_log(store).version if upto is None else upto
    for version in range(after + 1, last + 1):
        yield read_commit(store, version)


def files_since(store: ReadStore, version: int) -> bool:
    """True if any commit after ``version`` added a file, also one that only rearranged rows: its files have the columns of then."""
    return any(commit.has_files for commit in commits(store, version))


def nulls_since(store: ReadStore, head: Head, path: str, since: int) -> bool | None:
    """Did a NULL come into the column at ``path`` (as the head calls it) with the files added after ``since``?

    False only if every file that is still there says so in its statistics; None if one does not say. Files removed again do not count.
    """
    files = _files_added(store, since)
    if not files:
        return False
    physical = physical_path(head.schema, path)
    if physical is None:
        return None
    counts = [_null_count(file, physical) for file in files]
    if any(count is not None and count > 0 for count in counts):
        return True
    return None if any(count is None for count in counts) else False


def last_metadata_version(store: ReadStore, since: int, upto: int | None = None) -> int | None:
    """The newest commit after ``since`` that changed metaData or protocol, or None."""
    return max((commit.version for commit in commits(store, since, upto) if commit.metadata or commit.protocol), default=None)


def first_metadata_version(store: ReadStore, since: int, upto: int | None = None) -> int | None:
    """The oldest commit after ``since`` that changed metaData or protocol, or None. Raises LogTruncated."""
    return next((commit.version for commit in commits(store, since, upto) if commit.metadata or commit.protocol), None)


def _files_added(store: ReadStore, since: int) -> list[RawAction]:
    active: dict[tuple[str, str], RawAction] = {}
    for commit in commits(store, since):
        for removed in commit.removes:
            active.pop(_identity(removed), None)
        for added in commit.adds:
            active[_identity(added)] = added
    return list(active.values())


def _identity(file: RawAction) -> tuple[str, str]:
    """A file with another deletion vector is another file."""
    vector: Mapping[str, Any] = file.get("deletionVector") or {}
    return str(file["path"]), f"{vector.get('storageType')}/{vector.get('pathOrInlineDv')}/{vector.get('offset')}"


def _null_count(file: RawAction, physical: tuple[str, ...]) -> int | None:
    """NULLs of a column in one file: from its partition values or statistics; None if they do not tell."""
    partition = file.get("partitionValues") or {}
    if physical[0] in partition:
        return int(partition[physical[0]] in (None, ""))
    try:
        statistics = json.loads(file.get("stats") or "{}")
    except ValueError:
        return None
    if statistics.get("numRecords") == 0:
        return 0
    found: Any = statistics.get("nullCount")
    for part in physical:
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, int) else None
