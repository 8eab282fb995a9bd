"""Drift as a document: what differs, since which commit and by whom it was made, and the ways on with what each would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pendulum

from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.delta_json import InvalidSchemaJson, UnknownDeltaType
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.drift.changes import began_at, foreign_changes
from airflow_provider_schemamig.core.upgrade.drift.options import options_for
from airflow_provider_schemamig.core.upgrade.plan.live_tables import consistent_look, drift_of, look_at_tables, table_store
from airflow_provider_schemamig.core.upgrade.plan.notes.stopped_writers import time_of, writer_of
from airflow_provider_schemamig.visible import visible


def drift_document(env: EnvironmentRoot) -> dict[str, Any]:
    """Return the tables that are not as the ledger says. Reads every table's head, and the logs of those. Raises NoEnvironment."""

    def look(state: State) -> dict[str, Any]:
        tables = list(_tables(env, state, look_at_tables(env, state)))
        return {"environment": env.location.uri, "ledger_version": state.version, "tables": tables}

    return consistent_look(LedgerReader(env).state, look, lambda found: found["tables"])


def _tables(env: EnvironmentRoot, state: State, tables: Mapping[CollectionName, Head | str]) -> Iterator[dict[str, Any]]:
    for name, seen in sorted(tables.items()):
        head = None if isinstance(seen, str) else seen
        differences = (seen,) if isinstance(seen, str) else drift_of(state, name, seen)
        if differences:
            yield {
                "collection": name,
                "uri": env.table_location(state.shard_of(name).uri).uri,
                "differences": list(differences),
                "since": None if head is None else _since(env, state, name, head),
                "ways_on": options_for(env, state, name, head),
            }


def _since(env: EnvironmentRoot, state: State, name: CollectionName, head: Head) -> dict[str, Any] | None:
    """Return the first commit of the drift, as it says itself; None if the log does not tell any more."""
    try:
        foreign = None if head.is_another else foreign_changes(state, name, head)
    except (UnknownDeltaType, InvalidSchemaJson):  # it is told as what it is
        return None
    store = table_store(env, state, state.objects[name].shard)
    version = None if foreign is None else began_at(store, foreign)
    if version is None:
        return None
    try:
        commit = read_commit(store, version)
    except LogTruncated:
        return None
    unknown = pendulum.from_timestamp(0)
    at = time_of(commit, unknown)
    return {
        "table_version": version,
        "operation": visible(str(commit.info.get("operation") or ""))[:100] or None,
        "by": str(writer_of(commit)),
        "at": None if at is unknown else at.isoformat(),
    }
