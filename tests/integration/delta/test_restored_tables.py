"""What Spark finds in a table whose rows a commit of ours has replaced: with every feature that asks something of such a commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.errors import TargetAppendOnly
from airflow_provider_schemamig.core.replication.restore.restore import restore
from airflow_provider_schemamig.core.spark.errors import ConstraintViolated
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.spark.storage_access import session_settings
from tests.support.bytes import tree
from tests.support.spark.lake import SparkLake
from tests.support.upgrades import releases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

T = CollectionName("t")
PLAIN = "CREATE TABLE t (id BIGINT NOT NULL, day DATE, name VARCHAR(3), o STRUCT<a: INT>);\n"
RULES = """CREATE TABLE t (id BIGINT NOT NULL, day DATE, name VARCHAR(3), o STRUCT<a: INT>, n INT DEFAULT 7,
  CONSTRAINT early CHECK (day IS NULL OR day < DATE'2030-01-01'))"""
LAYOUTS = {"partitioned": " PARTITIONED BY (day);\n", "clustered": " CLUSTER BY (id);\n"}
#: Switched on by the target's owners.
FEATURES = ", ".join(
    f"'delta.{key}' = '{value}'"
    for key, value in {
        "enableRowTracking": "true",
        "enableInCommitTimestamps": "true",
        "enableDeletionVectors": "true",
        "enableChangeDataFeed": "true",
        "columnMapping.mode": "name",
        "checkpointPolicy": "v2",
    }.items()
)


def make(spark: SparkSession, folder: Path, layout: str) -> tuple[SparkLake, SparkLake]:
    lakes = []
    for name, schema in (("a", PLAIN), ("b", f"{RULES}{LAYOUTS[layout]}")):
        (release,) = releases(folder / name / "product", (schema, ""))
        lakes.append(SparkLake(spark, Environment.open(str(folder / name / "lake"))))
        lakes[-1].upgrade(release)
    return lakes[0], lakes[1]


def rows(lake: SparkLake) -> list[str]:
    return sorted(str(row) for row in lake.sql("SELECT id, day, name, o FROM {t}"))


def restored(a: SparkLake, b: SparkLake) -> int:
    return restore(a.env, b.env, T, allow_schema_change=True, allow_lossy=True, jobs=EmbeddedRunner).table_version


@pytest.mark.soak
@pytest.mark.parametrize("layout", ["partitioned", "clustered"])
def test_with_every_feature(spark: SparkSession, tmp_path: Path, layout: str) -> None:
    a, b = make(spark, tmp_path, layout)
    b.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({FEATURES})")
    b.sql("INSERT INTO {t} (id, day, name) SELECT id, DATE'2020-01-01', 'old' FROM range(50)")
    b.sql("DELETE FROM {t} WHERE id < 3")
    a.sql("INSERT INTO {t} SELECT id, DATE_ADD(DATE'2026-01-01', CAST(id % 3 AS INT)), 'new', named_struct('a', id) FROM range(20)")
    a.sql("INSERT INTO {t} VALUES (100, NULL, NULL, NULL)")
    before = {row["id"] for row in b.sql("SELECT _metadata.row_id AS id FROM {t}")}
    version = restored(a, b)
    assert rows(b) == rows(a)
    assert {row["n"] for row in b.sql("SELECT DISTINCT n FROM {t}")} == {7}, "what the origin does not have has its default"
    feed = spark.read.format("delta").options(readChangeFeed="true", startingVersion=version).load(str(b.folder(T)))
    assert {row["_change_type"]: row["count"] for row in feed.groupBy("_change_type").count().collect()} == {"delete": 47, "insert": 21}
    b.sql("INSERT INTO {t} (id, day) VALUES (200, DATE'2026-01-02')")
    b.sql("DELETE FROM {t} WHERE id = 1")
    ids = [row["id"] for row in b.sql("SELECT _metadata.row_id AS id FROM {t}")]
    assert len(ids) == len(set(ids)) == 21
    assert not before & set(ids), "no id is given twice"
    history = b.sql("DESCRIBE HISTORY {t}")
    assert [row["timestamp"] for row in history] == sorted((row["timestamp"] for row in history), reverse=True)
    b.sql("OPTIMIZE {t}")
    with session_settings(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        b.sql("VACUUM {t} RETAIN 0 HOURS")
    assert len(b.sql("SELECT * FROM {t}")) == 21
    a.sql("INSERT INTO {t} VALUES (300, NULL, 'end', NULL)")
    restored(a, b)
    assert rows(b) == rows(a)


@pytest.mark.soak
def test_the_tables_own_checks_are_asked(spark: SparkSession, tmp_path: Path) -> None:
    a, b = make(spark, tmp_path, "partitioned")
    b.sql("INSERT INTO {t} (id) VALUES (9)")
    a.sql("INSERT INTO {t} VALUES (1, DATE'2031-01-01', 'x', NULL)")
    before = sorted(tree(b.folder(T)))
    with pytest.raises(ConstraintViolated):
        restored(a, b)
    assert sorted(tree(b.folder(T))) == before


@pytest.mark.soak
def test_an_append_only_table(spark: SparkSession, tmp_path: Path) -> None:
    """An empty one may be filled."""
    a, b = make(spark, tmp_path, "partitioned")
    b.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    a.sql("INSERT INTO {t} VALUES (1, NULL, NULL, NULL)")
    restored(a, b)
    a.sql("INSERT INTO {t} VALUES (2, NULL, NULL, NULL)")
    with pytest.raises(TargetAppendOnly):
        restored(a, b)
    assert len(rows(b)) == 1
