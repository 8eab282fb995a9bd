"""What lies in a ``_delta_log`` folder: commits, checkpoints of all three kinds, ``.crc`` files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_provider_schemamig.core.delta.actions import LogCommit
from airflow_provider_schemamig.core.delta.errors import LogTruncated, TableMissing
from airflow_provider_schemamig.core.storage import ObjectMissing, ReadStore

LOG = "_delta_log"
_DIGITS = 20
_COMMIT, _CRC, _CLASSIC = ".json", ".crc", ".checkpoint.parquet"
_PART = re.compile(r"\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_V2 = re.compile(r"\.checkpoint\.[0-9a-fA-F-]{36}\.(json|parquet)")


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The log as listed, from some version on. ``checkpoints``: version -> names of the files of one complete checkpoint."""

    version: int
    commits: frozenset[int]
    crcs: frozenset[int]
    checkpoints: Mapping[int, tuple[str, ...]]


def list_log(store: ReadStore, upto: int | None = None) -> LogFiles:
    """List from the last checkpoint on (``_last_checkpoint`` is a hint, and may be wrong); nothing above version ``upto``, if given.

    Raises TableMissing, LogTruncated (there is no version ``upto``).
    """
    hint = _last_checkpoint(store)
    if hint is not None and (upto is None or hint <= upto):
        found = _list(store, upto, start_after=f"{hint:0{_DIGITS}d}")
        if found is not None and found.checkpoints:
            return found
    found = _list(store, upto)
    if found is None:
        raise TableMissing(uri=store.location.uri)
    return found


def list_from(store: ReadStore, version: int) -> LogFiles:
    """List what the log has from ``version`` on, for a caller who has seen all before it.

    This takes one listing, which looks for no checkpoint. Raises TableMissing; LogTruncated if the log ends before ``version``.
    """
    found = _list(store, None, start_after=f"{version:0{_DIGITS}d}")
    if found is None:
        list_log(store)
        raise LogTruncated(uri=store.location.uri, version=version)
    return found


def _list(store: ReadStore, upto: int | None, start_after: str | None = None) -> LogFiles | None:
    names = store.names(LOG, start_after=start_after)
    if upto is None or not names:
        return _sort(names)
    found = _sort(name for name in names if name[:_DIGITS] <= f"{upto:0{_DIGITS}d}")
    if found is None or found.version < upto:
        raise LogTruncated(uri=store.location.uri, version=upto)
    return found


def table_exists(store: ReadStore) -> bool:
    """Return whether there is a Delta table at the store's location."""
    try:
        list_log(store)
    except TableMissing:
        return False
    return True


def commit_key(version: int) -> str:
    return f"{LOG}/{version:0{_DIGITS}d}{_COMMIT}"


def crc_key(version: int) -> str:
    return f"{LOG}/{version:0{_DIGITS}d}{_CRC}"


def read_commit(store: ReadStore, version: int) -> LogCommit:
    """Read the commit at ``version``. Raises LogTruncated if there is none."""
    try:
        return LogCommit(version, store.get(commit_key(version)), store.location.uri)
    except ObjectMissing:
        raise LogTruncated(uri=store.location.uri, version=version) from None


def _last_checkpoint(store: ReadStore) -> int | None:
    try:
        return int(json.loads(store.get(f"{LOG}/_last_checkpoint"))["version"])
    except (ObjectMissing, ValueError, KeyError, TypeError):
        return None


def _sort(names: Iterable[str]) -> LogFiles | None:
    """Sort the names of a log's files by kind and version; None if there is no commit and no complete checkpoint among them."""
    commits, crcs = set(), set()
    checkpoints: dict[int, tuple[str, ...]] = {}
    parts: dict[tuple[int, int], list[str]] = {}
    for name in names:
        digits, suffix = name[:_DIGITS], name[_DIGITS:]
        if not digits.isdigit() or len(digits) < _DIGITS:
            continue
        version = int(digits)
        if suffix == _COMMIT:
            commits.add(version)
        elif suffix == _CRC:
            crcs.add(version)
        elif suffix == _CLASSIC or _V2.fullmatch(suffix):
            checkpoints[version] = (name,)
        elif (part := _PART.fullmatch(suffix)) is not None:
            parts.setdefault((version, int(part[2])), []).append(name)
    for (version, count), found in parts.items():
        if len(found) == count:
            checkpoints.setdefault(version, tuple(found))
    if not commits and not checkpoints:
        return None
    return LogFiles(max(commits | checkpoints.keys()), frozenset(commits), frozenset(crcs), checkpoints)
