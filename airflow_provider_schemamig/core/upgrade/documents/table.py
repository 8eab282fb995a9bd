"""One collection as a document: which columns it had in which release, what was done to it, what holds it now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pendulum

from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.objects.nodes import live_nodes
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.schema.describe import column_sql, describe
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.schema_age import Share
from airflow_provider_schemamig.core.upgrade.compact import schema_ages
from airflow_provider_schemamig.core.upgrade.documents.history import entry_json, once_each
from airflow_provider_schemamig.core.upgrade.element_status import elements_json
from airflow_provider_schemamig.core.upgrade.plan.live_tables import NO_TABLE, consistent_look, drift_of, known, read_heads
from airflow_provider_schemamig.core.upgrade.status import hidden_columns, node_json, pin_json


def table_document(env: EnvironmentRoot, collection: str) -> dict[str, Any]:
    """Return one collection as a document. Raises UnknownCollection, NoEnvironment. Reads the log of its table."""
    return consistent_look(LedgerReader(env).state, lambda state: _document(env, state, collection), lambda found: found["drift"])


def _document(env: EnvironmentRoot, state: State, collection: str) -> dict[str, Any]:
    name = known(state, collection)
    entry, shard = state.entry(name), state.shard_of(name)
    entries = sorted(
        (found for (of, _), found in state.schemas.items() if of == name or found.shard == shard.shard),
        key=lambda found: (found.shard != shard.shard, found.since_table_version, found.schema_id),
    )
    ages, head = schema_ages(env, state, [name]), read_heads(env, state, [name])[name]
    names = {found.collection for found in entries} | {name}
    return {
        "environment": env.location.uri,
        "ledger_version": state.version,
        "collection": name,
        "uri": env.table_location(shard.uri).uri,
        "shard": shard.shard,
        "adopted": shard.adopted,
        "drift": list(drift_of(state, name, head)) if head is not None else [NO_TABLE],
        "sealed": head is not None and head.sealed_for is not None,
        "in_flight": [intent.kind.value for intent in state.intents_of(shard.shard)],
        "schema_id": entry.schema_id,
        "hidden": hidden_columns(entry.physical, entry.declared),
        "releases": [_release(found, entry, before) for before, found in zip([None, *entries], entries, strict=False)],
        "columns": _matrix(entries),
        "rules": _rules(entry),
        "history": [entry_json(item) for item in reversed(once_each(read_history(env))) if item.collection in names],
        "elements": [item for item in elements_json(env, state) if item["collection"] in names],
        "pins": [pin_json(pin, name) for _, pin in sorted(state.pins.items()) if pin.shard == shard.shard],
        "files": [_share(state, name, share) for age in ages for share in age.shares],
        "nodes": [{**node_json(node), "kind": node.kind.value} for node in live_nodes(env, pendulum.now("UTC"))],
    }


def _share(state: State, name: CollectionName, share: Share) -> dict[str, Any]:
    """Return the files, bytes and rows written under one schema, and the schema's release."""
    entry = state.schemas.get((name, share.schema_id))
    release = None if entry is None or entry.release is None else str(entry.release)
    return {"schema_id": share.schema_id, "release": release, "files": share.files, "bytes": share.bytes, "rows": share.rows}


def _release(found: SchemaEntry, current: SchemaEntry, before: SchemaEntry | None) -> dict[str, Any]:
    """Return one former schema of the collection and its changes since the one before; no changes if that had another table."""
    changes = (
        () if before is None or before.shard != found.shard else diff(before.declared, found.declared, _renames(before, found)).changes
    )
    return {
        "release": None if found.release is None else str(found.release),
        "schema_id": found.schema_id,
        "collection": found.collection,
        "since_table_version": found.since_table_version,
        "shard": found.shard,
        "rolled_back_by": found.rolled_back,
        "changes": [describe(change) for change in changes],
        "current": found.schema_id == current.schema_id and found.collection == current.collection,
    }


def _renames(before: SchemaEntry, found: SchemaEntry) -> dict[ColumnPath, str]:
    """Return the columns that have another name since."""
    names = {found.stored_name(field.name): field.name for field in found.declared.fields}
    renamed = ((field.name, names.get(before.stored_name(field.name))) for field in before.declared.fields)
    return {ColumnPath(old): new for old, new in renamed if new is not None and new != old}


def _matrix(entries: Sequence[SchemaEntry]) -> list[dict[str, Any]]:
    """Return a line a column, with what each schema calls and declares it; null where a schema has none.

    A column is known by its name in the data files, which no rename changes.
    """
    lines: dict[tuple[str, str], list[dict[str, str] | None]] = {}
    for number, entry in enumerate(entries):
        for field in entry.declared.fields:
            line = lines.setdefault((entry.shard, entry.stored_name(field.name)), [None] * len(entries))
            line[number] = {"name": field.name, "sql": column_sql(field)}
    return [{"name": next(cell["name"] for cell in reversed(line) if cell), "cells": line} for line in lines.values()]


def _rules(entry: SchemaEntry) -> list[str]:
    """Return keys, checks and the layout in words."""
    found = entry.declared
    rules = [f"PRIMARY KEY ({', '.join(found.primary_key.columns)})"] if found.primary_key else []
    rules += [f"UNIQUE ({', '.join(key.columns)})" for key in found.uniques]
    rules += [f"FOREIGN KEY ({', '.join(key.columns)}) to {key.references}" for key in found.foreign_keys]
    rules += [f"CHECK {check.name} ({check.expression})" for check in found.checks]
    rules += [f"partitioned by {', '.join(found.partitioned_by)}"] if found.partitioned_by else []
    rules += [f"clustered by {', '.join(found.clustered_by)}"] if found.clustered_by else []
    return [*rules, *(f"{key} = {value}" for key, value in found.properties)]
