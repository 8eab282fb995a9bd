"""One deployment as a document: what it was to do, what it did, how far it is. The page, the report and ``schemamig report`` show it.

It reads the ledger, the plan, preflight's report and the audit log, and asks the tables only of a copy or a seal that is under way.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pendulum

from airflow_provider_schemamig.core.delta.log.head import look_or_none
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, read_history
from airflow_provider_schemamig.core.ledger.objects.nodes import live_nodes
from airflow_provider_schemamig.core.ledger.rows import Deployment, DeploymentState, Hold, HoldState, Intent, IntentKind, Progress
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.release.merge.merged import Create, Evolve, MergedStep, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.schema.changes import Change, RenameColumn
from airflow_provider_schemamig.core.schema.describe import column_sql
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.model import Declaration, Field
from airflow_provider_schemamig.core.storage import ObjectMissing
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import deployment_of, plan_of
from airflow_provider_schemamig.core.upgrade.documents.history import entry_json, once_each
from airflow_provider_schemamig.core.upgrade.documents.pace import authored, pace_json
from airflow_provider_schemamig.core.upgrade.element_status import elements_json
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import needed_by
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.prepare.hold_costs import hold_cost_json
from airflow_provider_schemamig.core.upgrade.status import control_json, deployment_json, leader_json
from airflow_provider_schemamig.exceptions import SchemamigError


def deployment_document(env: EnvironmentRoot, generation: Generation | None = None) -> dict[str, Any]:
    """Return one deployment as a document; None: the newest. Raises UnknownGeneration, NoEnvironment."""
    state = LedgerReader(env).state()
    newest = max(state.deployments, default=Generation(0))
    deployment = deployment_of(state, newest if generation is None else generation)
    plan, now = plan_of(env, deployment), pendulum.now("UTC")
    history = read_history(env)
    mine = [entry for entry in once_each(history) if entry.generation == deployment.generation]
    hold = state.holds.get(deployment.generation)
    return {
        "environment": env.location.uri,
        "env_id": state.config.env_id,
        "now": now.isoformat(),
        "ledger_version": state.version,
        "release": state.release.name if state.release is not None else plan.target.name,
        "at": str(state.release.version) if state.release is not None else None,
        "generations": [int(number) for number in sorted(state.deployments, reverse=True)],
        "leader": leader_json(state),
        "deployment": {**deployment_json(state, deployment.generation), "hold_seconds": deployment.hold_seconds},
        "plan": report_of(env, deployment),
        "tables": [_table(step) for step in plan.target.steps],
        "timeline": [entry_json(entry) for entry in mine],
        "seals": list(_seals(mine)),
        "in_flight": list(env.each(functools.partial(_flying, env, state), _in_flight(state, deployment))),
        "progress": [pace_json(env, state, deployment, plan, history, row) for row in _progress(state, deployment)],
        "elements": [item for item in elements_json(env, state) if item["generation"] == deployment.generation],
        "controls": authored([control_json(item) for _, item in sorted(state.controls.items()) if _is_about(item.scope, plan)], history),
        "hold": None if hold is None or hold.state is HoldState.CLOSED else _hold(env, state, hold),
        "newer_holds": [int(number) for number, held in state.holds.items() if number > deployment.generation and _is_open(held.state)],
        "can": _can(state, deployment),
    }


def _hold(env: EnvironmentRoot, state: State, hold: Hold) -> dict[str, Any]:
    """Return a hold with its cost and the live nodes that its end waits for. Not with their leases, which are new all the time."""
    nodes = needed_by(hold, live_nodes(env, pendulum.now("UTC")))
    kept_by = [{"id": node.node_id, "release": str(node.release), "kind": node.kind.value} for node in nodes]
    return {**hold_cost_json(env, state, hold), "kept_by": kept_by}


def _is_open(state: HoldState) -> bool:
    return state in (HoldState.OPEN, HoldState.ROLLING_BACK)


def report_of(env: EnvironmentRoot, deployment: Deployment) -> dict[str, Any] | None:
    """Return what preflight found; None where nobody wrote it down (an upgrade in one go does, too)."""
    where = f"{env.SYSTEM_FOLDER}/reports/{deployment.generation}.json"
    try:
        found = json.loads(env.store().get(where))
    except ObjectMissing:
        return None
    except (ValueError, RecursionError) as error:
        raise LedgerDamaged(where=where, reason=f"it is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise LedgerDamaged(where=where, reason="it is no object")
    return found


def _progress(state: State, deployment: Deployment) -> list[Progress]:
    return [row for _, row in sorted(state.progress.items()) if row.generation == deployment.generation]


def _is_about(scope: str, plan: Plan) -> bool:
    return scope == "*" or any(scope in (stage.collection, getattr(stage, "source", None)) for stage in plan.stages)


def _in_flight(state: State, deployment: Deployment) -> list[Intent]:
    """Return what the deployment has announced to do to tables, and has not written down as done."""
    return sorted((item for item in state.intents.values() if item.generation == deployment.generation), key=lambda item: item.collection)


def _flying(env: EnvironmentRoot, state: State, item: Intent) -> dict[str, Any]:
    """Return one of these; ``sealed``: whether writers are refused by now. Only a seal is asked of its table; null: it cannot be read."""
    found: dict[str, Any] = {"collection": item.collection, "kind": item.kind.value, "sealed": False}
    if item.kind is IntentKind.SEAL:
        try:
            head = look_or_none(table_store(env, state, item.shard))
        except SchemamigError:
            return {**found, "sealed": None}
        found["sealed"] = head is not None and head.sealed_for is not None
    return found


def _seals(entries: Sequence[HistoryEntry]) -> Iterator[dict[str, Any]]:
    """Yield for how long a seal kept writers out of which collection."""
    for entry in entries:
        if entry.what == "seal" and entry.collection is not None:
            yield {"collection": entry.collection, "seconds": round(entry.seconds, 3), "at": entry.started_at.isoformat()}


#: Their rows in the ledger are about the environment, whatever is under way there, and act at once.
_ALWAYS = ("pause", "resume")


def _can(state: State, deployment: Deployment) -> list[str]:
    """Return the verbs that the deployment's state allows. It does not matter who asks."""
    hold, leads = state.holds.get(deployment.generation), state.leader is not None
    newest = leads and state.leader is not None and state.leader.generation == deployment.generation
    match deployment.state:
        case DeploymentState.CLAIMED:
            overtaken = state.leader is not None and state.leader.generation > deployment.generation
            if overtaken or deployment.rejected is not None:
                return [*_ALWAYS] if overtaken else [*_ALWAYS, "cancel"]
            return ["approve", *_ALWAYS, "throttle", "postpone", "force", "cancel"]
        case DeploymentState.PROMOTED if newest:
            return [*_ALWAYS, "throttle", "postpone", "force", "cancel", "rollback"]
        case DeploymentState.COMMITTED if hold is not None and _is_open(hold.state):
            later = any(number > deployment.generation and _is_open(held.state) for number, held in state.holds.items())
            return [*_ALWAYS, "end_hold"] if later else [*_ALWAYS, "rollback", "end_hold"]
        case _:
            return [*_ALWAYS]


# --- tables --------------------------------------------------------------------------------------------------------------------------


def _table(step: MergedStep) -> dict[str, Any]:
    """Return what becomes of one collection: its columns before and after in pairs, and the SQL that moves its rows."""
    match step:
        case Create():
            return _pairs(step.collection, None, step.new, step.kind, fill=step.fill)
        case Evolve():
            pairs = _paired_columns(step.old, step.new, diff(step.old, step.new, step.renames).changes)
            return _document(step.collection, step.renamed_from, step.kind, pairs)
        case Replace():
            return _pairs(step.collection, step.old, step.new, step.kind, fill=step.fill)
        case RewriteStep():
            found = _pairs(step.collection, step.old, step.new, step.kind, up=step.up, down=step.down)
            return {**found, "was": step.renamed_from, "no_way_back": step.no_way_back}
        case Remove():
            return _pairs(step.collection, step.old, None, step.kind)


def _pairs(collection: CollectionName, old: Declaration | None, new: Declaration | None, kind: str, **sql: str | None) -> dict[str, Any]:
    return _document(collection, None, kind, _paired_columns(old, new, ()), **sql)


def _document(
    collection: CollectionName, was: CollectionName | None, kind: str, pairs: list[dict[str, Any]], **sql: str | None
) -> dict[str, Any]:
    texts = {
        name: None if text is None else inspect.cleandoc(text) for name, text in {"up": None, "down": None, "fill": None, **sql}.items()
    }
    return {"collection": collection, "was": was, "kind": kind, "columns": pairs, "no_way_back": None, **texts}


def _paired_columns(old: Declaration | None, new: Declaration | None, changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Return a line a top-level column: ``change`` (same, added, dropped, changed), ``before`` and ``after`` (name and SQL; null: none).

    In the order of the new table, with what goes at the end. A renamed column is one line.
    """
    renamed = {change.name: str(change.path) for change in changes if isinstance(change, RenameColumn) and "." not in change.path}
    before = {field.name: field for field in (old.fields if old is not None else ())}
    found, used = [], set()
    for field in new.fields if new is not None else ():
        name = renamed.get(field.name, field.name)
        was = before.get(name)
        if was is not None:
            used.add(name)
        found.append(_line(was, field))
    gone = (_line(field, None) for name, field in before.items() if name not in used)
    return [*found, *gone]


def _line(before: Field | None, after: Field | None) -> dict[str, Any]:
    old, new = _side(before), _side(after)
    change = "added" if old is None else "dropped" if new is None else "same" if old == new else "changed"
    return {"change": change, "before": old, "after": new}


def _side(field: Field | None) -> dict[str, str] | None:
    return None if field is None else {"name": field.name, "sql": column_sql(field)}
