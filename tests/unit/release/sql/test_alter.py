"""DDL statements as changes: each form with the change it makes, and every refusal word for word (alter_refusals.txt)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.release.sql.alter.statement import Alter, CreateTable, DropTable, RenameTable, read_alteration
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.exceptions import Refusal
from tests.unit.release.sql.alter_cases import DECLARATIONS, SCHEMA

REFUSALS = Path(__file__).parent / "alter_refusals.txt"


def changes(statement: str) -> list[str]:
    found = read_alteration(statement, DECLARATIONS)
    assert isinstance(found, Alter)
    return [describe(change) for change in diff(DECLARATIONS[found.collection], found.new, found.renames).changes]


#: What follows ``ALTER TABLE``, and the changes it means.
CASES: list[tuple[str, list[str]]] = [
    # ADD COLUMN
    ("plain ADD COLUMN c INT", ["add c INT"]),
    ("plain add columns (c INT, d DECIMAL)", ["add c INT", "add d DECIMAL(10,0)"]),
    ("plain ADD COLUMN c INT, `größe` STRING COMMENT 'it''s';", ["add c INT", "add größe STRING"]),
    ("plain ADD COLUMN c INT NOT NULL DEFAULT (1 + 2) COMMENT 'x' FIRST", ["add c INT NOT NULL DEFAULT 1 + 2", "reorder the columns"]),
    ("plain ADD COLUMN c INT AFTER A", ["add c INT", "reorder the columns"]),
    ("plain ADD COLUMN c INT AFTER b", ["add c INT"]),
    ("plain ADD COLUMN c INT DEFAULT 1 AFTER a NOT NULL", ["add c INT NOT NULL DEFAULT 1", "reorder the columns"]),
    ("plain ADD COLUMN c INT DEFAULT NULL", ["add c INT"]),
    ("plain ADD COLUMN first INT FIRST, after INT AFTER first", ["add first INT", "add after INT", "reorder the columns"]),
    ("plain ADD COLUMNS (s STRUCT<x: INT>, s.y INT FIRST)", ["add s STRUCT<`y`: INT, `x`: INT>"]),
    ("plain ADD COLUMN v VARCHAR(3)", ["add v VARCHAR(3)"]),
    ("flights ADD COLUMN s.one.w INT NOT NULL COMMENT 'x'", ["add s.one.w INT NOT NULL"]),
    ("flights ADD COLUMN S.`Z` INT AFTER X", ["add s.Z INT", "reorder the fields of s"]),
    ("flights ADD COLUMN arr.ELEMENT.z DATE", ["add arr.element.z DATE"]),
    # DROP COLUMN
    ("flights DROP COLUMN m", ["drop m"]),
    ("flights DROP COLUMNS (m, S.one) -- all of it", ["drop s.one", "drop m"]),
    ("flights DROP COLUMN IF EXISTS x, s.q, plain.z", []),
    ("flights DROP COLUMNS IF EXISTS (x, M)", ["drop m"]),
    # RENAME COLUMN
    ("plain RENAME COLUMN a TO c", ["rename a to c"]),
    ("plain RENAME COLUMN a TO A", ["rename a to A"]),
    ("flights RENAME COLUMN id TO number", ["rename id to number"]),
    ("flights RENAME COLUMN e TO g", ["rename e to g"]),
    ("flights RENAME COLUMN f TO g", ["rename f to g"]),
    ("flights RENAME COLUMN s.X TO `größe`", ["rename s.x to größe"]),
    ("flights RENAME COLUMN s TO t", ["rename s to t"]),
    ("flights RENAME COLUMN arr.element.x TO z", ["rename arr.element.x to z"]),
    # ALTER COLUMN
    ("plain ALTER COLUMN a TYPE BIGINT", ["widen a from INT to BIGINT"]),
    ("plain CHANGE COLUMN a TYPE STRING", ["convert a from INT to STRING"]),
    ("plain ALTER a TYPE ARRAY<INT>", ["convert a from INT to ARRAY<INT>"]),
    ("plain ALTER a TYPE INTEGER", []),
    ("plain ALTER COLUMN a SET NOT NULL, b DROP NOT NULL", ["set NOT NULL on a", "drop NOT NULL of b"]),
    ("plain ALTER COLUMN a SET DEFAULT upper('a, b'), b SET DEFAULT -1", ["set default of a to UPPER('a, b')", "set default of b to -1"]),
    ("plain ALTER COLUMN a COMMENT 'x', a AFTER b", ["comment on a", "reorder the columns"]),
    ("plain ALTER COLUMN b FIRST", ["reorder the columns"]),
    ("flights CHANGE b DROP DEFAULT", ["drop default of b"]),
    ("flights ALTER b SET DEFAULT NULL", ["drop default of b"]),
    ("flights ALTER COLUMN arr.element.x TYPE BIGINT, m.value TYPE BIGINT, m.key TYPE INT", [
        "widen arr.element.x from INT to BIGINT", "convert m.key from STRING to INT", "widen m.value from INT to BIGINT",
    ]),
    ("flights ALTER COLUMN s.x SET NOT NULL, s.x COMMENT 'x', s.y FIRST", [
        "set NOT NULL on s.x", "comment on s.x", "reorder the fields of s",
    ]),
    ("flights ALTER COLUMN arr.element DROP NOT NULL", []),
    # constraints
    ("plain ADD CONSTRAINT Small CHECK (a<10)", ["add CHECK small (a < 10)"]),
    ("plain ADD CHECK ((a) > b)", ["add CHECK check_eda0139240 ((a) > b)"]),
    ("plain ADD PRIMARY KEY (a, B)", ["set NOT NULL on a", "add PRIMARY KEY (a, b)"]),
    ("plain ADD CONSTRAINT k UNIQUE (b)", ["add UNIQUE (b)"]),
    ("plain ADD FOREIGN KEY (a) REFERENCES years", ["add FOREIGN KEY (a) to years"]),
    ("plain ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES plain (B)", ["add FOREIGN KEY (a) to plain"]),
    ("flights DROP CONSTRAINT POS", ["drop CHECK pos"]),
    ("flights DROP CONSTRAINT check_82ee0c9b98", ["drop CHECK check_82ee0c9b98"]),
    ("flights DROP CONSTRAINT IF EXISTS u", ["drop UNIQUE (b)"]),
    ("flights DROP CONSTRAINT fk", ["drop FOREIGN KEY (f) to years"]),
    ("flights DROP CONSTRAINT IF EXISTS nothing", []),
    ("flights DROP PRIMARY KEY", ["drop PRIMARY KEY (id)"]),
    ("plain DROP PRIMARY KEY IF EXISTS", []),
    ("flights DROP UNIQUE (A, d)", ["drop UNIQUE (a, d)"]),
    ("flights DROP UNIQUE IF EXISTS (d, a)", []),
    ("flights DROP FOREIGN KEY (PLANE)", ["drop FOREIGN KEY (plane) to planes"]),
    ("flights DROP FOREIGN KEY (e) REFERENCES flights", ["drop FOREIGN KEY (e) to flights"]),
    ("flights DROP FOREIGN KEY IF EXISTS (a)", []),
    # the table
    ("plain CLUSTER BY (a, B)", ["cluster by (a, b)"]),
    ("flights CLUSTER BY (s.x)", ["cluster by (s.x)"]),
    ("flights CLUSTER BY NONE", ["cluster by ()"]),
    ("flights SET TBLPROPERTIES ('k' = '2', a.b = 3)", ["set property a.b = 3", "set property k = 2"]),
    ("flights UNSET TBLPROPERTIES (k)", ["unset property k"]),
    ("flights UNSET TBLPROPERTIES IF EXISTS (a.b, 'k')", ["unset property k"]),
]  # fmt: skip


@pytest.mark.parametrize(("action", "wanted"), CASES, ids=[action for action, _ in CASES])
def test_alter_statements_what_it_changes(action: str, wanted: list[str]) -> None:
    assert changes(f"-- first\nALTER TABLE {action}") == wanted


def test_a_new_column_has_all_that_is_said_of_it() -> None:
    found = read_alteration("ALTER TABLE plain ADD COLUMN c INT COMMENT 'x' NOT NULL AFTER a DEFAULT 1", DECLARATIONS)
    (wanted,) = parse_schema("CREATE TABLE plain (a INT, c INT NOT NULL DEFAULT 1 COMMENT 'x', b INT NOT NULL)", "schema.sql")
    assert found == Alter(wanted.name, wanted, {})


def test_a_rename_reaches_all_that_uses_the_column() -> None:
    found = read_alteration("ALTER TABLE flights RENAME COLUMN d TO day", DECLARATIONS)
    text = SCHEMA.replace(" d DATE", " day DATE").replace("UNIQUE (a, d)", "UNIQUE (a, day)").replace("CLUSTER BY (d,", "CLUSTER BY (day,")
    assert found == Alter(CollectionName("flights"), parse_schema(text, "schema.sql")[0], {ColumnPath("d"): "day"})


def test_a_dropped_primary_key_leaves_its_columns_not_null() -> None:
    found = read_alteration("ALTER TABLE years DROP PRIMARY KEY", DECLARATIONS)
    assert isinstance(found, Alter)
    assert [f.nullable for f in found.new.fields] == [False]


def test_sql_alter_tables() -> None:
    flights, planes = CollectionName("flights"), CollectionName("planes")
    text = "CREATE TABLE x (a BIGINT REFERENCES planes, b BIGINT REFERENCES x (a))"
    found = read_alteration(text, DECLARATIONS)
    assert found == CreateTable(parse_schema(f"{SCHEMA}; {text}", "schema.sql")[-1])
    same = "CREATE TABLE IF NOT EXISTS plain (a INT, b INT NOT NULL)"
    assert read_alteration(same, DECLARATIONS) == CreateTable(DECLARATIONS[CollectionName("plain")])
    assert read_alteration("DROP TABLE flights", DECLARATIONS) == DropTable(flights)
    assert read_alteration("drop table if exists `flights`;", DECLARATIONS) == DropTable(flights)
    assert read_alteration("DROP TABLE IF EXISTS nothing", DECLARATIONS) == DropTable(CollectionName("nothing"))
    without = {name: declaration for name, declaration in DECLARATIONS.items() if name != flights}
    renamed = RenameTable(planes, CollectionName("aircraft"), replace(DECLARATIONS[planes], name=CollectionName("aircraft")))
    assert read_alteration("ALTER TABLE planes RENAME TO aircraft", without) == renamed


def test_a_renamed_table_refers_to_itself_by_its_new_name() -> None:
    found = read_alteration("ALTER TABLE flights RENAME TO legs", DECLARATIONS)
    assert isinstance(found, RenameTable)
    assert sorted(key.references for key in found.new.foreign_keys) == ["legs", "planes", "years", "years"]


def test_both_sides_of_a_foreign_key_to_itself_may_change_in_one_statement() -> None:
    (declaration,) = parse_schema("CREATE TABLE t (a INT, b INT, FOREIGN KEY (a) REFERENCES t (b))", "schema.sql")
    found = read_alteration("ALTER TABLE t ALTER COLUMN a TYPE BIGINT, b TYPE BIGINT", {declaration.name: declaration})
    assert found == Alter(
        declaration.name, parse_schema("CREATE TABLE t (a BIGINT, b BIGINT, FOREIGN KEY (a) REFERENCES t (b))", "x")[0], {}
    )


def test_refusals_word_for_word() -> None:
    """A line ``> statement`` each, with ``\\n`` for a new line, and below it the error."""
    text = REFUSALS.read_text()
    assert written([line[2:] for line in text.splitlines() if line.startswith("> ")]) == text


def written(statements: list[str]) -> str:
    lines = []
    for statement in statements:
        with pytest.raises(Refusal) as caught:
            read_alteration(statement.replace("\\n", "\n"), DECLARATIONS)
        lines += [f"> {statement}", str(caught.value), ""]
    return "\n".join(lines)
