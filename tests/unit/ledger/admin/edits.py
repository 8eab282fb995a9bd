"""An edit that most tests make: a pause of the work on one collection, two days after everything else."""

from __future__ import annotations

import pendulum

from airflow_provider_schemamig.core.ledger.admin.edit import Edited, RowEdit, edit_row
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter
from tests.unit.ledger.samples import NOW

LATER = NOW.add(days=2)
PAUSED = '{"paused":true,"scope":"flights"}'
PAUSE = RowEdit("pauses", "flights", PAUSED)


def edit(writer: LedgerWriter, wanted: RowEdit, now: pendulum.DateTime = LATER) -> Edited:
    return edit_row(writer.env, wanted, "ann", now)


def stored(writer: LedgerWriter, collection: str, key: str) -> str | None:
    return LedgerReader(writer.env).state().stored(collection, key)
