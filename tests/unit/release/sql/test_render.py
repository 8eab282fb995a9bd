"""A declaration as the CREATE TABLE that says it, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from airflow_provider_schemamig.core.names import CollectionName, InvalidName
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.release.sql.render import (
    NotDeclarable,
    create_table_text,
    sayable,
    with_more_statements,
    with_statement,
    without_statement,
)
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Array, Check, Declaration, Field, Map, Primitive, Struct
from tests.unit.schema.strategies import declarations

INT, STRING = Primitive("int"), Primitive("string")
T = CollectionName("t")

STATEMENTS = (
    "CREATE TABLE t (id BIGINT NOT NULL COMMENT 'it''s a \\\\ \"x\"\\nand more', v VARCHAR(5) DEFAULT 'a''b')",
    "CREATE TABLE t (`order` STRUCT<a: INT NOT NULL COMMENT 'c', `from`: ARRAY<MAP<STRING, DECIMAL(10,2)>>>, `ü-1` INT)",
    "CREATE TABLE t (a INT, b INT, CONSTRAINT pos CHECK (a > 0 AND `b` <> 3), PRIMARY KEY (a), CONSTRAINT u UNIQUE (b, a))",
    "CREATE TABLE t (a INT, day DATE DEFAULT DATE'2020-01-01') PARTITIONED BY (day) COMMENT 'of a day'",
    "CREATE TABLE t (a INT, s STRUCT<`x y`: INT>) CLUSTER BY (a) TBLPROPERTIES ('a.b' = 'x''y\\\\', 'delta.enableChangeDataFeed' = 'true')",
)


@pytest.mark.parametrize("statement", [text for text in STATEMENTS if "x y" not in text])
def test_reads_back_as_it_was(statement: str) -> None:
    (declared,) = parse_schema(statement, "schema.sql")
    (found,) = parse_schema(create_table_text(declared, ["above it,\nin one line"]), "schema.sql")
    assert found == declared


@settings(max_examples=30)
@given(declarations(sql=True))
def test_what_sql_can_say_is_said_exactly(declaration: Declaration) -> None:
    text = create_table_text(declaration)
    (found,) = parse_schema(text, "schema.sql") if not declaration.foreign_keys else (declaration,)
    assert fingerprint(found) == fingerprint(declaration)


@settings(max_examples=30)
@given(declarations())
def test_what_a_table_can_have_is_said_without_what_sql_lacks(declaration: Declaration) -> None:
    said = sayable(replace(declaration, primary_key=None, uniques=(), foreign_keys=()))
    (found,) = parse_schema(create_table_text(said), "schema.sql")
    assert fingerprint(found) == fingerprint(said)


def test_not_null_inside_arrays_and_maps_is_left_out() -> None:
    inner = Struct((Field("x", INT, nullable=False),))
    strict = Declaration(T, (Field("a", Array(inner, False)), Field("m", Map(STRING, INT, False)), Field("s", inner)))
    relaxed = Struct((Field("x", INT),))
    assert sayable(strict).fields == (Field("a", Array(relaxed)), Field("m", Map(STRING, INT)), Field("s", inner))


@pytest.mark.parametrize(
    "declaration, says",
    [
        (Declaration(T, (Field("a b", INT),)), "'a b' is not a valid column name"),
        (Declaration(T, (Field("s", Struct((Field("a.b", INT),))),)), "'a.b' is not a valid column name"),
        (Declaration(T, (Field("s", Struct((Field("a", INT, default="1"),))),)), "s.a has a default"),
        (Declaration(T, (Field("a", INT),), checks=(Check("c", "a >"),)), "no valid expression"),
        (Declaration(T, (Field("a", INT),), checks=(Check("c", "zz > 1"),)), "zz"),
        (Declaration(T, (Field("a", INT),), checks=(Check("Not Good", "a > 1"),)), "'Not Good' is not a valid constraint name"),
        (Declaration(T, (Field("a", Array(INT, False)),)), "does not read back"),
        (Declaration(T, (Field("schemamig_x", INT),)), "schemamig"),
    ],
)
def test_rendering_what_cannot_be_said_is_refused(declaration: Declaration, says: str) -> None:
    with pytest.raises((NotDeclarable, InvalidName)) as caught:
        create_table_text(declaration)
    assert says in str(caught.value)
    assert caught.value.collection == "t"


def test_one_statement_is_exchanged_and_the_rest_stays() -> None:
    schema = "-- ours\nCREATE TABLE a (x INT); -- of a\n\n/* b */ CREATE TABLE b (y INT, FOREIGN KEY (y) REFERENCES a (x))\n;\n"
    found = with_statement(schema, CollectionName("b"), "CREATE TABLE b (\n    z INT\n);\n")
    assert found == "-- ours\nCREATE TABLE a (x INT); -- of a\n\n/* b */ CREATE TABLE b (\n    z INT\n)\n;\n"


@pytest.mark.parametrize(
    "schema", ["CREATE TABLE a (x INT)", "CREATE TABLE a (x INT);", "CREATE TABLE a (x INT) -- ; a", "CREATE TABLE a (x INT) /* ; */ ;", ""]
)
def test_one_statement_more_stands_apart(schema: str) -> None:
    found = with_more_statements(schema, "CREATE TABLE b (y INT);\n")
    assert [declared.name for declared in parse_schema(found, "schema.sql")] == (["a", "b"] if schema else ["b"])


def test_one_statement_is_taken_out_and_the_rest_stays() -> None:
    schema = "-- ours\nCREATE TABLE a (x INT); -- of a\n\n/* b */ CREATE TABLE b (y INT)\n;\nCREATE TABLE c (x INT);\n"
    assert without_statement(schema, CollectionName("b")) == "-- ours\nCREATE TABLE a (x INT); -- of a\n\n/* b */ CREATE TABLE c (x INT);\n"
    assert without_statement("CREATE TABLE a (x INT)", CollectionName("a")) == ""
