"""Whatever order a value's fields have, each is found by its name; those that have other names stay where they are."""

from __future__ import annotations

import pytest

from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.schema.field_order import by_name
from airflow_provider_schemamig.core.schema.model import DataType


def type_of(text: str) -> DataType:
    [declaration] = parse_schema(f"CREATE TABLE t (v {text});", "schema.sql")
    return declaration.fields[0].type


@pytest.mark.parametrize(
    ("given", "wanted", "expected"),
    [
        ("INT", "STRING", "v"),
        ("ARRAY<INT>", "ARRAY<STRING>", "v"),
        ("STRUCT<a: INT, b: INT>", "STRUCT<a: STRING, b: INT>", "IF(v IS NULL, NULL, named_struct('a', v.`a`, 'b', v.`b`))"),
        ("STRUCT<a: INT, b: INT>", "STRUCT<b: INT, a: STRING>", "IF(v IS NULL, NULL, named_struct('b', v.`b`, 'a', v.`a`))"),
        ("STRUCT<a: INT, b: INT>", "STRUCT<a: INT, c: INT>", "v"),
        (
            "MAP<STRING, STRUCT<a: INT>>",
            "MAP<STRING, STRUCT<a: STRING>>",
            "transform_values(v, (k0, x0) -> IF(x0 IS NULL, NULL, named_struct('a', x0.`a`)))",
        ),
    ],
)
def test_field_order_of_a_value_is_that_of_the_wanted_type(given: str, wanted: str, expected: str) -> None:
    assert by_name("v", type_of(given), type_of(wanted)) == expected
