"""A table's history since a version: its commits, and what they brought (for settling, drift and inverses)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from airflow_provider_schemamig.core.delta.actions import FileId, LogCommit, RawAction, file_id
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.log.listing import list_log, read_commit
from airflow_provider_schemamig.core.delta.names import physical_path
from airflow_provider_schemamig.core.storage import ReadStore


def commits(store: ReadStore, after: int, upto: int | None = None) -> Iterator[LogCommit]:
    """Yield the commits ``after + 1`` .. ``upto`` (None: the newest), oldest first.

    Raises LogTruncated if one of them is gone, TableMissing.
    """
    last = list_log(store).version if upto is None else upto
    for version in range(after + 1, last + 1):
        yield read_commit(store, version)


def newest_of_ours(store: ReadStore, is_wanted: Callable[[Mapping[str, Any]], bool]) -> tuple[int, Mapping[str, Any]] | None:
    """Return the version of our newest wanted commit, and what it says of itself; None if there is none.

    Raises LogTruncated if the log was cleaned up that far.
    """
    for version in range(list_log(store).version, 0, -1):
        about = read_commit(store, version).about
        if about is not None and is_wanted(about):
            return version, about
    return None


def files_since(store: ReadStore, version: int) -> bool:
    """Return whether any commit after ``version`` added a file.

    Such a file has the columns of its time. A commit that only rearranged rows counts, too, and a RESTORE: files of the table may have a
    column that it brought back.
    """
    return any(commit.has_files or commit.restores for commit in commits(store, version))


def may_have_files_since(store: ReadStore, version: int) -> bool:
    """Return what ``files_since`` does; True where the log was cleaned up since then, and nobody can tell."""
    try:
        return files_since(store, version)
    except LogTruncated:
        return True


def rows_changed_since(store: ReadStore, version: int) -> bool:
    """Return whether any commit after ``version`` added or took away rows. Raises as ``commits`` does."""
    return any(commit.changes_rows for commit in commits(store, version))


def is_as_at(store: ReadStore, version: int, newest: int) -> bool:
    """Return whether the table has at ``newest`` the rows and columns of ``version``: OPTIMIZE alone came since. Raises as ``commits``
    does."""
    since = commits(store, version, newest)
    return not any(commit.changes_rows or commit.restores or commit.changes_table for commit in since)


def nulls_since(store: ReadStore, head: Head, path: str, since: int) -> bool | None:
    """Return whether a NULL came into the column at ``path`` (as the head calls it) with the files added after ``since``.

    False only if every such file that is there at the head says so in its statistics; None if one does not say. Files removed again do not
    count.
    """
    files = _files_added(store, since, head.version)
    if not files:
        return False
    physical = physical_path(head.schema, path)
    if physical is None:
        return None
    counts = [null_count(file, physical) for file in files]
    if any(count is not None and count > 0 for count in counts):
        return True
    return None if any(count is None for count in counts) else False


def values_in(files: Iterable[RawAction], head: Head, path: str) -> tuple[Decimal, Decimal] | None:
    """Return the least and the greatest number in the column at ``path`` (as the head calls it) of ``files``.

    (0, 0) if they hold none; None if a file does not tell. Only for columns of integers and decimals.
    """
    physical = physical_path(head.schema, path)
    if physical is None:
        return None
    bounds = [_bounds(file, physical) for file in files]
    if any(bound is None for bound in bounds):
        return None
    numbers = [number for bound in bounds if bound is not None for number in bound]
    return min(numbers, default=Decimal(0)), max(numbers, default=Decimal(0))


def last_metadata_version(store: ReadStore, since: int, upto: int | None = None) -> int | None:
    """Return the newest commit after ``since`` that changed metaData, protocol or clustering, or None."""
    return max((commit.version for commit in commits(store, since, upto) if commit.changes_table), default=None)


def first_metadata_version(store: ReadStore, since: int, upto: int | None = None) -> int | None:
    """Return the oldest commit after ``since`` that changed metaData, protocol or clustering, or None. Raises LogTruncated."""
    return next((commit.version for commit in commits(store, since, upto) if commit.changes_table), None)


def unproven_since(store: ReadStore, since: int, upto: int, proven: Callable[[LogCommit], bool]) -> list[RawAction]:
    """Return the files at version ``upto`` that came after ``since`` and hold rows of unproven commits.

    A commit that only rearranges rows, or marks some as deleted, brings none; a proven one brings its own, besides those of files that it
    replaces. Rows from ``since`` or before count as proven.
    """
    active: dict[FileId, RawAction] = {}
    for commit in commits(store, since, upto):
        unproven = [gone for removed in commit.removes if (gone := active.pop(file_id(removed), None)) is not None]
        paths = {file["path"] for file in unproven}
        kept = {removed["path"] for removed in commit.removes}
        brings = not proven(commit)
        for added in commit.adds:
            if added["path"] in kept:  # the same file, with other rows marked as deleted
                doubtful = added["path"] in paths
            elif added.get("dataChange") is False or not brings:
                doubtful = bool(unproven)
            else:
                doubtful = True
            if doubtful:
                active[file_id(added)] = added
    return list(active.values())


def _files_added(store: ReadStore, since: int, upto: int) -> list[RawAction]:
    active: dict[FileId, RawAction] = {}
    for commit in commits(store, since, upto):
        for removed in commit.removes:
            active.pop(file_id(removed), None)
        for added in commit.adds:
            active[file_id(added)] = added
    return list(active.values())


def _bounds(file: RawAction, physical: tuple[str, ...]) -> tuple[Decimal, ...] | None:
    """Return numbers that all of a column's values in one file lie between; none if all are NULL; None if the file does not tell."""
    partition = file.get("partitionValues") or {}
    if physical[0] in partition:
        value = partition[physical[0]]
        return () if value in (None, "") else (Decimal(value),)
    statistics = _statistics(file)
    count = statistics.get("numRecords")
    if count == 0 or (count is not None and _at(statistics.get("nullCount"), physical) == count):
        return ()
    found = (_at(statistics.get("minValues"), physical), _at(statistics.get("maxValues"), physical))
    numbers = tuple(Decimal(number) for number in found if isinstance(number, int | Decimal) and not isinstance(number, bool))
    return numbers if len(numbers) == len(found) else None


def is_all_null(file: RawAction, physical: tuple[str, ...]) -> bool:
    """Return whether the statistics of a file say that a column has no value in it."""
    statistics = _statistics(file)
    count = statistics.get("numRecords")
    return count is not None and (count == 0 or _at(statistics.get("nullCount"), physical) == count)


def limits_text(file: RawAction, physical: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the least and the greatest value, in a file's statistics, of a column that is no number; None if they do not tell."""
    statistics = _statistics(file)
    least, most = _at(statistics.get("minValues"), physical), _at(statistics.get("maxValues"), physical)
    return (least, most) if isinstance(least, str) and isinstance(most, str) else None


def null_count(file: RawAction, physical: tuple[str, ...]) -> int | None:
    """Count the NULLs of a column in one file, by its partition values or statistics; None if they do not tell."""
    partition = file.get("partitionValues") or {}
    if physical[0] in partition:
        return int(partition[physical[0]] in (None, ""))
    statistics = _statistics(file)
    if statistics.get("numRecords") == 0:
        return 0
    found = _at(statistics.get("nullCount"), physical)
    return found if isinstance(found, int) else None


def _statistics(file: RawAction) -> Mapping[str, Any]:
    try:
        found = json.loads(file.get("stats") or "{}", parse_float=Decimal)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _at(statistics: Any, physical: tuple[str, ...]) -> Any:
    for part in physical:
        statistics = statistics.get(part) if isinstance(statistics, dict) else None
    return statistics
