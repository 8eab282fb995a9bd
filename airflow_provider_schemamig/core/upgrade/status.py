"""What is true now, for people and programs. Reads only."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pendulum

from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.files import has_files_of
from airflow_provider_schemamig.core.delta.log.head import Head, look_or_none
from airflow_provider_schemamig.core.ledger.objects.nodes import Node, live_nodes
from airflow_provider_schemamig.core.ledger.objects.preparing import Preparing, preparing
from airflow_provider_schemamig.core.ledger.rows import Control, DeploymentState, Hold, Pin, Progress, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.sql import type_sql
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.times import minute_of
from airflow_provider_schemamig.core.transfer.exactly_once import foreign_commits
from airflow_provider_schemamig.core.transfer.throttle import EVERYWHERE
from airflow_provider_schemamig.core.upgrade.context.controls import hours_of, limit_words
from airflow_provider_schemamig.core.upgrade.drift.options import options_for
from airflow_provider_schemamig.core.upgrade.element_status import elements_json, progress_json
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import needed_by, unclosed_holds
from airflow_provider_schemamig.core.upgrade.plan.live_tables import UNREADABLE, consistent_look, drift_of, look_at_tables, table_store
from airflow_provider_schemamig.core.upgrade.plan.unreleased import made_outside
from airflow_provider_schemamig.core.upgrade.prepare.hold_costs import hold_cost_json


@dataclass(frozen=True)
class Status:
    """The environment's document; ``drifted`` names the collections whose tables, live or retired, are not what the ledger says."""

    document: dict[str, Any]
    drifted: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return self.document


def status(env: EnvironmentRoot) -> Status:
    """Look at the ledger and at every live table's head. Raises NoEnvironment where no environment is."""
    return consistent_look(LedgerReader(env).state, functools.partial(_status, env), lambda found: found.drifted)


def _status(env: EnvironmentRoot, state: State) -> Status:
    seen = look_at_tables(env, state)
    collections = {}
    for name in sorted(state.objects):
        collections[name] = _collection(env, state, name, seen[name])
    retired = _retired(env, state)
    nodes = live_nodes(env, pendulum.now("UTC"))
    document = {
        "version": str(state.release.version) if state.release is not None else None,
        "leader": leader_json(state),
        "preparing": [_preparing(item) for item in preparing(env, pendulum.now("UTC"))],
        "deployments": [deployment_json(state, generation) for generation in sorted(state.deployments)],
        "collections": collections,
        "retired": retired,
        "progress": [progress_json(row) for _, row in sorted(state.progress.items()) if _is_open(state, row)],
        "controls": [control_json(control) for _, control in sorted(state.controls.items())],
        "pins": [_pin(state, pinned) for _, pinned in sorted(state.pins.items())],
        "holds": [hold_status_json(env, state, hold, nodes) for hold in unclosed_holds(state)],
        "elements": elements_json(env, state),
        "nodes": [node_json(node) for node in nodes],
    }
    drifted = [name for name, item in collections.items() if item["drift"]]
    touched = [CollectionName(item["collection"]) for item in retired if not item["sealed"] or item["foreign_commits"]]
    return Status(document, tuple(dict.fromkeys([*drifted, *touched])))


def leader_json(state: State) -> dict[str, Any] | None:
    """Return the generation that leads, its epoch, and since when; None before the first promotion."""
    leader = state.leader
    if leader is None:
        return None
    return {"generation": leader.generation, "epoch": leader.epoch, "since": leader.since.isoformat()}


def _preparing(item: Preparing) -> dict[str, Any]:
    return {
        "from": str(item.source) if item.source is not None else None,
        "to": str(item.target),
        "who": item.who,
        "since": item.since.isoformat(),
        "stage": item.stage,
        "done": item.done,
        "total": item.total,
        "note": item.note,
    }


def deployment_json(state: State, generation: Generation) -> dict[str, Any]:
    """Return one attempt to reach a release: who claimed, approved and promoted what, and when."""
    item = state.deployments[generation]
    approval, no = state.approvals.get(generation), item.rejected
    return {
        "generation": item.generation,
        "from": str(item.source) if item.source is not None else None,
        "to": str(item.target),
        "state": item.state.value,
        "plan_digest": item.plan_digest,
        "created_at": item.created_at.isoformat(),
        "approved_by": approval.approved_by if approval is not None and approval.plan_digest == item.plan_digest else None,
        "promoted_by": item.promoted_by,
        "promoted_with": item.promoted_with,
        "promoted_from": item.promoted_from,
        "claimed_by": item.claim_id,
        "rejected": None if no is None else {"by": no.by, "at": no.at.isoformat(), "why": no.why},
    }


def _collection(env: EnvironmentRoot, state: State, name: CollectionName, seen: Head | str) -> dict[str, Any]:
    item, entry = state.objects[name], state.entry(name)
    head = None if isinstance(seen, str) else seen
    drift = (seen,) if isinstance(seen, str) else drift_of(state, name, seen)
    return {
        "uri": env.table_location(state.shards[item.shard].uri).uri,
        "shard": item.shard,
        "fingerprint": item.fingerprint,
        "schema_id": item.schema_id,
        "table_version": head.version if head is not None else None,
        "declared": columns(entry.declared),
        "physical": columns(entry.physical),
        "hidden": hidden_columns(entry.physical, entry.declared),
        "in_flight": [intent.kind.value for intent in state.intents_of(item.shard)],
        "sealed": head is not None and head.sealed_for is not None,
        "adopted": state.shards[item.shard].adopted,
        "ahead": state.unreleased_of(name) is not None,
        "ahead_by": list(made_outside(state, name)),
        "drift": list(drift),
        "ways_on": options_for(env, state, name, head) if drift else [],
    }


# --- retired shards ------------------------------------------------------------------------------------------------------------------


def _retired(env: EnvironmentRoot, state: State) -> list[dict[str, Any]]:
    """Return the shards that are sealed until contract.

    RESTORE alone gets through a seal, and takes it away, which makes rows nobody else will see. A shard that a leader is working on (a
    rollback opens it again) is left out, and so is one whose files are gone, or whose log cannot be read.
    """
    shards = sorted(state.shards.values(), key=lambda shard: (shard.collection, shard.shard))
    retired = [shard for shard in shards if shard.state is ShardState.RETIRED and not state.intents_of(shard.shard)]
    return [found for found in env.each(functools.partial(_retired_shard, env, state), retired) if found is not None]


def _retired_shard(env: EnvironmentRoot, state: State, shard: Shard) -> dict[str, Any] | None:
    store = table_store(env, state, shard.shard)
    try:
        head = look_or_none(store)
        foreign = 0 if head is None else _foreign_commits(store, shard, head.version)
    except UNREADABLE:  # `verify` tells of it
        return None
    if head is None:
        return None
    return {
        "shard": shard.shard,
        "collection": shard.collection,
        "uri": store.location.uri,
        "sealed": head.sealed_for is not None and not head.is_another,
        "foreign_commits": foreign,
    }


def _foreign_commits(store: ReadStore, shard: Shard, newest: int) -> int:
    """Count the commits since the seal that moved rows and are not ours; none where all of its files are there again, and no others."""
    if shard.sealed_version is None or newest <= shard.sealed_version:
        return 0
    try:
        found = sum(1 for _ in foreign_commits(store, shard.sealed_version))
        return 0 if found and has_files_of(store, shard.sealed_version) else found
    except LogTruncated:  # only a table that goes on being written to has its log cleaned up
        return newest - shard.sealed_version


# --- work on rows --------------------------------------------------------------------------------------------------------------------


def _is_open(state: State, row: Progress) -> bool:
    deployment = state.deployments.get(row.generation)
    return deployment is not None and deployment.state in (DeploymentState.CLAIMED, DeploymentState.PROMOTED)


def control_words(control: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return a control's document for people: whom it is about, whether that runs, and the rest of the sentence."""
    limits = (control["rows_per_second"], control["max_files"], control["commits_per_minute"], control["window"])
    name, told = control["collection"] or "all collections", limit_words(*limits)
    why = f" ({control['reason']})" if control["reason"] else ""
    by = f" by {control['paused_by']} since {minute_of(control['paused_at'])}{why}" if control["paused_by"] else ""
    if not control["last_step"]:
        return name, "paused" if control["paused"] else "runs", f"{by}, {told}"
    if control["paused"]:
        return name, "runs until its last step", f", which waits for `schemamig resume`{by}"
    return name, "runs", ", its last step even if writers have to wait"


def control_json(control: Control) -> dict[str, Any]:
    """Return a control of work on rows, or of the last step of online changes.

    ``collection`` is null for a control of all, ``window`` is hours UTC (``22-6``).
    """
    return {
        "collection": None if control.scope == EVERYWHERE else control.scope,
        "last_step": control.last_step,
        "paused": control.paused,
        "rows_per_second": control.rows_per_second,
        "max_files": control.max_files,
        "commits_per_minute": control.commits_per_minute,
        "window": hours_of(control.window),
        "paused_by": control.paused_by,
        "paused_at": control.paused_at.isoformat() if control.paused_at is not None else None,
        "reason": control.reason,
    }


def pin_json(pinned: Pin, collection: str | None) -> dict[str, Any]:
    """Return whose copy needs how many hours of a shard's history; ``collection`` is null once the shard is gone."""
    return {
        "collection": collection,
        "shard": pinned.shard,
        "holder": pinned.holder,
        "hours": pinned.hours,
        "pinned_by": pinned.pinned_by,
        "pinned_at": pinned.pinned_at.isoformat(),
    }


def _pin(state: State, pinned: Pin) -> dict[str, Any]:
    shard = state.shards.get(pinned.shard)
    return pin_json(pinned, shard.collection if shard is not None else None)


# --- live tables ---------------------------------------------------------------------------------------------------------------------


def columns(declaration: Declaration) -> list[dict[str, Any]]:
    """Return the top-level columns as name, type, nullable."""
    return [{"name": f.name, "type": type_sql(f.type), "nullable": f.nullable} for f in declaration.fields]


def hidden_columns(physical: Declaration, declared: Declaration) -> list[str]:
    """Return the paths the table has and the release does not."""
    known = {path for path, _ in walk(declared.fields)}
    return [path for path, _ in walk(physical.fields) if path not in known]


def node_json(node: Node) -> dict[str, Any]:
    """Return a reader, writer or replica that is alive, and the release it works with."""
    return {
        "id": node.node_id,
        "release": str(node.release),
        "since": node.since.isoformat(),
        "lease_until": node.lease_until.isoformat(),
    }


def hold_status_json(env: EnvironmentRoot, state: State, hold: Hold, nodes: Sequence[Node]) -> dict[str, Any]:
    """Describe a hold with its cost, and the live nodes that work with a release before its own: contract waits for them."""
    return {**hold_cost_json(env, state, hold), "kept_by": [node_json(node) for node in needed_by(hold, nodes)]}
