"""Ledger and audit log are plain Delta tables: delta-rs reads the rows that we wrote (Spark: tests/integration/test_own_tables.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pendulum
import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core.ledger.admin.maintenance import compact
from airflow_provider_schemamig.core.ledger.history import COLUMNS, HistoryEntry, append_history, read_history, tidy_history
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put
from tests.unit.ledger.samples import counter, elsewhere

NOON = pendulum.datetime(2026, 11, 24, 12, 0, 0, 123456)


def by_delta_rs(writer: LedgerWriter, folder: str) -> list[dict[str, object]]:
    return list(DeltaTable(f"{writer.env.location.local_path}/_schemamig/{folder}").to_pyarrow_table().to_pylist())


def rows_of(writer: LedgerWriter) -> list[dict[str, object]]:
    return sorted((row._asdict() for row in LedgerReader(elsewhere(writer.env)).rows()), key=str)


STEPS: tuple[Callable[[LedgerWriter], object], ...] = (
    lambda writer: writer.transact(lambda state: [Put(counter(state.version))]),
    lambda writer: writer.table.checkpoint(),
    lambda writer: writer.transact(lambda state: [Put(counter(state.version)), Put(counter(1, "ünï\n'\""))]),
    lambda writer: writer.rewrite(writer.state(), writer.rows()),
    compact,
    lambda writer: writer.transact(lambda state: [Put(counter(state.version))]),
)


def test_delta_rs_reads_the_ledger_after_each_kind_of_write(writer: LedgerWriter) -> None:
    for step in STEPS:
        step(writer)
        assert sorted(by_delta_rs(writer, "ledger"), key=str) == rows_of(writer)
        table = DeltaTable(f"{writer.env.location.local_path}/_schemamig/ledger")
        assert (table.version(), table.protocol().min_reader_version) == (writer.state().version, 1)


@pytest.mark.parametrize("tidied", [False, True])
def test_delta_rs_reads_the_audit_log(writer: LedgerWriter, tidied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_schemamig.core.ledger.history.TIDY_FILES", 2)
    entries = [HistoryEntry.ended(what, NOON, generation=4, detail="é") for what in ("promote", "cutover")]
    for entry in entries:
        assert append_history(writer.env, entry) is None
    if tidied:
        assert tidy_history(writer.env) == "wrote the audit log as one file"
    found = by_delta_rs(writer, "history")
    assert [tuple(row) for row in found] == [tuple(column.name for column in COLUMNS)] * 2
    assert {row["what"] for row in found} == {entry.what for entry in entries}
    assert {row["started_at"] for row in found} == {NOON}
    assert {entry.what for entry in read_history(elsewhere(writer.env))} == {"promote", "cutover"}


def test_delta_rs_lists_no_file_that_is_not_there(writer: LedgerWriter, tmp_path: Path) -> None:
    for step in STEPS:
        step(writer)
    table = DeltaTable(f"{writer.env.location.local_path}/_schemamig/ledger")
    assert all(Path(uri.removeprefix("file://")).exists() for uri in table.file_uris())
    assert table.vacuum(dry_run=True) == []
