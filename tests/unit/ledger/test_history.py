"""The audit log: append only, readable by anyone, and never a reason to fail."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core.delta.errors import LogDamaged
from airflow_provider_schemamig.core.ledger import history
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history, read_history, tidy_history
from airflow_provider_schemamig.core.storage import ObjectExists
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.unit.ledger.samples import NOW

ENTRY = HistoryEntry("dag/run", "expand", "flights", 3, NOW, 0.25, "done", "1 column")


def test_entries_come_back_in_order_of_time(env: EnvironmentRoot) -> None:
    assert read_history(env) == ()
    later = replace(ENTRY, started_at=NOW.add(seconds=1), collection=None, generation=None, detail="")
    assert append_history(env, later) is None
    assert append_history(env, ENTRY, replace(ENTRY, what="change", started_at=NOW.add(microseconds=1))) is None
    assert read_history(env) == (ENTRY, replace(ENTRY, what="change", started_at=NOW.add(microseconds=1)), later)


def test_anyone_can_query_it(env: EnvironmentRoot) -> None:
    append_history(env, ENTRY)
    types = {field.name: str(field.type) for field in DeltaTable(env.history_uri).schema().fields}
    assert types == {
        "who": 'PrimitiveType("string")',
        "what": 'PrimitiveType("string")',
        "collection": 'PrimitiveType("string")',
        "generation": 'PrimitiveType("long")',
        "started_at": 'PrimitiveType("timestamp")',
        "seconds": 'PrimitiveType("double")',
        "outcome": 'PrimitiveType("string")',
        "detail": 'PrimitiveType("string")',
    }


def test_racing_writers_lose_nothing_not_even_at_creation(env: EnvironmentRoot) -> None:
    barrier = threading.Barrier(4)
    notes: list[str | None] = []

    def write(number: int) -> None:
        barrier.wait()
        notes.extend(append_history(env, replace(ENTRY, who=f"{number}-{turn}")) for turn in range(3))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert notes == [None] * 12
    assert sorted(entry.who for entry in read_history(env)) == [f"{number}-{turn}" for number in range(4) for turn in range(3)]


def test_tidying_keeps_every_entry(env: EnvironmentRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "TIDY_FILES", 3)
    assert tidy_history(env) is None
    entries = [replace(ENTRY, started_at=NOW.add(seconds=second)) for second in range(4)]
    for entry in entries[:2]:
        append_history(env, entry)
    assert tidy_history(env) is None
    for entry in entries[2:]:
        append_history(env, entry)
    assert tidy_history(env) == "wrote the audit log as one file"
    assert len(DeltaTable(env.history_uri).file_uris()) == 1
    assert read_history(env) == tuple(entries)
    assert append_history(env, replace(ENTRY, started_at=NOW.add(days=1))) is None
    assert len(read_history(env)) == 5


def test_a_failing_write_is_a_note_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "_schemamig").write_text("a file where the folder should be")
    note = append_history(EnvironmentRoot.open(str(tmp_path / "lake")), ENTRY)
    assert note is not None
    assert "audit log" in note
    assert "\n" not in note


def test_a_log_that_stays_damaged_is_noted_also_after_lost_races(env: EnvironmentRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = iter([ObjectExists(uri="x"), ObjectExists(uri="x")])

    def append(*_: object) -> None:
        raise next(tries, LogDamaged(uri="x", reason="commit 7: it is no JSON"))

    monkeypatch.setattr(history._HistoryTable, "append", append)
    assert "it is no JSON" in (append_history(env, ENTRY) or "")


def test_a_damaged_log_is_said_to_be_damaged(env: EnvironmentRoot) -> None:
    append_history(env, ENTRY)
    assert env.location.local_path is not None
    next((env.location.local_path / "_schemamig" / "history").glob("*.parquet")).write_bytes(b"")
    with pytest.raises(LedgerDamaged, match="audit log"):
        read_history(env)
