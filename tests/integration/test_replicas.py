"""Replication between real environments by Spark: rows of every kind, a pause, schemas of two releases at once, restores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.errors import RestoreWouldLose
from airflow_provider_schemamig.core.replication.model import PauseReason, StreamSettings, StreamState
from airflow_provider_schemamig.core.replication.replicate import replicate_once
from airflow_provider_schemamig.core.replication.restore.restore import restore
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner, Job
from tests.support.rows import tables
from tests.support.spark.lake import SparkLake
from tests.support.upgrades import releases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIRST = """CREATE TABLE trips (id BIGINT NOT NULL, seen INT, dest STRING, o STRUCT<code: STRING, name: STRING>, PRIMARY KEY (id))
  TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true');
CREATE TABLE lines (line STRING, n INT);
"""
#: Renamed, widened, added at two depths.
SECOND = """CREATE TABLE trips (id BIGINT NOT NULL, seen BIGINT, airport STRING, o STRUCT<code: STRING, name: STRING, city: STRING>,
  gate STRING, PRIMARY KEY (id)) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true');
CREATE TABLE lines (line STRING, n INT);
"""
STEPS = 'evolution("trips", rename={"dest": "airport"})'
TRIPS, LINES = CollectionName("trips"), CollectionName("lines")
SETTINGS = StreamSettings(retry=timedelta(0), recompute=timedelta(0))


@pytest.fixture
def two(spark: SparkSession, tmp_path: Path) -> tuple[SparkLake, SparkLake, Path]:
    first, second = releases(tmp_path, (FIRST, ""), (SECOND, STEPS))
    lakes = [SparkLake(spark, Environment.open(str(tmp_path / name))) for name in "ab"]
    for lake in lakes:
        lake.upgrade(first)
    return lakes[0], lakes[1], second


def bring(origin: SparkLake, target: SparkLake, *collections: str) -> dict[str, StreamState]:
    found = replicate_once(origin.env, target.env, collections or None, jobs=EmbeddedRunner, settings=SETTINGS)
    return {state.stream.collection: state for state in found.states}


def rows(lake: SparkLake, collection: str, columns: str = "*") -> list[str]:
    return sorted(str(row.asDict(recursive=True)) for row in lake.sql(f"SELECT {columns} FROM {{{collection}}}"))


@pytest.mark.some(1, of="flows of Spark")
def test_rows_of_every_kind(two: tuple[SparkLake, SparkLake, Path]) -> None:
    a, b, _ = two
    begin(a, b)
    assert rows(b, TRIPS) == rows(a, TRIPS)


def begin(a: SparkLake, b: SparkLake) -> None:
    a.sql("INSERT INTO {trips} VALUES (1, 1, 'JFK', named_struct('code', 'J', 'name', 'x')), (2, 2, NULL, NULL), (3, 3, 'LGA', NULL)")
    assert bring(a, b, TRIPS)[TRIPS].restores == 1
    a.sql("UPDATE {trips} SET seen = 10, o = named_struct('code', 'K', 'name', NULL) WHERE id = 1")
    a.sql("DELETE FROM {trips} WHERE id = 2")
    a.sql("UPDATE {trips} SET id = 30 WHERE id = 3")
    assert bring(a, b, TRIPS)[TRIPS].error is None


@pytest.mark.soak
def test_the_schema_before(two: tuple[SparkLake, SparkLake, Path]) -> None:
    a, b, second = two
    begin(a, b)
    b.upgrade(second)
    b.sql("UPDATE {trips} SET gate = 'G1', o = named_struct('code', 'K', 'name', NULL, 'city', 'NYC') WHERE id = 1")
    a.sql("UPDATE {trips} SET dest = 'EWR' WHERE id = 1")
    a.sql("INSERT INTO {trips} VALUES (4, 4, 'SFO', NULL)")
    assert bring(a, b, TRIPS)[TRIPS].pause is None, "the schema before is accepted"
    known = "CAST(id AS BIGINT) id, CAST(seen AS BIGINT) seen, {} dest, o.code, o.name"
    assert rows(b, TRIPS, known.format("airport")) == rows(a, TRIPS, known.format("dest"))
    assert [row["gate"] for row in b.sql("SELECT gate FROM {trips} WHERE id = 1")] == ["G1"], "an older event resets no newer column"
    assert [row["city"] for row in b.sql("SELECT o.city FROM {trips} WHERE id = 1")] == ["NYC"], "nor a newer field of a struct"


@pytest.mark.soak
def test_a_pause_and_a_restore(two: tuple[SparkLake, SparkLake, Path]) -> None:
    a, b, second = two
    a.sql("INSERT INTO {trips} VALUES (1, 1, 'JFK', NULL)")
    a.sql("INSERT INTO {lines} VALUES ('x', 1), ('x', 1), (NULL, NULL)")
    bring(a, b)
    a.upgrade(second)
    a.sql("INSERT INTO {trips} (id, seen, airport, gate) VALUES (2, 5000000000, 'LGA', 'G')")
    a.sql("DELETE FROM {lines} WHERE line IS NULL")
    a.sql("INSERT INTO {lines} VALUES ('x', 1), ('y', 2)")
    found = bring(a, b)
    pause = found[TRIPS].pause
    assert pause is not None
    assert pause.reason is PauseReason.SCHEMA_MISMATCH
    assert found[LINES].pause is None, "others go on"
    assert rows(b, LINES) == rows(a, LINES)
    b.upgrade(second)
    assert bring(a, b)[TRIPS].pause is None
    assert rows(b, TRIPS) == rows(a, TRIPS)
    b.sql("INSERT INTO {lines} VALUES ('mine', 0)")
    a.sql("INSERT INTO {lines} VALUES ('theirs', 0)")
    with pytest.raises(RestoreWouldLose):
        restore(a.env, b.env, LINES, jobs=EmbeddedRunner)
    done = restore(a.env, b.env, LINES, allow_lossy=True, jobs=EmbeddedRunner)
    assert done.rows == len(rows(a, LINES))
    assert rows(b, LINES) == rows(a, LINES)
    bring(a, b)
    assert rows(b, LINES) == rows(a, LINES)


class StandsStill(EmbeddedRunner):
    """Before its first batch, while something else happens."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self.meanwhile = [meanwhile]

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        if job == "apply" and self.meanwhile:
            self.meanwhile.pop()()
        return super().run(job, request)


@pytest.mark.soak
@pytest.mark.parametrize("back", [False, True])
def test_replicas_who_stood_still_while_the_target_was_rewritten(spark: SparkSession, tmp_path: Path, back: bool) -> None:
    """Delta knows what came back to a table by the transaction in the commit that opened it; the seal refuses what comes before that."""
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    (only,) = releases(tmp_path / "a_product", (f"CREATE TABLE lines (line STRING) {feed};", ""))
    rewrite = (
        'rewrite("lines", up="SELECT line, CAST(n AS BIGINT) AS n FROM {lines}", down="SELECT line, CAST(n AS INT) AS n FROM {lines}")'
    )
    schemas = [f"CREATE TABLE lines (line STRING, n {kind});" for kind in ("INT", "BIGINT")]
    first, second = releases(tmp_path / "b_product", (schemas[0], ""), (schemas[1], rewrite))
    a, b = (SparkLake(spark, Environment.open(str(tmp_path / name))) for name in "ab")
    a.upgrade(only)
    b.upgrade(first)
    a.sql("INSERT INTO {lines} VALUES ('aa'), ('bb')")
    bring(a, b, LINES)
    a.sql("UPDATE {lines} SET line = 'cc' WHERE line = 'bb'")
    a.sql("INSERT INTO {lines} VALUES ('bb')")

    def meanwhile() -> None:
        b.upgrade(second)
        assert bring(a, b, LINES)[LINES].applied_batches == 1
        if back:
            commands.rollback(b.env, jobs=EmbeddedRunner)

    twin = StandsStill(meanwhile)
    found = replicate_once(a.env, b.env, [LINES], jobs=lambda: twin, settings=SETTINGS)
    assert not found.stopped
    assert not found.paused
    assert not twin.meanwhile
    assert rows(b, LINES, "line") == rows(a, LINES, "line")
    a.sql("DELETE FROM {lines} WHERE line = 'cc'")
    bring(a, b, LINES)
    assert rows(b, LINES, "line") == rows(a, LINES, "line")


@pytest.mark.soak
def test_a_row_that_stays_keeps_what_only_the_target_has(spark: SparkSession, tmp_path: Path) -> None:
    """Rows without a key that are equal to one that goes: one of them goes, the others are left as they are."""
    first, second = releases(
        tmp_path,
        ("CREATE TABLE lines (line STRING, n INT)", ""),
        ("CREATE TABLE lines (line STRING, n INT, `of-t` STRING, m INT DEFAULT 7)", 'evolution("lines")'),
    )
    a, b = (SparkLake(spark, Environment.open(str(tmp_path / name))) for name in "ab")
    for lake in (a, b):
        lake.upgrade(first)
    a.sql("INSERT INTO {lines} VALUES ('l', 1), ('l', 1), ('l', 1), ('m', 2), ('x', NULL)")
    assert bring(a, b, LINES)[LINES].restores == 1
    b.upgrade(second)
    b.sql("UPDATE {lines} SET `of-t` = 'kept', m = 8")
    a.sql("INSERT INTO {lines} VALUES ('y', 9)")
    assert bring(a, b, LINES)[LINES].error is None
    a.sql("INSERT OVERWRITE {lines} VALUES ('l', 1), ('l', 1), ('m', 2), ('z', 3)")
    assert bring(a, b, LINES)[LINES].error is None
    kept, new = {"of-t": "kept", "m": 8}, {"of-t": None, "m": 7}
    wanted = [{"line": "l", "n": 1, **kept}, {"line": "l", "n": 1, **kept}, {"line": "m", "n": 2, **kept}, {"line": "z", "n": 3, **new}]
    assert rows(b, LINES) == sorted(map(str, wanted))


@pytest.mark.some(1, of="updates by delta-rs")
@pytest.mark.parametrize("feed", ["true", "false"])
def test_an_update_by_delta_rs_that_makes_two_rows_equal_is_brought(two: tuple[SparkLake, SparkLake, Path], feed: str) -> None:
    """It leaves the row out of its change data."""
    a, b, _ = two
    tables.set_property(a.folder(LINES), "delta.enableChangeDataFeed", feed)
    a.sql("INSERT INTO {lines} SELECT /*+ COALESCE(1) */ * FROM VALUES ('a', 1), ('b', 1), ('c', 1)")
    bring(a, b, LINES)
    DeltaTable(a.folder(LINES)).update({"line": "'b'"}, predicate="line = 'a'")
    assert bring(a, b, LINES)[LINES].error is None
    assert rows(b, LINES) == rows(a, LINES)
