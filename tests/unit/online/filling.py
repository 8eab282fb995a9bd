"""Tables by hand whose column ``c`` is being filled, and what others and we commit to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import deltalake

from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.names import Epoch, Generation
from airflow_provider_schemamig.core.online.backfill import DueFiles
from airflow_provider_schemamig.core.online.operation import Files
from airflow_provider_schemamig.core.online.unfilled import Fill
from airflow_provider_schemamig.core.schema.delta_rules.table_features import DEFAULT_KEY
from airflow_provider_schemamig.core.storage import Store
from tests.unit.delta.tables import add_file, make_table, table_store, write

#: Version 0 is the table, 1 brings files ``a`` and ``b``, 2 the column ``c``.
SINCE = 2
DEFAULT = Fill("c", "0", SINCE, Files.OLDER)
SHADOW = Fill("c", "CAST(id AS INT)", SINCE, Files.ALL)
OUTDATED = Fill("c", "CAST(id AS INT)", SINCE, Files.NEWER)
VECTOR = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
PHYSICAL = "delta.columnMapping.physicalName"

Action = Mapping[str, Any]
Step = tuple[Sequence[Action], Mapping[str, Any]]


def table(folder: Path, *, physical: str = "c") -> Store:
    store = table_store(folder)
    before = make_table(store)
    write(store, 1, add("a"), add("b"))
    metadata = {**before, "schemaString": json.dumps(schema(physical))}
    write(store, SINCE, {"metaData": metadata}, operation="SCHEMAMIG CHANGE")
    return store


def schema(physical: str) -> dict[str, Any]:
    names = {"id": "long", "dep_delay": "integer", "c": "integer"}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in names.items()]
    fields[-1]["metadata"] = {} if physical == "c" else {PHYSICAL: physical}
    return {"type": "struct", "fields": fields}


def metadata_of(store: Store, default: str | None) -> Action:
    """The table's, with ``c`` with or without a default."""
    fields = schema("c")
    if default is not None:
        fields["fields"][-1]["metadata"] = {DEFAULT_KEY: default}
    return {"metaData": {**read_head(store).metadata, "schemaString": json.dumps(fields)}}


def add(name: str, nulls: int | None = None, **more: Any) -> dict[str, Any]:
    """``nulls`` of ``c`` in the statistics; None: they do not say."""
    counts = {} if nulls is None else {"nullCount": {"c": nulls}}
    return add_file(name, stats={"numRecords": 10, **counts}, **more)


def step(*actions: Action, **info: Any) -> Step:
    return actions, info


def ours(*actions: Action, column: str = "c") -> Step:
    tag = Tag(Generation(1), Epoch(1), f"backfill:{column}")
    return actions, {"operation": "SCHEMAMIG BACKFILL", "userMetadata": tag.user_metadata}


def play(store: Store, steps: Sequence[Step]) -> Head:
    version = read_head(store).version
    for number, (actions, info) in enumerate(steps, version + 1):
        write(store, number, *actions, **info)
    return read_head(store)


def checkpoint(store: Store) -> None:
    deltalake.DeltaTable(store.location.uri).create_checkpoint()


def names(due: DueFiles) -> tuple[str, str]:
    """The files that are due, by what is: every row, and NULLs."""
    every_row, nulls = ("".join(sorted(file["path"] for group in groups for file in group)) for groups in (due.every_row, due.nulls))
    return every_row, nulls
