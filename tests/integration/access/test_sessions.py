"""Handles on sessions of the program's own: in another time zone, and used by two threads at once."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.session_check import OtherMeaning
from airflow_provider_schemamig.core.spark.errors import SourceVacuumed
from tests.support.lake import Lake, no_spark
from tests.support.upgrades import two_releases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    tables = "".join(f"CREATE TABLE {name} (id BIGINT, ts TIMESTAMP);" for name in ("t", "u"))
    return two_releases(tmp_path, tables, tables, "")


@pytest.mark.some(1, of="flows of Spark")
def test_rows_of_a_session_in_another_zone_are_written_as_it_shows_them(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """A reader of CSV asks for the zone only when it is planned."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    (tmp_path / "rows.csv").write_text("1,2020-01-01 00:00:00\n")
    rows = session.read.schema("id BIGINT, ts TIMESTAMP").csv(str(tmp_path / "rows.csv"))
    lake.env.writer("t", "1.0.0", spark=session).append(rows)
    lake.env.writer("u", "1.0.0", spark=session).merge(rows, on=["id", "ts"])
    lake.env.writer("u", "1.0.0", spark=session).merge(rows, on=["id", "ts"])
    for name in ("t", "u"):
        (row,) = lake.env.reader(name, "1.0.0").arrow().to_pylist()
        assert row["ts"].timestamp() == 1577854800
    assert session.conf.get("spark.sql.session.timeZone") == "America/New_York"


@pytest.mark.parametrize("partition", ["DATE GENERATED ALWAYS AS (CAST(ts AS DATE))", "INT GENERATED ALWAYS AS (YEAR(s.ts))"])
@pytest.mark.some(1, of="flows of Spark")
def test_a_filter_in_a_session_in_another_zone_finds_rows_of_partitions_that_are_generated_in_utc(
    spark: SparkSession, tmp_path: Path, partition: str
) -> None:
    """Delta leaves out partitions by what the filter is in the session's zone."""
    table = f"CREATE TABLE t (ts TIMESTAMP, s STRUCT<ts: TIMESTAMP>, day {partition}, n INT) PARTITIONED BY (day);"
    env = two_releases(tmp_path, table, table, "").env
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    times = ", ".join(f"({n}, TIMESTAMP'2023-12-31 {hour}:00:00')" for n, hour in ((1, 22), (2, 12)))
    rows = session.sql(f"SELECT ts, named_struct('ts', ts) AS s, n FROM VALUES {times} AS v(n, ts)")
    env.writer("t", "1.0.0", spark=session).append(rows)
    found = env.reader("t", "1.0.0", spark=session).df()
    for column in ("ts", "s.ts"):
        assert [row.n for row in found.where(f"{column} = TIMESTAMP'2023-12-31 22:00:00'").collect()] == [1]
        assert [row.n for row in found.where(f"{column} < TIMESTAMP'2023-12-31 22:30:00'").orderBy("n").collect()] == [1, 2]


@pytest.mark.some(1, of="flows of Spark")
def test_two_threads_that_write_by_one_session_keep_their_numbers_apart(spark: SparkSession, lake: Lake) -> None:
    session, skipped, count = spark.newSession(), list[bool](), 4

    def work(name: str) -> None:
        writer = lake.env.writer(name, "1.0.0", spark=session)
        for number in range(count):
            rows = session.range(number, number + 1).selectExpr("id", "CAST(NULL AS TIMESTAMP) AS ts")
            skipped.append(writer.append(rows, txn=("load", number)).skipped)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("t", "u")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert skipped == [False] * 2 * count
    for name in ("t", "u"):
        assert sorted(row["id"] for row in lake.env.reader(name, "1.0.0").arrow().to_pylist()) == list(range(count))
    assert session.conf.get("spark.databricks.delta.write.txnAppId", None) is None


@pytest.mark.some(1, of="flows of Spark")
def test_a_session_that_leaves_out_missing_files_does_so_of_its_own_rows_alone(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    own = tmp_path / "own"
    for number in range(2):
        session.range(number, number + 1).selectExpr("id", "CAST(NULL AS TIMESTAMP) AS ts").coalesce(1).write.mode("append").parquet(
            str(own)
        )
    rows = session.read.parquet(str(own))
    next(own.glob("*.parquet")).unlink()
    writer = lake.env.writer("t", "1.0.0", spark=session)
    writer.append(rows)
    (left,) = lake.env.reader("t", "1.0.0").arrow().to_pylist()
    with pytest.raises(OtherMeaning, match="ignoreMissingFiles = true"):
        lake.env.reader("t", "1.0.0", spark=session).df()
    for file in lake.path("t").glob("*.parquet"):
        file.unlink()
    with pytest.raises(SourceVacuumed):
        writer.merge(session.createDataFrame([(left["id"], None)], "id BIGINT, ts TIMESTAMP"), on=["id"])


@pytest.mark.some(1, of="flows of Spark")
def test_a_session_that_may_show_other_rows_gets_none(spark: SparkSession, lake: Lake) -> None:
    """Names that are patterns, and times of other engines that are taken for local ones."""
    for setting in ("spark.sql.parser.quotedRegexColumnNames", "spark.sql.parquet.int96TimestampConversion"):
        session = spark.newSession()
        session.conf.set(setting, "true")
        with pytest.raises(OtherMeaning, match=f"{setting} = true"):
            lake.env.reader("t", "1.0.0", spark=session).df()


@pytest.mark.some(1, of="flows of Spark")
def test_a_session_that_takes_old_times_for_others_leaves_the_rows_of_the_table_alone(spark: SparkSession, lake: Lake) -> None:
    """A merge writes a file anew whose other rows nobody asked for."""
    session, at = spark.newSession(), [dt.datetime(1500, 3, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]
    session.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    with pytest.raises(OtherMeaning, match="InRead = LEGACY"):
        lake.env.reader("t", "1.0.0", spark=session).df()
    lake.env.writer("t", "1.0.0").append(pa.table({"id": [1, 2], "ts": pa.array(at, pa.timestamp("us", tz="UTC"))}))
    lake.env.writer("t", "1.0.0", spark=session).merge(session.createDataFrame([(2, None)], "id BIGINT, ts TIMESTAMP"), on=["id"])
    rows = lake.env.reader("t", "1.0.0").arrow().to_pylist()
    assert {row["id"]: row["ts"] for row in rows} == {1: at[0], 2: None}


@pytest.mark.some(1, of="flows of Spark")
def test_a_column_that_comes_has_its_type_on_a_session_with_another_meaning_of_it(spark: SparkSession, tmp_path: Path) -> None:
    first, second = (
        "CREATE TABLE t (id BIGINT, s STRUCT<x: INT>);",
        "CREATE TABLE t (id BIGINT, s STRUCT<x: INT, t: TIMESTAMP>, c TIMESTAMP);",
    )
    lake = two_releases(tmp_path, first, second, 'evolution("t")')
    commands.preflight(lake.env, lake.second, jobs=no_spark)
    session = spark.newSession()
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    found = lake.env.reader("t", "1.1.0", spark=session).df().schema
    assert found.simpleString() == "struct<id:bigint,s:struct<x:int,t:timestamp>,c:timestamp>"


@pytest.mark.some(1, of="flows of Spark")
def test_settings_of_the_programs_own_do_not_touch_what_a_handle_writes(spark: SparkSession, lake: Lake) -> None:
    """Numbers for its own statements, and another meaning of TIMESTAMP."""
    session = spark.newSession()
    own = {
        "spark.databricks.delta.write.txnAppId": "mine",
        "spark.databricks.delta.write.txnVersion": "7",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
    }
    for name, value in own.items():
        session.conf.set(name, value)
    rows = session.range(1).selectExpr("id", "CAST('2020-01-01T00:00:00+05:00' AS TIMESTAMP_LTZ) AS ts")
    for _ in range(3):
        lake.env.writer("t", "1.0.0", spark=session).append(rows)
    found = lake.env.reader("t", "1.0.0").arrow().to_pylist()
    assert [row["ts"].timestamp() for row in found] == [1577818800] * 3
    assert {name: session.conf.get(name) for name in own} == own
