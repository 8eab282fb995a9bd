"""What a plan says of a column that it adds with a DEFAULT, and that the table has already, hidden since a rollback: which rows keep what
they have, and which get the DEFAULT."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.online.backfill import due_files
from airflow_provider_schemamig.core.online.errors import BackfillLogGone
from airflow_provider_schemamig.core.online.unfilled import Fill
from airflow_provider_schemamig.core.schema.changes import AddColumn
from airflow_provider_schemamig.core.schema.model import Field
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.plan.column_uses import past_of
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.plan.planner import Planned, View
from airflow_provider_schemamig.core.upgrade.plan.stages import Online


def with_notes_on_columns(env: EnvironmentRoot, view: View, planned: Planned) -> Planned:
    """Return the plan with its notes on such columns."""
    notes = tuple(_notes(env, view, planned))
    return replace(planned, plan=replace(planned.plan, notes=(*planned.plan.notes, *notes))) if notes else planned


def _notes(env: EnvironmentRoot, view: View, planned: Planned) -> Iterator[str]:
    for stage in planned.plan.of_kind(Online):
        head = view.heads.get(stage.source)
        if head is None or view.state is None:
            continue
        there = {field["name"] for field in head.schema["fields"]}
        for change in stage.changes:
            if isinstance(change, AddColumn) and change.path in there:
                yield f"{stage.collection}: {' '.join(_note(env, view.state, stage.source, head, change.field))}"


def _note(env: EnvironmentRoot, state: State, collection: CollectionName, head: Head, column: Field) -> Iterator[str]:
    default = f"DEFAULT {column.default}"
    yield f"the column {column.name} is on the table, hidden since an upgrade was rolled back."
    yield "Rows that were written with it keep their value,"
    past = past_of(state, collection, column)
    if past.takes_nulls:
        yield f"but for NULL, because it is NOT NULL now; all others get {default}."
    else:
        yield f"also a NULL, all others get {default}."
    store = table_store(env, state, state.objects[collection].shard)
    try:
        untold = str(due_files(store, head, Fill(column.name, default, head.version + 1, past=past)).untold)
    except (LogTruncated, BackfillLogGone):  # cleaned up right now
        untold = "some"
    if untold != "0":
        why = "rows from then and from later are in one file, others changed rows that an upgrade had filled which was given up, "
        why += "or the table's log was cleaned up since"
        yield f"Of {untold} file(s) it is not known ({why}): there every NULL becomes {default}, all other values stay."
