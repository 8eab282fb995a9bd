"""A rollback leaves types wide, and an upgrade widens them before its cut-over: queries and casts see what the release declares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.upgrade.errors import DataViolation
from airflow_provider_schemamig.exceptions import Refused
from tests.support.spark.lake import SparkLake
from tests.support.upgrades import releases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLE = "CREATE TABLE t (id INT, n {}, c {}, d {}, s STRUCT<x: {}>, l ARRAY<{}>, m MAP<{}, INT>);"
NARROW = TABLE.format("INT", "DECIMAL(9,2)", "DATE", "INT", "INT", "INT")
WIDE = TABLE.format("DOUBLE", "DECIMAL(12,4)", "TIMESTAMP_NTZ", "DOUBLE", "DOUBLE", "DOUBLE")
TEXT = TABLE.format("STRING", "STRING", "VARCHAR(10)", "STRING", "STRING", "INT")
UP = (
    "SELECT id, CAST(n AS STRING) AS n, CAST(c AS STRING) AS c, CAST(d AS STRING) AS d, CAST(s AS STRUCT<x: STRING>) AS s,"
    " CAST(l AS ARRAY<STRING>) AS l, m FROM {t}"
)
STEPS = {"rewrite": f'rewrite("t", up="{UP}")', "online": 'evolution("t")'}
GIVEN = "SELECT 1 AS id, 2147483647 AS n, CAST(1.5 AS DECIMAL(9,2)) AS c, DATE'2020-01-01' AS d"
GIVEN += ", named_struct('x', 7) AS s, array(1, NULL) AS l, map(3, 4) AS m"
SHOWN = ("2147483647", "1.50", "2020-01-01", "7", "1")


def left_wide(spark: SparkSession, folder: Path, step: str) -> tuple[SparkLake, Path]:
    """Return a lake at 1.0.0 whose table a rollback left wide, with a row of that release, and the release that makes all of it text."""
    first, second = releases(folder / "given up", (NARROW, ""), (WIDE, 'evolution("t")'))
    _, third = releases(folder / "instead", (NARROW, ""), (TEXT, step))
    lake = SparkLake(spark, Environment.open(str(folder / "lake")))
    lake.upgrade(first)
    lake.env.writer("t", spark=spark).append(spark.sql(GIVEN))
    lake.upgrade(second)
    commands.rollback(lake.env, jobs=EmbeddedRunner)
    return lake, third


def rolled_back(spark: SparkSession, folder: Path, first: Path, second: Path, row: str) -> SparkLake:
    """Return a lake with this row at ``first``, after ``second`` came and went."""
    lake = SparkLake(spark, Environment.open(str(folder / "lake")))
    lake.upgrade(first)
    lake.sql(f"INSERT INTO {{t}} VALUES ({row})")
    lake.upgrade(second)
    commands.rollback(lake.env, jobs=EmbeddedRunner)
    return lake


@pytest.mark.some(1, of="rows by Spark")
@pytest.mark.parametrize("how", STEPS)
def test_text_is_made_of_the_declared_type(spark: SparkSession, tmp_path: Path, how: str) -> None:
    lake, third = left_wide(spark, tmp_path, STEPS[how])
    lake.upgrade(third)
    assert lake.sql("SELECT n, c, d, s.x, l[0] FROM {t}") == [SHOWN]
    assert lake.env.reader("t", spark=spark).df(["m"]).collect() == [({3: 4},)]


@pytest.mark.some(1, of="rows by Spark")
def test_a_value_that_its_declared_type_does_not_hold_is_neither_cut_nor_rounded(spark: SparkSession, tmp_path: Path) -> None:
    lake, third = left_wide(spark, tmp_path, STEPS["rewrite"])
    lake.sql("INSERT INTO {t} (id, n) VALUES (2, 7.5D)")
    with pytest.raises(DataViolation, match="n as INT"):
        lake.upgrade(third)
    lake.sql("DELETE FROM {t} WHERE id = 2")
    lake.upgrade(third)
    assert lake.sql("SELECT id, n FROM {t}") == [(1, SHOWN[0])]


@pytest.mark.some(1, of="rows by Spark")
def test_a_lookup_that_the_release_widens_is_seen_as_before_it(spark: SparkSession, tmp_path: Path) -> None:
    tables = "CREATE TABLE t (id INT, name {}); CREATE TABLE codes (id INT, code {});"
    up = "SELECT t.id, CAST(code AS STRING) AS name FROM {t} AS t LEFT JOIN {codes} AS c ON t.id = c.id"
    steps = f'rewrite("t", up="{up}", lookups=["codes"]), evolution("codes")'
    first, second = releases(tmp_path, (tables.format("INT", "INT"), ""), (tables.format("STRING", "DOUBLE"), steps))
    lake = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    lake.upgrade(first)
    lake.sql("INSERT INTO {codes} VALUES (1, 7)")
    lake.sql("INSERT INTO {t} VALUES (1, 5)")
    lake.upgrade(second)
    assert lake.sql("SELECT name FROM {t}") == [("7",)]


@pytest.mark.some(1, of="rows by Spark")
def test_a_leap_over_a_new_field_sees_the_declared_type_of_the_others(spark: SparkSession, tmp_path: Path) -> None:
    narrow, text = "CREATE TABLE t (s STRUCT<a: INT>, x INT);", "CREATE TABLE t (s STRUCT<a: INT, b: INT>, x STRING);"
    first, second = releases(tmp_path / "given up", (narrow, ""), (narrow.replace("a: INT", "a: DOUBLE"), 'evolution("t")'))
    steps = (
        (narrow.replace("a: INT", "a: INT, b: INT"), 'evolution("t")'),
        (text, 'rewrite("t", up="SELECT s, CAST(s.a AS STRING) AS x FROM {t}")'),
    )
    *_, third = releases(tmp_path / "instead", (narrow, ""), *steps)
    lake = rolled_back(spark, tmp_path, first, second, "named_struct('a', 7), 1")
    lake.upgrade(third)
    assert lake.sql("SELECT x, s.b FROM {t}") == [("7", None)]


@pytest.mark.some(1, of="rows by Spark")
def test_a_value_inside_a_column_left_wide_is_not_cut_by_another_type(spark: SparkSession, tmp_path: Path) -> None:
    lake, _ = left_wide(spark, tmp_path, STEPS["online"])
    more = NARROW.replace("x: INT", "x: BIGINT").replace("ARRAY<INT>", "ARRAY<BIGINT>")
    _, third = releases(tmp_path / "more", (NARROW, ""), (more, 'evolution("t")'))
    lake.sql("INSERT INTO {t} (id, s, l) VALUES (2, named_struct('x', 7.5D), array(1D)), (3, named_struct('x', 3000000000D), array(1.5D))")
    with pytest.raises(Refused) as caught:
        lake.upgrade(third)
    assert [refusal.message.partition(" (")[0] for refusal in caught.value.refusals] == [
        "1 row(s) violate s as STRUCT<`x`: BIGINT>",
        "1 row(s) violate l as ARRAY<BIGINT>",
    ]
    lake.sql("DELETE FROM {t} WHERE id = 2")
    lake.sql("UPDATE {t} SET l = NULL WHERE id = 3")
    lake.upgrade(third)
    assert lake.sql("SELECT id, s.x, l[0] FROM {t} ORDER BY id") == [(1, 7, 1), (3, 3000000000, None)]


@pytest.mark.some(1, of="rows by Spark")
def test_a_map_whose_struct_key_was_left_wide_is_seen_by_a_rewrite(spark: SparkSession, tmp_path: Path) -> None:
    narrow = "CREATE TABLE t (m MAP<STRUCT<a: INT>, INT>, z INT);"
    first, second = releases(tmp_path / "given up", (narrow, ""), (narrow.replace("a: INT", "a: BIGINT"), 'evolution("t")'))
    step = 'rewrite("t", up="SELECT m, CAST(map_keys(m)[0].a AS STRING) AS z FROM {t}")'
    _, third = releases(tmp_path / "instead", (narrow, ""), (narrow.replace("z INT", "z STRING"), step))
    lake = rolled_back(spark, tmp_path, first, second, "map(named_struct('a', 7), 1), 5")
    lake.upgrade(third)
    assert lake.sql("SELECT z, map_values(m)[0] FROM {t}") == [("7", 1)]


@pytest.mark.some(1, of="rows by Spark")
def test_a_limited_text_is_asked_of_the_text_that_the_way_back_kept(spark: SparkSession, tmp_path: Path) -> None:
    number = "CREATE TABLE t (id INT, n DOUBLE);"
    first, second = releases(tmp_path, (number, ""), (number.replace("DOUBLE", "VARCHAR(3)"), 'evolution("t")'))
    lake = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    lake.upgrade(first)
    lake.sql("INSERT INTO {t} VALUES (1, 1.5D)")
    lake.upgrade(second)
    lake.env.writer("t", spark=spark).append(spark.sql("SELECT 2 AS id, '100' AS n"))
    commands.rollback(lake.env, jobs=EmbeddedRunner)
    assert lake.sql("SELECT n FROM {t} ORDER BY id") == [(1.5,), (100.0,)]
    lake.upgrade(second)
    assert lake.sql("SELECT n FROM {t} ORDER BY id") == [("1.5",), ("100",)]
