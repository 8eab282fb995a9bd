"""What is true now, for people and programs (DESIGN section 10, ``status``). Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pendulum

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.nodes import Node, live_nodes
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.sql import type_sql
from airflow_provider_schemamig.core.upgrade.tables import drift_of, read_heads
from airflow_provider_schemamig.core.upgrade.work import pending_holds


@dataclass(frozen=True)
class Status:
    """The environment's document; ``drifted`` names the collections whose tables are not what the ledger says."""

    document: dict[str, Any]
    drifted: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return self.document


def status(env: Environment) -> Status:
    """Look at the ledger and at every live table's head. Raises LedgerMissing where no environment is."""
    state = LedgerReader(env).state()
    heads = read_heads(env, state)
    collections = {}
    for name in sorted(state.objects):
        collections[name] = _collection(env, state, name, heads.get(name))
    document = {
        "version": str(state.release.version) if state.release is not None else None,
        "leader": _leader(state),
        "deployments": [_deployment(state, generation) for generation in sorted(state.deployments)],
        "collections": collections,
        "holds": list(pending_holds(state)),
        "elements": [],
        "nodes": [_node(node) for node in live_nodes(env, pendulum.now("UTC"))],
    }
    return Status(document, tuple(name for name, item in collections.items() if item["drift"]))


def _leader(state: State) -> dict[str, Any] | None:
    leader = state.leader
    if leader is None:
        return None
    return {"generation": leader.generation, "epoch": leader.epoch, "since": leader.since.isoformat()}


def _deployment(state: State, generation: Any) -> dict[str, Any]:
    item = state.deployments[generation]
    approval = state.approvals.get(generation)
    return {
        "generation": item.generation,
        "from": str(item.source) if item.source is not None else None,
        "to": str(item.target),
        "state": item.state.value,
        "plan_digest": item.plan_digest,
        "created_at": item.created_at.isoformat(),
        "approved_by": approval.approved_by if approval is not None and approval.plan_digest == item.plan_digest else None,
    }


def _collection(env: Environment, state: State, name: CollectionName, head: Any) -> dict[str, Any]:
    item, entry = state.objects[name], state.entry(name)
    missing = ("no Delta table is there",)
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
        "drift": list(drift_of(state, name, head) if head is not None else missing),
    }


def columns(declaration: Declaration) -> list[dict[str, Any]]:
    """Top-level columns as name, type, nullable."""
    return [{"name": f.name, "type": type_sql(f.type), "nullable": f.nullable} for f in declaration.fields]


def hidden_columns(physical: Declaration, declared: Declaration) -> list[str]:
    """Paths the table has and the release does not."""
    known = {path for path, _ in walk(declared.fields)}
    return [path for path, _ in walk(physical.fields) if path not in known]


def _node(node: Node) -> dict[str, Any]:
    return {"id": node.node_id, "release": str(node.release)}
