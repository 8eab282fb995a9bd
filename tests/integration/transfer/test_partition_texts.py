"""Tables that delta-rs partitioned: of some values Spark has another text, and of some texts NULL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.schema.delta_rules.partition_texts import KEPT_AS_NULL
from tests.support.rows.rewrites import OnSession
from tests.support.tables.adopting import Site
from tests.support.upgrades import refused, two_releases
from tests.unit.upgrade.adopt.test_adopt import begin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VALUES: dict[str, list[Any]] = {
    "TEXT": ["a", "", None],
    "NUMBER": [1.0, 1e20],
    "TIME": [1_577_847_845_678_900, 0],  # microseconds
}
TYPES = {"TEXT": pa.string(), "NUMBER": pa.float64(), "TIME": pa.timestamp("us")}


def partitions(path: Path) -> dict[str, Any]:
    """The text of each row's partition, by the file's least id."""
    found = {}
    for name in DeltaTable(str(path)).file_uris():
        for log in (path / "_delta_log").glob("*.json"):
            for line in log.read_text().splitlines():
                add = json.loads(line).get("add")
                if add and name.endswith(add["path"].rpartition("/")[2]):
                    found[str(json.loads(add["stats"])["minValues"]["id"])] = add["partitionValues"]["p"]
    return found


def shown(spark: SparkSession, site: Site) -> list[tuple[int, str]]:
    return sorted((row["id"], str(row["p"])) for row in spark.read.format("delta").load(site.uri("t")).collect())


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.some(1, of="flows of Spark")
def test_a_filled_row_stays_in_its_partition_to_the_letter(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    site = Site(tmp_path)
    rows = {"id": pa.array(range(len(VALUES[kind])), pa.int64()), "p": pa.array(VALUES[kind], TYPES[kind])}
    site.adopt(t=site.table("t", rows, partition_by=["p"]))
    before, texts = shown(spark, site), partitions(tmp_path / "out" / "t")

    declared = (site.release / "schema.sql").read_text()
    begin(site, "id BIGINT,", "id BIGINT,\n    z INT NOT NULL DEFAULT 5,", 'evolution("t")')
    assert "PARTITIONED BY (p)" in declared
    commands.upgrade(site.env, site.release, jobs=lambda: OnSession(spark))
    assert (shown(spark, site), partitions(tmp_path / "out" / "t")) == (before, texts)
    assert {row["z"] for row in site.env.reader("t").arrow().to_pylist()} == {5}


@pytest.mark.parametrize("text", KEPT_AS_NULL)
@pytest.mark.some(1, of="flows of Spark")
def test_a_text_that_is_kept_as_null_is_refused_by_a_handle_and_a_rewrite(spark: SparkSession, tmp_path: Path, text: str) -> None:
    first = "CREATE TABLE t (id BIGINT, p STRING) PARTITIONED BY (p);"
    up = 'rewrite("t", up="SELECT CAST(id AS STRING) AS id, p FROM {t}", down="SELECT CAST(id AS BIGINT) AS id, p FROM {t}")'
    lake = two_releases(tmp_path, first, first.replace("BIGINT", "STRING"), up)
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "p": ["a", text]})
    with refused("invalid_argument", "t"):
        lake.env.writer("t", "1.0.0").append(rows)
    writer = lake.env.writer("t", "1.0.0", spark=spark)
    given = spark.createDataFrame(rows.to_pandas())
    for mode in ("append", "overwrite", "merge"):
        with pytest.raises(Exception, match="Delta keeps NULL for it"):
            getattr(writer, mode)(given, **({"on": ["id"]} if mode == "merge" else {}))
    assert lake.env.reader("t").arrow().num_rows == 0

    write_deltalake(str(lake.path("t")), rows, mode="append")
    with pytest.raises(Exception, match="Delta keeps NULL for it"):
        commands.upgrade(lake.env, lake.second, jobs=lambda: OnSession(spark))


@pytest.mark.some(1, of="flows of Spark")
def test_a_rollback_is_not_refused_for_a_text_kept_as_null_of_a_row_that_nobody_wrote(spark: SparkSession, tmp_path: Path) -> None:
    """Delta's MERGE copied it beside the row that was changed: it came as it went."""
    first = "CREATE TABLE t (id BIGINT NOT NULL, v STRING, p STRING, PRIMARY KEY (id)) PARTITIONED BY (p);"
    second = first.replace(" PARTITIONED BY (p)", "")
    lake = two_releases(tmp_path, first, second, 'rewrite("t", up="SELECT id, v, p FROM {t}", down="SELECT id, v, p FROM {t}")')
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("v", pa.string()), pa.field("p", pa.string())])
    write_deltalake(str(lake.path("t")), pa.table({"id": [1, 2], "v": ["x", "y"], "p": ["", ""]}, schema=schema), mode="append")
    commands.upgrade(lake.env, lake.second, jobs=lambda: OnSession(spark))
    lake.env.writer("t", "1.1.0", spark=spark).merge(spark.createDataFrame([(1, "X", "q")], "id long, v string, p string"), on=["id"])
    commands.rollback(lake.env, jobs=lambda: OnSession(spark))
    assert {row["id"]: row["v"] for row in lake.env.reader("t").arrow().to_pylist()} == {1: "X", 2: "y"}
