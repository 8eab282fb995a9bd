"""How much the ledger stores of each collection, since when, and how much compaction would take away (``ledger size``). Writes nothing.

Sizes of rows are bytes of their keys and values as text: the data files are Parquet, compressed, and say nothing of one collection.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from airflow_provider_schemamig.core.ledger.codec import RawRow, decode, encode_key
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged
from airflow_provider_schemamig.core.ledger.fold import sums
from airflow_provider_schemamig.core.ledger.rows import EnvironmentRelease
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.ledger.table import LOG

_RELEASE = (EnvironmentRelease.COLLECTION, encode_key(EnvironmentRelease.key))


@dataclass(frozen=True, slots=True)
class CollectionSize:
    """``rows``: stored updates; ``live_rows``: those that stand; ``text_bytes`` and ``live_bytes``: of their keys and values."""

    collection: str
    rows: int
    live_rows: int
    text_bytes: int
    live_bytes: int


@dataclass(frozen=True, slots=True)
class Growth:
    """The updates after the line before up to ledger version ``until``. ``release``: the one whose commit (or rollback) that version is;
    None for what was consolidated (the first line) and for what came since the last one."""

    until: int
    release: str | None
    rows: int
    text_bytes: int


@dataclass(frozen=True, slots=True)
class LedgerCompaction:
    """What ``ledger compact`` would take out of the ledger now. Its old files stay on the disk for a week, for slow readers."""

    rows: int
    text_bytes: int
    data_files: int


@dataclass(frozen=True, slots=True)
class LedgerSize:
    """``data_bytes``: of the active data files, compressed."""

    version: int
    since: int
    rows: int
    live_rows: int
    text_bytes: int
    data_files: int
    data_bytes: int
    log_files: int
    collections: tuple[CollectionSize, ...]
    growth: tuple[Growth, ...]
    compaction: LedgerCompaction

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``ledger size``."""
        return {
            **asdict(self),
            "collections": [asdict(item) for item in self.collections],
            "growth": [asdict(item) for item in self.growth],
        }


def size(reader: LedgerReader) -> LedgerSize:
    """Return how large the ledger is, also if its rows are damaged. Raises as reading does."""
    version = reader.state().version
    rows = reader.table.scan()  # at that version, as are the files
    files, data_bytes = reader.table.data_size()
    since = min(row.ts for row in rows)
    collections = _by_collection(rows)
    text_bytes, live_bytes = sum(item.text_bytes for item in collections), sum(item.live_bytes for item in collections)
    live_rows = sum(item.live_rows for item in collections)
    return LedgerSize(
        version=version,
        since=since,
        rows=len(rows),
        live_rows=live_rows,
        text_bytes=text_bytes,
        data_files=files,
        data_bytes=data_bytes,
        log_files=len(reader.env.store().names(LOG)),
        collections=collections,
        growth=_growth(rows, since, version),
        compaction=LedgerCompaction(len(rows) - live_rows, text_bytes - live_bytes, max(0, files - 1)),
    )


def _by_collection(rows: Sequence[RawRow]) -> tuple[CollectionSize, ...]:
    stored: dict[str, list[int]] = {}
    for row in rows:
        stored.setdefault(row.collection, []).append(_bytes(row.key, row.value))
    live: dict[str, list[int]] = {}
    for collection, key, value in sums(rows):
        live.setdefault(collection, []).append(_bytes(key, value))
    return tuple(
        CollectionSize(name, len(sizes), len(live.get(name, ())), sum(sizes), sum(live.get(name, ())))
        for name, sizes in sorted(stored.items())
    )


def _growth(rows: Sequence[RawRow], since: int, version: int) -> tuple[Growth, ...]:
    ends: dict[int, str | None] = {since: None} if since else {}
    for row in rows:
        if row[:2] == _RELEASE and row.diff > 0 and since < row.ts <= version:
            ends[row.ts] = _version_of(row)
    ends.setdefault(version, None)
    counted = dict.fromkeys(sorted(ends), (0, 0))
    bounds = list(counted)
    for row in rows:
        if row.ts > version:  # of a damaged ledger
            continue
        until = bounds[bisect_left(bounds, row.ts)]
        number, text_bytes = counted[until]
        counted[until] = number + 1, text_bytes + _bytes(row.key, row.value)
    return tuple(Growth(until, ends[until], *found) for until, found in counted.items())


def _version_of(row: RawRow) -> str | None:
    try:
        return str(decode(EnvironmentRelease, row.key, row.value).version)
    except LedgerDamaged:
        return None


def _bytes(*texts: str) -> int:
    return sum(len(text.encode(errors="replace")) for text in texts)
