"""Somebody else at work on a Delta table, by hand: rows in the table's present columns, and metadata changed behind our back.

delta-rs refuses tables with column mapping, type widening or defaults, and Spark needs a JVM: this is a writer by Delta's protocol in a few
lines. It writes statistics of NULLs, as Spark and delta-rs do.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_schemamig.core.delta.metadata.clustering import clustering_domain
from airflow_provider_schemamig.core.delta.names import PHYSICAL_NAME

_TYPES = {
    "long": pa.int64(),
    "integer": pa.int32(),
    "string": pa.string(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "binary": pa.binary(),
}

Rows = Sequence[Mapping[str, Any]]


def _actions(path: Path) -> Iterator[dict[str, Any]]:
    for entry in sorted((path / "_delta_log").glob("*.json")):
        yield from map(json.loads, entry.read_text().splitlines())


def metadata(path: Path) -> dict[str, Any]:
    """The table's present metaData action."""
    found: dict[str, Any] = {}
    for action in _actions(path):
        found = action.get("metaData", found)
    return found


def protocol(path: Path) -> dict[str, Any]:
    """The table's present protocol action."""
    found: dict[str, Any] = {}
    for action in _actions(path):
        found = action.get("protocol", found)
    return found


def live_schema(path: Path) -> list[dict[str, Any]]:
    """The fields of the table's schema, as its log has them."""
    fields: list[dict[str, Any]] = json.loads(metadata(path)["schemaString"])["fields"]
    return fields


def commit(path: Path, *actions: Mapping[str, Any], operation: str = "BY HAND", says: str | None = None) -> int:
    """Put a commit at the end of the log; its version. ``says``: what it says of itself in its user metadata."""
    version = len(list((path / "_delta_log").glob("*.json")))
    info = {"operation": operation} | ({"userMetadata": says} if says else {})
    text = "".join(json.dumps(action) + "\n" for action in ({"commitInfo": info}, *actions))
    with (path / "_delta_log" / f"{version:020}.json").open("x") as file:
        file.write(text)
    return version


def write(path: Path, rows: Rows, *, statistics: bool = True, overwrite: bool = False, says: str | None = None) -> int:
    """Append ``rows`` (or put them instead of all there are), by the names the columns have now; what a row leaves out is NULL."""
    fields = live_schema(path)
    unknown = {name for row in rows for name in row} - {field["name"] for field in fields}
    assert not unknown, f"the table has no column {unknown}"
    columns = [pa.array([_physical(row.get(field["name"]), field["type"]) for row in rows], _arrow(field["type"])) for field in fields]
    name = f"part-{uuid.uuid4()}.parquet"
    pq.write_table(pa.table(dict(zip(map(_physical_name, fields), columns, strict=True))), path / name)
    nulls = {_physical_name(field): column.null_count for field, column in zip(fields, columns, strict=True)}
    stats = {"numRecords": len(rows)} | ({"nullCount": nulls} if statistics else {})
    size, now = (path / name).stat().st_size, 1
    add = {"path": name, "partitionValues": {}, "size": size, "modificationTime": now, "dataChange": True, "stats": json.dumps(stats)}
    gone = active_files(path) if overwrite else ()
    return commit(path, *({"remove": {"path": old, "dataChange": True}} for old in gone), {"add": add}, says=says)


def compact(path: Path, says: str | None = None) -> int:
    """OPTIMIZE, of every file by itself. ``says``: what the statement says after which Delta runs it."""
    actions: list[Mapping[str, Any]] = []
    for action in list(_actions(path)):
        if "add" in action and action["add"]["path"] in active_files(path):
            old, new = action["add"], f"part-{uuid.uuid4()}.parquet"
            shutil.copy(path / old["path"], path / new)
            actions += [{"remove": {"path": old["path"], "dataChange": False}}, {"add": {**old, "path": new, "dataChange": False}}]
    return commit(path, *actions, operation="OPTIMIZE", says=says)


def delete_all(path: Path) -> int:
    """DELETE without a condition, which writes no file."""
    return commit(path, *({"remove": {"path": old, "dataChange": True}} for old in active_files(path)), operation="DELETE")


def active_files(path: Path) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for action in _actions(path):
        if "add" in action:
            found[action["add"]["path"]] = None
        elif "remove" in action:
            found.pop(action["remove"]["path"])
    return tuple(found)


def add_column(path: Path, name: str, kind: str = "string") -> None:
    """A foreign ALTER TABLE ADD COLUMN."""
    configuration, identity = metadata(path)["configuration"], {}
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        number = int(configuration["delta.columnMapping.maxColumnId"]) + 1
        identity = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
        configuration = configuration | {"delta.columnMapping.maxColumnId": str(number)}
    field = {"name": name, "type": kind, "nullable": True, "metadata": identity}
    _alter(path, schemaString=json.dumps({"type": "struct", "fields": [*live_schema(path), field]}), configuration=configuration)


def drop_column(path: Path, name: str) -> None:
    """A foreign REPLACE COLUMNS without ``name``."""
    kept = [field for field in live_schema(path) if field["name"] != name]
    _alter(path, schemaString=json.dumps({"type": "struct", "fields": kept}))


def rename_column(path: Path, name: str, to: str) -> None:
    """A foreign ALTER TABLE RENAME COLUMN, of a table whose columns are mapped."""
    fields = [field | {"name": to} if field["name"] == name else field for field in live_schema(path)]
    _alter(path, schemaString=json.dumps({"type": "struct", "fields": fields}))


def widen_int(path: Path, name: str) -> None:
    """A foreign ALTER COLUMN of an INT TYPE BIGINT, of a table whose columns are mapped."""
    features = ["columnMapping", "typeWidening"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": [*features, "invariants"]}
    note = {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}
    fields = [
        field | {"type": "long", "metadata": field["metadata"] | note} if field["name"] == name else field for field in live_schema(path)
    ]
    now = metadata(path)
    changed = {
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "configuration": now["configuration"] | {"delta.enableTypeWidening": "true"},
    }
    commit(path, {"protocol": protocol}, {"metaData": now | changed})


def give_id(path: Path, table_id: str) -> None:
    """What CREATE OR REPLACE TABLE does to a table's id."""
    _alter(path, id=table_id)


def make_anew(path: Path, *, table_id: str = "ANOTHER", commits: int = 1) -> None:
    """DROP TABLE, and another one of the same columns at its place, with a log of so many commits."""
    protocol, now = [action["protocol"] for action in _actions(path) if "protocol" in action][-1], metadata(path)
    shutil.rmtree(path)
    (path / "_delta_log").mkdir(parents=True)
    commit(path, {"protocol": protocol}, {"metaData": now | {"id": table_id}})
    for number in range(1, commits):
        commit(path, {"txn": {"appId": "somebody", "version": number}})


def set_property(path: Path, key: str, value: str) -> None:
    """A foreign ALTER TABLE SET TBLPROPERTIES."""
    _alter(path, configuration=metadata(path)["configuration"] | {key: value})


def cluster_by(path: Path, *columns: str) -> None:
    """A foreign ALTER TABLE CLUSTER BY, of a clustered table whose columns have their names in the files."""
    commit(path, {"domainMetadata": clustering_domain([[column] for column in columns])})


def clustered_by(path: Path) -> list[str]:
    """The table's clustering columns."""
    found = [action["domainMetadata"] for action in _actions(path) if "domainMetadata" in action]
    return [".".join(column) for column in json.loads(found[-1]["configuration"])["clusteringColumns"]]


def _alter(path: Path, **changes: Any) -> None:
    commit(path, {"metaData": metadata(path) | changes})


def _physical_name(field: Mapping[str, Any]) -> str:
    return str(field["metadata"].get(PHYSICAL_NAME, field["name"]))


def _physical(value: Any, kind: Any) -> Any:
    """A struct's value by its fields' physical names."""
    if value is None or isinstance(kind, str):
        return value
    return {_physical_name(field): _physical(value.get(field["name"]), field["type"]) for field in kind["fields"]}


def _arrow(kind: Any) -> pa.DataType:
    if isinstance(kind, str):
        return _TYPES[kind]
    return pa.struct([(_physical_name(field), _arrow(field["type"])) for field in kind["fields"]])
