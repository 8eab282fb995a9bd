"""Our commits as the rest of the world sees them: read, written, merged, optimised and altered by real Spark, read by delta-rs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_schemamig.core.deltalog.commit import Committed, commit_changes
from airflow_provider_schemamig.core.deltalog.create import create_table
from airflow_provider_schemamig.core.deltalog.fence import EPOCH_STRIDE, Fence, put_fence, read_fence
from airflow_provider_schemamig.core.deltalog.head import Head, read_head
from airflow_provider_schemamig.core.deltalog.log import files_since, nulls_since
from airflow_provider_schemamig.core.deltalog.seal import seal, unseal
from airflow_provider_schemamig.core.deltalog.tag import Tag
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Epoch, Generation, ShardId
from airflow_provider_schemamig.core.schema.changes import (
    AddCheck,
    AddColumn,
    Change,
    ChangeType,
    DropCheck,
    DropColumn,
    Relax,
    RenameColumn,
    ReorderColumns,
    SetComment,
    SetDefault,
    SetNotNull,
    SetProperty,
)
from airflow_provider_schemamig.core.schema.model import Array, Check, Declaration, Field, Map, Primitive, Struct
from airflow_provider_schemamig.core.storage import Location, StorageOptions, Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

NAME = CollectionName("flights")
TAG = Tag(Generation(3), Epoch(1), "expand")
INT, BIGINT, STRING = Primitive("int"), Primitive("bigint"), Primitive("string")
COLUMNS = "id BIGINT, n INT, s STRUCT<a: INT, b: STRING>, arr ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>, v VARCHAR(5), p STRING"
ROWS = """(1, 10, struct(11, 'b1'), array(struct(12), struct(13)), map('k', 14), 'v1', 'u'),
          (2, 20, struct(21, 'b2'), array(struct(22)), map('k', 24), 'v2', 'w'),
          (3, NULL, NULL, NULL, NULL, NULL, NULL)"""
FIRST = {"id": 1, "n": 10, "s": {"a": 11, "b": "b1"}, "arr": [{"x": 12}, {"x": 13}], "m": {"k": 14}, "v": "v1", "p": "u"}


def path(text: str) -> ColumnPath:
    return ColumnPath(text)


def fence(epoch: int = 1) -> Fence:
    return Fence("env-1", ShardId("g1-flights"), Epoch(epoch))


@dataclass
class Table:
    """A Delta table in a folder, by Spark's statements and by our commits."""

    spark: SparkSession
    folder: Path

    @property
    def store(self) -> Store:
        return open_store(Location.parse(str(self.folder)), StorageOptions())

    @property
    def head(self) -> Head:
        return read_head(self.store)

    def sql(self, statement: str) -> list[Any]:
        """``{t}`` stands for the table."""
        return list(self.spark.sql(statement.replace("{t}", f"delta.`{self.folder}`")).collect())

    def rows(self, where: str = "true") -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in self.sql(f"SELECT * FROM {{t}} WHERE {where} ORDER BY id")]

    def commit(self, *changes: Change, forget: Sequence[ColumnPath] = ()) -> Committed:
        head = self.head
        return commit_changes(self.store, head, changes, fence(), TAG, since=head.version, forget=forget)

    def by_delta_rs(self) -> list[dict[str, Any]]:
        from deltalake import DeltaTable, QueryBuilder

        found = QueryBuilder().register("t", DeltaTable(str(self.folder))).execute("SELECT * FROM t ORDER BY id").read_all()
        return [dict(row) for row in found.to_struct_array().to_pylist()]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    return Table(spark, tmp_path / "flights")


def fill(table: Table, more: str = "", columns: str = COLUMNS) -> None:
    table.sql(f"CREATE TABLE {{t}} ({columns}) USING delta {more}")
    table.sql(f"INSERT INTO {{t}} VALUES {ROWS}")


@dataclass(frozen=True)
class Case:
    """``expected``: how row 1 reads afterwards. ``insert``: columns and values of a new row 9, ``inserted``: what of it is checked."""

    changes: tuple[Change, ...]
    expected: Mapping[str, Any]
    insert: str = "(id) VALUES (9)"
    inserted: Mapping[str, Any] = field(default_factory=dict)
    create: str = ""
    columns: str = COLUMNS
    refused: Sequence[str] = ()
    forget: tuple[ColumnPath, ...] = ()
    delta_rs_reads: bool = True
    #: MERGE, OPTIMIZE and ALTER as well: they take most of the time, and only these kinds touch what they depend on.
    full: bool = False


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in FIRST.items() if key != name}


GATE = AddColumn(path("gate"), Field("gate", STRING))
DEEP = (
    AddColumn(path("s.c"), Field("c", Primitive("date"))),
    AddColumn(path("arr.element.y"), Field("y", Struct((Field("z", INT),)))),
    AddColumn(path("t"), Field("t", Map(STRING, Array(Struct((Field("q", INT),)))))),
)
DEEP_ROW = FIRST | {
    "s": {"a": 11, "b": "b1", "c": None},
    "arr": [{"x": 12, "y": None}, {"x": 13, "y": None}],
    "t": None,
}
NEW: dict[str, Any] = {"gate": None, "t": None}
RENAMES = (RenameColumn(path("n"), "delay"), RenameColumn(path("s.a"), "alpha"), RenameColumn(path("arr.element.x"), "ix"))
RENAMED = without("n") | {"delay": 10, "s": {"alpha": 11, "b": "b1"}, "arr": [{"ix": 12}, {"ix": 13}]}
POSITIVE = Check("positive", "n > 0")
WIDER = (
    ChangeType(path("n"), INT, BIGINT, True, True),
    ChangeType(path("m.value"), INT, Primitive("double"), True, False),
    ChangeType(path("s.a"), INT, Primitive("decimal(12,2)"), True, False),
)

CASES = {
    "add_column": Case((GATE,), FIRST | {"gate": None}, "(id, gate) VALUES (9, 'g')", {"gate": "g"}),
    "add_column nested": Case(DEEP, DEEP_ROW, "(id, s) VALUES (9, named_struct('a', 1, 'b', 'x', 'c', DATE'2020-01-01'))", full=True),
    "drop_column": Case((DropColumn(path("n")), DropColumn(path("s.a"))), without("n") | {"s": {"b": "b1"}}, full=True),
    "drop_column forgotten": Case((GATE, DropColumn(path("gate"))), FIRST, forget=(path("gate"),), full=True),
    "rename_column": Case(RENAMES, RENAMED, "(id, delay) VALUES (9, 90)", {"delay": 90}, full=True),
    "rename_column partition": Case(
        (RenameColumn(path("p"), "part"),),
        without("p") | {"part": "u"},
        "(id, part) VALUES (9, 'u')",
        {"part": "u"},
        create="PARTITIONED BY (p)",
        full=True,
    ),
    "rename_column checked": Case(
        (RenameColumn(path("n"), "delay"),),
        without("n") | {"delay": 10},
        "(id, delay) VALUES (9, 1)",
        {"delay": 1},
        create="TBLPROPERTIES ('delta.constraints.c' = 'n > 0 OR n IS NULL')",
        refused=("INSERT INTO {t} (id, delay) VALUES (9, -1)",),
        full=True,
    ),
    "change_type": Case(
        WIDER,
        FIRST | {"s": {"a": 11, "b": "b1"}, "m": {"k": 14.0}},
        "(id, n, m) VALUES (9, 5000000000, map('k', 0.5D))",
        {"n": 5_000_000_000, "m": {"k": 0.5}},
        delta_rs_reads=False,
        full=True,
    ),
    "change_type varchar": Case(
        (ChangeType(path("v"), Primitive("varchar(5)"), Primitive("varchar(8)"), True, True),),
        FIRST,
        "(id, v) VALUES (9, '12345678')",
        {"v": "12345678"},
        refused=("INSERT INTO {t} (id, v) VALUES (9, '123456789')",),
    ),
    "drop_not_null": Case((Relax(path("id")),), FIRST, columns=COLUMNS.replace("id BIGINT", "id BIGINT NOT NULL")),
    "set_not_null": Case((SetNotNull(path("id")),), FIRST, refused=("INSERT INTO {t} (id, n) VALUES (NULL, 9)",)),
    "set_default": Case((SetDefault(path("n"), None, "7"),), FIRST, inserted={"n": 7}),
    "set_comment": Case((SetComment(path("s.a"), None, "alpha"), SetComment(path(""), None, "all")), FIRST),
    "reorder_columns": Case(
        (ReorderColumns(path(""), (), ("p", "id", "n")), ReorderColumns(path("s"), ("a", "b"), ("b", "a"))),
        FIRST,
        "VALUES ('u', 9, 90, named_struct('b', 'x', 'a', 1), NULL, NULL, NULL)",
        {"p": "u", "n": 90, "s": {"a": 1, "b": "x"}},
    ),
    "set_property": Case((SetProperty("delta.enableChangeDataFeed", None, "true"), SetProperty("owner", None, "me")), FIRST),
    "add_check": Case((AddCheck(Check("few", "id < 5000")),), FIRST, refused=("INSERT INTO {t} (id) VALUES (6000)",)),
    "drop_check": Case(
        (DropCheck(POSITIVE),),
        FIRST,
        "(id, n) VALUES (9, -1)",
        {"n": -1},
        create="TBLPROPERTIES ('delta.constraints.positive' = 'n > 0')",
    ),
    "a mix": Case(
        (
            GATE,
            *DEEP,
            *WIDER,
            Relax(path("id")),
            SetDefault(path("p"), None, "'none'"),
            SetProperty("delta.logRetentionDuration", None, "interval 60 days"),
            AddCheck(Check("few", "id < 5000")),
            SetComment(path("id"), None, "key"),
            RenameColumn(path("n"), "delay"),
            RenameColumn(path("s.a"), "alpha"),
            RenameColumn(path("s"), "leg"),
            ReorderColumns(path(""), (), ("delay", "id", "leg")),
            DropColumn(path("v")),
            DropColumn(path("leg.b")),
        ),
        {
            "delay": 10,
            "id": 1,
            "leg": {"alpha": 11, "c": None},
            "arr": DEEP_ROW["arr"],
            "m": {"k": 14.0},
            "p": "u",
            "gate": None,
            "t": None,
        },
        "(id, delay, leg) VALUES (9, 5000000000, named_struct('alpha', 1.5BD, 'c', NULL))",
        {"delay": 5_000_000_000, "p": "none"},
        columns=COLUMNS.replace("id BIGINT", "id BIGINT NOT NULL"),
        refused=("INSERT INTO {t} (id) VALUES (6000)",),
        delta_rs_reads=False,
        full=True,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_change_and_what_the_world_does_with_it(table: Table, name: str) -> None:
    case = CASES[name]
    fill(table, case.create, case.columns)
    before = table.head
    ids = [row["id"] for row in table.rows()]
    if case.forget:
        before = table.commit(*case.changes[:-1]).head
        committed = table.commit(case.changes[-1], forget=case.forget)
    else:
        committed = table.commit(*case.changes)
    assert committed.head.version == before.version + 1, "one commit"

    assert table.rows("id = 1") == [dict(case.expected)], "SELECT"
    assert [row["id"] for row in table.rows()] == ids
    assert [f.name for f in table.head.declaration(NAME).fields] == table.spark.read.format("delta").load(str(table.folder)).columns
    check_history(table, committed)
    if case.delta_rs_reads:
        assert [row["id"] for row in table.by_delta_rs()] == ids

    table.sql(f"INSERT INTO {{t}} {case.insert}")
    assert [{key: row[key] for key in case.inserted} for row in table.rows("id = 9")] == [dict(case.inserted)], "INSERT"
    for statement in case.refused:
        with pytest.raises(Exception, match=r"VIOLATE|EXCEED|NOT_NULL|NULL"):
            table.sql(statement)
    table.sql("UPDATE {t} SET id = id + 100 WHERE id = 1")
    assert table.rows("id = 101") == [dict(case.expected) | {"id": 101}], "UPDATE"
    if case.full:
        merge_optimize_and_alter(table, case)


def merge_optimize_and_alter(table: Table, case: Case) -> None:
    table.sql("MERGE INTO {t} USING (SELECT 101 AS k UNION ALL SELECT 50) ON id = k WHEN MATCHED THEN UPDATE SET id = 1 "
              "WHEN NOT MATCHED THEN INSERT (id) VALUES (k)")  # fmt: skip
    table.sql("OPTIMIZE {t}")
    assert table.rows("id = 1") == [dict(case.expected)], "MERGE and OPTIMIZE"
    assert [row["id"] for row in table.rows()] == [1, 2, 3, 9, 50]
    table.sql("ALTER TABLE {t} ADD COLUMN later INT")
    assert table.rows("id = 1") == [dict(case.expected) | {"later": None}], "ALTER"
    assert table.head.declaration(NAME).fields[-1] == Field("later", INT)


def check_history(table: Table, committed: Committed) -> None:
    version = committed.head.version
    found = {row["version"]: row for row in table.sql("DESCRIBE HISTORY {t}")}[version]
    assert found["operation"] == "SCHEMAMIG EXPAND"
    assert json.loads(found["userMetadata"]) == {"schemamig": {"action": "expand", "epoch": 1, "generation": 3}}
    assert json.loads(found["operationParameters"]["changes"])[0]["op"]


def test_mapped_tables_are_read_right_or_refused_by_delta_rs(table: Table) -> None:
    """(3,7): QueryBuilder reads right, the pandas way says no; never NULLs without an error (research/delta_spark.md)."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaProtocolError

    fill(table)
    table.commit(*RENAMES)
    assert [row["delay"] for row in table.by_delta_rs()] == [10, 20, None]
    with pytest.raises(DeltaProtocolError):
        DeltaTable(str(table.folder)).to_pyarrow_table()


def test_what_a_dropped_column_held_does_not_come_back(table: Table) -> None:
    fill(table)
    table.commit(DropColumn(path("n")))
    table.commit(AddColumn(path("n"), Field("n", INT)))
    assert [row["n"] for row in table.rows()] == [None, None, None]
    assert [row["n"] for row in table.by_delta_rs()] == [None, None, None]


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
    properties=(("delta.logRetentionDuration", "interval 60 days"), ("owner", "me")),
    comment="all flights",
)


def test_a_table_made_by_us_is_used_by_spark(table: Table) -> None:
    create_table(table.store, RICH, "6f0e4c1e-0000-4000-8000-000000000001", TAG)
    assert table.rows() == []
    table.sql("INSERT INTO {t} (id, leg) VALUES (1, named_struct('code', 'JFK', 'stops', array(1, 2))), (2, NULL)")
    assert [row["name"] for row in table.rows()] == ["x", "x"]
    for statement in ("(id) VALUES (NULL)", "(id) VALUES (6000)", "(id, name) VALUES (3, 'toolong')"):
        with pytest.raises(Exception, match=r"NOT_NULL|VIOLATE|EXCEED"):
            table.sql(f"INSERT INTO {{t}} {statement}")
    detail = table.sql("DESCRIBE DETAIL {t}")[0]
    assert (detail["clusteringColumns"], detail["description"], detail["properties"]["owner"]) == (["id", "leg.code"], "all flights", "me")
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
    with pytest.raises(Exception, match="validation check failed"):
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
        with pytest.raises(Exception, match=r"validation check failed|append.?only"):
            write()
    assert table.rows() == before
    assert table.head.version == sealed.head.version
    unseal(table.store, table.head, fence(), TAG, since=0)
    for statement in WRITES:
        table.sql(statement)
    write_deltalake(str(table.folder), rows, mode="append")
    assert [row["id"] for row in table.rows()] == [1, 9]


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


def test_a_fence_disturbs_nobody_else(table: Table, epoch_one: Callable[[int], Table]) -> None:
    fill(table)
    assert in_flight(table, f"UPDATE {{t}} SET n = 5 + {SLOW} - n", lambda: put_fence(table.store, fence(2), TAG)) is None
    assert [row["n"] for row in table.rows()] == [5, 5, None]
    own = epoch_one(1)
    own.spark.conf.set("spark.databricks.delta.write.txnVersion", str(2 * EPOCH_STRIDE + 1))
    assert own.sql("UPDATE {t} SET n = 6 WHERE id = 1")[0]["num_affected_rows"] == 1
    assert put_fence(table.store, fence(2), TAG) == table.head.version


def test_our_change_aborts_a_writer_that_planned_before_it_and_loses_nothing(table: Table) -> None:
    fill(table)
    aborted = in_flight(table, f"UPDATE {{t}} SET n = 1 + {SLOW}", lambda: table.commit(GATE))
    assert "DELTA_METADATA_CHANGED" in str(aborted)
    assert table.rows("id = 1") == [FIRST | {"gate": None}]


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


@pytest.mark.parametrize(
    "properties, part_size, pattern",
    [
        ("'owner' = 'me'", None, "*.checkpoint.parquet"),
        ("'owner' = 'me'", "2", "*.checkpoint.*.*.parquet"),
        ("'delta.checkpointPolicy' = 'v2'", None, "*.checkpoint.*.parquet"),
        ("'delta.checkpointPolicy' = 'v2'", "json", "*.checkpoint.*.json"),
    ],
)
def test_heads_of_logs_that_spark_wrote(table: Table, properties: str, part_size: str | None, pattern: str) -> None:
    settings = {"spark.databricks.delta.checkpoint.partSize": part_size} if part_size == "2" else {}
    if part_size == "json":
        settings = {"spark.databricks.delta.checkpointV2.topLevelFileFormat": "json"}
    for key, value in settings.items():
        table.spark.conf.set(key, str(value))
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
    for file in [*log.glob("*.crc"), *log.glob(".*.crc")]:
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
