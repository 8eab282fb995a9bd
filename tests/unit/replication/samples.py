"""Small environments at a schema or two, and what their streams' objects say."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pendulum

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import EnvironmentRelease, Object, SchemaEntry, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, Fingerprint, Generation, ShardId, Version
from airflow_provider_schemamig.core.replication.model import EnvId, Pause, PauseReason, Stream, StreamState
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint, set_fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration, Field, Key, Primitive

NOW = pendulum.datetime(2026, 3, 1, 12, 30)


def declared(name: str, *columns: str) -> Declaration:
    """``columns``: ``id`` (a bigint) or ``id int``."""
    split = [column.partition(" ") for column in columns or ("id",)]
    fields = tuple(Field(column, Primitive(kind or "bigint")) for column, _, kind in split)
    return Declaration(CollectionName(name), fields, primary_key=Key((split[0][0],)))


def hash_of(name: str, *columns: str) -> Fingerprint:
    return fingerprint(declared(name, *columns))


def environment(folder: Path, env_id: str, **collections: Sequence[str]) -> Environment:
    """An environment at release 1.0.0 with these collections of columns; ledger rows alone, there are no tables."""
    env = Environment.open(str(folder / env_id), {"schemamig.throwaway": "true"})
    LedgerWriter(env).create(env_id)
    schemas = [declared(name, *columns) for name, columns in collections.items()]
    LedgerWriter(env).transact(lambda state: _moved(state, schemas))
    return env


def move(env: Environment, name: str, *columns: str) -> Fingerprint:
    """Give a collection its next schema, as an upgrade's commit does; its hash. Another release, its table's 10th version further on."""
    now = declared(name, *columns)
    LedgerWriter(env).transact(lambda state: _moved(state, [now]))
    return fingerprint(now)


def _moved(state: State, schemas: Sequence[Declaration]) -> list[Update]:
    version = Version(1, state.release.version.minor + 1 if state.release is not None else 0, 0)
    prints = {name: item.fingerprint for name, item in state.objects.items()} | {now.name: fingerprint(now) for now in schemas}
    updates: list[Update] = [Put(EnvironmentRelease("lake", version, set_fingerprint(prints)))]
    for now in schemas:
        schema_id = state.next_schema_id(now.name)
        shard = ShardId(f"{now.name}-1")
        updates.append(Put(Object(now.name, shard, schema_id, fingerprint(now))))
        updates.append(Put(SchemaEntry(now.name, schema_id, shard, now, now, 10 * schema_id, version, ())))
        updates.append(Put(Shard(shard, now.name, f"{now.name}/{shard}", f"id of {shard}", Generation(1), ShardState.LIVE)))
    return updates


def stream(origin: str = "east", target: str = "west", collection: str = "flights") -> Stream:
    return Stream(EnvId(origin), EnvId(target), CollectionName(collection))


def flowing(found: Stream, *, seen: int = 7, origin_version: int = 7) -> StreamState:
    """A stream that has brought what it saw."""
    behind = None if seen == origin_version else NOW.subtract(seconds=90)
    return StreamState(found, ShardId(f"{found.collection}-1"), min(seen, 5), seen, NOW, origin_version, behind, applied_rows=10)


def paused(found: Stream, *, recomputed_at: pendulum.DateTime = NOW) -> StreamState:
    pause = Pause(
        PauseReason.SCHEMA_MISMATCH,
        "the target has no column gust",
        NOW.subtract(minutes=3),
        event_version=8,
        event_hash=hash_of("flights", "id", "gust"),
        local_hash=hash_of("flights", "id"),
        recomputed_at=recomputed_at,
    )
    return replace(flowing(found, seen=7, origin_version=12), pause=pause)


def stopped(found: Stream) -> StreamState:
    return replace(flowing(found, seen=7, origin_version=12), error="log_cleaned", detail="versions 8 to 9 are gone")


def remove(env: Environment, folder: str) -> None:
    """Take a folder away by hand, if it is there."""
    assert env.location.local_path is not None
    shutil.rmtree(env.location.local_path / folder, ignore_errors=True)
