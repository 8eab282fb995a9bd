"""A rewrite on Spark from end to end: copied, followed, cut over, and taken back, with writers of all kinds at work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.upgrade.rollback.errors import LossyRollback
from tests.support.product import Product
from tests.support.spark.lake import SparkLake, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OLD = """CREATE TABLE planes (tailnum STRING NOT NULL, year STRING, tags MAP<STRING, INT>, PRIMARY KEY (tailnum));
CREATE TABLE log (line STRING, n INT);
CREATE TABLE airports (code STRING NOT NULL, city STRING);
"""
NEW = """CREATE TABLE planes (tailnum STRING NOT NULL, country STRING NOT NULL, year INT, tags MAP<STRING, INT>, PRIMARY KEY (tailnum));
CREATE TABLE log (line STRING, n BIGINT, day STRING) PARTITIONED BY (day);
CREATE TABLE airports (code STRING NOT NULL, city STRING);
"""
STEPS = """
    rewrite("planes",
        up="SELECT tailnum, substr(tailnum, 1, 1) AS country, CAST(year AS INT) AS year, tags FROM {planes}",
        down="SELECT tailnum, CAST(year AS STRING) AS year, tags FROM {planes}"),
    rewrite("log", up="SELECT line, CAST(n AS BIGINT) AS n, substr(line, 1, 2) AS day FROM {log}",
        down="SELECT line, CAST(n AS INT) AS n FROM {log}"),
"""
UP_PLANES = "SELECT tailnum, substr(tailnum, 1, 1) AS country, CAST(year AS INT) AS year, map_entries(tags) AS tags FROM {planes}"
UP_LOG = "SELECT line, CAST(n AS BIGINT) AS n, substr(line, 1, 2) AS day FROM {log}"


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> SparkLake:
    return SparkLake(spark, Environment.open(str(tmp_path / "lake")))


@pytest.fixture
def releases(tmp_path: Path) -> tuple[Path, Path]:
    product = Product(tmp_path / "product")
    return product.release("1.0.0", OLD), product.release("1.1.0", NEW, STEPS)


def add_rows(lake: SparkLake, first: int, count: int) -> None:
    lake.sql(
        f"INSERT INTO {{planes}} SELECT concat('N', id), CAST(1950 + id % 70 AS STRING), map('a', CAST(id AS INT)) "
        f"FROM range({first}, {first + count})"
    )
    lake.sql(f"INSERT INTO {{log}} SELECT concat('d', id % 3, 'x'), CAST(id % 5 AS INT) FROM range({first}, {first + count})")


def shape(lake: SparkLake, query: str) -> list[Any]:
    """Rows as sorted text, duplicates and NULLs included."""
    return sorted(map(repr, lake.sql(query)))


def change_rows(lake: SparkLake) -> None:
    """What users do meanwhile, to tables with a key and without."""
    lake.sql("UPDATE {planes} SET year = '2001' WHERE tailnum IN ('N1', 'N2')")
    lake.sql("DELETE FROM {planes} WHERE tailnum = 'N3'")
    lake.sql("UPDATE {planes} SET tailnum = 'X4', tags = NULL WHERE tailnum = 'N4'")
    lake.sql("INSERT INTO {log} VALUES ('d1x', 1), (NULL, NULL), ('d1x', 1)")
    lake.sql("DELETE FROM {log} WHERE n = 2")


@pytest.mark.soak
def test_rewrite_there_and_back_and_there_again(lake: SparkLake, releases: tuple[Path, Path]) -> None:
    lake.upgrade(releases[0])
    add_rows(lake, 0, 300)
    generation = commands.preflight(lake.env, releases[1], jobs=EmbeddedRunner).generation
    assert generation is not None
    change_rows(lake)
    assert {found.collection for found in commands.tail(lake.env, generation, jobs=EmbeddedRunner, once=True).stages} == {"planes", "log"}
    lake.sql("INSERT INTO {planes} VALUES ('late', '1999', NULL)")
    expected = shape(lake, UP_PLANES), shape(lake, UP_LOG)
    old = {name: lake.folder(name) for name in ("planes", "log")}
    for verb in (commands.promote, commands.expand):
        verb(lake.env, generation)
    done = commands.cutover(lake.env, generation, jobs=EmbeddedRunner)
    print(done.notes, [(stage.kind, stage.collection, round(stage.seconds, 1)) for stage in done.stages])
    lake.check("1.1.0")
    now = (
        shape(lake, "SELECT tailnum, country, year, map_entries(tags) AS tags FROM {planes}"),
        shape(lake, "SELECT line, n, day FROM {log}"),
    )
    assert now == expected
    for folder in old.values():
        with pytest.raises(Exception, match=r"schemamig_moved_to|APPEND_ONLY"):
            lake.sql("DELETE FROM {old}", old=table(folder))

    lake.sql("UPDATE {planes} SET year = 1903, country = 'US' WHERE tailnum = 'N10'")
    lake.sql("DELETE FROM {planes} WHERE tailnum = 'N11'")
    lake.sql("INSERT INTO {planes} VALUES ('new', 'n', 2024, map('z', 1))")
    lake.sql("INSERT INTO {log} VALUES ('d9x', 9, 'd9'), ('d9x', 9, 'd9')")
    lake.sql("DELETE FROM {log} WHERE n = 3")
    commands.rollback(lake.env, jobs=EmbeddedRunner)
    lake.check("1.0.0")
    assert lake.folder("planes") == old["planes"]
    (row,) = lake.sql("SELECT count(*) AS n, count_if(tailnum = 'N11') AS gone, max(IF(tailnum = 'N10', year, NULL)) AS year FROM {planes}")
    assert (row["n"], row["gone"], row["year"]) == (300 - 1 + 1 - 1 + 1, 0, "1903")
    (row,) = lake.sql("SELECT count_if(n = 9) AS nine, count_if(n = 3) AS three, count_if(n = 2) AS two, count(*) AS n FROM {log}")
    assert (row["nine"], row["three"], row["two"]) == (2, 0, 0)

    lake.upgrade(releases[1])
    lake.check("1.1.0")
    assert shape(lake, "SELECT year FROM {planes} WHERE tailnum = 'N10'") == ["Row(year=1903)"]
    assert Generation(4) not in lake.state.deployments


@pytest.mark.some(1, of="updates by delta-rs")
def test_rewrite_back_brings_an_update_by_delta_rs_that_makes_two_rows_equal(lake: SparkLake, tmp_path: Path) -> None:
    """It leaves the row out of its change data."""
    product = Product(tmp_path / "product")
    fed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    steps = """rewrite("log", up="SELECT line, CAST(n AS BIGINT) AS n FROM {log}", down="SELECT line, CAST(n AS INT) AS n FROM {log}")"""
    lake.upgrade(product.release("1.0.0", f"CREATE TABLE log (line STRING, n INT) {fed};\n"))
    lake.sql("INSERT INTO {log} VALUES ('a', 1), ('b', 1), ('c', 1)")
    lake.upgrade(product.release("1.1.0", f"CREATE TABLE log (line STRING, n BIGINT) {fed};\n", steps))
    lake.sql("OPTIMIZE {log}")
    DeltaTable(lake.folder("log")).update({"line": "'b'"}, predicate="line = 'a'")
    written = shape(lake, "SELECT line FROM {log}")
    commands.rollback(lake.env, jobs=EmbeddedRunner)
    assert shape(lake, "SELECT line FROM {log}") == written


@pytest.mark.soak
def test_rewrite_without_down(lake: SparkLake, tmp_path: Path) -> None:
    product = Product(tmp_path / "product")
    first = product.release("1.0.0", "CREATE TABLE t (a STRING);\n")
    second = product.release("1.1.0", "CREATE TABLE t (a INT);\n", 'rewrite("t", up="SELECT CAST(a AS INT) AS a FROM {t}")')
    lake.upgrade(first)
    lake.sql("INSERT INTO {t} VALUES ('1'), (NULL)")
    lake.upgrade(second)
    lake.sql("INSERT INTO {t} VALUES (2)")
    with pytest.raises(LossyRollback):
        commands.rollback(lake.env, jobs=EmbeddedRunner)
    lake.check("1.1.0")
    commands.rollback(lake.env, jobs=EmbeddedRunner, allow_lossy=True)
    lake.check("1.0.0")
    assert shape(lake, "SELECT a FROM {t}") == ["Row(a='1')", "Row(a=None)"]
