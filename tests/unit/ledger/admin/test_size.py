"""What is stored, of what, since when, and what compaction takes away."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core.ledger.admin.maintenance import compact
from airflow_provider_schemamig.core.ledger.admin.size import CollectionSize, LedgerCompaction, size
from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.rows import EnvironmentRelease
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put
from airflow_provider_schemamig.core.names import Fingerprint, Version
from tests.support.bytes import tree
from tests.unit.ledger.samples import append_raw, counter, sound_environment


@pytest.fixture
def grown(tmp_path: Path) -> LedgerWriter:
    """Release 1.0.0 at version 1, two updates, release 1.1.0 at version 3, two updates."""
    writer = sound_environment(tmp_path / "lake", "flights")
    for version in ((1, 1, 0), None):
        writer.transact(lambda state: [Put(counter(state.version))])
        release = EnvironmentRelease("lake", Version(*version), Fingerprint("sf1:0")) if version else counter(0)
        writer.transact(lambda state, release=release: [Put(release)])  # type: ignore[misc]
    return writer


def test_size_by_collection(grown: LedgerWriter, tmp_path: Path) -> None:
    before = tree(tmp_path)
    found = size(LedgerReader(grown.env))
    assert tree(tmp_path) == before
    rows = [row for row in grown.rows() if row.collection == "objects"]
    live = grown.state().raw["objects"].items()
    assert CollectionSize("objects", len(rows), 2, text_bytes(rows), sum(len(key) + len(value) for key, value in live)) in found.collections
    assert found.rows == len(grown.rows()) == sum(item.rows for item in found.collections)
    assert found.live_rows == sum(len(texts) for texts in grown.state().raw.values()) == sum(item.live_rows for item in found.collections)
    assert (found.version, found.since, found.data_files, found.log_files) == (5, 0, 6, 6)
    assert found.text_bytes == text_bytes(grown.rows())


def text_bytes(rows: list[RawRow] | tuple[RawRow, ...]) -> int:
    return sum(len((row.key + row.value).encode()) for row in rows)


def test_growth_from_release_to_release(grown: LedgerWriter) -> None:
    found = size(LedgerReader(grown.env)).growth
    assert [(part.until, part.release, part.rows) for part in found] == [(1, "1.0.0", 7), (3, "1.1.0", 3), (5, None, 4)]
    assert sum(part.text_bytes for part in found) == text_bytes(grown.rows())
    compact(grown, since=2)
    assert [(part.until, part.release, part.rows) for part in size(LedgerReader(grown.env)).growth] == [
        (2, None, 8),
        (3, "1.1.0", 2),
        (6, None, 5),
    ]


def test_size_what_compaction_takes_away_is_what_it_took(grown: LedgerWriter) -> None:
    before = size(LedgerReader(grown.env))
    assert before.compaction == LedgerCompaction(before.rows - before.live_rows, before.compaction.text_bytes, 5)
    compact(grown)
    after = size(LedgerReader(grown.env))
    since = next(len((row.key + row.value).encode()) for row in grown.rows() if row.key == '"since"')
    assert after.rows == before.rows - before.compaction.rows + 1, "and the row that says since when"
    assert after.text_bytes == before.text_bytes - before.compaction.text_bytes + since
    assert after.data_files == before.data_files - before.compaction.data_files
    assert after.compaction == LedgerCompaction(0, 0, 0)


def test_of_damaged_rows(grown: LedgerWriter) -> None:
    sound = size(LedgerReader(grown.env))
    bad = [RawRow("holds", '"1"', "{", 6, 1), RawRow("objects", "", "", 6, -1), RawRow("x", "", "", 99, 1), RawRow("x", "", "", -5, 1)]
    append_raw(grown.env, *bad)
    found = size(LedgerReader(grown.env))
    assert (found.rows, found.version) == (sound.rows + 4, 6)
