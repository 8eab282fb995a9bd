"""What a writing handle makes of values by Spark: what it leaves as it was, what it refuses, and what Spark says of CHECKs."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.arrow.read import arrow_schema
from airflow_provider_schemamig.core.access.errors import NeedsSpark, WriterFenced
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.schema.delta_json import field_to_delta
from airflow_provider_schemamig.core.schema.model import Field, Primitive
from airflow_provider_schemamig.core.spark.errors import BadValue
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from tests.support.product import Product
from tests.support.spark import check_cases
from tests.support.spark.lake import SparkLake
from tests.unit.access.test_fit import shape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NESTED = "CREATE TABLE t (id BIGINT, v INT, s STRUCT<a: INT, h: STRING, i: STRUCT<x: INT>>, l ARRAY<STRUCT<a: INT>>);"
NESTED_NEW = """CREATE TABLE t (id BIGINT, v INT, s STRUCT<q: STRING, a: INT, i: STRUCT<x: INT, y: INT>>, l ARRAY<STRUCT<a: INT, b: INT>>,
    w STRUCT<a: INT>);"""


@pytest.fixture
def nested(spark: SparkSession, tmp_path: Path) -> SparkLake:
    """At 1.1.0, with rows whose newer fields are filled; the field ``s.h`` is hidden."""
    lake = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    product = Product(tmp_path / "product")
    lake.upgrade(product.release("1.0.0", NESTED))
    whole = "named_struct('a', 1, 'h', 'h', 'i', named_struct('x', 1))"
    lake.sql(f"INSERT INTO {{t}} SELECT id, 1, IF(id = 4, NULL, {whole}), array(named_struct('a', 1)) FROM range(1, 5)")
    lake.upgrade(product.release("1.1.0", NESTED_NEW, 'evolution("t", drop=["s.h"])'))
    lake.sql("UPDATE {t} SET s.q = 'q', s.i.y = 2, l = array(named_struct('a', 1, 'b', 2)), w = named_struct('a', 1) WHERE id < 4")
    return lake


@pytest.mark.some(1, of="flows of Spark")
def test_a_merge_leaves_the_newer_fields_of_a_struct_as_they_are(spark: SparkSession, nested: SparkLake) -> None:
    """At any depth of structs, but not in arrays."""
    lake = nested
    given = "IF(id = 3, NULL, named_struct('a', 7, 'i', IF(id = 2, NULL, named_struct('x', 7)))) AS s"
    merged = spark.sql(f"SELECT id, 7 AS v, {given}, array(named_struct('a', 7)) AS l FROM range(1, 6)")
    lake.env.writer("t", "1.0.0", spark).merge(merged, on=["id"])
    found = {row["id"]: row for row in lake.env.reader("t", "1.1.0").arrow().to_pylist()}
    assert {key: row["s"] for key, row in found.items()} == {
        1: {"q": "q", "a": 7, "i": {"x": 7, "y": 2}},
        2: {"q": "q", "a": 7, "i": None},
        3: None,
        4: {"q": None, "a": 7, "i": {"x": 7, "y": None}},
        5: {"q": None, "a": 7, "i": {"x": 7, "y": None}},
    }
    assert [found[1][name] for name in ("v", "w", "l")] == [7, {"a": 1}, [{"a": 7, "b": None}]]
    hidden = {row["id"]: row["h"] for row in lake.sql("SELECT id, s.h AS h FROM {t}")}
    assert hidden == dict.fromkeys(range(1, 6)), "the old release has the field, and gave none"
    with pytest.raises(WriterFenced, match=r"column s cannot be merged on: the table has s\.q in it"):
        lake.env.writer("t", "1.0.0", spark).merge(merged, on=["s"])


@pytest.mark.soak
def test_a_merge_leaves_the_hidden_fields_of_a_struct_for_the_way_back(spark: SparkSession, nested: SparkLake) -> None:
    lake = nested
    newer = spark.sql("SELECT 1L AS id, named_struct('q', 'r', 'a', 8, 'i', named_struct('x', 8, 'y', 8)) AS s")
    lake.env.writer("t", "1.1.0", spark).merge(newer, on=["id"])
    commands.rollback(lake.env, jobs=EmbeddedRunner)
    [row] = [row for row in lake.env.reader("t", spark=spark).df().collect() if row["id"] == 1]
    assert row["s"].asDict(recursive=True) == {"a": 8, "h": "h", "i": {"x": 8}}


@pytest.mark.some(1, of="flows of Spark")
def test_a_reader_finds_the_fields_of_a_struct_by_name_where_the_table_has_another_order(spark: SparkSession, tmp_path: Path) -> None:
    lake, product = SparkLake(spark, Environment.open(str(tmp_path / "lake"))), Product(tmp_path / "product")
    lake.upgrade(product.release("1.0.0", "CREATE TABLE t (c INT, s STRUCT<a: INT, b: INT>, l ARRAY<STRUCT<a: INT, b: INT>>);"))
    lake.sql("INSERT INTO {t} SELECT 0, named_struct('a', 1, 'b', 2), array(named_struct('a', 1, 'b', 2))")
    turned = "CREATE TABLE t (d INT, s STRUCT<b: BIGINT, a: INT>, l ARRAY<STRUCT<b: INT, a: INT>>);"
    lake.upgrade(product.release("1.1.0", turned, 'evolution("t", rename={"c": "d"})'))
    reader = lake.env.reader("t", "1.0.0", spark)
    [(_, s, [item])] = reader.df().collect()
    assert (tuple(s), tuple(item)) == ((1, 2), (1, 2)), "in the release's order, too"


# --- values that another type does not hold --------------------------------------------------------------------------------------------

NUMBERS = (
    "CREATE TABLE t (f FLOAT, l ARRAY<FLOAT>, m MAP<FLOAT, FLOAT>, s STRUCT<a: INT, f: FLOAT>, n INT, at TIMESTAMP, local TIMESTAMP_NTZ);"
)


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> SparkLake:
    lake = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    lake.upgrade(Product(tmp_path / "product").release("1.0.0", NUMBERS))
    return lake


@pytest.mark.soak
def test_a_double_beyond_float_is_refused_and_infinity_is_not(spark: SparkSession, numbers: SparkLake) -> None:
    writer = numbers.env.writer("t", spark=spark)
    for column, value in (
        ("f", "1e300D"),
        ("l", "array(NULL, 1D, -1e39D)"),
        ("m", "map(1e39D, 1D)"),
        ("s", "named_struct('f', 1e39D)"),
    ):
        with pytest.raises(BadValue, match=f"column {column} is .*: a finite DOUBLE is beyond FLOAT, which goes from -3.4028235e38"):
            writer.append(spark.sql(f"SELECT {value} AS {column}"))
    with pytest.raises(BadValue, match="beyond FLOAT"):
        writer.merge(spark.sql("SELECT 1 AS n, 1e300D AS f"), on=["n"])
    nan, most = "DOUBLE('NaN')", "3.4028235e38D"
    infinite = "DOUBLE('-Infinity')"
    writer.append(
        spark.sql(
            f"SELECT {nan} AS f, array({infinite}, {most}, NULL) AS l, map(1D, {infinite}) AS m, named_struct('f', {nan}) AS s "
            "UNION ALL SELECT NULL, NULL, NULL, NULL"
        )
    )
    row, empty = sorted(numbers.sql("SELECT CAST(f AS STRING) AS f, l, m, s FROM {t}"), key=lambda row: row["f"] is None)
    assert (row["f"], row["l"], row["m"]) == ("NaN", [float("-inf"), 3.4028234663852886e38, None], {1.0: float("-inf")})
    assert list(empty) == [None] * 4


@pytest.mark.soak
def test_arrow_means_the_same_to_a_writer_with_spark(spark: SparkSession, numbers: SparkLake) -> None:
    """Whatever the session's time zone is; PySpark itself would take the time without a zone for one of it, and cut nanoseconds off."""
    noon = dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
    local = noon.replace(tzinfo=None)
    rows = pa.table(
        {
            "at": pa.array([noon], pa.timestamp("ns", tz="Europe/Berlin")),
            "local": pa.array([local], pa.timestamp("ns")),
            "n": pa.array([7], pa.uint64()),
            "f": pa.array([float("inf")]),
        }
    )
    beyond = pa.table({"at": pa.array([1500], pa.timestamp("ns", tz="UTC"))})
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        writer = numbers.env.writer("t", spark=spark)
        writer.append(rows)
        for refused, error in ((beyond, BadValue), (pa.table({"at": rows["local"]}), WriterFenced), (pa.table({"f": [1e300]}), BadValue)):
            with pytest.raises(error):
                writer.append(refused)
        writer.merge(rows, on=["local", "at"])
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    numbers.env.writer("t").append(rows)
    assert (
        numbers.env.reader("t").arrow(["at", "local", "n", "f"]).to_pylist()
        == [{"at": noon, "local": local, "n": 7, "f": float("inf")}] * 2
    )


# --- times that delta-rs would take for others ----------------------------------------------------------------------------------------

TIMES = "CREATE TABLE t (id BIGINT, at TIMESTAMP UNIQUE, s STRUCT<at: TIMESTAMP>, l ARRAY<TIMESTAMP>);"
WIDE = "spark.sql.parquet.outputTimestampType"
OPEN_END = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)


@pytest.mark.soak
def test_times_of_other_writers_are_read_as_spark_reads_them_or_not_at_all(spark: SparkSession, tmp_path: Path) -> None:
    """Spark writes INT96 by default. Ordinary times are known by Delta's statistics; nothing is known of those in arrays."""
    lake = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    lake.upgrade(Product(tmp_path / "product").release("1.0.0", TIMES))
    row = "SELECT {id}L AS id, timestamp'{at} UTC' AS at, named_struct('at', timestamp'{at} UTC') AS s, array(timestamp'{at} UTC') AS l"
    today, end = "2026-11-23 01:02:03.456789", "9999-12-31 23:59:59.999999"
    lake.env.writer("t", spark=spark).append(spark.sql(row.format(id=1, at=end)))
    assert lake.env.reader("t").arrow().to_pylist() == [{"id": 1, "at": OPEN_END, "s": {"at": OPEN_END}, "l": [OPEN_END]}]

    ours = str(spark.conf.get(WIDE))
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    try:
        spark.conf.set(WIDE, "INT96")
        spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
        lake.sql(f"INSERT INTO {{t}} {row.format(id=2, at=today)}")
        now = dt.datetime.fromisoformat(f"{today}+00:00")
        found = {item["id"]: item for item in lake.env.reader("t").arrow(["id", "at", "s"]).to_pylist()}
        assert found[2] == {"id": 2, "at": now, "s": {"at": now}}
        with pytest.raises(NeedsSpark, match=r"column l\.element is INT96"):
            lake.env.reader("t").arrow()
        lake.env.writer("t", spark=spark).append(spark.sql(row.format(id=3, at="2026-11-24 00:00:00")))
        lake.sql(f"INSERT INTO {{t}} {row.format(id=4, at='2300-01-01 00:00:00')}")
    finally:
        spark.conf.set(WIDE, ours)
        spark.conf.set("spark.sql.session.timeZone", zone)
    for column in ("at", "s"):
        with pytest.raises(NeedsSpark, match=rf"column {column}.* is INT96"):
            lake.env.reader("t").arrow([column])
    again = pa.table({"id": [5], "at": pa.array([dt.datetime(2300, 1, 1, tzinfo=dt.UTC)])})
    with pytest.raises(NeedsSpark, match="reading the keys"):
        lake.env.writer("t").append(again)
    lake.sql("DELETE FROM {t} WHERE id = 4")
    lake.sql("OPTIMIZE {t}")  # by a session of ours: INT64 from now on
    assert sorted(lake.env.reader("t").arrow(["id", "l"])["id"].to_pylist()) == [1, 2, 3]


# --- CHECKs that delta-rs evaluates ---------------------------------------------------------------------------------------------------


def said_by_spark(spark: SparkSession, columns: str, checks: list[str], rows: list[dict[str, Any]]) -> list[list[bool | None]]:
    """Of each row, what each CHECK gives."""
    from pyspark.sql.types import StructType

    fields = (*shape(columns).fields, Field("i", Primitive("int")))
    document = {"type": "struct", "fields": [field_to_delta(Field(f.name, f.type, f.nullable)) for f in fields]}
    table = pa.Table.from_pylist([{**row, "i": number} for number, row in enumerate(rows)], schema=arrow_schema(fields))
    frame = spark.createDataFrame(table, StructType.fromJson(document))
    return [list(row)[1:] for row in sorted(frame.selectExpr("i", *checks).collect())]


@pytest.mark.soak
def test_spark_says_of_checks_what_the_cases_say(spark: SparkSession) -> None:
    for case in check_cases.CASES:
        [[found]] = said_by_spark(spark, case.columns, [case.check], [case.row])
        assert (found is True) is case.holds, case


@pytest.mark.soak
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(checks=st.lists(check_cases.CHECKS, min_size=20, max_size=40), rows=check_cases.ROWS)
def test_spark_says_of_random_checks_what_plain_python_says(
    spark: SparkSession, checks: list[check_cases.Part], rows: list[dict[str, Any]]
) -> None:
    found = said_by_spark(spark, check_cases.COLUMNS, [check.sql for check in checks], rows)
    for row, values in zip(rows, found, strict=True):
        for check, value in zip(checks, values, strict=True):
            assert value is check.value(row), (check.sql, row)
