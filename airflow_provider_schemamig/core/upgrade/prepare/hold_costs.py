"""What holds cost: the bytes of the tables and columns that are kept for the way back."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_schemamig.core.delta.actions import size_bytes
from airflow_provider_schemamig.core.delta.errors import LogDamaged, LogTruncated
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import look_or_none
from airflow_provider_schemamig.core.ledger.rows import Hold
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, ShardId
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.paths import slot_at
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import dropped_paths, hold_json, live_collection, retired_by
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store

#: A value's bytes, about, where its type tells; a text's and a binary's are a guess, and so is how many an array or a map has.
_WIDTHS = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4, "bigint": 8, "double": 8}
_OTHER_WIDTH, _TEXT_WIDTH, _MANY = 8, 24, 4


@dataclass(frozen=True, slots=True)
class KeptBytes:
    """One table, or hidden columns of one. ``bytes`` of columns is their share by the widths of types, about; None: nobody can tell."""

    collection: CollectionName
    shard: ShardId
    columns: tuple[ColumnPath, ...]
    bytes: int | None

    def to_json(self) -> dict[str, Any]:
        return {"collection": self.collection, "shard": self.shard, "columns": list(self.columns), "bytes": self.bytes}


def hold_cost_json(env: EnvironmentRoot, state: State, hold: Hold) -> dict[str, Any]:
    """Return a hold for documents, with what it keeps and its cost. Reads the logs of the tables concerned."""
    kept = tuple(env.each(functools.partial(_cost, env, state), _kept(state, hold)))
    return {**hold_json(state, hold), "bytes": sum(item.bytes or 0 for item in kept), "keeps": [item.to_json() for item in kept]}


def _cost(env: EnvironmentRoot, state: State, kept: KeptBytes) -> KeptBytes:
    """Return what is kept with its bytes."""
    found = _bytes(env, state, kept.shard)
    if found is not None and kept.columns:
        found = int(found * _share(state.entry(kept.collection).physical, kept.columns))
    return replace(kept, bytes=found)


def _kept(state: State, hold: Hold) -> Iterator[KeptBytes]:
    """Yield the tables and columns that the hold keeps, still without their bytes."""
    for shard in retired_by(state, hold):
        yield KeptBytes(shard.collection, shard.shard, (), None)
    for table in hold.tables:
        name = live_collection(state, table.shard)
        paths = () if name is None else dropped_paths(state.entry(name), table)
        if name is not None and paths:
            yield KeptBytes(name, table.shard, paths, None)


def _bytes(env: EnvironmentRoot, state: State, shard: ShardId) -> int | None:
    """Return the bytes of the files of the table's newest version."""
    row = state.shards[shard]
    head = look_or_none(table_store(env, state, shard))
    if head is None or head.is_another:
        return 0 if head is None else None
    try:
        return _bytes_at(env, row.uri, row.table_id, head.version)
    except (LogTruncated, LogDamaged):
        return None


@functools.lru_cache(maxsize=1024)
def _bytes_at(env: EnvironmentRoot, uri: str, table_id: str, version: int) -> int:
    """Return the bytes of a version's files, read once a process: ``status --watch`` asks for the same ones every two seconds."""
    return sum(map(size_bytes, active_files(env.table_store(uri, table_id), version).values()))


def _share(table: Declaration, paths: tuple[ColumnPath, ...]) -> float:
    widths = (_width(slot.type) for path in paths if (slot := slot_at(table.fields, path)) is not None)
    return sum(widths) / max(1, sum(_width(field.type) for field in table.fields))


def _width(data_type: DataType) -> int:
    match data_type:
        case Primitive(name=name) if name == "string" or name == "binary" or name.startswith("varchar"):
            return _TEXT_WIDTH
        case Primitive(name=name):
            return _WIDTHS.get(name, _OTHER_WIDTH)
        case Struct(fields=fields):
            return sum(_width(field.type) for field in fields)
        case Array(element=element):
            return _MANY * _width(element)
        case Map(key=key, value=value):
            return _MANY * (_width(key) + _width(value))
