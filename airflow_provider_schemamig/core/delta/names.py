"""Names inside a table's schema JSON: physical and logical paths, and the names that are ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_schemamig.core.names import ColumnPath

MAPPING_ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"

JsonField = dict[str, Any]


def physical_name(field: Mapping[str, Any]) -> str:
    """Return a field's name in the data files."""
    return str((field.get("metadata") or {}).get(PHYSICAL_NAME, field["name"]))


def stored_field(schema: Mapping[str, Any], physical: str) -> JsonField | None:
    """Return the top-level field of a table that is called ``physical`` in the data files."""
    return next((field for field in schema["fields"] if physical_name(field) == physical), None)


def structs_in(data_type: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every struct at or below a type with its dotted logical path, outer before inner."""
    if not isinstance(data_type, dict):
        return
    match data_type.get("type"):
        case "struct":
            yield path, data_type
            for field in data_type["fields"]:
                yield from structs_in(field["type"], f"{path}.{field['name']}" if path else field["name"])
        case "array":
            yield from structs_in(data_type["elementType"], f"{path}.element")
        case "map":
            yield from structs_in(data_type["keyType"], f"{path}.key")
            yield from structs_in(data_type["valueType"], f"{path}.value")


def fields_in(data_type: Any) -> Iterator[tuple[ColumnPath, JsonField]]:
    """Yield every field at or below a type with its dotted logical path."""
    for path, struct in structs_in(data_type):
        for field in struct["fields"]:
            yield ColumnPath(f"{path}.{field['name']}" if path else field["name"]), field


def stored_names(schema: Mapping[str, Any]) -> dict[ColumnPath, str]:
    """Return the fields whose name in the data files is not their own: dotted logical path -> that name. Without column mapping, none."""
    return {path: physical_name(field) for path, field in fields_in(schema) if physical_name(field) != field["name"]}


def logical_path(schema: Mapping[str, Any], path: Sequence[str]) -> str:
    """Return the dotted logical path of a physical path through structs; a part that is not found stays as it is."""
    names: list[str] = []
    here: Any = schema
    for part in path:
        fields = here.get("fields", ()) if isinstance(here, dict) else ()
        field = next((f for f in fields if physical_name(f) == part), None)
        names.append(part if field is None else field["name"])
        here = None if field is None else field["type"]
    return ".".join(names)


def physical_path(schema: Mapping[str, Any], path: str) -> tuple[str, ...] | None:
    """Return the physical path of a dotted logical path through structs; None if it is not there, or leads through an array or a map."""
    names: list[str] = []
    here: Any = schema
    for part in path.split("."):
        fields = here.get("fields", ()) if isinstance(here, dict) else ()
        field = next((f for f in fields if f["name"] == part), None)
        if field is None:
            return None
        names.append(physical_name(field))
        here = field["type"]
    return tuple(names)


def unenforced_not_nulls(field: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of NOT NULL fields inside arrays and maps of ``field``.

    Spark refuses to make them, because nothing would enforce them.
    """
    yield from _not_nulls_in(field["type"], field["name"], inside=False)


def _not_nulls_in(data_type: Any, path: str, inside: bool) -> Iterator[str]:
    if not isinstance(data_type, dict):
        return
    match data_type["type"]:
        case "struct":
            for field in data_type["fields"]:
                here = f"{path}.{field['name']}"
                if inside and not field["nullable"]:
                    yield here
                yield from _not_nulls_in(field["type"], here, inside)
        case "array":
            yield from _not_nulls_in(data_type["elementType"], f"{path}.element", True)
        case "map":
            yield from _not_nulls_in(data_type["keyType"], f"{path}.key", True)
            yield from _not_nulls_in(data_type["valueType"], f"{path}.value", True)
