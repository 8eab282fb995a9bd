"""The elements of online changes as ``status`` shows them: state, what is going on, how far it is, what it committed (docs/cli.md)."""

from __future__ import annotations

from typing import Any

import pendulum

from airflow_provider_schemamig.core.ledger.rows import Element, Progress
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.online.unfilled import action_of
from airflow_provider_schemamig.core.schema.diff.renames import shadow_name
from airflow_provider_schemamig.core.schema.element_states import ElementState
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.progress import remaining_seconds
from airflow_provider_schemamig.core.transfer.throttle import postponed, why_not
from airflow_provider_schemamig.core.upgrade.tables.backfill import stage_of
from airflow_provider_schemamig.core.upgrade.tables.change_log import change_intent, made_since
from airflow_provider_schemamig.core.upgrade.tables.clustering import STAGE

#: The one element whose work on rows is no backfill.
_CLUSTERING = "clustering"
_ROW_STATES = {ElementState.VALIDATE: "validation", ElementState.REORG: "backfill"}


def elements_json(env: EnvironmentRoot, state: State) -> list[dict[str, Any]]:
    """Return all elements. Reads the logs of their tables, from where their changes began."""
    return [_element(env, state, element) for _, element in sorted(state.elements.items())]


#: Work tells how far it is after each batch; none takes so long.
SILENT_SECONDS = 600.0


def progress_json(row: Progress) -> dict[str, Any]:
    """Return how far work on the rows of a collection is; rates and times left are those of the process that does it.

    ``silent``: it is not through, and nobody has told of it for long: whoever did it is dead, or waits.
    """
    seconds = (row.updated_at - row.started_at).total_seconds()
    rows = row.rows - row.rows_before
    is_silent = (pendulum.now("UTC") - row.updated_at).total_seconds() > SILENT_SECONDS
    left = remaining_seconds(row.done - row.done_before, row.total - row.done, seconds)
    return {
        "collection": row.collection,
        "generation": row.generation,
        "stage": row.stage,
        "unit": row.unit,
        "done": row.done,
        "total": row.total,
        "rows": row.rows,
        "rows_per_second": round(rows / seconds) if rows > 0 and seconds > 0 else None,
        "eta_seconds": round(left) if left is not None else None,
        "updated_at": row.updated_at.isoformat(),
        "silent": is_silent and row.done < row.total,
    }


def _element(env: EnvironmentRoot, state: State, element: Element) -> dict[str, Any]:
    return {
        "collection": element.collection,
        "element": element.name,
        "op": element.op,
        "state": element.state.value,
        "phase": _phase(element),
        "waits": _waits(state, element),
        "generation": element.generation,
        "since": element.since.isoformat(),
        "table_version": element.table_version,
        "checked_version": element.checked_version,
        "progress": _progress(state, element) if element.state is ElementState.REORG else None,
        "commits": _commits(env, state, element),
        "error": element.error,
    }


def _phase(element: Element) -> str:
    """Return, in a word or two, the work under way on an element, or what it waits for."""
    if element.state is ElementState.ABSENT:
        return "walked back" if element.error is not None else "begins"
    if element.state is ElementState.PUBLIC:
        return "done"
    if element.checked_version is not None:
        return "last step"
    if element.state is ElementState.REORG and element.name == _CLUSTERING:
        return _CLUSTERING
    return _ROW_STATES.get(element.state, "entered")


def _waits(state: State, element: Element) -> str | None:
    if element.state in (ElementState.ABSENT, ElementState.PUBLIC):
        return None
    batch = element.checked_version is None and element.state is ElementState.REORG
    held = why_not(state, element.collection, pendulum.now("UTC") if batch else None)
    return held or (postponed(state, element.collection) if element.checked_version is not None else None)


def _filled(element: Element) -> set[str]:
    """Return the columns that its backfill may be of: its own, or their shadows."""
    return {*element.columns, *(shadow_name(path, ()) for path in element.columns)}


def _progress(state: State, element: Element) -> dict[str, Any] | None:
    stages = {STAGE} if element.name == _CLUSTERING else {stage_of(column) for column in _filled(element)}
    found = [
        row
        for row in state.progress.values()
        if row.collection == element.collection and row.generation == element.generation and row.stage in stages
    ]
    return progress_json(max(found, key=lambda row: row.updated_at)) if found else None


def _commits(env: EnvironmentRoot, state: State, element: Element) -> dict[str, Any] | None:
    """Count the commits of an element's change by kind; None if the table's log does not tell any more."""
    intent = change_intent(state, element.shard, element.generation)
    if intent is None:
        return {"metadata": 0, "batches": 0, "others": 0}
    made = made_since(env, state, intent)
    if made is None:
        return None
    actions = {STAGE} if element.name == _CLUSTERING else {action_of(column) for column in _filled(element)}
    batches = sum(made.ours.get(action, 0) for action in actions)
    return {"metadata": made.ours.get(intent.kind.value, 0), "batches": batches, "others": made.others}
