"""Keeping the ledger small and fast, and looking at it as a whole.

Without care it gets slow long before it gets big: every append is a file. ``maintain`` is called by cleanup; it writes what is there once
more as one file every 100 versions, with a Delta checkpoint, and forgets the history every 1,000. In an object store each file is a
request of whoever opens the ledger next, so there ``keep_short`` does it after every task that made more than a few.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from airflow_provider_schemamig.core.ledger.codec import RawRow, collection_of, encode
from airflow_provider_schemamig.core.ledger.errors import LedgerCompacted, LedgerVersionUnknown, UnknownLedgerCollection
from airflow_provider_schemamig.core.ledger.fold import sums
from airflow_provider_schemamig.core.ledger.history import tidy_history
from airflow_provider_schemamig.core.ledger.leadership import Leadership
from airflow_provider_schemamig.core.ledger.rows import ROW_TYPES, LedgerSince
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter
from airflow_provider_schemamig.exceptions import SchemamigError

CHECKPOINT_EVERY = 100
#: In an object store, where each file costs a request: an upgrade makes about as many versions, so it leaves a ledger that opens with four.
CHECKPOINT_REMOTE_EVERY = 5
CONSOLIDATE_EVERY = 1_000


def keep_short(writer: LedgerWriter, authority: Leadership | None = None, *, at_end: bool = False) -> None:
    """Run ``maintain`` on a ledger in an object store if it takes many requests to open. Nothing is raised if it cannot be done.

    ``at_end``: no task comes after this one, so the ledger is to open with four requests whatever was appended. Makes no request where
    nothing is due.
    """
    every = 2 if at_end else CHECKPOINT_REMOTE_EVERY
    if writer.env.location.local_path is None and len(writer.table.files()) >= every:
        with contextlib.suppress(SchemamigError):
            maintain(writer, authority, every)


def maintain(writer: LedgerWriter, authority: Leadership | None = None, every: int | None = None) -> tuple[str, ...]:
    """Do what is due, and say it in words (nothing due: empty). Raises as appends do; leaving it undone harms nobody.

    ``every``: after how many versions rows become one file and a checkpoint is made.
    """
    done = []
    state = writer.state()
    table = writer.table
    if every is None:
        every = CHECKPOINT_EVERY if writer.env.location.local_path is not None else CHECKPOINT_REMOTE_EVERY
    if state.version - state.since >= CONSOLIDATE_EVERY:
        state = compact(writer, authority=authority)
        done.append(f"consolidated the ledger; its history begins at version {state.since}")
    elif len(table.files()) >= every:
        state = writer.rewrite(state, writer.rows(), authority)
        done.append(f"wrote the ledger's rows as one file at version {state.version}")
    if state.version - table.last_checkpoint() >= every:
        table.checkpoint()
        done.append(f"checkpointed the ledger at version {state.version}")
    tidied = tidy_history(writer.env)
    return (*done, tidied) if tidied else tuple(done)


def compact(writer: LedgerWriter, since: int | None = None, authority: Leadership | None = None) -> State:
    """Consolidate everything up to version ``since`` (default: the head), record it, checkpoint, and delete files nobody needs.

    As-of stays exact from ``since`` on and is LedgerCompacted below it. Raises LedgerConflict, Fenced, LedgerVersionUnknown.
    """
    state = writer.state()
    since = state.version if since is None else since
    if not 0 <= since <= state.version:
        raise LedgerVersionUnknown(version=since, head=state.version)
    if since < state.since:
        raise LedgerCompacted(version=since, since=state.since)
    rows = [*_consolidated(writer.rows(), since), *_since_rows(state, since)]
    state = writer.rewrite(state, rows, authority)
    writer.table.checkpoint()
    writer.table.delete_unreferenced()
    return state


def dump(reader: LedgerReader, at: int | None = None, *, collection: str | None = None, current: bool = False) -> dict[str, Any]:
    """Return the document of ``ledger dump``, with the stored texts as they are.

    Its shape is ``{"version", "rows": [{"collection", "key", "value", "ts", "diff"}]}``. It has all updates up to version ``at`` (default:
    the head), of one ledger collection or of all; with ``current`` what they sum up to, and the version each row came in at. Rows that are
    damaged or of unknown collections are in it like all others. Raises UnknownLedgerCollection; and as ``state`` does.
    """
    version = reader.state(at).version
    # At the version that the state was read at, be it consolidated by somebody meanwhile.
    stored = [row for row in reader.table.scan() if row.ts <= version]
    known = {collection_of(row_type) for row_type in ROW_TYPES} | {row.collection for row in stored}
    if collection is not None and collection not in known:
        raise UnknownLedgerCollection(name=collection, known=sorted(known))
    rows: Iterable[RawRow] = [row for row in stored if collection in (None, row.collection)]
    if current:
        rows = _summed_up(rows)
    return {"version": version, "rows": [row._asdict() for row in sorted(rows, key=lambda row: (row.ts, row[:3], row.diff))]}


def _consolidated(rows: Iterable[RawRow], since: int) -> list[RawRow]:
    """Return the updates up to ``since`` summed up, as of ``since``, and later ones as they are."""
    rows = list(rows)
    old = [RawRow(*identity, ts=since, diff=count) for identity, count in sums(row for row in rows if row.ts <= since).items()]
    return old + [row for row in rows if row.ts > since]


def _since_rows(state: State, since: int) -> list[RawRow]:
    """Return the update that records ``since``, at the version of the rewrite itself."""
    collection, key, value = encode(LedgerSince(since))
    stored = state.stored(collection, key)
    retract = [] if stored is None else [RawRow(collection, key, stored, state.version + 1, -1)]
    return [*retract, RawRow(collection, key, value, state.version + 1, 1)]


def _summed_up(rows: Iterable[RawRow]) -> list[RawRow]:
    """Return the insertions that nothing retracted, with the version they came in at."""
    rows = list(rows)
    multiplicity = sums(rows)
    newest: dict[tuple[str, str, str], int] = {}
    for row in rows:
        if row.diff > 0:
            newest[row[:3]] = max(row.ts, newest.get(row[:3], 0))
    return [RawRow(*identity, ts=newest.get(identity, 0), diff=count) for identity, count in multiplicity.items()]
