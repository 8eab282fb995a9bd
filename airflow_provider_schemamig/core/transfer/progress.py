"""Progress of work on rows: to whoever listens at once, to the ledger at most every 30 s."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pendulum

from airflow_provider_schemamig.core.ledger.rows import Progress
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.progress import Event, Listener
from airflow_provider_schemamig.exceptions import Conflict

WRITE_SECONDS = 30.0


@dataclass
class Reporter:
    """Of one collection's stage (``copy``, ``tail``); ``unit`` names what ``done`` and ``total`` count."""

    ledger: LedgerWriter
    listen: Listener
    collection: CollectionName
    generation: Generation
    stage: str
    unit: str
    _began: float = field(default_factory=time.monotonic)
    _began_at: pendulum.DateTime = field(default_factory=lambda: pendulum.now("UTC"))
    _written: float = 0.0
    _first: tuple[int, int] | None = None

    def __call__(self, done: int, total: int, rows: int) -> None:
        seconds = time.monotonic() - self._began
        self._first = self._first or (done, rows)
        done_before, rows_before = self._first
        left = remaining_seconds(done - done_before, total - done, seconds)
        note = f"{done:,} of {total:,} {self.unit}, {rows:,} rows"
        rate = (rows - rows_before) / seconds if rows > rows_before else 0.0
        note += f" at {rate:,.0f} a second" if rate else ""
        note += f", {left:.0f} s left" if left is not None else ""
        measures = {"done": done, "total": total, "rows": rows, "rows_per_second": rate}
        self.listen(Event(self.stage, self.collection, done, total, seconds, note, measures=measures))
        if time.monotonic() - self._written < WRITE_SECONDS and done < total:
            return
        self._written = time.monotonic()
        now = pendulum.now("UTC")
        row = Progress(
            self.collection, self.generation, self.stage, self.unit, done, total, rows, self._began_at, now, done_before, rows_before
        )
        put_progress(self.ledger, self.listen, row)


def put_progress(ledger: LedgerWriter, listen: Listener, row: Progress) -> None:
    """Report progress. The work goes on if others write first: the next report tells more than this one would have."""
    try:
        ledger.transact(lambda state: [Put(row)])
    except Conflict as conflict:
        listen(Event(row.stage, row.collection, row.done, row.total, note=conflict.message))


def remaining_seconds(done: int, left: int, seconds: float) -> float | None:
    """Estimate seconds at the rate so far; None before anything was done."""
    return left * seconds / done if done > 0 and left > 0 else None
