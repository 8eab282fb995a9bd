"""Rows into and out of a Delta table without a JVM, whatever features schemamig gave it.

delta-rs neither writes tables with column mapping, type widening or defaults, nor reads wider types; a chain that only changes schemas
makes all three. So rows go in through a writer handle where that is honest and else by Delta's protocol in a few lines, and are read from
the files alone. The tables are small, of a throw-away environment, and nobody else writes to them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.commit.append import Entry, append, uses_in_commit_timestamps
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.names import physical_name
from airflow_provider_schemamig.core.names import Epoch, Generation
from airflow_provider_schemamig.core.storage import ReadStore, Store
from airflow_provider_schemamig.core.testing.rows.row_codec import Row

_TAG = Tag(Generation(0), Epoch(0), "test rows")
_MOMENT = ("timestamp", "timestamp_ntz")


def append_rows(store: Store, head: Head, rows: Sequence[Row]) -> None:
    """Append one commit with ``rows``, which have the table's columns by name; a file for each partition."""
    fields = head.schema["fields"]
    partitioned = list(head.metadata.get("partitionColumns") or ())
    parts: dict[tuple[str | None, ...], list[Row]] = {}
    for row in rows:
        parts.setdefault(tuple(_partition_text(row[name]) for name in partitioned), []).append(row)
    adds = [_add(store, fields, partitioned, key, part) for key, part in parts.items()]
    entry = Entry(_TAG, adds, operation="WRITE")
    append(store, head.version, entry, lambda commit: None, in_commit_timestamps=uses_in_commit_timestamps(head.metadata))


def _add(store: Store, fields: list[Any], partitioned: list[str], key: tuple[str | None, ...], rows: list[Row]) -> RawAction:
    import pyarrow as pa
    import pyarrow.parquet as pq

    stored = [field for field in fields if field["name"] not in partitioned]
    columns = {physical_name(f): pa.array([_stored(row[f["name"]], f["type"]) for row in rows], _arrow(f["type"])) for f in stored}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    data = sink.getvalue().to_pybytes()
    name = f"part-{uuid.uuid4()}.parquet"
    store.put(name, data)
    physical = {field["name"]: physical_name(field) for field in fields}
    return {
        "add": {
            "path": name,
            "partitionValues": {physical[column]: value for column, value in zip(partitioned, key, strict=True)},
            "size": len(data),
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps(_statistics(columns, len(rows))),
        }
    }


def _statistics(columns: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return statistics of numbers and NULLs: handles ask for them where a promise was taken back."""
    import pyarrow.compute as pc

    return {
        "numRecords": count,
        "minValues": _limits(columns, pc.min),
        "maxValues": _limits(columns, pc.max),
        "nullCount": {name: _null_count(values) for name, values in columns.items()},
    }


def _limits(columns: Mapping[str, Any], limit: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the least or greatest value of every whole number that is not NULL in all rows, in structs too."""
    import pyarrow as pa

    found: dict[str, Any] = {}
    for name, values in columns.items():
        if pa.types.is_struct(values.type):
            parts = {field.name: part for field, part in zip(values.type, values.flatten(), strict=True)}
            found[name] = _limits(parts, limit)
        elif pa.types.is_integer(values.type) and values.null_count < len(values):
            found[name] = limit(values).as_py()
    return found


def _null_count(values: Any) -> Any:
    """Count the NULLs; of a struct, those of its fields."""
    import pyarrow as pa

    if pa.types.is_struct(values.type):
        return {field.name: _null_count(part) for field, part in zip(values.type, values.flatten(), strict=True)}
    return values.null_count


def _stored(value: Any, kind: Any) -> Any:
    """Return a value by the physical names of what is in it."""
    if value is None or isinstance(kind, str):
        return value
    match kind["type"]:
        case "struct":
            return {physical_name(field): _stored(value[field["name"]], field["type"]) for field in kind["fields"]}
        case "array":
            return [_stored(item, kind["elementType"]) for item in value]
        case _:
            return [(_stored(k, kind["keyType"]), _stored(v, kind["valueType"])) for k, v in value]


def _arrow(kind: Any) -> Any:
    import pyarrow as pa

    if not isinstance(kind, str):
        match kind["type"]:
            case "struct":
                return pa.struct([(physical_name(field), _arrow(field["type"])) for field in kind["fields"]])
            case "array":
                return pa.list_(_arrow(kind["elementType"]))
            case _:
                return pa.map_(_arrow(kind["keyType"]), _arrow(kind["valueType"]))
    if kind.startswith("decimal"):
        return pa.decimal128(*map(int, kind.removeprefix("decimal(").removesuffix(")").split(",")))
    atoms = {
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    return atoms.get(kind, pa.string())


def _partition_text(value: Any) -> str | None:
    """Write a partition's value as Delta's protocol spells it."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if value.tzinfo is not None else "%Y-%m-%d %H:%M:%S.%f")
        case date():
            return value.isoformat()
        case bytes():
            return value.decode(errors="surrogateescape")
    return str(value)


# --- reading -------------------------------------------------------------------------------------------------------------------------

#: Rows of a data file by its name, which holds a UUID: files never change, and copies of an environment share them.
_FILES: dict[str, list[Row]] = {}
_MOST_FILES = 20_000


def scan(store: ReadStore, head: Head) -> Iterator[Row]:
    """Yield the rows of the table at the head's version, by its columns' names. Raises NotImplementedError for deletion vectors."""
    fields = head.schema["fields"]
    partitioned = set(head.metadata.get("partitionColumns") or ())
    for add in active_files(store, head.version).values():
        if add.get("deletionVector"):
            raise NotImplementedError("deletion vectors are read by Spark and delta-rs alone")
        values = add["partitionValues"]
        for stored in _file(store, unquote(str(add["path"]))):
            yield {
                f["name"]: _parsed(values.get(physical_name(f)), f["type"])
                if f["name"] in partitioned
                else _logical(stored.get(physical_name(f)), f["type"])
                for f in fields
            }


def _file(store: ReadStore, key: str) -> list[Row]:
    import pyarrow.parquet as pq

    name = key.rpartition("/")[2]
    found = _FILES.get(name)
    if found is None:
        with store.open_random(key) as file:
            # Spark writes times as INT96, which has no unit of its own.
            found = pq.ParquetFile(file, coerce_int96_timestamp_unit="us").read().to_pylist()
        if len(_FILES) >= _MOST_FILES:
            _FILES.clear()
        _FILES[name] = found
    return found


def _logical(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, str):
        return value.replace(tzinfo=UTC) if kind == "timestamp" and value.tzinfo is None else value
    match kind["type"]:
        case "struct":
            return {field["name"]: _logical(value.get(physical_name(field)), field["type"]) for field in kind["fields"]}
        case "array":
            return [_logical(item, kind["elementType"]) for item in value]
        case _:
            return [(_logical(k, kind["keyType"]), _logical(v, kind["valueType"])) for k, v in value]


def _parsed(text: str | None, kind: str) -> Any:
    """Parse a partition's value; an empty text is NULL."""
    if not text:
        return None
    if kind in ("byte", "short", "integer", "long"):
        return int(text)
    if kind in ("float", "double"):
        return float(text)
    if kind.startswith("decimal"):
        return Decimal(text)
    if kind == "boolean":
        return text == "true"
    if kind == "date":
        return date.fromisoformat(text)
    if kind in _MOMENT:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC) if kind == "timestamp" else moment.replace(tzinfo=None)
    return text.encode(errors="surrogateescape") if kind == "binary" else text
