"""An upgrade of real tables: rows written, changed and read by Spark, by digest, before, while and after it runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.upgrade.errors import DataViolation, NotBuilt
from tests.support.bytes import tree
from tests.support.product import Product
from tests.support.spark.lake import InFlight, SparkLake, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLIGHTS_OLD = """CREATE TABLE flights (id BIGINT NOT NULL, carrier STRING NOT NULL, dep_delay INT, hour INT NOT NULL,
    origin STRUCT<code: STRING, name: STRING>, legs ARRAY<STRUCT<tail: STRING>>);\n"""
FLIGHTS_NEW = """CREATE TABLE flights (id BIGINT NOT NULL, carrier STRING, gate STRING COMMENT 'since 1.1', departure_delay BIGINT,
    origin STRUCT<code: STRING, title: STRING, city: STRING>, legs ARRAY<STRUCT<tail: STRING, miles: DOUBLE>>);\n"""
STATS_OLD = "CREATE TABLE stats (carrier STRING);\n"
STATS_NEW = "CREATE TABLE stats (carrier STRING NOT NULL, flights BIGINT NOT NULL);\n"
OLD = FLIGHTS_OLD + STATS_OLD + "CREATE TABLE legacy (id BIGINT);\n"
NEW = FLIGHTS_NEW + STATS_NEW + "CREATE TABLE airports (code STRING NOT NULL);\n"
EVOLUTION = 'evolution("flights", rename={"dep_delay": "departure_delay", "origin.name": "title"}, drop=["hour"])'
QUERY = "SELECT carrier, count(*) AS flights FROM {flights} GROUP BY carrier"
FILL = f'replacement("stats", fill="{QUERY}")'
#: What both releases have of a flight, as one type.
BEFORE = ("id", "carrier", "CAST(dep_delay AS BIGINT)", "origin.code", "origin.name", "legs.tail")
AFTER = ("id", "carrier", "departure_delay", "origin.code", "origin.title", "legs.tail")
ROWS = 1000


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> SparkLake:
    return SparkLake(spark, Environment.open(str(tmp_path / "lake")))


@pytest.fixture
def releases(tmp_path: Path) -> tuple[Path, Path]:
    product = Product(tmp_path / "product")
    return product.release("1.0.0", OLD), product.release("1.1.0", NEW, f'{EVOLUTION}, {FILL}, removal("legacy")')


def add_flights(lake: SparkLake, first: int, count: int) -> None:
    """By the columns of 1.0.0."""
    lake.sql(f"""INSERT INTO {{flights}} (id, carrier, dep_delay, hour, origin, legs)
        SELECT id, concat('C', id % 7), CAST(id % 90 AS INT), CAST(id % 24 AS INT),
            IF(id % 10 = 0, NULL, named_struct('code', concat('A', id % 3), 'name', 'x')),
            array(named_struct('tail', concat('N', id)), named_struct('tail', NULL)) FROM range({first}, {first + count})""")


def stats(lake: SparkLake) -> dict[str, int]:
    return {row["carrier"]: row["flights"] for row in lake.sql("SELECT * FROM {stats}")}


def counted(lake: SparkLake) -> dict[str, int]:
    return {row["carrier"]: row["flights"] for row in lake.sql(QUERY)}


# --- rows ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_upgrade_there_and_back_and_there_for_good(lake: SparkLake, releases: tuple[Path, Path]) -> None:
    lake.upgrade(releases[0])
    add_flights(lake, 0, ROWS)
    lake.sql("INSERT INTO {stats} VALUES ('C0'), ('C1')")
    lake.sql("INSERT INTO {legacy} VALUES (1)")
    before, old_stats, legacy = lake.digest("flights", *BEFORE), lake.folder("stats"), lake.folder("legacy")

    done = lake.upgrade(releases[1])
    lake.check("1.1.0")
    assert before == lake.digest("flights", *AFTER)
    assert before[0] == ROWS
    assert stats(lake) == counted(lake)
    assert sum(stats(lake).values()) == ROWS
    assert {"expand", "cutover", "seal", "fill", "create", "commit"} <= {stage.kind for stage in done.stages}
    (row,) = lake.sql("SELECT count(gate) AS gate, count(origin.city) AS city, sum(hour) hour, max(legs[0].miles) AS miles FROM {flights}")
    assert (row["gate"], row["city"], row["miles"]) == (0, 0, None)
    assert row["hour"] == sum(n % 24 for n in range(ROWS)), "what is dropped is there until contract"
    refuses_writers(lake, old_stats)
    with pytest.raises(Exception, match="schemamig_moved_to_nowhere"):
        lake.sql("INSERT INTO {old} VALUES (2)", old=table(legacy))

    commands.rollback(lake.env)
    lake.check("1.0.0")
    assert lake.digest("flights", *BEFORE) == before
    assert [row["carrier"] for row in lake.sql("SELECT * FROM {stats} ORDER BY carrier")] == ["C0", "C1"]
    lake.sql("INSERT INTO {stats} VALUES ('C2')")
    lake.sql("INSERT INTO {legacy} VALUES (2)")

    lake.upgrade(releases[1], hold=timedelta(0))
    lake.check("1.1.0")
    assert lake.digest("flights", *AFTER) == before
    assert lake.columns("flights") == ["id", "carrier", "gate", "departure_delay", "origin", "legs"]
    assert not old_stats.exists()
    assert not legacy.exists()
    lake.sql("INSERT INTO {flights} (id, departure_delay) VALUES (-1, 9000000000)")
    assert lake.sql("SELECT carrier, departure_delay FROM {flights} WHERE id = -1") == [(None, 9_000_000_000)]


def refuses_writers(lake: SparkLake, folder: Path) -> None:
    """A sealed table: its rows can be read, and everybody who wants to change them is told where to."""
    before = lake.sql("SELECT * FROM {old}", old=table(folder))
    assert before
    for statement in (
        "INSERT INTO {old} VALUES ('C9')",
        "UPDATE {old} SET carrier = 'C9'",
        "DELETE FROM {old}",
        "MERGE INTO {old} USING (SELECT 'C9' AS new) ON carrier = new WHEN NOT MATCHED THEN INSERT (carrier) VALUES (new)",
        "INSERT OVERWRITE {old} VALUES ('C9')",
    ):
        with pytest.raises(Exception, match=r"schemamig_moved_to_|DELTA_CANNOT_MODIFY_APPEND_ONLY"):
            lake.sql(statement, old=table(folder))
    with pytest.raises(Exception, match="validation check failed"):
        deltalake.write_deltalake(str(folder), pa.table({"carrier": ["C9"]}), mode="append")
    assert lake.sql("SELECT * FROM {old}", old=table(folder)) == before


# --- writers -------------------------------------------------------------------------------------------------------------------------


def write(lake: SparkLake, number: int, delay: str) -> None:
    """What other people's jobs do all day: an append, an update, a merge. ``number`` must not be written twice."""
    lake.sql(f"INSERT INTO {{flights}} (id, carrier, {delay}, hour) VALUES ({number}, 'W', 1, 0)")
    lake.sql(f"UPDATE {{flights}} SET {delay} = {delay} + 10 WHERE id = {number}")
    lake.sql(f"""MERGE INTO {{flights}} t USING (SELECT {number} AS id UNION ALL SELECT {number + 1}) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET t.{delay} = t.{delay} + 100
        WHEN NOT MATCHED THEN INSERT (id, carrier, {delay}, hour) VALUES (s.id, 'W', 7, 0)""")


@pytest.mark.soak  # tests/system/test_rewrite_stress.py is the same with more writers
def test_writers_go_on_while_an_upgrade_runs(lake: SparkLake, releases: tuple[Path, Path], tmp_path: Path) -> None:
    lake.upgrade(releases[0])
    add_flights(lake, 0, 10)
    checked = commands.preflight(lake.env, releases[1], jobs=EmbeddedRunner)
    generation = checked.generation
    assert generation is not None
    lake.sql("INSERT INTO {flights} (id, dep_delay, carrier, hour) VALUES (1010, 1, 'W', 0)")
    commands.promote(lake.env, generation)
    aborts_once(lake, tmp_path, 2000, lambda: commands.expand(lake.env, generation), "dep_delay", "dep_delay")
    write(lake, 1020, "dep_delay")
    assert commands.to_change(lake.env, generation) == ("stats",)
    commands.change(lake.env, generation, jobs=EmbeddedRunner)
    aborts_once(lake, tmp_path, 2010, lambda: commands.cutover(lake.env, generation), "dep_delay", "departure_delay")
    write(lake, 1030, "departure_delay")
    lake.check("1.1.0")
    expected = {n + first: delay for n in (1020, 1030) for first, delay in ((0, 111), (1, 7))}
    expected |= {1010: 1, 2000: 1, 2001: 1, 2010: 1, 2011: 1}
    found = lake.sql("SELECT id, departure_delay FROM {flights} WHERE id >= 1000")
    assert sorted(map(tuple, found)) == sorted(expected.items())
    assert lake.digest("flights", "id")[0] == 10 + len(expected)


def aborts_once(lake: SparkLake, folder: Path, first: int, work: Callable[[], object], before: str, after: str) -> None:
    """``work`` happens while somebody inserts two rows. ``before`` and ``after`` it, dep_delay has these names."""
    statement = f"INSERT INTO {{flights}} (id, carrier, {{delay}}, hour) SELECT id, 'F', 1, 0 FROM range({first}, {first + 2})"
    slow = f"{statement} WHERE held(id)"
    writer = InFlight(lake.spark, folder, slow.format(flights=lake.table("flights"), delay=before))
    work()
    error = writer.outcome()
    assert error is not None, "the writer committed although the table had changed under it"
    assert "DELTA_METADATA_CHANGED" in str(error)
    lake.sql(statement.replace("{delay}", after))


# --- fills ---------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def fills(tmp_path: Path) -> tuple[Path, Path]:
    """``stats`` is filled again when rows arrive, ``frozen`` is not."""
    product = Product(tmp_path / "fills")
    old = FLIGHTS_OLD + STATS_OLD + STATS_OLD.replace("stats", "frozen")
    new = FLIGHTS_OLD + STATS_NEW + STATS_NEW.replace("stats", "frozen")
    return product.release("1.0.0", old), product.release("1.1.0", new, f'{FILL}, replacement("frozen", fill="{QUERY}", snapshot=True)')


@pytest.mark.soak
def test_a_fill_runs_again_when_rows_arrived(lake: SparkLake, fills: tuple[Path, Path]) -> None:
    lake.upgrade(fills[0])
    add_flights(lake, 0, 10)
    generation = commands.preflight(lake.env, fills[1], jobs=EmbeddedRunner).generation
    assert generation is not None
    assert commands.to_change(lake.env, generation) == ()
    frozen = counted(lake)
    add_flights(lake, 10, 10)
    assert commands.to_change(lake.env, generation) == ("stats",)
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    assert len(commands.change(lake.env, generation, jobs=EmbeddedRunner).stages) == 1
    assert commands.to_change(lake.env, generation) == ()
    assert commands.change(lake.env, generation, jobs=EmbeddedRunner).stages == ()
    commands.cutover(lake.env, generation)
    lake.check("1.1.0")
    assert stats(lake) == counted(lake)
    assert {row["carrier"]: row["flights"] for row in lake.sql("SELECT * FROM {frozen}")} == frozen


@pytest.mark.soak
def test_duplicate_keys_in_a_fill_are_refused_and_can_be_mended(lake: SparkLake, tmp_path: Path) -> None:
    product = Product(tmp_path / "keys")
    first = product.release("1.0.0", FLIGHTS_OLD + STATS_OLD)
    keyed = STATS_NEW.replace("NOT NULL,", "NOT NULL PRIMARY KEY,")
    second = product.release("1.1.0", FLIGHTS_OLD + keyed, 'replacement("stats", fill="SELECT carrier, 1L AS flights FROM {flights}")')
    lake.upgrade(first)
    add_flights(lake, 0, 8)
    live = {name: tree(lake.folder(name)) for name in ("flights", "stats")}
    for _ in range(2):
        with pytest.raises(DataViolation) as caught:
            lake.upgrade(second)
        assert (caught.value.collection, caught.value.rule, caught.value.count) == ("stats", "UNIQUE (carrier)", 2)
        assert "C0" in str(caught.value.sample)
    with pytest.raises(NotBuilt):
        commands.promote(lake.env, Generation(2))
    lake.check("1.0.0")
    assert {name: tree(lake.folder(name)) for name in ("flights", "stats")} == live

    lake.sql("DELETE FROM {flights} WHERE id = 7")
    lake.upgrade(second)
    lake.check("1.1.0")
    assert stats(lake) == {f"C{n}": 1 for n in range(7)}


# --- checks on data ------------------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_check_data_counts_what_is_wrong_and_writes_nothing(lake: SparkLake, tmp_path: Path) -> None:
    product = Product(tmp_path / "checks")
    first = product.release("1.0.0", "CREATE TABLE planes (tail STRING, seats INT, year STRING, kind STRING);\n")
    strict = "CREATE TABLE planes (tail STRING PRIMARY KEY, seats INT, year INT, kind STRING NOT NULL, CONSTRAINT big CHECK (seats > 3));\n"
    second = product.release("1.1.0", strict, 'evolution("planes")')
    lake.upgrade(first)
    lake.sql("INSERT INTO {planes} VALUES ('N1', 2, '99', 'jet'), ('N1', 9, 'old', 'jet'), ('N2', 1, '00', NULL), ('N3', 5, '01', 'jet')")
    before = tree(tmp_path / "lake")

    report = commands.plan(lake.env, second, jobs=EmbeddedRunner)

    found = {refusal.rule: refusal for refusal in report.refusals if isinstance(refusal, DataViolation)}
    assert {rule: violation.count for rule, violation in found.items()} == {
        "kind NOT NULL": 1,
        "big": 2,
        "year as INT": 1,
        "UNIQUE (tail)": 2,
    }
    for rule, part in (("kind NOT NULL", "N2"), ("big", "N1"), ("year as INT", "old"), ("UNIQUE (tail)", "N1")):
        assert part in str(found[rule].sample), rule
    assert report.exit_code == 1
    assert tree(tmp_path / "lake") == before
