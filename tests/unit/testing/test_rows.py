"""Generated rows, their text, and what a CHECK says of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.testing.rows import check_sql
from airflow_provider_schemamig.core.testing.rows.fixtures import fixture_text
from airflow_provider_schemamig.core.testing.rows.generate import ROWS, generate
from airflow_provider_schemamig.core.testing.rows.row_codec import row_of, row_text
from airflow_provider_schemamig.core.testing.rows.seeded_random import SeededRandom
from tests.unit.testing.samples import HISTORY

V = Version(1, 0, 0)


def table(columns: str) -> Declaration:
    (found,) = parse_schema(f"CREATE TABLE t ({columns});", "schema.sql")
    return found


@pytest.mark.parametrize("release", range(len(HISTORY)))
def test_rows_read_and_written_again_are_the_same_text(release: int) -> None:
    for declaration in parse_schema(HISTORY[release][0], "schema.sql"):
        made = generate(declaration, V)
        assert made.beyond is None
        texts = [row_text(row, declaration.fields) for row in made.rows]
        assert [row_text(row_of(text, declaration.fields), declaration.fields) for text in texts] == texts
        assert any(all(row[f.name] is None for f in declaration.fields if f.nullable and f.name != "id") for row in made.rows)


def test_the_generator_never_changes() -> None:
    """Committed fixtures are compared with it: another text here is another ``GENERATOR``."""
    assert fixture_text(table("id BIGINT NOT NULL, d DECIMAL(6,2), t TIMESTAMP, a ARRAY<INT>, PRIMARY KEY (id)"), V) == (
        '{"collection":"t","generator":1,"version":"1.0.0"}\n'
        '{"a":[],"d":"80.01","id":856523324,"t":"2014-12-19T10:21:53.336428Z"}\n'
        '{"a":[],"d":null,"id":856523326,"t":null}\n'
        '{"a":[],"d":null,"id":856523327,"t":"2013-10-16T01:09:02.035081Z"}\n'
        '{"a":null,"d":null,"id":856523325,"t":null}\n'
    )
    assert [SeededRandom("seed").below(1000) for _ in range(2)] == [SeededRandom("seed").below(1000)] * 2


def test_keys_are_other_ones_in_every_row_and_version() -> None:
    declaration = table("id BIGINT NOT NULL, code STRING NOT NULL, day DATE NOT NULL, PRIMARY KEY (id), UNIQUE (code, day)")
    rows = [row for minor in range(50) for row in generate(declaration, Version(1, minor, 0)).rows]
    assert len({row["id"] for row in rows}) == len({row["code"] for row in rows}) == 50 * ROWS


@pytest.mark.parametrize(
    "columns",
    [
        "n INT, CONSTRAINT c CHECK (n BETWEEN 1000 AND 1010)",
        "n INT NOT NULL, m INT, CONSTRAINT c CHECK (n > 5000 AND (m IS NULL OR m < -7))",
        "s STRING, CONSTRAINT c CHECK (s IN ('red', 'green'))",
        "s STRING NOT NULL, CONSTRAINT c CHECK (length(s) = 7)",
        "d DECIMAL(5,2), CONSTRAINT c CHECK (d >= 123.45)",
        "day DATE NOT NULL, CONSTRAINT c CHECK (day > '2031-01-01')",
        "a INT, b INT, CONSTRAINT one CHECK (a = 3), CONSTRAINT two CHECK (b = 4)",
        "o STRUCT<code: STRING>, CONSTRAINT c CHECK (o.code IS NULL OR o.code <> 'x')",
    ],
)
def test_simple_checks_are_kept(columns: str) -> None:
    declaration = table(columns)
    made = generate(declaration, V)
    assert made.beyond is None
    assert made.rows
    for row in made.rows:
        assert all(check_sql.holds(check_sql.parse(check.expression), row) for check in declaration.checks)


@pytest.mark.parametrize("expression", ["regexp_like(s, '[a-z]+@')", "s = 'a' AND s = 'b'", "s > current_date()"])
def test_other_checks_are_said_to_be_beyond(expression: str) -> None:
    assert generate(table(f"s STRING NOT NULL, CONSTRAINT c CHECK ({expression})"), V).beyond == "c"


@pytest.mark.parametrize(
    "expression, row, expected",
    [
        ("n > 1", {"n": 2}, True),
        ("n > 1", {"n": None}, False),  # unknown is not true
        ("N >= 1 OR s IS NOT NULL", {"n": None, "s": "x"}, True),
        ("NOT (n = 1)", {"n": 2}, True),
        ("NOT (n = 1)", {"n": None}, False),
        ("n IN (1, 2)", {"n": 3}, False),
        ("n NOT IN (1, NULL)", {"n": 3}, False),
        ("n BETWEEN 1 AND 3", {"n": 3}, True),
        ("n <=> NULL", {"n": None}, True),
        ("-n * 2 + 1 < 0", {"n": 1}, True),
        ("length(trim(s)) = 2 AND upper(s) = ' AB '", {"s": " ab "}, True),
        ("d = 1.5", {"d": Decimal("1.50")}, True),
        ("day >= '2020-01-01'", {"day": date(2020, 1, 1)}, True),
        ("t > '2020-01-01'", {"t": datetime(2020, 1, 2, tzinfo=UTC)}, True),
        ("o.code = 'x'", {"o": {"code": "x"}}, True),
        ("o.code = 'x'", {"o": None}, False),
        ("ok", {"ok": True}, True),
    ],
)
def test_rehearsed_rows_what_a_check_says(expression: str, row: Mapping[str, Any], expected: bool) -> None:
    assert check_sql.holds(check_sql.parse(expression), row) is expected


@pytest.mark.parametrize("expression", ["f(n) > 1", "n > 'a'", "nobody = 1", "n LIKE '%x'", "n ="])
def test_rehearsed_rows_nothing_is_guessed(expression: str) -> None:
    with pytest.raises(check_sql.Unsupported):
        check_sql.holds(check_sql.parse(expression), {"n": 1})


@pytest.mark.parametrize(
    "columns, text",
    [
        ("n INT NOT NULL", '{"n":null}'),
        ("n INT", '{"n":"1"}'),
        ("n INT", '{"n":true}'),
        ("n INT", '{"m":1}'),
        ("d DECIMAL(4,2)", '{"d":"123.00"}'),
        ("d DECIMAL(4,2)", '{"d":"1.234"}'),
        ("d DECIMAL(4,2)", '{"d":"x"}'),
        ("n TINYINT", '{"n":128}'),
        ("v VARCHAR(2)", '{"v":"abc"}'),
        ("b BINARY", '{"b":"xyz"}'),
        ("t TIMESTAMP", '{"t":"yesterday"}'),
        ("m MAP<STRING, INT>", '{"m":{"a":1}}'),
        ("a ARRAY<INT>", '{"a":"1"}'),
        ("s STRUCT<x: INT>", '{"s":[1]}'),
    ],
)
def test_what_is_no_row(columns: str, text: str) -> None:
    with pytest.raises((ValueError, ArithmeticError)):
        row_of(text, table(columns).fields)
