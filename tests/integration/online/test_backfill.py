"""Older rows get their value while everybody goes on, once and for all: by Spark, on tables of every layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

from airflow_provider_schemamig.core.delta.commit.append import MetadataMoved
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import Epoch, Generation
from airflow_provider_schemamig.core.online.backfill import DueFiles, due_files, fill_batch
from airflow_provider_schemamig.core.online.operation import Files
from airflow_provider_schemamig.core.online.unfilled import Fill
from airflow_provider_schemamig.core.schema.changes import AddColumn
from airflow_provider_schemamig.core.schema.model import Field, Primitive
from airflow_provider_schemamig.core.spark.errors import BadValue, ConstraintViolated
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner, JobRunner
from airflow_provider_schemamig.core.transfer.errors import FilesMoved
from tests.support.lake import Crash
from tests.support.tables.delta_table import BIGINT, INT, NAME, STRING, Table, fence, path
from tests.support.tables.meddling import Meddling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EVERYTHING = """PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true',
    'delta.enableChangeDataFeed' = 'true')"""


@dataclass
class Filled(Table):
    """A table whose column ``c`` is being filled."""

    @property
    def env(self) -> Environment:
        return Environment.open(str(self.folder.parent / "lake"))

    def begin(self, expression: str, *, files: Files = Files.OLDER, column: Field | None = None) -> Fill:
        since = self.commit(AddColumn(path("c"), column or Field("c", BIGINT))).head.version
        return Fill("c", expression, since, files)

    def due(self, fill: Fill) -> DueFiles:
        return due_files(self.store, self.head, fill)

    def batch(self, fill: Fill, env: Environment | None = None, jobs: JobRunner | None = None, max_files: int = 100) -> int:
        """The first one of what is due; its version."""
        env, head = env or self.env, self.head
        store = env.table_store(str(self.folder))
        tag = Tag(Generation(1), Epoch(1), fill.action)
        batch = due_files(store, head, fill).batches(max_files, 10**9)[0]
        done, appended = fill_batch(env, store, NAME, head, batch, fill, fence(), tag, jobs or EmbeddedRunner())
        assert done.version == appended.version
        return done.version

    def finish(self, fill: Fill) -> list[int]:
        versions = []
        while self.due(fill):
            versions.append(self.batch(fill))
        return versions

    def values(self) -> dict[int, Any]:
        return {row["id"]: row["c"] for row in self.sql("SELECT id, c FROM {t}")}

    def changes(self, version: int) -> list[tuple[str, int, Any]]:
        """The change data feed from a version on."""
        feed = self.spark.read.option("readChangeFeed", "true").option("startingVersion", version).format("delta")
        return sorted(tuple(row) for row in feed.load(str(self.folder)).select("_change_type", "id", "c").collect())

    def folders(self) -> list[str]:
        return [found.name for found in self.folder.glob("*backfill*")]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Filled:
    return Filled(spark, tmp_path / "50 ö")


@pytest.mark.soak
def test_a_default_on_a_table_with_everything(table: Filled) -> None:
    """Partitions, column mapping, deletion vectors, a change feed; writers that leave the column out, and such that want a NULL."""
    table.sql(f"CREATE TABLE {{t}} (id BIGINT, n INT, p STRING) USING delta {EVERYTHING}")
    table.sql("INSERT INTO {t} SELECT /*+ REPARTITION(2) */ id, CAST(id AS INT), IF(id % 2 = 0, NULL, 'p/1 ä') FROM range(8)")
    fill = table.begin("id * 10", column=Field("c", BIGINT, default="7"))
    table.sql("INSERT INTO {t} (id, c) VALUES (100, NULL), (101, DEFAULT)")
    table.sql("UPDATE {t} SET n = -1 WHERE id = 1")

    before = table.due(fill)
    assert (before.rows, len(before.nulls)) == (8, 1), "what deletion vectors hide does not count"
    versions = table.finish(fill)
    expected = {id_: id_ * 10 for id_ in range(8)} | {100: None, 101: 7}
    assert table.values() == expected
    old = [("delete", id_, None) for id_ in range(8)]
    assert table.changes(versions[0]) == [*old, *(("insert", id_, id_ * 10) for _, id_, _ in old)], "other rows now, each once"
    assert not table.due(fill)


@pytest.mark.soak
def test_a_shadow_column_follows_the_rows(table: Filled) -> None:
    """Every row of every file that we did not write ourselves, also where there is a value already."""
    table.sql("CREATE TABLE {t} (id BIGINT, n INT) USING delta")
    table.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, CAST(id AS INT) FROM range(4)")
    fill = table.begin("concat('n', n) -- not the end", files=Files.ALL, column=Field("c", STRING))
    assert len(table.finish(fill)) == 1
    table.sql("UPDATE {t} SET n = 20 WHERE id = 2")
    table.sql("INSERT INTO {t} VALUES (9, NULL, 'stale')")
    assert table.due(fill).rows == 5
    version = table.batch(fill, max_files=1)
    assert table.finish(fill) == [version + 1]
    assert table.values() == {0: "n0", 1: "n1", 2: "n20", 3: "n3", 9: None}
    assert table.due(fill).version == version + 1


@pytest.mark.soak
def test_others_at_work_between_spark_and_the_commit(table: Filled) -> None:
    """An append goes by unseen; an UPDATE of our files wins, and what is due is found anew; a schema change, too."""
    table.sql("CREATE TABLE {t} (id BIGINT, n INT) USING delta")
    table.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 0 FROM range(4)")
    fill = table.begin("CAST(5 AS BIGINT)")

    def meddled(what: Callable[[], object]) -> JobRunner:
        return Meddling(what)

    def append() -> None:
        types = {"id": pa.int64(), "n": pa.int32(), "c": pa.int64(), "d": pa.int32()}
        rows = pa.Table.from_pylist([{"id": 50, "n": 1}], schema=pa.schema(types.items()))
        deltalake.write_deltalake(str(table.folder), rows, mode="append")

    with pytest.raises(FilesMoved):
        table.batch(fill, jobs=meddled(lambda: table.sql("UPDATE {t} SET n = 1, c = 77 WHERE id = 1")))
    with pytest.raises(MetadataMoved):
        table.batch(fill, jobs=meddled(lambda: table.commit(AddColumn(path("d"), Field("d", INT)))))
    assert table.folders() == []
    version = table.batch(fill, jobs=meddled(append))
    assert table.values() == {0: 5, 1: 77, 2: 5, 3: 5, 50: None}
    assert table.head.version == version
    assert not table.due(fill)
    table.sql("UPDATE {t} SET n = 2 WHERE id >= 3")
    assert not table.due(fill), "nobody is owed anything there, so a NULL that was copied is still its writer's"
    info = read_commit(table.store, version).info
    assert (info["operation"], info["operationParameters"]["column"], info["isBlindAppend"]) == ("SCHEMAMIG BACKFILL", "c", False)


@pytest.mark.soak
def test_killed_between_spark_and_the_commit(table: Filled) -> None:
    table.sql("CREATE TABLE {t} (id BIGINT) USING delta")
    table.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id FROM range(4)")
    fill = table.begin("id + 1")
    head = table.head.version

    def dies(moment: str, what: str, key: str) -> None:
        if (moment, what) == ("before", "put_if_absent"):
            raise Crash

    with pytest.raises(Crash):
        table.batch(fill, env=replace(table.env, on_write=dies))
    assert (table.head.version, set(table.values().values())) == (head, {None})
    (orphan,) = table.folders()
    assert orphan[0] not in "._", "VACUUM passes over hidden folders"
    assert table.finish(fill) == [head + 1]
    assert table.values() == {0: 1, 1: 2, 2: 3, 3: 4}


@pytest.mark.soak
@pytest.mark.parametrize(
    "expression, kind, error",
    [
        ("1 DIV (id - 2)", "bigint", BadValue),
        ("repeat('x', CAST(id AS INT))", "varchar(2)", ConstraintViolated),
    ],
)
def test_an_expression_that_fails_leaves_nothing(table: Filled, expression: str, kind: str, error: type[Exception]) -> None:
    """New values keep the column's own rules, though old rows may break rules that came later."""
    table.sql("CREATE TABLE {t} (id BIGINT) USING delta")
    table.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id FROM range(4)")
    fill = table.begin(expression, column=Field("c", Primitive(kind)))
    with pytest.raises(error) as caught:
        table.batch(fill)
    assert caught.value.collection == NAME  # type: ignore[attr-defined]
    assert table.folders() == []
    assert table.due(fill).rows == 4
