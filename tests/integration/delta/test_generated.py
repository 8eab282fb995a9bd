"""Generated columns as Spark and Delta have them: the metadata of a table of ours, which expressions, who computes and who refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import NeedsSpark
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.errors import ConstraintViolated
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.storage import Location, StorageOptions, open_store
from tests.support.product import Product
from tests.support.spark.lake import SparkLake, run, table
from tests.unit.schema.test_generated import COLUMNS, REFUSED, TAKEN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAYS = """CREATE TABLE flights (id BIGINT NOT NULL, price DECIMAL(10,2), s STRUCT<a: INT>,
    year INT GENERATED ALWAYS AS (YEAR(day)) COMMENT 'of day',
    twice BIGINT NOT NULL GENERATED ALWAYS AS (id * 2), a INT GENERATED ALWAYS AS (s.a), day DATE)"""
PLAIN = "CREATE TABLE flights (id BIGINT NOT NULL, price DECIMAL(10,2), s STRUCT<a: INT>, day DATE);"
UP = "SELECT id, price, s, YEAR(day) AS year, id * 2 AS twice, s.a AS a, day FROM {flights}"
DOWN = "SELECT id, price, s, day FROM {flights}"


def head(folder: Path) -> Head:
    return read_head(open_store(Location.parse(str(folder)), StorageOptions()))


def fields(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(head(folder).metadata["schemaString"])["fields"]
    return found


def seen(lake: SparkLake) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.sql("SELECT id, year, twice, a FROM {flights}"))


@pytest.mark.soak
def test_delta_takes_and_refuses_the_same(spark: SparkSession, tmp_path: Path) -> None:
    for number, (kind, expression) in enumerate([*TAKEN, *((kind, text) for kind, text, _ in REFUSED)]):
        made = f"CREATE TABLE {table(tmp_path / str(number))} ({COLUMNS}, g {kind} GENERATED ALWAYS AS ({expression})) USING delta"
        if number < len(TAKEN):
            run(spark, made)
        else:
            with pytest.raises(Exception, match=r"(?s)."):
                run(spark, made)


@pytest.mark.soak
def test_a_new_table_is_what_spark_makes_and_its_writers_compute(spark: SparkSession, tmp_path: Path) -> None:
    lake = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    lake.upgrade(Product(tmp_path / "product").release("1.0.0", f"{DAYS} PARTITIONED BY (year);"))
    run(spark, DAYS.replace("flights", table(tmp_path / "spark")) + " USING delta PARTITIONED BY (year)")
    ours, sparks = head(lake.folder("flights")), head(tmp_path / "spark")
    assert fields(lake.folder("flights")) == fields(tmp_path / "spark")
    assert (ours.features, ours.metadata["partitionColumns"]) == (sparks.features, sparks.metadata["partitionColumns"])
    assert {key: ours.protocol[key] for key in ("minReaderVersion", "minWriterVersion")} == {"minReaderVersion": 1, "minWriterVersion": 7}

    writer = lake.env.writer("flights", "1.0.0", spark)
    writer.append(spark.sql("SELECT 1L AS id, DATE'2020-01-01' AS day, named_struct('a', 5) AS s"))
    writer.append(spark.sql("SELECT 2L AS id, DATE'2021-01-01' AS day, 2021 AS year"))
    assert seen(lake) == [(1, 2020, 2, 5), (2, 2021, 4, None)]
    for wrong in ("2020", "CAST(NULL AS INT)"):
        with pytest.raises(ConstraintViolated):
            writer.append(spark.sql(f"SELECT 3L AS id, DATE'2021-01-01' AS day, {wrong} AS year"))
    writer.merge(spark.sql("SELECT CAST(id AS BIGINT) AS id, DATE'2022-01-01' AS day FROM range(2, 4)"), ["id"])
    assert seen(lake) == [(1, 2020, 2, 5), (2, 2022, 4, None), (3, 2022, 6, None)]
    with pytest.raises(NeedsSpark):
        lake.env.writer("flights", "1.0.0").append(pa.table({"id": pa.array([4], pa.int64())}))
    assert [row["year"] for row in lake.env.reader("flights", "1.0.0").arrow(["year"]).to_pylist()].count(2022) == 2
    writer.overwrite(spark.sql("SELECT 7L AS id, DATE'2019-01-01' AS day"))
    assert seen(lake) == [(7, 2019, 14, None)]
    lake.check("1.0.0")


@pytest.mark.soak
def test_a_rewrite_adds_it_and_a_rollback_takes_it_back(spark: SparkSession, tmp_path: Path) -> None:
    product, lake = Product(tmp_path / "product"), SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    lake.upgrade(product.release("1.0.0", PLAIN))
    rows = "SELECT id, CAST(id AS DECIMAL(10,2)) AS price, named_struct('a', 1) AS s, DATE'2020-01-01' AS day FROM range(0, 3)"
    lake.env.writer("flights", "1.0.0", spark).append(spark.sql(rows))
    lake.upgrade(product.release("1.1.0", f"{DAYS};", f'rewrite("flights", up="{UP}", down="{DOWN}")'))
    lake.env.writer("flights", "1.1.0", spark).append(spark.sql("SELECT 9L AS id, DATE'2021-01-01' AS day"))
    assert seen(lake) == [(0, 2020, 0, 1), (1, 2020, 2, 1), (2, 2020, 4, 1), (9, 2021, 18, None)]
    assert head(lake.folder("flights")).declaration(CollectionName("flights")).field("year").generated == "YEAR(day)"  # type: ignore[union-attr]
    commands.rollback(lake.env, jobs=EmbeddedRunner)
    assert sorted(row[0] for row in lake.sql("SELECT id FROM {flights}")) == [0, 1, 2, 9]
    assert lake.columns("flights") == ["id", "price", "s", "day"]
