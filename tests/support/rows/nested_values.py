"""Values of nested types between rows and Parquet files: fields have their physical names there, at any depth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from airflow_provider_schemamig.core.delta.names import physical_name

_TYPES = {"long": pa.int64(), "integer": pa.int32(), "short": pa.int16(), "double": pa.float64(), "string": pa.string()}


def arrow_type(data_type: Any) -> pa.DataType:
    """Delta's type as files have it."""
    if isinstance(data_type, str):
        return _TYPES[data_type]
    match data_type["type"]:
        case "struct":
            return pa.struct([(physical_name(field), arrow_type(field["type"])) for field in data_type["fields"]])
        case "array":
            return pa.list_(arrow_type(data_type["elementType"]))
        case _:
            return pa.map_(arrow_type(data_type["keyType"]), arrow_type(data_type["valueType"]))


def stored(value: Any, data_type: Any) -> Any:
    """A row's value as it goes into a file."""
    if value is None or isinstance(data_type, str):
        return value
    match data_type["type"]:
        case "struct":
            return {physical_name(field): stored(value[field["name"]], field["type"]) for field in data_type["fields"]}
        case "array":
            return [stored(item, data_type["elementType"]) for item in value]
        case _:
            return [(key, stored(item, data_type["valueType"])) for key, item in value.items()]


def logical(value: Any, data_type: Any) -> Any:
    """A file's value as a row has it; a field that the file lacks is NULL."""
    if value is None or isinstance(data_type, str):
        return value
    match data_type["type"]:
        case "struct":
            return {field["name"]: logical(value.get(physical_name(field)), field["type"]) for field in data_type["fields"]}
        case "array":
            return [logical(item, data_type["elementType"]) for item in value]
        case _:
            return {key: logical(item, data_type["valueType"]) for key, item in value}


def null_counts(values: list[Any], data_type: Any) -> Any:
    """As Delta's statistics have them: a field of a missing struct counts."""
    if isinstance(data_type, str) or data_type["type"] != "struct":
        return sum(value is None for value in values)
    return {
        physical_name(field): null_counts([None if value is None else value.get(field["name"]) for value in values], field["type"])
        for field in data_type["fields"]
    }


def missing(field: Mapping[str, Any], values: list[Any]) -> Iterator[str]:
    """The fields, itself or inside it, that are NOT NULL and have none in one of the rows; Delta asks them of a missing struct, too."""
    if not field["nullable"] and None in values:
        yield str(field["name"])
    if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
        for inner in field["type"]["fields"]:
            yield from missing(inner, [None if value is None else value.get(inner["name"]) for value in values])
