"""Our commits as the rest of the world sees them: read, written, merged, optimised and altered by real Spark, read by delta-rs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_schemamig.core.delta.commit.commit import Committed
from airflow_provider_schemamig.core.names import ColumnPath
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
from airflow_provider_schemamig.core.schema.model import Array, Check, Field, Map, Primitive, Struct
from tests.support.tables.delta_table import BIGINT, COLUMNS, FIRST, GATE, INT, NAME, STRING, Table, fill, path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    return Table(spark, tmp_path / "flights")


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
POSITIVE = Check("positive", "n > 0 OR n IS NULL")
WIDER = (
    ChangeType(path("n"), INT, BIGINT, True, True),
    ChangeType(path("m.value"), INT, Primitive("double"), True, False),
    ChangeType(path("s.a"), INT, Primitive("decimal(12,2)"), True, False),
)

CASES = {
    "add_column": Case((GATE,), FIRST | {"gate": None}, "(id, gate) VALUES (9, 'g')", {"gate": "g"}),
    "add_column nested": Case(DEEP, DEEP_ROW, "(id, s) VALUES (9, named_struct('a', 1, 'b', 'x', 'c', DATE'2020-01-01'))", full=True),
    "drop_column": Case((DropColumn(path("n")), DropColumn(path("s.a"))), without("n") | {"s": {"b": "b1"}}, full=True),
    "drop_column forgotten": Case((GATE, DropColumn(path("gate"))), FIRST, forget=(path("gate"),)),
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
    "set_property": Case((SetProperty("delta.enableChangeDataFeed", None, "true"), SetProperty("team", None, "me")), FIRST),
    "add_check": Case((AddCheck(Check("few", "id < 5000")),), FIRST, refused=("INSERT INTO {t} (id) VALUES (6000)",)),
    "drop_check": Case(
        (DropCheck(POSITIVE),),
        FIRST,
        "(id, n) VALUES (9, -1)",
        {"n": -1},
        create="TBLPROPERTIES ('delta.constraints.positive' = 'n > 0 OR n IS NULL')",
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

#: What ``make test`` looks at; the rest is part of ``a mix`` too, and has its own test in ``make soak``.
QUICK = ("a mix",)


@pytest.mark.some(1, of="flows of Spark")
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.soak) for name in CASES])
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
    """(3,7): QueryBuilder reads right, the pandas way says no; never NULLs without an error."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaProtocolError

    fill(table)
    table.commit(*RENAMES)
    assert [row["delay"] for row in table.by_delta_rs()] == [10, 20, None]
    with pytest.raises(DeltaProtocolError):
        DeltaTable(str(table.folder)).to_pyarrow_table()


@pytest.mark.soak
def test_tables_with_every_feature_switched_on(table: Table) -> None:
    """Deletion vectors, row tracking, in-commit timestamps, generated and identity columns: kept, and Spark goes on."""
    features = ("enableDeletionVectors", "enableRowTracking", "enableInCommitTimestamps")
    properties = ", ".join(f"'delta.{name}' = 'true'" for name in features)
    columns = "id BIGINT, n INT, g INT GENERATED ALWAYS AS (n + 1), i BIGINT GENERATED ALWAYS AS IDENTITY"
    table.sql(f"CREATE TABLE {{t}} ({columns}) USING delta TBLPROPERTIES ({properties})")
    table.sql("INSERT INTO {t} (id, n) VALUES (1, 10), (2, 20), (3, 30)")
    table.sql("DELETE FROM {t} WHERE id = 2")
    before = table.head
    committed = table.commit(GATE, RenameColumn(path("id"), "key"), ReorderColumns(path(""), (), ("key", "gate")))
    assert before.features < committed.head.features
    assert [(r["key"], r["n"], r["g"]) for r in table.sql("SELECT * FROM {t} ORDER BY key")] == [(1, 10, 11), (3, 30, 31)]
    table.sql("UPDATE {t} SET n = 40 WHERE key = 3")
    table.sql("INSERT INTO {t} (key, n, gate) VALUES (4, 50, 'g')")
    assert [(r["key"], r["g"]) for r in table.sql("SELECT * FROM {t} ORDER BY key")] == [(1, 11), (3, 41), (4, 51)]
    stamps = [r["timestamp"] for r in table.sql("DESCRIBE HISTORY {t}")]
    assert stamps == sorted(stamps, reverse=True)
    assert len(set(stamps)) == len(stamps)
    table.sql("ALTER TABLE {t} ADD COLUMN later INT")
    assert table.head.declaration(NAME).fields[-1].name == "later"


def test_golden_commits_what_a_dropped_column_held_does_not_come_back(table: Table) -> None:
    fill(table)
    table.commit(DropColumn(path("n")))
    table.commit(AddColumn(path("n"), Field("n", INT)))
    assert [row["n"] for row in table.rows()] == [None, None, None]
    assert [row["n"] for row in table.by_delta_rs()] == [None, None, None]
