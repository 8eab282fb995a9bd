"""Tables of ours used by Spark and delta-rs; the seal and the fence against real writers; logs that Spark wrote, as we read them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_schemamig.core.delta.commit.commit import commit_changes
from airflow_provider_schemamig.core.delta.commit.create import create_table
from airflow_provider_schemamig.core.delta.commit.fence import EPOCH_STRIDE, fence_txns, put_fence, read_fence
from airflow_provider_schemamig.core.delta.commit.seal import seal, unseal
from airflow_provider_schemamig.core.delta.log.commits import files_since, nulls_since
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.schema.changes import SetProperty
from airflow_provider_schemamig.core.schema.delta_rules.properties import FORGETS
from airflow_provider_schemamig.core.schema.model import Array, Check, Declaration, Field, Primitive, Struct
from tests.support.tables.delta_table import BIGINT, COLUMNS, FIRST, GATE, INT, NAME, STRING, TAG, Table, fence, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    return Table(spark, tmp_path / "flights")


# --- tables of ours ------------------------------------------------------------------------------------------------------------------

RICH = Declaration(
    NAME,
    (
        Field("id", BIGINT, nullable=False, comment="key"),
        Field("name", Primitive("varchar(5)"), default="'x'"),
        Field("at", Primitive("timestamp_ntz")),
        Field("leg", Struct((Field("code", STRING), Field("stops", Array(INT))))),
        Field("price", Primitive("decimal(10,2)")),
    ),
    clustered_by=("id", "leg.code"),
    checks=(Check("few", "id < 5000"),),
    properties=(("delta.logRetentionDuration", "interval 60 days"), ("team", "me")),
    comment="all flights",
)


@pytest.mark.some(1, of="flows of Spark")
def test_a_table_made_by_us_is_used_by_spark(table: Table) -> None:
    create_table(table.store, RICH, "6f0e4c1e-0000-4000-8000-000000000001", TAG)
    assert table.rows() == []
    table.sql("INSERT INTO {t} (id, leg) VALUES (1, named_struct('code', 'JFK', 'stops', array(1, 2))), (2, NULL)")
    assert [row["name"] for row in table.rows()] == ["x", "x"]
    for statement in ("(id) VALUES (NULL)", "(id) VALUES (6000)", "(id, name) VALUES (3, 'toolong')"):
        with pytest.raises(Exception, match=r"NOT_NULL|VIOLATE|EXCEED"):
            table.sql(f"INSERT INTO {{t}} {statement}")
    detail = table.sql("DESCRIBE DETAIL {t}")[0]
    assert (detail["clusteringColumns"], detail["description"], detail["properties"]["team"]) == (["id", "leg.code"], "all flights", "me")
    table.sql("OPTIMIZE {t}")
    table.sql("UPDATE {t} SET price = 1.5BD WHERE id = 1")
    assert table.head.declaration(NAME) == RICH
    assert table.head.table_id == "6f0e4c1e-0000-4000-8000-000000000001"


def test_a_plain_table_made_by_us_is_used_by_delta_rs(table: Table) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    plain = Declaration(
        NAME, (Field("id", BIGINT, nullable=False), Field("p", STRING)), partitioned_by=("p",), checks=(Check("c", "id > 0"),)
    )
    create_table(table.store, plain, "6f0e4c1e-0000-4000-8000-000000000002", TAG)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("p", pa.string())])
    write_deltalake(str(table.folder), pa.table({"id": [1, 2], "p": ["a", "b"]}, schema=schema), mode="append")
    with pytest.raises(Exception, match="failed validation check"):
        write_deltalake(str(table.folder), pa.table({"id": [-1], "p": ["a"]}, schema=schema), mode="append")
    assert table.rows() == [{"id": 1, "p": "a"}, {"id": 2, "p": "b"}]


# --- the seal ------------------------------------------------------------------------------------------------------------------------

WRITES = (
    "INSERT INTO {t} (id) VALUES (9)",
    "UPDATE {t} SET n = 1",
    "DELETE FROM {t} WHERE id = 1",
    "MERGE INTO {t} USING (SELECT 1 AS k) ON id = k WHEN MATCHED THEN UPDATE SET n = 1",
    "MERGE INTO {t} USING (SELECT 77 AS k) ON id = k WHEN NOT MATCHED THEN INSERT (id) VALUES (k)",
    "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id = 1",
    "OPTIMIZE {t}",
)


@pytest.mark.some(1, of="flows of Spark")
def test_a_sealed_table_takes_nothing_until_it_is_unsealed(table: Table) -> None:
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    table.sql("CREATE TABLE {t} (id BIGINT, n INT) USING delta")
    for number in (1, 2):  # two files, so that OPTIMIZE has something to do
        table.sql(f"INSERT INTO {{t}} VALUES ({number}, {number})")
    before = table.rows()
    sealed = seal(table.store, table.head, "g2-abc", fence(), TAG, since=0)
    for statement in WRITES:
        with pytest.raises(Exception, match=r"schemamig_moved_to_g2-abc|DELTA_CANNOT_MODIFY_APPEND_ONLY"):
            table.sql(statement)
    rows = pa.table({"id": pa.array([9], pa.int64()), "n": pa.array([9], pa.int32())})
    writes: list[Callable[[], object]] = [
        lambda: write_deltalake(str(table.folder), rows, mode="append"),
        lambda: write_deltalake(str(table.folder), rows, mode="overwrite"),
        lambda: DeltaTable(str(table.folder)).delete("id = 1"),
    ]
    for write in writes:
        with pytest.raises(Exception, match=r"validation check|append.?only"):
            write()
    assert table.rows() == before
    assert table.head.version == sealed.head.version
    unseal(table.store, table.head, fence(), TAG, since=0)
    for statement in WRITES:
        table.sql(statement)
    write_deltalake(str(table.folder), rows, mode="append")
    assert table.rows() == [{"id": 9, "n": 9}], "all of them went through, the overwrite too"


# --- the fence -----------------------------------------------------------------------------------------------------------------------

#: An expression that takes its time and cannot be folded away.
SLOW = "n + CAST(aggregate(sequence(1L, 4000000L + id), 0L, (a, x) -> a + x % 7) % 1 AS INT)"


@pytest.fixture
def epoch_one(table: Table) -> Iterator[Callable[[int], Table]]:
    """Makes sessions of a leader of epoch 1: their n-th statement carries ``txn`` 1 * 2^32 + n."""
    sessions: list[Any] = []

    def make(number: int) -> Table:
        session = table.spark.newSession()
        session.conf.set("spark.databricks.delta.write.txnAppId", fence().app_id)
        session.conf.set("spark.databricks.delta.write.txnVersion", str(EPOCH_STRIDE + number))
        sessions.append(session)
        return replace(table, spark=session)

    yield make
    for session in sessions:
        session.conf.unset("spark.databricks.delta.write.txnAppId")
        session.conf.unset("spark.databricks.delta.write.txnVersion")


def in_flight(table: Table, statement: str, meanwhile: Callable[[], object]) -> BaseException | None:
    """Run ``meanwhile`` after the statement has begun to write its file and before it commits; what the statement raised."""
    caught: list[BaseException] = []
    known = set(table.folder.glob("*.parquet"))

    def run() -> None:
        try:
            table.sql(statement)
        except Exception as error:  # noqa: BLE001 - whatever Spark raises is the result
            caught.append(error)

    version = table.head.version
    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 120
    while set(table.folder.glob("*.parquet")) <= known:
        assert thread.is_alive(), f"over before it was seen: {caught}"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert table.head.version == version, "too late: it has committed"
    meanwhile()
    thread.join(timeout=240)
    return caught[0] if caught else None


@pytest.mark.soak
def test_a_dead_leaders_spark_job_cannot_write_any_more(table: Table, epoch_one: Callable[[int], Table]) -> None:
    fill(table)
    before = table.rows()
    zombie = in_flight(epoch_one(1), f"UPDATE {{t}} SET n = 1 + {SLOW}", lambda: put_fence(table.store, fence(2), TAG))
    assert zombie is not None
    assert "DELTA_CONCURRENT_TRANSACTION" in str(zombie)
    fenced_at = table.head.version
    assert read_fence(table.store, fence().app_id) == fence(2).version

    late = epoch_one(2)
    assert late.sql("UPDATE {t} SET n = 1") == [], "skipped by Delta, without an error"
    assert late.sql("INSERT INTO {t} (id) SELECT 77") == []
    assert table.rows() == before
    assert table.head.version == fenced_at


@pytest.mark.soak
def test_a_fence_disturbs_nobody_else(table: Table, epoch_one: Callable[[int], Table]) -> None:
    fill(table)
    assert in_flight(table, f"UPDATE {{t}} SET n = 5 + {SLOW} - n", lambda: put_fence(table.store, fence(2), TAG)) is None
    assert [row["n"] for row in table.rows()] == [5, 5, None]
    own = epoch_one(1)
    own.spark.conf.set("spark.databricks.delta.write.txnVersion", str(2 * EPOCH_STRIDE + 1))
    assert own.sql("UPDATE {t} SET n = 6 WHERE id = 1")[0]["num_affected_rows"] == 1
    assert put_fence(table.store, fence(2), TAG) == table.head.version


@pytest.mark.soak
def test_a_table_that_forgets_lets_a_dead_leader_through_until_the_fence_is_put_anew(
    table: Table, epoch_one: Callable[[int], Table]
) -> None:
    fill(table, f"TBLPROPERTIES ('{FORGETS}' = 'interval 1 second')")
    put_fence(table.store, fence(2), TAG)
    time.sleep(3)
    epoch_one(1).sql("INSERT INTO {t} (id) SELECT 77")
    assert [row["id"] for row in table.rows("id > 70")] == [77], "why no managed table may forget"
    head, keep = table.head, SetProperty(FORGETS, "interval 1 second", None)
    anew = fence_txns(table.store, fence(2))
    commit_changes(table.store, head, [keep], fence(2), TAG, since=head.version, txns=anew)
    time.sleep(3)
    epoch_one(2).sql("INSERT INTO {t} (id) SELECT 78")
    assert [row["id"] for row in table.rows("id > 70")] == [77], "skipped by Delta"


@pytest.mark.soak
def test_our_change_aborts_a_writer_that_planned_before_it_and_loses_nothing(table: Table) -> None:
    fill(table)
    aborted = in_flight(table, f"UPDATE {{t}} SET n = 1 + {SLOW}", lambda: table.commit(GATE))
    assert "DELTA_METADATA_CHANGED" in str(aborted)
    assert table.rows("id = 1") == [FIRST | {"gate": None}]


@pytest.mark.soak
def test_our_change_steps_over_data_that_landed_first(table: Table) -> None:
    fill(table)
    base = table.head
    table.sql("INSERT INTO {t} (id, n) VALUES (4, NULL)")
    committed = commit_changes(table.store, base, [GATE], fence(), TAG, since=base.version)
    assert committed.head.version == base.version + 2
    assert [row["id"] for row in table.rows()] == [1, 2, 3, 4]


# --- what Spark wrote, as we read it -------------------------------------------------------------------------------------------------


def by_delta_rs(table: Table) -> tuple[Any, ...]:
    from deltalake import DeltaTable

    found = DeltaTable(str(table.folder))
    metadata, protocol = found.metadata(), found.protocol()
    return (
        found.version(),
        str(metadata.id),
        json.loads(found.schema().to_json()),
        dict(metadata.configuration),
        protocol.min_writer_version,
    )


def by_us(head: Head) -> tuple[Any, ...]:
    return head.version, head.table_id, head.schema, dict(head.properties), head.protocol["minWriterVersion"]


CLASSIC, V2 = "'division' = 'east'", "'delta.checkpointPolicy' = 'v2'"
V2_FORMAT = "spark.databricks.delta.checkpointV2.topLevelFileFormat"


@pytest.mark.parametrize(
    "properties, settings, pattern",
    [
        (CLASSIC, {}, "*.checkpoint.parquet"),
        (CLASSIC, {"spark.databricks.delta.checkpoint.partSize": "2"}, "*.checkpoint.*.*.parquet"),
        (V2, {V2_FORMAT: "parquet"}, "*.checkpoint.*.parquet"),
        (V2, {V2_FORMAT: "json"}, "*.checkpoint.*.json"),
    ],
    ids=["classic", "multi-part", "V2 parquet", "V2 json"],
)
@pytest.mark.soak
def test_heads_of_logs_that_spark_wrote(table: Table, properties: str, settings: Mapping[str, str], pattern: str) -> None:
    for key, value in settings.items():
        table.spark.conf.set(key, value)
    try:
        table.sql(
            f"CREATE TABLE {{t}} ({COLUMNS}) USING delta PARTITIONED BY (p) TBLPROPERTIES ({properties}, 'delta.checkpointInterval' = '3')"
        )
        table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('team' = 'ü')")
        for number in range(4):
            table.sql(f"INSERT INTO {{t}} (id, p) VALUES ({number}, 'u'), ({number + 10}, 'w')")
    finally:
        for key in settings:
            table.spark.conf.unset(key)
    log = table.folder / "_delta_log"
    assert list(log.glob(pattern)), "the checkpoint under test"
    assert list(log.glob("*.crc")), "and the checksums"
    expected = by_delta_rs(table)
    with_checksum = table.head
    assert by_us(with_checksum) == expected
    for file in list(log.glob("*.crc")):
        file.unlink()
    from_checkpoint = table.head
    assert (from_checkpoint.protocol, from_checkpoint.metadata) == (with_checksum.protocol, with_checksum.metadata)
    for file in log.glob("*.json"):
        if file.name[:20].isdigit() and file.suffixes == [".json"] and int(file.name[:20]) < 3:
            file.unlink()
    assert table.head == from_checkpoint


def test_files_and_nulls_since_a_version(table: Table) -> None:
    fill(table)
    since = table.head.version
    assert (files_since(table.store, since), nulls_since(table.store, table.head, "n", since)) == (False, False)
    table.sql("INSERT INTO {t} (id, n) VALUES (5, 1)")
    assert (files_since(table.store, since), nulls_since(table.store, table.head, "n", since)) == (True, False)
    table.sql("INSERT INTO {t} (id, n) VALUES (6, NULL)")
    assert nulls_since(table.store, table.head, "n", since) is True
    table.sql("DELETE FROM {t} WHERE id = 6")
    assert nulls_since(table.store, table.head, "n", since) is False
