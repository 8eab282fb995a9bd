"""Readers and writers of two releases on real tables, through an upgrade, its hold, its contract and a way back; both read paths."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import NeedsSpark, ReaderFenced, UnknownRelease, WriterFenced
from airflow_provider_schemamig.core.access.releases import declared_by
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import Fence
from airflow_provider_schemamig.core.delta.commit.seal import seal, unseal
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation, ShardId, Version
from airflow_provider_schemamig.core.spark.errors import BadValue, ConstraintViolated
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner, connect_session
from tests.support.product import Product
from tests.support.spark.connect import connect_server
from tests.support.spark.lake import SparkLake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FLIGHTS = CollectionName("flights")

OLD = """CREATE TABLE flights (id BIGINT NOT NULL, dep_delay INT, hour INT NOT NULL, carrier STRING NOT NULL,
    origin STRUCT<code: STRING, gate: STRING>, legs ARRAY<STRUCT<tail: STRING, n: INT>>, tags MAP<STRING, STRUCT<v: INT>>,
    at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, price DECIMAL(10,2), code VARCHAR(3));
CREATE TABLE miles (id BIGINT, n INT, s STRUCT<f: SMALLINT>, p DECIMAL(6,2), f FLOAT);
"""
NEW = """CREATE TABLE flights (carrier STRING, id BIGINT NOT NULL, departure_delay INT, note STRING,
    origin STRUCT<city: STRING, terminal: STRING, code: STRING>, legs ARRAY<STRUCT<miles: DOUBLE, tail_number: STRING, n: INT>>,
    tags MAP<STRING, STRUCT<w: STRING, v: INT>>, at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, price DECIMAL(10,2), code VARCHAR(3));
CREATE TABLE miles (id BIGINT, n BIGINT, s STRUCT<f: INT>, p DECIMAL(12,2), f DOUBLE);
"""
STEPS = """evolution("flights", rename={"dep_delay": "departure_delay", "origin.gate": "terminal", "legs.element.tail": "tail_number"},
    drop=["hour"]), evolution("miles")"""
ROWS = """SELECT id, CAST(id AS INT) AS dep_delay, CAST(id % 24 AS INT) AS hour, concat('C', id % 3) AS carrier,
    IF(id % 4 = 0, NULL, named_struct('code', concat('A', id), 'gate', IF(id % 3 = 0, NULL, 'g'))) AS origin,
    CASE WHEN id % 5 = 0 THEN NULL WHEN id % 5 = 1 THEN array() ELSE array(named_struct('tail', 'N', 'n', 1), NULL) END AS legs,
    IF(id % 2 = 0, map('k', named_struct('v', 1), 'l', NULL), NULL) AS tags, timestamp_seconds(id) AS at,
    TIMESTAMP_NTZ'2013-01-01 05:00:00' AS local, DATE'2013-01-01' AS day, CAST(id / 4 AS DECIMAL(10,2)) AS price, 'JFK' AS code"""
NEW_ROWS = """SELECT id, IF(id % 2 = 0, 'new', NULL) AS note, CAST(-id AS INT) AS departure_delay, 'C9' AS carrier,
    named_struct('code', 'B', 'city', 'Berlin', 'terminal', 't') AS origin"""


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    product = Product(tmp_path_factory.mktemp("product"))
    return product.release("1.0.0", OLD), product.release("1.1.0", NEW, STEPS)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, releases: tuple[Path, Path]) -> SparkLake:
    lake = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    lake.upgrade(releases[0])
    return lake


def rows(lake: SparkLake, query: str, first: int, count: int) -> DataFrame:
    return lake.spark.sql(f"{query} FROM range({first}, {first + count})")


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)


def both(lake: SparkLake, release: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
    """What a reader of flights sees, the same by Spark and by delta-rs: columns, types and rows. Default: all but ``tags``."""
    if columns is None:
        shape = declared_by(lake.env, lake.state, FLIGHTS, Version.parse(release)).shape
        columns = [field.name for field in shape.fields if field.name != "tags"]
    with_spark = lake.env.reader("flights", release, lake.spark).df(columns).toArrow()
    without = lake.env.reader("flights", release).arrow(columns)
    assert [(f.name, f.type) for f in with_spark.schema] == [(f.name, f.type) for f in without.schema]
    assert sorted_rows(with_spark) == sorted_rows(without)
    return sorted_rows(without)


def by_id(found: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in found}


@pytest.mark.some(1, of="flows of Spark")
def test_an_upgrade_as_old_and_new_programs_see_it(lake: SparkLake, releases: tuple[Path, Path]) -> None:
    long_lived = lake.env.reader("flights", "1.0.0", lake.spark)
    lake.env.writer("flights", "1.0.0").append(rows(lake, ROWS, 0, 40))
    foreign = lake.env.reader("flights", spark=lake.spark).df().limit(5).toArrow()
    write_deltalake(str(lake.folder("flights")), foreign.set_column(0, "id", pa.array(range(100, 105))), mode="append")
    before = both(lake, "1.0.0")
    assert len(before) == 45
    commands.preflight(lake.env, releases[1], jobs=lambda: pytest.fail("no Spark is needed"))
    coming = both(lake, "1.1.0")
    assert [row["note"] for row in coming] == [None] * 45
    assert {row["origin"]["city"] for row in coming if row["origin"]} == {None}

    lake.upgrade(releases[1])

    assert both(lake, "1.0.0") == before
    assert both(lake, "1.1.0") == coming
    assert sorted_rows(long_lived.df(list(before[0])).toArrow()) == before
    tags = by_id(sorted_rows(long_lived.df(["id", "tags"]).toArrow()))
    assert dict(tags[2]["tags"]) == {"k": {"v": 1}, "l": None}
    with pytest.raises(NeedsSpark, match="map of structs"):
        long_lived.arrow(["tags"])
    # Old and new programs write beside each other, and both see all of it.
    lake.env.writer("flights", "1.0.0").append(rows(lake, ROWS, 40, 10))
    lake.sql("INSERT INTO {flights} (id, hour, carrier) VALUES (200, 7, 'SQ')")
    old = by_id(both(lake, "1.0.0"))
    assert (len(old), old[45]["hour"], old[200]["carrier"]) == (56, 21, "SQ")
    new = by_id(both(lake, "1.1.0"))
    assert (new[45]["departure_delay"], new[45]["note"], new[45]["legs"]) == (45, None, None)
    # A row of the new release has no hour: what was NOT NULL for the old one may be NULL now.
    lake.env.writer("flights", "1.1.0").append(rows(lake, NEW_ROWS, 300, 4))
    with pytest.raises(ReaderFenced) as fenced:
        long_lived.df()
    assert (fenced.value.column, str(fenced.value.release), str(fenced.value.current)) == ("hour", "1.0.0", "1.1.0")
    most = [name for name in before[0] if name != "hour"]
    without_hour = both(lake, "1.0.0", most)
    assert by_id(without_hour)[301]["origin"] == {"code": "B", "gate": "t"}

    lake.sql("OPTIMIZE {flights}")
    assert both(lake, "1.0.0", most) == without_hour


@pytest.mark.soak
def test_after_contract_only_what_is_gone_fences(lake: SparkLake, releases: tuple[Path, Path]) -> None:
    lake.env.writer("flights", "1.0.0").append(rows(lake, ROWS, 0, 10))
    before = both(lake, "1.0.0")
    lake.upgrade(releases[1], hold=timedelta(0))
    for fence, call in ((ReaderFenced, lake.env.reader("flights", "1.0.0").arrow), (WriterFenced, lambda: old_rows(lake))):
        with pytest.raises(fence, match="column hour was dropped"):
            call()
    kept = [name for name in before[0] if name != "hour"]
    assert both(lake, "1.0.0", kept) == [{name: row[name] for name in kept} for row in before]


def old_rows(lake: SparkLake) -> None:
    lake.env.writer("flights", "1.0.0").append(rows(lake, ROWS, 10, 5))


@pytest.mark.soak
def test_wider_types_are_narrow_again_while_all_values_fit(lake: SparkLake, releases: tuple[Path, Path]) -> None:
    old = lake.env.reader("miles", "1.0.0", lake.spark)
    narrow = "SELECT id, CAST(id AS INT) AS n, named_struct('f', CAST(id AS SMALLINT)) AS s, CAST(id AS DECIMAL(6,2)) AS p, FLOAT(id) AS f"
    lake.env.writer("miles", "1.0.0").append(rows(lake, narrow, 0, 10))
    types = [(f.name, f.type) for f in old.df().toArrow().schema]
    before = sorted_rows(old.arrow())
    lake.upgrade(releases[1])
    exact = ["id", "n", "s", "p"]
    lake.env.writer("miles", "1.1.0").append(lake.spark.sql("SELECT 99L AS id, 2147483647L AS n, struct(-7 AS f) AS s, 9998.5BD AS p"))
    lake.env.writer("miles", "1.0.0").append(rows(lake, narrow, 10, 2))
    found = old.df(exact).toArrow()
    assert [(f.name, f.type) for f in found.schema] == types[:4]
    assert [{k: v for k, v in row.items() if k != "f"} for row in before] == sorted_rows(found)[: len(before)] or found.num_rows == 13
    with pytest.raises(ReaderFenced, match="column f is FLOAT for it, and DOUBLE in the table"):
        old.df()
    with pytest.raises(NeedsSpark, match="typeWidening"):
        old.arrow(exact)
    lake.sql("OPTIMIZE {miles}")
    assert old.df(exact).count() == 13
    lake.env.writer("miles", "1.1.0").append(lake.spark.sql("SELECT 1L AS id, 2147483648L AS n"))
    with pytest.raises(ReaderFenced, match="column n is INT for it, and BIGINT in the table, whose values may not fit"):
        old.df(exact)
    assert old.df(["id", "s"]).count() == 14


@pytest.mark.soak
def test_a_release_goes_on_after_a_widening_was_rolled_back(lake: SparkLake, releases: tuple[Path, Path]) -> None:
    """No bounds tell a FLOAT among DOUBLEs, but who wrote it does: to rows of its own handles it is the type that it was."""
    narrow = "SELECT id, CAST(id AS INT) AS n, FLOAT(id / 3) AS f"
    writer = lake.env.writer("miles", "1.0.0", lake.spark)
    writer.append(rows(lake, narrow, 0, 3))
    before = lake.env.reader("miles", spark=lake.spark).df(["id", "f"]).toArrow()
    lake.upgrade(releases[1])
    commands.rollback(lake.env)

    def read() -> pa.Table:
        return lake.env.reader("miles", spark=lake.spark).df(["id", "f"]).toArrow()

    assert (read().schema.field("f").type, sorted_rows(read())) == (pa.float32(), sorted_rows(before))
    writer.append(rows(lake, narrow, 3, 2))
    writer.merge(rows(lake, "SELECT id, FLOAT('NaN') AS f", 4, 2), on=["id"])
    lake.sql("OPTIMIZE {miles}")
    found = {row["id"]: row["f"] for row in read().to_pylist()}
    assert len(found) == 6 and found[3] == 1.0 and str(found[5]) == "nan"
    lake.sql("INSERT INTO {miles} (id, f) VALUES (9, 0.1D)")
    with pytest.raises(ReaderFenced, match=r"A rollback to 1\.0\.0 left it so"):
        read()


@pytest.mark.soak
def test_back_to_the_release_before(lake: SparkLake, releases: tuple[Path, Path]) -> None:
    lake.env.writer("flights", "1.0.0").append(rows(lake, ROWS, 0, 5))
    before = both(lake, "1.0.0")
    lake.upgrade(releases[1])
    lake.env.writer("flights", "1.1.0").append(rows(lake, f"{NEW_ROWS}, 5 AS hour".replace(", 5 AS hour", ""), 10, 1))
    new = both(lake, "1.1.0")
    commands.rollback(lake.env)
    assert both(lake, "1.0.0", ["id", "dep_delay", "origin"]) == [
        {name: row[name] for name in ("id", "dep_delay", "origin")} for row in by_id_all(before, 10)
    ]
    assert both(lake, "1.1.0") == new, "what the new release wrote is hidden, not lost"


def by_id_all(before: list[dict[str, Any]], added: int) -> list[dict[str, Any]]:
    row = {"id": added, "dep_delay": -added, "origin": {"code": "B", "gate": "t"}}
    return sorted([{name: item[name] for name in row} for item in before] + [row], key=repr)


# --- writing -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_append_merge_and_overwrite_through_names_of_the_release(lake: SparkLake, releases: tuple[Path, Path]) -> None:
    lake.upgrade(releases[1])
    writer = lake.env.writer("flights", "1.0.0", lake.spark, node="loader")
    writer.append(rows(lake, ROWS, 0, 3))
    merged = lake.spark.sql("SELECT 2L AS id, 77 AS dep_delay, 1 AS hour, 'M' AS carrier UNION ALL SELECT 9L, 99, 1, 'M'")
    written = writer.merge(merged, on=["id"])
    found = by_id(both(lake, "1.0.0"))
    assert {key: (row["dep_delay"], row["carrier"], row["code"]) for key, row in found.items()} == {
        0: (0, "C0", "JFK"),
        1: (1, "C1", "JFK"),
        2: (77, "M", "JFK"),
        9: (99, "M", None),
    }
    assert written.version is not None
    [commit] = commits(lake.env.table_store(lake.state.shard_of(FLIGHTS).uri), written.version - 1, written.version)
    assert f'"node":"loader","origin":"{lake.state.config.env_id}","release":"1.0.0","schema_hash":"sf1:' in commit.info["userMetadata"]
    table = pa.table({"id": pa.array([5]), "hour": pa.array([3]), "carrier": ["X"]})
    writer.overwrite(table)
    assert [row["id"] for row in both(lake, "1.1.0")] == [5]
    with pytest.raises(WriterFenced, match="column note is none of the release's columns"):
        writer.append(rows(lake, NEW_ROWS, 0, 1))
    with pytest.raises(BadValue):
        writer.append(pa.table({"id": pa.array([6]), "hour": pa.array([2**40]), "carrier": ["X"]}))
    with pytest.raises(ConstraintViolated):
        writer.append(lake.spark.sql("SELECT CAST(NULL AS BIGINT) AS id, 1 AS hour, 'X' AS carrier"))
    assert lake.spark.conf.get("spark.databricks.delta.write.txnAppId", None) is None


def test_a_number_is_written_once_with_and_without_spark(lake: SparkLake) -> None:
    narrow = pa.table({"id": pa.array([1, 2]), "n": pa.array([1, 2], pa.int32())})
    plain, with_spark = lake.env.writer("miles"), lake.env.writer("miles", spark=lake.spark)
    results = [writer.append(narrow, txn=("job", number)).skipped for writer, number in ((plain, 1), (plain, 1), (with_spark, 1))]
    results += [writer.append(narrow, txn=("job", number)).skipped for writer, number in ((with_spark, 2), (plain, 2), (plain, 3))]
    assert results == [False, True, True, False, True, False]
    assert lake.env.reader("miles").arrow().num_rows == 6


@pytest.mark.some(1, of="flows of Spark")
def test_writers_that_race_the_upgrade_lose_nothing(lake: SparkLake, releases: tuple[Path, Path]) -> None:
    """Two writers of the old release, one without Spark, from before the upgrade to after it."""
    stop, counts, failures = threading.Event(), {"arrow": 0, "spark": 0}, list[BaseException]()

    def write(name: str, first: int) -> None:
        writer = lake.env.writer("flights" if name == "spark" else "miles", "1.0.0", lake.spark if name == "spark" else None)
        try:
            while not stop.is_set() or counts[name] < 2:
                key = first + counts[name]
                if name == "spark":
                    writer.append(rows(lake, ROWS, key, 1))
                else:
                    writer.append(pa.table({"id": pa.array([key])}))
                counts[name] += 1
        except NeedsSpark:
            pass  # the upgrade widened a type: from here on it is Spark's
        except Exception as error:  # noqa: BLE001 - the test tells
            failures.append(error)

    threads = [threading.Thread(target=write, args=item) for item in (("spark", 0), ("arrow", 1000))]
    for thread in threads:
        thread.start()
    lake.upgrade(releases[1])
    stop.set()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert sorted(row["id"] for row in both(lake, "1.1.0")) == list(range(counts["spark"]))
    ids = [row["id"] for row in lake.env.reader("miles", spark=lake.spark).df().collect()]
    assert sorted(ids) == list(range(1000, 1000 + counts["arrow"]))


def test_a_writer_waits_for_a_seal_to_end(lake: SparkLake) -> None:
    shard = lake.state.shard_of(CollectionName("miles"))
    store = lake.env.table_store(shard.uri)
    fence = Fence(lake.state.config.env_id, shard.shard, Epoch(1))
    tag = Tag(Generation(1), Epoch(1), "seal")
    head = read_head(store)
    sealed = seal(store, head, ShardId("elsewhere"), fence, tag, since=head.version).head
    lifted = threading.Timer(1.0, lambda: unseal(store, sealed, fence, tag, since=head.version))
    lifted.start()
    assert lake.env.reader("miles").arrow().num_rows == 0, "a sealed table is read while it is the collection's"
    written = lake.env.writer("miles").append(pa.table({"id": pa.array([1])}))
    lifted.join()
    assert written.version == sealed.version + 2


# --- rewrites ------------------------------------------------------------------------------------------------------------------------

PLANES_OLD = "CREATE TABLE planes (tailnum STRING NOT NULL, year STRING, seats INT);\n"
PLANES_NEW = "CREATE TABLE planes (tailnum STRING NOT NULL, built INT, seats INT, code STRING);\n"
REWRITE = """rewrite("planes", up="SELECT tailnum, CAST(year AS INT) AS built, seats, substr(tailnum, 1, 1) AS code FROM {planes}",
    down="SELECT tailnum, CAST(built AS STRING) AS year, seats FROM {planes}")"""


@pytest.mark.soak
def test_a_rewrite_before_and_after_it_happens(spark: SparkSession, tmp_path: Path) -> None:
    product = Product(tmp_path / "product")
    releases = product.release("1.0.0", PLANES_OLD), product.release("1.1.0", PLANES_NEW, REWRITE)
    lake = SparkLake(spark, Environment.open(str(tmp_path / "lake")))
    lake.upgrade(releases[0])
    old, coming = lake.env.writer("planes", "1.0.0"), lake.env.reader("planes", "1.1.0", spark)
    with pytest.raises(UnknownRelease):
        coming.df()
    old.append(pa.table({"tailnum": ["N1", "N2"], "year": ["1999", None], "seats": pa.array([1, 2], pa.int32())}), txn=("load", 1))
    generation = commands.preflight(lake.env, releases[1], jobs=EmbeddedRunner).generation
    old.append(pa.table({"tailnum": ["N3"], "year": ["2001"]}), txn=("load", 2))
    shown = [
        {"tailnum": "N1", "built": 1999, "seats": 1, "code": "N"},
        {"tailnum": "N2", "built": None, "seats": 2, "code": "N"},
        {"tailnum": "N3", "built": 2001, "seats": None, "code": "N"},
    ]
    assert sorted_rows(coming.df().toArrow()) == shown
    with pytest.raises(NeedsSpark):
        coming.arrow()
    with pytest.raises(WriterFenced, match="gets its table at the cut-over"):
        lake.env.writer("planes", "1.1.0").append(pa.table({"tailnum": ["N4"]}))
    assert generation
    lake.upgrade(releases[1])
    assert sorted_rows(coming.df().toArrow()) == sorted_rows(coming.arrow()) == shown
    kept = lake.env.reader("planes", "1.0.0")
    assert sorted_rows(kept.arrow(["tailnum", "seats"]))[2] == {"tailnum": "N3", "seats": None}
    with pytest.raises(ReaderFenced, match="column year was created when the collection was rewritten"):
        kept.arrow()
    with pytest.raises(WriterFenced, match="column year was created when the collection was rewritten"):
        old.append(pa.table({"tailnum": ["N5"], "year": ["1990"]}), txn=("load", 3))
    assert old.append(pa.table({"tailnum": ["N3"]}), txn=("load", 2)).skipped, "its rows came over with the rewrite"
    assert not old.append(pa.table({"tailnum": ["N5"]}), txn=("load", 3)).skipped
    commands.rollback(lake.env, jobs=EmbeddedRunner)
    assert old.append(pa.table({"tailnum": ["N5"], "year": ["1990"]}), txn=("load", 3)).skipped, "it came back with the rollback"
    assert len(lake.env.reader("planes").arrow()) == 4
    lake.upgrade(releases[1])
    commands.contract(lake.env, at_once=True)
    assert lake.env.writer("planes", "1.1.0", spark).append(pa.table({"tailnum": ["N5"]}), txn=("load", 3)).skipped
    assert len(coming.arrow()) == 4


# --- Spark Connect -------------------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_handles_on_a_connect_session_that_means_other_things(lake: SparkLake, tmp_path: Path) -> None:
    """What a writer needs it sets for its statement alone; what a reader shows does not depend on the session."""
    with connect_server(tmp_path, {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.ansi.enabled": "false"}) as url:
        remote = connect_session(url)
        narrow = remote.sql("SELECT id, id * 3000000000 AS n FROM range(3)")
        with pytest.raises(BadValue):
            lake.env.writer("miles").append(narrow)
        assert lake.env.reader("miles").arrow().num_rows == 0
        written = lake.env.writer("miles", "1.0.0", remote).append(pa.table({"id": [7], "n": [8]}), txn=("remote", 1))
        assert (written.version, written.skipped) == (1, False)
        frame = lake.env.reader("miles", "1.0.0", remote).df(["n", "id"])
        assert frame.join(remote.range(10).withColumnRenamed("id", "k"), frame.id == 7).count() == 10
        assert [tuple(row) for row in frame.collect()] == [(8, 7)]
        assert remote.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        remote.stop()
