"""Another type on a live table, there and back, with Spark's own casts, files and readers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.upgrade import verbs
from airflow_provider_schemamig.core.upgrade.errors import LossyRollback
from tests.support.product import Product
from tests.support.spark_lake import SparkLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OLD = "CREATE TABLE t (id BIGINT, s STRING, d DECIMAL(9,2) NOT NULL DEFAULT 1, p STRING) PARTITIONED BY (p);\n"
NEW = "CREATE TABLE t (id BIGINT, s INT, d STRING NOT NULL DEFAULT 1, p STRING) PARTITIONED BY (p);\n"


@pytest.mark.soak
def test_there_and_back(spark: SparkSession, tmp_path: Path) -> None:
    product, lake = Product(tmp_path / "product"), SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    first, second = product.release("1.0.0", OLD), product.release("1.1.0", NEW, 'evolution("t")')
    lake.upgrade(first)
    lake.sql("INSERT INTO {t} VALUES (1, '007', 1.5, 'x'), (2, NULL, 2, 'y')")

    lake.upgrade(second)
    assert lake.columns("t") == ["id", "s", "d", "p", "schemamig_old_d", "schemamig_old_s"]
    found = lake.sql("SELECT id, s, d FROM {t} ORDER BY id")
    assert [tuple(row) for row in found] == [(1, 7, "1.50"), (2, None, "2.00")]
    lake.check("1.1.0")

    lake.sql("INSERT INTO {t} (id, s, p) VALUES (3, 33, 'x')")
    lake.sql("UPDATE {t} SET d = 'two' WHERE id = 2")
    with pytest.raises(LossyRollback):
        verbs.rollback(lake.env, jobs=EmbeddedRunner)
    lake.sql("UPDATE {t} SET d = '22' WHERE id = 2")
    lake.sql("OPTIMIZE {t}")
    verbs.rollback(lake.env, jobs=EmbeddedRunner)
    found = lake.sql("SELECT id, s, CAST(d AS STRING) FROM {t} ORDER BY id")
    assert [tuple(row) for row in found] == [(1, "007", "1.50"), (2, None, "22.00"), (3, "33", "1.00")]
    lake.check("1.0.0")
    assert lake.columns("t")[:4] == ["id", "s", "d", "p"]
    lake.sql("INSERT INTO {t} (id, s, p) VALUES (4, '4', 'y')")
