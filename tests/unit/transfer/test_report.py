"""Progress: to whoever listens at once, to the ledger at most every 30 s and at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from airflow_provider_schemamig.core.ledger.errors import LedgerConflict
from airflow_provider_schemamig.core.ledger.rows import Progress
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.transfer.progress import Reporter, remaining_seconds
from airflow_provider_schemamig.exceptions import SchemamigError


class Ledger:
    """Remembers what is put; ``error`` is what it answers instead."""

    def __init__(self) -> None:
        self.rows: list[Progress] = []
        self.error: SchemamigError | None = None

    def transact(self, decide: Callable[[Any], Sequence[Update]]) -> None:
        if self.error is not None:
            raise self.error
        self.rows += [update.row for update in decide(None) if isinstance(update, Put)]


class Watch:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.seconds)
        self.ledger, self.heard = Ledger(), list[Event]()
        self.report = Reporter(
            cast(LedgerWriter, self.ledger), self.heard.append, CollectionName("t"), Generation(2), "copy", "files", _began=self.seconds
        )

    def at(self, seconds: float, done: int, total: int = 100, rows: int = 0) -> None:
        self.seconds = 1000.0 + seconds
        self.report(done, total, rows)


def test_at_most_every_half_minute_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    for seconds in range(0, 100, 10):
        watch.at(seconds, seconds // 10, rows=seconds)
    watch.at(95, 100, rows=1000)
    assert [row.done for row in watch.ledger.rows] == [0, 3, 6, 9, 100]
    assert len(watch.heard) == 11, "whoever listens hears all of it"
    last = watch.ledger.rows[-1]
    assert (last.collection, last.generation, last.stage, last.unit, last.total, last.rows) == ("t", 2, "copy", "files", 100, 1000)
    assert last.started_at <= last.updated_at


def test_progress_report_what_was_done_before_is_no_part_of_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    watch.at(0, 60, rows=6000)
    watch.at(10, 80, rows=8000)
    assert "10 s left" in watch.heard[-1].note
    assert "left" not in watch.heard[0].note
    watch.at(20, 100, rows=10_000)
    assert "left" not in watch.heard[-1].note
    assert watch.heard[-1].note.startswith("100 of 100 files, 10,000 rows")


def test_a_busy_ledger_does_not_end_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    watch.ledger.error = LedgerConflict(expected=1, tries=9)
    watch.at(0, 0)
    watch.ledger.error = None
    watch.at(10, 1)
    watch.at(40, 2)
    assert [row.done for row in watch.ledger.rows] == [2]


@pytest.mark.parametrize(
    ("done", "left", "seconds", "expected"), [(10, 90, 1.0, 9.0), (0, 90, 5.0, None), (10, 0, 5.0, None), (1, 1, 0.0, 0.0)]
)
def test_report_remaining_seconds(done: int, left: int, seconds: float, expected: float | None) -> None:
    assert remaining_seconds(done, left, seconds) == expected
