"""A release has to contain all of what ``alter`` or somebody else made before it: less at the same place takes it away again, unsaid."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.schema.changes import AddColumn, Change, ChangeType
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.diff.contained import contains
from airflow_provider_schemamig.core.upgrade.alter import alter
from tests.support.bytes import unwritten
from tests.support.lake import Lake, no_spark, rows
from tests.support.rows.tables import insert
from tests.support.tables import foreign
from tests.support.upgrades import deployed, refused, releases
from tests.unit.schema.tables import table

#: What is there, what the release says of the same column, and whether that has all of it.
COLUMNS = [
    ("x INT", "x INT", True),
    ("x INT", "x INT COMMENT 'c'", True),
    ("x INT", "x BIGINT", True),
    ("x BIGINT", "x INT", False),
    ("x STRING", "x INT", False),
    ("x INT", "x INT NOT NULL", True),
    ("x INT NOT NULL DEFAULT 1", "x INT DEFAULT 1", False),
    ("x INT", "x INT DEFAULT 1", False),
    ("x INT DEFAULT 2", "x INT DEFAULT 1", False),
    ("x INT DEFAULT 1", "x INT", False),
    ("x STRUCT<a: INT, b: INT>", "x STRUCT<b: INT, a: INT>", True),
    ("x STRUCT<a: INT>", "x STRUCT<a: BIGINT, b: INT>", True),
    ("x STRUCT<a: INT, b: INT>", "x STRUCT<b: INT>", False),
    ("x STRUCT<a: INT, b: INT>", "x STRUCT<c: INT, b: INT>", False),
    ("x STRUCT<a: INT NOT NULL>", "x STRUCT<a: INT>", False),
    ("x ARRAY<STRUCT<a: INT>>", "x ARRAY<STRUCT<a: INT, b: INT>>", True),
    ("x ARRAY<STRUCT<a: INT, b: INT>>", "x ARRAY<STRUCT<b: INT>>", False),
    ("x MAP<STRING, ARRAY<STRUCT<a: INT, b: INT>>>", "x MAP<STRING, ARRAY<STRUCT<b: INT>>>", False),
    ("x MAP<INT, INT>", "x ARRAY<INT>", False),
]


#: The same of the type of a column that was a SMALLINT.
TYPES = [("BIGINT", "BIGINT", True), ("INT", "BIGINT", True), ("BIGINT", "DOUBLE", False), ("BIGINT", "INT", False)]


def change_from(before: str, after: str) -> Change:
    """The one change of a column between two tables."""
    return next(change for change in diff(table(before), table(after)).changes if isinstance(change, AddColumn | ChangeType))


@pytest.mark.parametrize("there, released, contained", COLUMNS)
def test_contained_columns(there: str, released: str, contained: bool) -> None:
    made, says = (change_from("id BIGINT", f"id BIGINT, {column}") for column in (there, released))
    assert contains(says, made) is contained


@pytest.mark.parametrize("there, released, contained", TYPES)
def test_contained_types(there: str, released: str, contained: bool) -> None:
    made, says = (change_from("id SMALLINT", f"id {kind}") for kind in (there, released))
    assert contains(says, made) is contained


LEFT_OUT = [
    ("ALTER TABLE t ADD COLUMN x STRUCT<a: STRING, b: STRING>", {"x": {"a": "A", "b": "B"}}, "x STRUCT<b: STRING>"),
    ("ALTER TABLE t ADD COLUMN x STRING", {"x": "007"}, "x INT"),
    ("ALTER TABLE t ADD COLUMN x STRING", {"x": None}, "x STRING DEFAULT 'y'"),
    ("CREATE TABLE n (id BIGINT, x STRUCT<a: STRING, b: STRING>)", {"x": {"a": "A", "b": "B"}}, "x STRUCT<b: STRING>"),
]


@pytest.mark.parametrize("statement, row, column", LEFT_OUT)
def test_a_release_that_leaves_some_of_an_alter_out_is_refused(tmp_path: Path, statement: str, row: dict[str, object], column: str) -> None:
    name = "n" if "TABLE n" in statement else "t"
    schema = f"CREATE TABLE {name} (id BIGINT, {column});" + ("CREATE TABLE t (id BIGINT);" if name == "n" else "")
    lake = at(tmp_path, schema, "" if name == "n" else 'evolution("t")')
    alter(lake.env, statement, jobs=no_spark, hold=timedelta(0))
    insert(lake.path(name), [{"id": 1, **row}])
    with unwritten(lake.env), refused("ahead_not_in_release", name) as found:
        lake.upgrade(lake.second)
    assert f"(the release: add {column.split(maxsplit=1)[0]} " in str(found[0])
    assert rows(lake.path(name)) == [{"id": 1, **row}]


def test_a_release_that_widens_an_altered_type_to_one_that_loses_digits_is_refused(tmp_path: Path) -> None:
    first, second = releases(tmp_path, ("CREATE TABLE t (id INT);", ""), ("CREATE TABLE t (id DOUBLE);", 'evolution("t")'))
    lake = deployed(tmp_path, first, second)
    alter(lake.env, "ALTER TABLE t ALTER COLUMN id TYPE BIGINT", jobs=no_spark, hold=timedelta(0))
    with unwritten(lake.env), refused("ahead_not_in_release", "t"):
        lake.upgrade(lake.second)


def at(tmp_path: Path, schema: str, steps: str) -> Lake:
    first, second = releases(tmp_path, ("CREATE TABLE t (id BIGINT);", ""), (schema, steps))
    return deployed(tmp_path, first, second)


def test_a_version_of_the_folder_that_leaves_some_of_a_drift_out_is_not_taken_for_it(tmp_path: Path) -> None:
    lake = at(tmp_path, "CREATE TABLE t (id BIGINT, x INT);", 'evolution("t")')
    foreign.add_column(lake.path("t"), "x")
    with unwritten(lake.env), refused("ahead_not_in_release", "t"):
        commands.accept(lake.env, lake.second, ["t"])
