"""Spark opens the very folder that our stores and delta-rs open, with everything in its name that a location may hold."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.upgrade.verify.verify import verify_environment
from tests.support.bytes import tree
from tests.support.product import Product
from tests.support.spark.lake import SparkLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAME = "a b ü:c=d&e+f;g,h$HOME~(x)'\"<y>!@."


@pytest.mark.soak
def test_a_lake_with_a_wild_name(spark: SparkSession, tmp_path: Path) -> None:
    product = Product(tmp_path / "product")
    first = product.release("1.0.0", "CREATE TABLE t (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id)) PARTITIONED BY (v);")
    step = """rewrite("t", up="SELECT id, v, CAST(id AS STRING) AS w FROM {t}", down="SELECT id, v FROM {t}")"""
    second = product.release("1.1.0", "CREATE TABLE t (id BIGINT NOT NULL, v STRING, w STRING, PRIMARY KEY (id));", step)
    lake = SparkLake(spark, Environment.open(str(tmp_path / "in" / NAME)))
    lake.upgrade(first)
    decoy = tmp_path / "in" / quote(NAME)
    shutil.copytree(tmp_path / "in" / NAME, decoy)
    before = tree(decoy)
    lake.env.writer("t", spark=spark).append(spark.sql("SELECT 1L AS id, 'x y%' AS v"))
    lake.env.writer("t").append(pa.table({"id": [2], "v": ["[z]"]}))
    assert verify_environment(lake.env, EmbeddedRunner).findings == (), "Spark was given files"
    lake.upgrade(second)
    lake.check("1.1.0")
    rows = [{"id": 1, "v": "x y%", "w": "1"}, {"id": 2, "v": "[z]", "w": "2"}]
    assert sorted(lake.env.reader("t", spark=spark).df().toArrow().to_pylist(), key=str) == rows
    assert sorted(lake.env.reader("t").arrow().to_pylist(), key=str) == rows
    assert tree(decoy) == before
    assert sorted(folder.name for folder in (tmp_path / "in").iterdir()) == sorted([NAME, decoy.name])
