"""CLUSTER BY on a real table: Spark takes what we commit for its own, and lays files out as we ask."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.upgrade.alter import alter
from tests.support.product import Product
from tests.support.spark.lake import InFlight, SparkLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]

OLD = "CREATE TABLE t (id BIGINT, v INT, s STRUCT<x: INT, y: STRING>);\n"
NEW = "CREATE TABLE t (id BIGINT, value INT, s STRUCT<x: INT, y: STRING>, UNIQUE (id)) CLUSTER BY (value, s.x);\n"
ROWS = "SELECT id, CAST(id * 7919 % 1000 AS INT), named_struct('x', CAST(id % 10 AS INT), 'y', concat('y', id)) FROM range({}, {})"


@pytest.fixture
def product(tmp_path: Path) -> Product:
    return Product(tmp_path / "product")


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, product: Product) -> SparkLake:
    """Three files out of order, one of them with a deletion vector."""
    found = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    found.upgrade(product.release("1.0.0", OLD))
    found.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    for n in range(3):
        found.sql(f"INSERT INTO {{t}} {ROWS.format(1000 * n, 1000 * n + 1000)}")
    found.sql("DELETE FROM {t} WHERE id = 5")
    return found


def files(lake: SparkLake) -> list[Any]:
    store = lake.env.table_store(str(lake.folder("t")))
    return list(active_files(store, read_head(store).version).values())


def optimized(lake: SparkLake, how: str = "") -> int:
    """How many files OPTIMIZE made anew."""
    (row,) = lake.sql(f"OPTIMIZE {{t}} {how}")
    return int(row["metrics"]["numFilesAdded"])


def clustered_by(lake: SparkLake) -> list[str]:
    (row,) = lake.sql("DESCRIBE DETAIL {t}")
    return list(row["clusteringColumns"])


def test_spark_takes_it_for_its_own(lake: SparkLake, product: Product) -> None:
    before = lake.digest("t", "id", "v", "s.x", "s.y")
    second = product.release("1.1.0", NEW, 'evolution("t", rename={"v": "value"})')

    lake.upgrade(second)

    lake.check("1.1.0")
    assert clustered_by(lake) == ["value", "s.x"]
    assert lake.digest("t", "id", "value", "s.x", "s.y") == before
    (file,) = files(lake)
    assert file["clusteringProvider"] == "liquid"
    assert optimized(lake) == 0, "it knows the file for clustered"

    lake.sql(f"INSERT INTO {{t}} {ROWS.format(5000, 5100)}")
    lake.sql("MERGE INTO {t} t USING (SELECT 7L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET value = -1")
    lake.sql("UPDATE {t} SET value = -2 WHERE id = 8")
    assert optimized(lake, "FULL") > 0
    assert lake.sql("SELECT count(*) AS n, min(value) AS least FROM {t}")[0].asDict() == {"n": 3099, "least": -2}
    assert {item["clusteringProvider"] for item in files(lake)} == {"liquid"}

    commands.rollback(lake.env, jobs=EmbeddedRunner)
    lake.check("1.0.0")
    assert clustered_by(lake) == []
    lake.sql(f"INSERT INTO {{t}} {ROWS.format(6000, 6010)}")


def test_rows_lie_in_order_and_writers_in_flight_go_on(lake: SparkLake, tmp_path: Path) -> None:
    """Spark skips files by a clustering column, and an INSERT that began before the commit ends after it."""
    with small_files(lake.spark):
        lake.sql("OPTIMIZE {t}")
        spread = overlapping(lake)
        writer = InFlight(lake.spark, tmp_path, f"INSERT INTO {lake.table('t')} {ROWS.format(9000, 9001)} WHERE held(id)")
        alter(lake.env, "ALTER TABLE t CLUSTER BY (v)", jobs=EmbeddedRunner)
        assert writer.outcome() is None
    lake.check("1.0.0")
    assert lake.sql("SELECT count(*) AS n FROM {t}")[0]["n"] == 3000
    assert len(files(lake)) > 3
    assert overlapping(lake) < spread

    path = str(lake.folder("t"))
    assert deltalake.DeltaTable(path).version() > 0
    data = pa.table({"id": pa.array([1], pa.int64()), "v": pa.array([1], pa.int32())})
    with pytest.raises(Exception, match=r"Unsupported table features required.*(Cluster|Domain)"):
        deltalake.write_deltalake(path, data, mode="append", schema_mode="merge")
    alter(lake.env, "ALTER TABLE t CLUSTER BY NONE", jobs=EmbeddedRunner)
    assert clustered_by(lake) == []
    with pytest.raises(Exception, match="Unsupported table features required"):
        deltalake.write_deltalake(path, data, mode="append", schema_mode="merge")


@contextlib.contextmanager
def small_files(spark: SparkSession) -> Iterator[None]:
    """OPTIMIZE makes files of a few kilobytes, in this session and in those that jobs get: they begin with the context's settings."""
    key: str = "spark.databricks.delta.optimize.maxFileSize"
    context: Any = spark._jsc.sc().conf()
    context.set(key, "4096")
    spark.conf.set(key, "4096")
    try:
        yield
    finally:
        spark.conf.unset(key)
        context.remove(key)


def overlapping(lake: SparkLake) -> float:
    """The share of files that may hold a value of ``v``, by their statistics."""
    found = [json.loads(file["stats"]) for file in files(lake)]
    bounds = [(stats["minValues"]["v"], stats["maxValues"]["v"]) for stats in found]
    holding = sum(bool(low <= 500 <= high) for low, high in bounds)
    return holding / len(bounds)
