"""How far work on the rows of a table is, when it will be through, what holds it back and since when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pendulum

from airflow_provider_schemamig.core.delta.errors import LogTruncated, TableMissing
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.ledger.history import HistoryEntry
from airflow_provider_schemamig.core.ledger.rows import Control, Deployment, DeploymentState, Progress
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.throttle import EVERYWHERE, control_of, why_not
from airflow_provider_schemamig.core.upgrade.context.controls import hours_of
from airflow_provider_schemamig.core.upgrade.element_status import progress_json
from airflow_provider_schemamig.core.upgrade.errors import NotBuilt
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.stages import Copy
from airflow_provider_schemamig.core.upgrade.prepare.transfers import COPY, copied_version

#: Of a longer backlog the rest is not counted: each commit is a request to the store.
_MOST_COMMITS = 200


@dataclass(frozen=True, slots=True)
class Backlog:
    """The commits and rows at the source of a copy since the copied version. ``rows`` None: a file does not say how many it has."""

    commits: int
    rows: int | None


def pace_json(
    env: EnvironmentRoot, state: State, deployment: Deployment, plan: Plan, history: Sequence[HistoryEntry], row: Progress
) -> dict[str, Any]:
    """Return the progress of one table, its backlog, the seconds for both, and what holds it back."""
    found = progress_json(row)
    backlog = _backlog(env, state, deployment, plan, row) if deployment.state is DeploymentState.CLAIMED else None
    rate, eta = found["rows_per_second"], found["eta_seconds"]
    if backlog is not None and backlog.rows and rate and eta is not None:
        eta += round(backlog.rows / rate)
    return {
        **found,
        "eta_seconds": eta,
        "backlog_commits": None if backlog is None else backlog.commits,
        "backlog_rows": None if backlog is None else backlog.rows,
        "throttled": _throttled(state, history, row.collection),
        "blocked_by": why_not(state, row.collection, pendulum.now("UTC")),
    }


def _backlog(env: EnvironmentRoot, state: State, deployment: Deployment, plan: Plan, row: Progress) -> Backlog | None:
    stage = next((stage for stage in plan.of_kind(Copy) if stage.collection == row.collection), None)
    if stage is None or row.stage != COPY or stage.source not in state.objects:
        return None
    store = table_store(env, state, state.objects[stage.source].shard)
    count, rows = 0, 0
    known = True
    try:
        for commit in commits(store, copied_version(state, deployment, stage)):
            if not commit.changes_rows or commit.about is not None:
                continue
            count += 1
            row_count = (commit.info.get("operationMetrics") or {}).get("numOutputRows")
            known = known and row_count is not None
            rows += int(row_count or 0)
            if count == _MOST_COMMITS:
                break
    except (LogTruncated, TableMissing, NotBuilt):
        return None
    return Backlog(count, rows if known else None)


def authored(controls: Sequence[Mapping[str, Any]], history: Iterable[HistoryEntry]) -> list[dict[str, Any]]:
    """Return documents of controls with ``by`` and ``since``: of a pause from the ledger, of limits and a force from the history."""
    entries = list(history)
    return [{**control, **_author(control, entries)} for control in controls]


def _author(control: Mapping[str, Any], history: Sequence[HistoryEntry]) -> dict[str, Any]:
    if control["paused"]:
        return {"by": control["paused_by"], "since": control["paused_at"]}
    verb = "force" if control["last_step"] else "throttle"
    last = next((entry for entry in reversed(history) if (entry.what, entry.collection) == (verb, control["collection"])), None)
    return {"by": None if last is None else last.who, "since": None if last is None else last.started_at.isoformat()}


def _throttled(state: State, history: Sequence[HistoryEntry], collection: CollectionName) -> dict[str, Any] | None:
    """Return the limits in force, since when, and who set them as the audit log tells; None without limits."""
    limits = control_of(state, collection)
    parts = {
        "rows_per_second": limits.rows_per_second,
        "max_files": limits.max_files,
        "commits_per_minute": limits.commits_per_minute,
        "window": hours_of(limits.window),
    }
    if not any(parts.values()):
        return None
    scopes = {collection} | ({None} if _limits(state.controls.get(EVERYWHERE)) else set())
    told = [entry for entry in history if entry.what == "throttle" and entry.collection in scopes]
    last = told[-1] if told else None
    return {**parts, "since": None if last is None else last.started_at.isoformat(), "by": None if last is None else last.who}


def _limits(control: Control | None) -> bool:
    return control is not None and any((control.rows_per_second, control.max_files, control.commits_per_minute, control.window))
