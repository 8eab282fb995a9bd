"""How a live table differs from what the ledger recorded."""

from __future__ import annotations

import pytest

from airflow_provider_schemamig.core.schema.diff.drift import live_differences
from tests.unit.schema.tables import table

#: (expected, found, differences)
CASES = [
    ("a INT", "a INT", []),
    ("a INT COMMENT 'x', b INT", "b INT, a INT", []),
    ("a INT, b INT", "a INT", ["b: expected INT, found nothing"]),
    ("a INT", "a INT, b INT NOT NULL", ["b: expected nothing, found INT NOT NULL"]),
    ("a INT", "A INT", ["a: expected INT, found nothing", "A: expected nothing, found INT"]),
    ("a INT", "a BIGINT", ["a: expected INT, found BIGINT"]),
    ("a INT NOT NULL", "a INT", ["a: expected NOT NULL, found nullable"]),
    ("a INT DEFAULT 1", "a INT", ["a: expected DEFAULT 1, found DEFAULT None"]),
    ("s STRUCT<x: INT>", "s STRUCT<x: INT NOT NULL>", ["s.x: expected nullable, found NOT NULL"]),
    ("s STRUCT<x: INT>", "s STRUCT<x: INT, y: INT>", ["s.y: expected nothing, found INT"]),
    ("l ARRAY<INT>", "l ARRAY<BIGINT>", ["l.element: expected INT, found BIGINT"]),
    ("m MAP<INT, INT>", "m MAP<BIGINT, INT>", ["m.key: expected INT, found BIGINT"]),
    ("m MAP<INT, INT>", "m MAP<INT, BIGINT>", ["m.value: expected INT, found BIGINT"]),
    ("m MAP<INT, INT>", "m ARRAY<INT>", ["m: expected MAP<INT, INT>, found ARRAY<INT>"]),
    ("a INT, CONSTRAINT c CHECK (a>0)", "a INT, CONSTRAINT c CHECK ((a > 0))", []),
    ("a INT, CONSTRAINT c CHECK (a > 0)", "a INT", ["CHECK c: expected a > 0, found nothing"]),
    ("a INT", "a INT, CONSTRAINT c CHECK (a > 0)", ["CHECK c: expected nothing, found a > 0"]),
    ("a INT UNIQUE, b INT", "a INT, b INT", []),
]


@pytest.mark.parametrize(("expected", "found", "differences"), CASES)
def test_columns_and_checks(expected: str, found: str, differences: list[str]) -> None:
    assert [str(drift) for drift in live_differences(table(expected), table(found))] == differences


@pytest.mark.parametrize(
    ("expected", "found", "differences"),
    [
        ("TBLPROPERTIES (owned_by = 'me')", "TBLPROPERTIES (owned_by = 'you')", ["property owned_by: expected me, found you"]),
        ("TBLPROPERTIES (owned_by = 'me')", "", ["property owned_by: expected me, found nothing"]),
        ("", "TBLPROPERTIES (owned_by = 'you')", []),
        ("PARTITIONED BY (a)", "", ["partitioning: expected a, found nothing"]),
        ("CLUSTER BY (a)", "", []),
        ("COMMENT 'x'", "COMMENT 'y'", []),
    ],
)
def test_the_table_itself(expected: str, found: str, differences: list[str]) -> None:
    columns = "a INT, b INT"
    assert [str(drift) for drift in live_differences(table(columns, expected), table(columns, found))] == differences
