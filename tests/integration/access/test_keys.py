"""Keys that handles keep by Spark statements: duplicates, foreign appenders, merges, foreign keys; and what preflight finds of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_provider_schemamig.core.access import writer as writers
from airflow_provider_schemamig.core.access.errors import DuplicateRows, KeyViolated, UnusableColumns
from airflow_provider_schemamig.core.access.statement import run_statement
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.online.key_validation import Validated
from airflow_provider_schemamig.core.online.keys import keys_in_force
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.upgrade.verify.keys import verify_keys
from tests.support.processes import wait_until
from tests.support.product import Product
from tests.support.spark.lake import SparkLake, register_held

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = """CREATE TABLE planes (tail STRING PRIMARY KEY);
CREATE TABLE flights (id BIGINT PRIMARY KEY, day INT, plane STRING REFERENCES planes, UNIQUE (day, plane)) PARTITIONED BY (day);
CREATE TABLE staff (id BIGINT PRIMARY KEY, boss BIGINT, at TIMESTAMP, FOREIGN KEY (boss) REFERENCES staff (id));"""
FLIGHTS = CollectionName("flights")
COLUMNS = "id LONG, day INT, plane STRING"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Product(tmp_path_factory.mktemp("product")).release("1.0.0", SCHEMA)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, release: Path) -> SparkLake:
    lake = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    lake.upgrade(release)
    write_deltalake(str(lake.folder("planes")), pa.table({"tail": ["N1", "N2", "N2"]}), mode="append")
    append(lake, (1, 1, "N1"), (2, 1, "N2"), (3, 2, None))
    return lake


def append(lake: SparkLake, *rows: tuple[int, int | None, str | None]) -> None:
    """By somebody else."""
    columns = list(zip(*rows, strict=True))
    table = {"id": pa.array(columns[0], pa.int64()), "day": pa.array(columns[1], pa.int32()), "plane": pa.array(columns[2], pa.string())}
    write_deltalake(str(lake.folder("flights")), pa.table(table), mode="append")


def frame(lake: SparkLake, *rows: Any, columns: str = COLUMNS) -> DataFrame:
    return lake.spark.createDataFrame(list(rows), columns)


def violation(write: Callable[[], Any]) -> tuple[str, int, tuple[str, ...]]:
    with pytest.raises(KeyViolated) as refused:
        write()
    assert refused.value.collection is not None
    return refused.value.key.split(" REF")[0], refused.value.count, refused.value.sample


def flights(lake: SparkLake) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.sql("SELECT * FROM {flights}"))


ID, PAIR, PLANE = "PRIMARY KEY (id)", "UNIQUE (day, plane)", "FOREIGN KEY (plane)"


@pytest.mark.soak
def test_keys_what_is_written(lake: SparkLake) -> None:
    writer = lake.env.writer("flights", spark=lake.spark)
    assert violation(lambda: writer.append(frame(lake, (3, 3, "N1"), (4, 3, "N2")))) == (ID, 1, ("(3)",))
    rows = frame(lake, (4, 2, None), (5, 2, "N2"))
    assert [writer.append(rows, txn=("job", 1)).skipped for _ in range(2)] == [False, True]
    writer.merge(frame(lake, (1, 1, "N1"), (2, 5, "N2"), (6, 4, "N1")), on=["id"])
    assert flights(lake) == [(1, 1, "N1"), (2, 5, "N2"), (3, 2, None), (4, 2, None), (5, 2, "N2"), (6, 4, "N1")]


@pytest.mark.soak
def test_keys_what_is_refused(lake: SparkLake) -> None:
    writer = lake.env.writer("flights", spark=lake.spark)
    assert violation(lambda: writer.append(frame(lake, (4, 4, "N1"), (5, 5, "N9")))) == (PLANE, 1, ("(N9)",))
    assert violation(lambda: writer.overwrite(frame(lake, (1, 1, "N1"), (2, 1, "N1")))) == (PAIR, 2, ("(1, N1)",))
    assert violation(lambda: writer.merge(frame(lake, (3, 1, "N1")), on=["id"])) == (PAIR, 1, ("(1, N1)",))
    assert violation(lambda: writer.merge(frame(lake, (9, 1, "N2"), (9, 2, "N2")), on=["id"])) == (ID, 2, ("(9)",))
    assert violation(lambda: writer.merge(frame(lake, (1, 1, "N2")), on=["day", "plane"])) == (ID, 1, ("(1)",))
    rows = frame(lake, (8, 1, "N2"), (9, 9, "N2"))
    assert [writer.merge(rows, on=["day", "plane"], txn=("job", 1)).skipped for _ in range(2)] == [False, True]
    (all_of_planes,) = verify_keys(lake.env, lake.state, EmbeddedRunner, {}, [CollectionName("planes")]).findings
    assert (all_of_planes.rows, all_of_planes.sample, all_of_planes.source) == (2, ("tail = N2, rows = 2",), None)
    assert flights(lake) == [(1, 1, "N1"), (3, 2, None), (8, 1, "N2"), (9, 9, "N2")]


@pytest.mark.soak
@pytest.mark.parametrize("plane", ["N2", None])
def test_a_merge_makes_no_key_twice(lake: SparkLake, plane: str | None) -> None:
    """Of several rows that it would update none is *the* row that is updated, whether they are equal by a value or by NULL."""
    append(lake, (4, 3, None), (5, 4, "N2"))
    before, writer = flights(lake), lake.env.writer("flights", spark=lake.spark)
    rows = frame(lake, (7, plane), columns="id LONG, plane STRING").selectExpr("id", "plane")
    assert violation(lambda: writer.merge(rows, on=["plane"])) == (ID, 1, ("(7)",))
    assert flights(lake) == before


@pytest.mark.soak
def test_a_merge_speaks_of_its_own_rows(lake: SparkLake) -> None:
    """Two for one row of the table, two for a new one, two for NULL; a merge on nothing, and of rows without columns."""
    before, writer = flights(lake), lake.env.writer("flights", spark=lake.spark)
    for day, sample in ((2, "(2)"), (9, "(9)"), (None, "()")):
        with pytest.raises(DuplicateRows, match="2 rows of the merge are equal in day to others of it") as refused:
            writer.merge(frame(lake, (10, day, "N1"), (11, day, "N2")), on=["day"])
        assert (refused.value.count, refused.value.sample, refused.value.retryable) == (2, (sample,), False)
    with pytest.raises(UnusableColumns, match="merge was called with no columns to merge on"):
        writer.merge(frame(lake, (1, 1, "N1")), on=[])
    for nothing in (lake.spark.range(2).select(), lake.spark.sql("SELECT NULL AS id")):
        with pytest.raises(UnusableColumns, match="rows that have no column of a type"):
            writer.append(nothing)
    with pytest.raises(UnusableColumns, match="two columns id"):
        writer.append(lake.spark.sql("SELECT 1L AS id, 2L AS id"))
    assert flights(lake) == before


@pytest.mark.soak
def test_a_table_that_refers_to_itself(lake: SparkLake) -> None:
    writer = lake.env.writer("staff", spark=lake.spark)
    broken = frame(lake, (4, 5), (5, None), (6, 7), columns="id LONG, boss LONG")
    assert violation(lambda: writer.append(broken))[1:] == (1, ("(7)",))
    writer.overwrite(frame(lake, (4, 5), (5, None), columns="id LONG, boss LONG"))
    writer.append(frame(lake, (6, 4), (7, 6), columns="id LONG, boss LONG"))
    assert lake.sql("SELECT count(*) AS n FROM {staff}")[0]["n"] == 4


@pytest.mark.soak
def test_keys_what_others_bring_is_found_with_its_commit(lake: SparkLake) -> None:
    known = {(FLIGHTS, key.rule): Validated(1, 1) for key in keys_in_force(lake.state, FLIGHTS)}
    append(lake, (3, 9, "N9"), (8, 1, "N1"))
    append(lake, (9, 3, "N1"))
    second = verify_keys(lake.env, lake.state, EmbeddedRunner, known, [FLIGHTS])
    found = {(item.key.split(" REF")[0], item.rows, item.sample): item.source for item in second.findings}
    assert set(found) == {(ID, 1, ("id = 3",)), (PAIR, 1, ("day = 1, plane = N1",)), (PLANE, 1, ("plane = N9",))}
    assert {(source.version, source.operation) for source in found.values() if source} == {(2, "WRITE")}
    assert second.validated == {}


@pytest.fixture
def cached(lake: SparkLake) -> Iterator[None]:
    """Somebody else on the same Spark application keeps the rows as they are now."""
    for name in ("flights", "staff"):
        lake.spark.newSession().read.format("delta").load(str(lake.folder(name))).cache().count()
    yield
    lake.spark.catalog.clearCache()


@pytest.mark.usefixtures("cached")
def test_keys_are_looked_for_in_the_table_and_not_in_what_somebody_has_cached_of_it(lake: SparkLake) -> None:
    append(lake, (4, 3, "N1"))
    DeltaTable(str(lake.folder("flights"))).delete("id = 3")
    write_deltalake(str(lake.folder("staff")), pa.table({"id": [7]}), mode="append", schema_mode="merge")
    flights, staff = (lake.env.writer(name, spark=lake.spark) for name in ("flights", "staff"))
    assert violation(lambda: flights.append(frame(lake, (4, 4, "N2")))) == (ID, 1, ("(4)",))
    assert violation(lambda: flights.merge(frame(lake, (4, 3, "N2")), on=["plane"])) == (ID, 1, ("(4)",))
    flights.append(frame(lake, (3, 2, "N1")))
    staff.append(frame(lake, (8, 7), columns="id LONG, boss LONG"))
    assert sorted(DeltaTable(str(lake.folder("flights"))).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3, 4]


@pytest.mark.soak
@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize(
    ("mode", "theirs"),
    [("append", (7, 70, "N1")), ("merge", (8, 80, "N2"))],
    ids=["the same key", "another key"],
)
def test_a_foreign_append_in_the_middle_of_it(
    lake: SparkLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, theirs: tuple[int, int, str]
) -> None:
    """It lands after the statement chose its version, in a partition that the rows do not touch, and before it commits."""
    tries: list[int] = []

    def watched(rows: Any, place: Any, *given: Any) -> None:
        tries.append(place.head.version)
        run_statement(rows, place, *given)

    monkeypatch.setattr(writers, "run_statement", watched)
    writer = lake.env.writer("flights", spark=lake.spark)
    meddler = threading.Thread(target=_when_asked, args=(lake, tmp_path, lambda: append(lake, theirs)))
    meddler.start()
    register_held(lake.spark, str(tmp_path / "at_work"), str(tmp_path / "may_go_on"))
    rows = frame(lake, (7, 7, "N1")).where("held(id)")

    def write() -> None:
        writer.append(rows) if mode == "append" else writer.merge(rows, on=["day", "plane"])

    if theirs[0] == 7:
        assert violation(write) == (ID, 1, ("(7)",))
    else:
        write()
    meddler.join()
    assert tries == [1, 2], "the first try was beaten, and saw nothing of the row that came meanwhile"
    lake.spark.catalog.clearCache()
    assert sorted(row[0] for row in flights(lake)) == ([1, 2, 3, 7] if theirs[0] == 7 else [1, 2, 3, 7, 8])


def _when_asked(lake: SparkLake, folder: Path, action: Callable[[], None]) -> None:
    """Act once the statement has begun to read its rows, and then let it go on."""
    wait_until((folder / "at_work").exists, 120)
    action()
    (folder / "may_go_on").touch()
