"""What lies in a ``_delta_log`` folder: commits, checkpoints of all three kinds, ``.crc`` files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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
    """The log as listed, from some version on. ``checkpoints``: version -> names of the files of one complete checkpoint.

    ``tag``: of the commit at ``version`` (``ReadStore.listing``); None where that is a checkpoint alone. ``hint``: what
    ``_last_checkpoint`` says, where it was asked.
    """

    version: int
    commits: frozenset[int]
    crcs: frozenset[int]
    checkpoints: Mapping[int, tuple[str, ...]]
    tag: str | None = None
    hint: Mapping[str, Any] = field(default_factory=dict)


def list_log(store: ReadStore, upto: int | None = None) -> LogFiles:
    """List from the last checkpoint on (``_last_checkpoint`` is a hint, and may be wrong); nothing above version ``upto``, if given.

    Raises TableMissing, LogTruncated (there is no version ``upto``).
    """
    hint = last_checkpoint(store)
    if hint and (upto is None or hint["version"] <= upto):
        found = _list(store, upto, start_after=f"{hint['version']:0{_DIGITS}d}")
        if found is not None and found.checkpoints:
            return replace(found, hint=hint)
    found = _list(store, upto)
    if found is None:
        raise TableMissing(uri=store.location.uri)
    return found


def list_from(store: ReadStore, version: int) -> LogFiles:
    """List the log's files from ``version`` on, for a caller who has seen all before it.

    This takes one listing, which looks for no checkpoint. Raises TableMissing; LogTruncated if the log ends before ``version``.
    """
    found = _list(store, None, start_after=f"{version:0{_DIGITS}d}")
    if found is None:
        list_log(store)
        raise LogTruncated(uri=store.location.uri, version=version)
    return found


def list_on(store: ReadStore, version: int, tag: str) -> LogFiles | None:
    """List what the log has from ``version`` on; None unless the commit of that version is the one of this ``tag`` still.

    This takes one request. A log that begins anew, and one whose commit was replaced, are another table's.
    """
    listing = store.listing(LOG, start_after=f"{version:0{_DIGITS}d}")
    return _sort(listing) if listing.get(f"{version:0{_DIGITS}d}{_COMMIT}") == tag else None


def _list(store: ReadStore, upto: int | None, start_after: str | None = None) -> LogFiles | None:
    listing = store.listing(LOG, start_after=start_after)
    if upto is None or not listing:
        return _sort(listing)
    found = _sort({name: tag for name, tag in listing.items() if name[:_DIGITS] <= f"{upto:0{_DIGITS}d}"})
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


def checkpoint_key(version: int) -> str:
    """Return the key of a classic checkpoint."""
    return f"{LOG}/{version:0{_DIGITS}d}{_CLASSIC}"


def crc_key(version: int) -> str:
    return f"{LOG}/{version:0{_DIGITS}d}{_CRC}"


def read_commit(store: ReadStore, version: int) -> LogCommit:
    """Read the commit at ``version``. Raises LogTruncated if there is none."""
    try:
        return LogCommit(version, store.get(commit_key(version)), store.location.uri)
    except ObjectMissing:
        raise LogTruncated(uri=store.location.uri, version=version) from None


def last_checkpoint(store: ReadStore) -> Mapping[str, Any]:
    """Return what ``_last_checkpoint`` says, its ``version`` at least; empty where there is no checkpoint, or the object cannot be read."""
    try:
        found = json.loads(store.get(f"{LOG}/_last_checkpoint"))
        return {**found, "version": int(found["version"])}
    except (ObjectMissing, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return {}


def _sort(listing: Mapping[str, str]) -> LogFiles | None:
    """Sort the names of a log's files by kind and version; None if there is no commit and no complete checkpoint among them."""
    commits, crcs = set(), set()
    checkpoints: dict[int, tuple[str, ...]] = {}
    parts: dict[tuple[int, int], list[str]] = {}
    for name in listing:
        digits, suffix = name[:_DIGITS], name[_DIGITS:]
        if not (digits.isascii() and digits.isdigit()) or len(digits) < _DIGITS:
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
    version = max(commits | checkpoints.keys())
    tag = listing.get(f"{version:0{_DIGITS}d}{_COMMIT}")
    return LogFiles(version, frozenset(commits), frozenset(crcs), checkpoints, tag)
