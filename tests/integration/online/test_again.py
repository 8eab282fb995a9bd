"""A column with a DEFAULT that is rolled back and comes again, with Spark's own statements in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from tests.support.spark.lake import SparkLake
from tests.support.upgrades import releases

pytestmark = pytest.mark.spark


@pytest.mark.soak
def test_a_text_is_what_the_release_says_and_not_what_the_environment_holds(spark: SparkSession, tmp_path: Path) -> None:
    """Spark puts variables of its process into ``${...}`` unless it is told not to: in a fill, and in each statement of a writer."""
    text = "a${env:PATH}b${system:java.version}c${nosuch}"
    before, after = "CREATE TABLE t (id BIGINT);", f"CREATE TABLE t (id BIGINT, c STRING DEFAULT '{text}');"
    first, second = releases(tmp_path, (before, ""), (after, 'evolution("t")'))
    lake = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    lake.upgrade(first)
    lake.sql("INSERT INTO {t} VALUES (1)")
    lake.upgrade(second)
    lake.env.writer("t", spark=spark).append(spark.sql("SELECT 2L AS id"))
    assert {row["c"] for row in lake.sql("SELECT * FROM {t}")} == {text}


@pytest.mark.soak
def test_online_again_what_was_written_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    """What a statement is told by is the operation that Spark names in its commit."""
    before, after = "CREATE TABLE t (id BIGINT, v INT);", "CREATE TABLE t (id BIGINT, v INT, c INT DEFAULT 5);"
    first, second = releases(tmp_path, (before, ""), (after, 'evolution("t")'))
    lake = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    lake.upgrade(first)
    lake.sql("INSERT INTO {t} VALUES (1, 1)")
    lake.upgrade(second)
    lake.sql("INSERT INTO {t} (id, v, c) VALUES (2, 2, 42), (3, 3, NULL)")
    lake.env.writer("t", "1.0.0", spark=spark).append(spark.sql("SELECT 4L AS id, 4 AS v"))
    lake.sql("OPTIMIZE {t}")
    commands.rollback(lake.env, jobs=EmbeddedRunner)
    lake.env.writer("t", "1.0.0", spark=spark).append(spark.sql("SELECT 5L AS id, 5 AS v"))
    lake.sql("UPDATE {t} SET v = 30 WHERE id = 3")
    lake.sql("DELETE FROM {t} WHERE id = 1")
    lake.upgrade(second)
    found = {row["id"]: (row["v"], row["c"]) for row in lake.sql("SELECT * FROM {t}")}
    assert found == {2: (2, 42), 3: (30, None), 4: (4, 5), 5: (5, 5)}
    lake.check("1.1.0")
