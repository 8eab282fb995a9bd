"""A table's own schema JSON, there and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.delta_json import (
    InvalidSchemaJson,
    UnknownDeltaType,
    declaration_from_delta,
    field_to_delta,
    fields_from_delta,
    type_to_delta,
)
from airflow_provider_schemamig.core.schema.model import Declaration, Field, Primitive
from tests.unit.schema.strategies import declarations
from tests.unit.schema.tables import table

EVERYTHING = table(
    "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(12,2), i STRING, j VARCHAR(20), k BINARY, l DATE, "
    "m TIMESTAMP, n TIMESTAMP_NTZ, o ARRAY<INT>, p MAP<STRING, STRUCT<x: INT COMMENT 'inside'>>, q STRUCT<x: INT NOT NULL> NOT NULL, "
    "r INT DEFAULT 1 COMMENT 'what'"
)
TYPES = ["boolean", "byte", "short", "integer", "long", "float", "double", "decimal(12,2)", "string", "string", "binary", "date"]


def schema_string(fields: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "struct", "fields": fields})


def one(data_type: Any, metadata: dict[str, Any] | None = None, nullable: bool = True) -> dict[str, Any]:
    return {"name": "a", "type": data_type, "nullable": nullable, "metadata": metadata or {}}


def test_the_names_are_deltas() -> None:
    assert [type_to_delta(f.type) for f in EVERYTHING.fields[:12]] == TYPES
    assert field_to_delta(EVERYTHING.fields[9])["metadata"] == {"__CHAR_VARCHAR_TYPE_STRING": "varchar(20)"}
    assert field_to_delta(EVERYTHING.fields[17])["metadata"] == {"CURRENT_DEFAULT": "1", "comment": "what"}
    assert type_to_delta(EVERYTHING.fields[14].type) == {"type": "array", "elementType": "integer", "containsNull": True}


@settings(max_examples=50, deadline=None)
@given(declarations())
def test_delta_json_there_and_back(declaration: Declaration) -> None:
    assert fields_from_delta(schema_string([field_to_delta(f) for f in declaration.fields])) == declaration.fields


def test_every_type_there_and_back() -> None:
    assert fields_from_delta(schema_string([field_to_delta(f) for f in EVERYTHING.fields])) == EVERYTHING.fields


def test_delta_json_what_spark_writes() -> None:
    """Column mapping's ids, unknown metadata, spaces in decimals: read over."""
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1", "other": {}}
    assert fields_from_delta(schema_string([one("decimal( 10, 2 )", mapped)])) == (Field("a", Primitive("decimal(10,2)")),)
    with_default = schema_string([one("integer", {"CURRENT_DEFAULT": " ( 1 ) "})])
    assert fields_from_delta(with_default) == (Field("a", Primitive("int"), default="1"),)
    assert fields_from_delta(schema_string([one("integer", {"CURRENT_DEFAULT": "null"})])) == (Field("a", Primitive("int")),)


@pytest.mark.parametrize(
    ("data_type", "metadata"),
    [
        ("void", {}),
        ("variant", {}),
        ("interval day to second", {}),
        ("decimal(10;2)", {}),
        ({"type": "udt", "class": "x"}, {}),
        ("string", {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}),
        ({"type": "array", "elementType": "string", "containsNull": True}, {"__CHAR_VARCHAR_TYPE_STRING": "array<varchar(3)>"}),
    ],
)
def test_a_type_a_declaration_cannot_hold(data_type: Any, metadata: dict[str, Any]) -> None:
    inside = {"type": "struct", "fields": [one(data_type, metadata)]}
    with pytest.raises(UnknownDeltaType) as caught:
        fields_from_delta(schema_string([{"name": "s", "type": inside, "nullable": True, "metadata": {}}]))
    assert caught.value.path == "s.a"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "1", '{"type":"array"}', '{"type":"struct","fields":[{}]}', '{"type":"struct","fields":[1]}']
)
def test_text_that_is_no_schema(text: str) -> None:
    with pytest.raises(InvalidSchemaJson):
        fields_from_delta(text)


def test_a_declaration_from_a_table() -> None:
    found = declaration_from_delta(
        CollectionName("flights"),
        {
            "schemaString": schema_string([one("integer"), {**one("date"), "name": "b"}]),
            "partitionColumns": ["b"],
            "description": "all of them",
            "configuration": {
                "delta.constraints.positive": "(a>0)",
                "delta.constraints.odd": " 'not closed",
                "delta.constraints.schemamig_moved_to_x": "(1 = 0)",
                "delta.columnMapping.mode": "name",
                "delta.columnMapping.maxColumnId": "2",
                "delta.appendOnly": "true",
                "delta.enableChangeDataFeed": "true",
                "delta.logRetentionDuration": "interval 30 days",
                "owned_by": "me",
            },
        },
    )
    assert (found.partitioned_by, found.comment) == (("b",), "all of them")
    assert [(check.name, check.expression) for check in found.checks] == [
        ("odd", "'not closed"),
        ("positive", "a > 0"),
    ]
    kept = (("delta.enableChangeDataFeed", "true"), ("delta.logRetentionDuration", "interval 30 days"), ("owned_by", "me"))
    assert found.properties == kept


def test_a_declaration_equals_the_one_its_sql_gives() -> None:
    wanted = table(
        "a INT NOT NULL, b VARCHAR(3), CONSTRAINT C CHECK (a>0)", "PARTITIONED BY (b) TBLPROPERTIES (owned_by = 'me') COMMENT 'x'"
    )
    metadata = {
        "schemaString": schema_string([field_to_delta(f) for f in wanted.fields]),
        "partitionColumns": ["b"],
        "description": "x",
        "configuration": {"delta.constraints.c": "a > 0", "owned_by": "me"},
    }
    assert declaration_from_delta(CollectionName("flights"), metadata) == wanted
