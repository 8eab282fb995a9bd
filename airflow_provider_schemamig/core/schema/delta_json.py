"""Declarations from a Delta table's own metadata, and fields as Delta stores them.

The table's JSON is Spark's ``StructType`` JSON; a varchar(n) is a string with its limit in the field's metadata, a default is the
metadata ``CURRENT_DEFAULT``. Keys, clustering and comments of nothing but columns are not in ``metaData``:
keys are registry elements, clustering is a domain of its own.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from airflow_provider_schemamig.core.names import SEAL_PREFIX, CollectionName
from airflow_provider_schemamig.core.schema.clauses import CLAUSES, clauses_of, expression_text
from airflow_provider_schemamig.core.schema.delta_rules.properties import CONSTRAINT_PREFIX, FORGETS, refusal_reason
from airflow_provider_schemamig.core.schema.delta_rules.widening import decimal_of, varchar_length
from airflow_provider_schemamig.core.schema.model import Array, Check, DataType, Declaration, Field, Map, Primitive, Struct, plain_field
from airflow_provider_schemamig.core.schema.ordering import sorted_checks, sorted_properties
from airflow_provider_schemamig.exceptions import Refusal

#: Delta's name -> the canonical Spark SQL name. Decimals and varchar carry parameters and are handled apart.
TYPE_NAMES = {
    "boolean": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
_DELTA_NAMES = {ours: theirs for theirs, ours in TYPE_NAMES.items()}
VARCHAR_KEY = "__CHAR_VARCHAR_TYPE_STRING"
COMMENT_KEY = "comment"


class UnknownDeltaType(Refusal):
    """A table has a type that a declaration cannot hold (char(n), interval, void, variant, a nested varchar...)."""

    code = "unknown_delta_type"
    message = "column {path} of the table has the type {type_name}, which schemamig does not manage."
    next_action = "Give the column a supported type (docs/schema-changes.md lists them), or leave this table unmanaged."
    path: str
    type_name: str


class InvalidSchemaJson(Refusal):
    """Text that is not a Spark StructType."""

    code = "invalid_schema_json"
    message = "this is not the JSON of a Spark StructType: {reason}."
    next_action = "Check the file, or the table's newest metaData action."
    reason: str


def fields_from_delta(schema_string: str) -> tuple[Field, ...]:
    """Return the fields of a ``schemaString`` (or of any Spark StructType JSON). Raises InvalidSchemaJson, UnknownDeltaType."""
    try:
        document = json.loads(schema_string)
        return _struct(document, "").fields
    except json.JSONDecodeError as error:
        raise InvalidSchemaJson(reason=str(error)) from error
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidSchemaJson(reason=f"{type(error).__name__}: {error}") from error


def declaration_from_delta(name: CollectionName, metadata: Mapping[str, Any]) -> Declaration:
    """Return what a table says of itself, from its raw ``metaData`` action. ``properties`` are those a declaration may hold.

    schemamig's own constraints (the seal) are not part of it. Raises InvalidSchemaJson, UnknownDeltaType.
    """
    configuration: Mapping[str, str] = metadata.get("configuration") or {}
    return Declaration(
        name=name,
        fields=fields_from_delta(metadata["schemaString"]),
        partitioned_by=tuple(metadata.get("partitionColumns") or ()),
        checks=_checks(configuration),
        properties=sorted_properties((key, value) for key, value in configuration.items() if key == FORGETS or refusal_reason(key) is None),
        comment=metadata.get("description"),
    )


def type_to_delta(data_type: DataType) -> str | dict[str, Any]:
    """Write a type as Delta's schema JSON has it. varchar(n) is ``string``: its limit belongs to the field."""
    match data_type:
        case Primitive(name=name):
            return "string" if varchar_length(name) is not None else _DELTA_NAMES.get(name, name)
        case Array(element=element, contains_null=contains_null):
            return {"type": "array", "elementType": type_to_delta(element), "containsNull": contains_null}
        case Map(key=key, value=value, value_contains_null=contains_null):
            value_type = type_to_delta(value)
            return {"type": "map", "keyType": type_to_delta(key), "valueType": value_type, "valueContainsNull": contains_null}
        case Struct(fields=fields):
            return {"type": "struct", "fields": [field_to_delta(f) for f in fields]}


def field_to_delta(field: Field) -> dict[str, Any]:
    """Write a field as Delta's schema JSON has it: name, type, nullable, metadata (no column-mapping ids)."""
    metadata: dict[str, Any] = {}
    if field.comment is not None:
        metadata[COMMENT_KEY] = field.comment
    metadata |= {clause.key: text for clause, text in clauses_of(field)}
    if isinstance(field.type, Primitive) and varchar_length(field.type.name) is not None:
        metadata[VARCHAR_KEY] = field.type.name
    return {"name": field.name, "type": type_to_delta(field.type), "nullable": field.nullable, "metadata": metadata}


def _comment(found: Any) -> str | None:
    """Return a comment as text: a writer may have put a number there."""
    return found if found is None or isinstance(found, str) else json.dumps(found)


def _checks(configuration: Mapping[str, str]) -> tuple[Check, ...]:
    found = []
    for key, text in configuration.items():
        name = key.lower().removeprefix(CONSTRAINT_PREFIX)
        if key.lower().startswith(CONSTRAINT_PREFIX) and not name.startswith(SEAL_PREFIX):
            found.append(Check(name, expression_text(text)))
    return sorted_checks(found)


def _struct(document: Mapping[str, Any], prefix: str) -> Struct:
    if document["type"] != "struct":
        raise InvalidSchemaJson(reason=f"a struct was expected, found {document['type']!r}")
    return Struct(tuple(_field(field, prefix) for field in document["fields"]))


def _field(document: Mapping[str, Any], prefix: str) -> Field:
    name = document["name"]
    path = f"{prefix}{name}"
    metadata = document.get("metadata") or {}
    data_type = document["type"]
    if not metadata and isinstance(data_type, str):
        return plain_field(name, _primitive(data_type, path), document["nullable"])
    clauses = {clause.attribute: clause.stored(metadata[clause.key]) for clause in CLAUSES if metadata.get(clause.key) is not None}
    return Field(
        name=name,
        type=_field_type(data_type, metadata.get(VARCHAR_KEY), path),
        nullable=document["nullable"],
        comment=_comment(metadata.get(COMMENT_KEY)),
        **clauses,
    )


def _field_type(data_type: Any, declared: str | None, path: str) -> DataType:
    if declared is None:
        return _type(data_type, path)
    declared = declared.lower()
    if data_type != "string" or varchar_length(declared) is None:
        raise UnknownDeltaType(path=path, type_name=declared)  # char(n), or a varchar inside an array, map or struct
    return Primitive(declared)


def _type(data_type: Any, path: str) -> DataType:
    if isinstance(data_type, str):
        return _primitive(data_type, path)
    match data_type["type"]:
        case "struct":
            return _struct(data_type, f"{path}.")
        case "array":
            return Array(_type(data_type["elementType"], f"{path}.element"), data_type["containsNull"])
        case "map":
            key = _type(data_type["keyType"], f"{path}.key")
            return Map(key, _type(data_type["valueType"], f"{path}.value"), data_type["valueContainsNull"])
        case other:
            raise UnknownDeltaType(path=path, type_name=str(other))


def _primitive(name: str, path: str) -> Primitive:
    found = _known_primitive(name)
    if found is None:
        raise UnknownDeltaType(path=path, type_name=name)
    return found


@functools.lru_cache(maxsize=1024)
def _known_primitive(name: str) -> Primitive | None:
    if name in TYPE_NAMES:
        return Primitive(TYPE_NAMES[name])
    compact = name.replace(" ", "")
    if compact == "decimal":
        return Primitive("decimal(10,0)")
    return Primitive(compact) if decimal_of(compact) is not None else None
