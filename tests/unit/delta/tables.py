"""Tables for the committer's tests: raw actions from declarations, stores, commits as foreign writers make them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow_provider_schemamig.core.delta.actions import RawAction, encode_actions
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import Fence
from airflow_provider_schemamig.core.delta.features import needed_features, new_protocol
from airflow_provider_schemamig.core.delta.log.listing import commit_key
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Epoch, Generation, ShardId
from airflow_provider_schemamig.core.schema.changes import AddColumn
from airflow_provider_schemamig.core.schema.delta_json import declaration_from_delta, field_to_delta
from airflow_provider_schemamig.core.schema.model import Array, Declaration, Field, Map, Primitive, Struct
from airflow_provider_schemamig.core.storage import Location, StorageOptions, Store, open_store

NAME = CollectionName("flights")
TAG = Tag(Generation(1), Epoch(1), "expand")
INT, BIGINT, STRING, DOUBLE = (Primitive(name) for name in ("int", "bigint", "string", "double"))


def fence(epoch: int = 1) -> Fence:
    return Fence("env-1", ShardId("g1-flights"), Epoch(epoch))


def path(text: str) -> ColumnPath:
    return ColumnPath(text)


def add_int(name: str) -> AddColumn:
    return AddColumn(path(name), Field(name.rpartition(".")[2], INT))


def table_store(folder: Path) -> Store:
    return open_store(Location.parse(str(folder)), StorageOptions())


def flights(*fields: Field, **more: Any) -> Declaration:
    return Declaration(NAME, fields or (Field("id", BIGINT), Field("dep_delay", INT)), **more)


def nested() -> Declaration:
    """Columns of every shape: struct, array of structs, map of structs."""
    leg = Struct((Field("code", STRING), Field("miles", INT)))
    return flights(
        Field("id", BIGINT, nullable=False),
        Field("origin", leg),
        Field("stops", Array(leg)),
        Field("notes", Map(STRING, leg)),
        Field("tags", Array(INT)),
    )


def raw(declaration: Declaration, **configuration: str) -> tuple[RawAction, RawAction]:
    """(protocol, metaData) of a table as declared, without any of the refusals of ``create``."""
    schema = {"type": "struct", "fields": [field_to_delta(f) for f in declaration.fields]}
    settings = dict(declaration.properties) | {f"delta.constraints.{c.name}": c.expression for c in declaration.checks}
    settings |= {key.replace("__", "."): value for key, value in configuration.items()}
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": list(declaration.partitioned_by),
        "configuration": settings,
        "createdTime": 1,
        "unknownKey": {"kept": True},
    }
    if declaration.comment is not None:
        metadata["description"] = declaration.comment
    return new_protocol(needed_features(schema, settings)), metadata


def declared(metadata: RawAction) -> Declaration:
    return declaration_from_delta(NAME, metadata)


def schema_of(metadata: RawAction) -> dict[str, Any]:
    return dict(json.loads(metadata["schemaString"]))


def field_of(metadata: RawAction, name: str) -> dict[str, Any]:
    return next(f for f in schema_of(metadata)["fields"] if f["name"] == name)


def write(store: Store, version: int, *actions: Mapping[str, Any], **info: Any) -> None:
    """A commit as a foreign writer makes it."""
    first = {"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "WRITE", "txnId": str(uuid.uuid4()), **info}}
    store.put_if_absent(commit_key(version), encode_actions([first, *actions]))


def make_table(store: Store, declaration: Declaration | None = None, **configuration: str) -> RawAction:
    """Version 0; returns its metaData."""
    protocol, metadata = raw(declaration or flights(), **configuration)
    write(store, 0, {"protocol": protocol}, {"metaData": metadata})
    return metadata


def add_file(name: str, *, stats: Any = None, partition: Mapping[str, str | None] | None = None, **more: Any) -> dict[str, Any]:
    action = {"path": name, "partitionValues": dict(partition or {}), "size": 1, "modificationTime": 1, "dataChange": True, **more}
    return {"add": action | ({} if stats is None else {"stats": json.dumps(stats)})}


def remove_file(name: str, **more: Any) -> dict[str, Any]:
    return {"remove": {"path": name, "dataChange": True, "deletionTimestamp": 1, **more}}


def txn(app_id: str, version: int) -> dict[str, Any]:
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": 1}}


def log_files(folder: Path) -> Sequence[str]:
    return sorted(item.name for item in (folder / "_delta_log").iterdir())
