"""The notes of a plan on an added column that the table has already, hidden since a rollback or longer: which rows keep what they have,
and which get the DEFAULT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.online.backfill import due_files
from airflow_provider_schemamig.core.online.errors import BackfillLogGone
from airflow_provider_schemamig.core.online.unfilled import Fill, Past
from airflow_provider_schemamig.core.release.merge.chain import Evolve
from airflow_provider_schemamig.core.schema.changes import AddColumn
from airflow_provider_schemamig.core.schema.diff.renames import shown_as
from airflow_provider_schemamig.core.schema.model import Declaration, Field, walk
from airflow_provider_schemamig.core.schema.paths import translate
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.plan.columns.uses import past_of
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import kept_fields, physical_after
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.plan.planner import Planned, View
from airflow_provider_schemamig.core.upgrade.plan.stages import Online
from airflow_provider_schemamig.core.upgrade.plan.unreleased import declared_now, renames_left


def with_notes_on_columns(env: EnvironmentRoot, view: View, planned: Planned) -> Planned:
    """Return the plan with its notes on such columns."""
    notes = (*_shown_again(view, planned), *_filled_again(env, view, planned))
    return planned.noted(*notes)


def _shown_again(view: View, planned: Planned) -> Iterator[str]:
    """Note each hidden column that a release has again as it is. That takes no change of the table at all."""
    if view.state is None:
        return
    for step in planned.plan.target.steps:
        if not isinstance(step, Evolve) or step.old.name not in view.state.objects:
            continue
        now = declared_now(view.state, step)
        physical = physical_after(view.state, step.old.name, planned.plan.ends)
        if physical.fields == now.fields:
            continue
        renames = renames_left(view.state, step)
        declared = _paths(now, renames)
        hidden = {shown_as(path): path for path in _paths(physical, renames) - declared}
        for path, field in walk(step.new.fields):
            if path in hidden and path not in declared and field.default is None:
                # the ledger keeps the uses of whole columns
                shown = replace(field, name=hidden[path])
                since = " from before" if "." in path else _since(past_of(view.state, step.old.name, shown))
                yield f"{step.collection}: the column {path} is on the table, hidden{since}. Rows that have a value in it show that value."


def _paths(declaration: Declaration, renames: Mapping[ColumnPath, str]) -> set[ColumnPath]:
    return {translate(path, renames) for path, _ in walk(declaration.fields)}


def _since(past: Past) -> str:
    return " since an upgrade was rolled back" if past.uses else ", and no release that the ledger knows had it"


def _filled_again(env: EnvironmentRoot, view: View, planned: Planned) -> Iterator[str]:
    for stage in planned.plan.of_kind(Online):
        head = view.heads.get(stage.source)
        if head is None or view.state is None:
            continue
        going = kept_fields(view.state, stage.source, [hold for hold in planned.pending if hold.generation in planned.plan.ends])
        there = {field["name"] for field in head.schema["fields"]} - going.keys()
        for change in stage.changes:
            if isinstance(change, AddColumn) and change.path in there:
                yield f"{stage.collection}: {' '.join(_note(env, view.state, stage.source, head, change.field))}"


def _note(env: EnvironmentRoot, state: State, collection: CollectionName, head: Head, column: Field) -> Iterator[str]:
    default = f"DEFAULT {column.default}"
    past = past_of(state, collection, column)
    is_cut_off = bool(state.intents_of(state.objects[collection].shard))
    yield f"the column {column.name} is on the table, hidden{' since an upgrade that was cut off' if is_cut_off else _since(past)}."
    yield "Rows that were written with it keep their value,"
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
        why = "rows from then and from later are in one file, others changed rows that a cancelled upgrade had filled, "
        why += "or the table's log was cleaned up since"
        yield f"Of {untold} file(s) it is not known ({why}): there every NULL becomes {default}, all other values stay."
