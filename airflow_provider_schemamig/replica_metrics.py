"""The metrics of replicas (docs/airflow.md has the list).

All are gauges of what is kept in the target, and none counts what one task did: a task that is tried again says the same once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_provider_schemamig.metrics import gauge

if TYPE_CHECKING:
    import pendulum

    from airflow_provider_schemamig.core.environment import Environment
    from airflow_provider_schemamig.core.names import CollectionName
    from airflow_provider_schemamig.core.replication.model import StreamState


def measure(origin: Environment, target: Environment, states: Iterable[StreamState]) -> None:
    """Measure the state of these streams, and their schemas at both ends."""
    import pendulum

    now, names = pendulum.now("UTC"), []
    for state in states:
        measure_stream(state, now)
        names.append(state.stream.collection)
    for env in (origin, target):
        measure_schemas(env, names)


def measure_stream(state: StreamState, now: pendulum.DateTime) -> None:
    """Measure one stream; times and lags are told as of ``now``."""
    from airflow_provider_schemamig.core.replication.model import PauseReason

    pause = state.pause
    values = {
        "mismatch_paused": int(pause is not None and pause.reason is PauseReason.SCHEMA_MISMATCH),
        "paused_seconds": 0.0 if pause is None else max((now - pause.since).total_seconds(), 0.0),
        "lag_versions": state.lag_versions,
        "lag_seconds": state.lag_seconds(now),
        "gap": int(state.error is not None),
        "restores": state.restores,
        "applied_rows": state.applied_rows,
    }
    stream = state.stream
    for name, value in values.items():
        gauge(f"replica.{name}", value, origin=stream.origin, target=stream.target, collection=stream.collection)


def measure_schemas(env: Environment, collections: Iterable[CollectionName]) -> None:
    """Measure 1 for a collection's present hash, 0 for its earlier ones. So each series says when it ended."""
    from airflow_provider_schemamig.core.ledger.store import LedgerReader
    from airflow_provider_schemamig.core.replication.cluster.registry import lineages

    state = LedgerReader(env).state()
    known = lineages(state)
    for name in collections:
        for age, hash_ in enumerate(known.get(name, ())):
            gauge("schema_hash_info", int(age == 0), environment=state.config.env_id, collection=name, hash=hash_)
