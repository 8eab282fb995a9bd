"""Small rows and environments for the ledger's tests."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pendulum
import pytest

from airflow_provider_schemamig.core.delta.log.listing import LogFiles
from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.own_table import OwnTable
from airflow_provider_schemamig.core.ledger.rows import (
    CompactionIntent,
    Deployment,
    DeploymentState,
    Element,
    EnvironmentRelease,
    IntentKind,
    Leader,
    Object,
    SchemaEntry,
    Shard,
    ShardState,
)
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put, Update
from airflow_provider_schemamig.core.ledger.table import COLUMNS, FOLDER
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Epoch, Fingerprint, Generation, SchemaId, ShardId, Version
from airflow_provider_schemamig.core.schema.element_states import ElementState
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint, set_fingerprint
from airflow_provider_schemamig.core.schema.model import Array, Check, Declaration, Field, Primitive, Struct
from airflow_provider_schemamig.core.storage.own_places import shard_id
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

NOW = pendulum.datetime(2026, 3, 1, 12, 30, 15, 250_000)
LOG = "_schemamig/ledger/_delta_log"


def declaration(name: str = "flights", *columns: str) -> Declaration:
    fields = tuple(Field(column, Primitive("bigint"), nullable=False, comment="é") for column in columns or ("id",))
    nested = Field("origin", Struct((Field("code", Primitive("varchar(3)")), Field("tags", Array(Primitive("string"))))))
    return Declaration(CollectionName(name), (*fields, nested), checks=(Check("positive", "id > 0"),))


def leader(generation: int = 1, epoch: int = 1) -> Leader:
    return Leader(Generation(generation), Epoch(epoch), NOW)


def deployment(generation: int = 1) -> Deployment:
    return Deployment(
        Generation(generation), "claim", Version(1, 0, 0), Version(1, 1, 0), "d" * 64, DeploymentState.CLAIMED, NOW, hold_seconds=86_400
    )


def compaction(name: CollectionName, shard: ShardId, generation: Generation, epoch: Epoch, base_version: int = 0) -> CompactionIntent:
    """An intent of the least content."""
    return CompactionIntent(
        collection=name, shard=shard, generation=generation, epoch=epoch, kind=IntentKind.COMPACT, base_version=base_version
    )


def shard_of(name: str) -> ShardId:
    """The id of the shard that ``collection`` gives a collection."""
    return shard_id(Generation(1), hashlib.sha256(name.encode()).hexdigest())


def collection(name: str, shard_state: ShardState = ShardState.LIVE) -> list[Update]:
    """A sound collection: object, schema and shard."""
    declared = declaration(name)
    shard = shard_of(name)
    return [
        Put(Object(CollectionName(name), shard, SchemaId(1), fingerprint(declared))),
        Put(SchemaEntry(CollectionName(name), SchemaId(1), shard, declared, declared, 0, Version(1, 0, 0), ())),
        Put(Shard(shard, CollectionName(name), f"{name}/{shard}", f"id of {shard}", Generation(1), shard_state)),
    ]


def element(name: str = "foreign_key:a/b", shard: str | None = None, spec: str = "0123456789abcdef") -> Element:
    """A foreign key of flights to planes that is being validated."""
    return Element(
        collection=CollectionName("flights"),
        name=name,
        spec=spec,
        op="add_foreign_key",
        state=ElementState.VALIDATE,
        adding=True,
        shard=shard_of("flights") if shard is None else ShardId(shard),
        generation=Generation(1),
        epoch=Epoch(1),
        since=NOW,
        table_version=4,
        checked_version=None,
        columns=(ColumnPath("a/b"),),
        refers=CollectionName("planes"),
        refers_columns=(ColumnPath("id"),),
        error=None,
    )


def counter(value: int, name: str = "counter") -> Object:
    """A row whose schema id is a number to count with."""
    return Object(CollectionName(name), ShardId("s"), SchemaId(value), Fingerprint("sf1:0"))


def sound_environment(path: Path, *names: str) -> LedgerWriter:
    """A ledger with a leader and ``names`` as collections; ``verify`` finds nothing in it."""
    writer = LedgerWriter(EnvironmentRoot.open(str(path)))
    state = writer.create("env-1")
    updates = [update for name in names for update in collection(name)]
    prints = {CollectionName(name): fingerprint(declaration(name)) for name in names}
    release = EnvironmentRelease("lake", Version(1, 0, 0), set_fingerprint(prints))
    committed = replace(deployment(), state=DeploymentState.COMMITTED)
    writer.compare_and_append(state, [Put(leader()), Put(committed), Put(release), *updates])
    return writer


Env = TypeVar("Env", bound=EnvironmentRoot)


def elsewhere(env: Env) -> Env:
    """As another process opens it: readers of one environment object share what it has open."""
    return replace(env)


def append_raw(env: EnvironmentRoot, *rows: RawRow) -> None:
    """Bypass all checks: what a bug or another program could have written."""
    OwnTable(env, FOLDER, COLUMNS).commit(rows, "foreign", "append")


def openings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the URIs of our tables, one each time that one is opened from now on."""
    found: list[str] = []
    real = OwnTable._open

    def opened(table: OwnTable, listed: LogFiles) -> object:
        found.append(table.store.location.uri)
        return real(table, listed)

    monkeypatch.setattr(OwnTable, "_open", opened)
    return found


def commit_ids(root: Path) -> list[str]:
    """The userMetadata of every commit of the ledger, version 0 first; the log has no gap."""
    found = []
    for version, path in enumerate(sorted((root / LOG).glob("*.json"))):
        assert path.name == f"{version:020}.json"
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        found.append(next(action["commitInfo"] for action in actions if "commitInfo" in action).get("userMetadata", ""))
    return found
