"""Each change applied: done already is no change, a contradiction is refused, what has an inverse has exactly this one."""

from __future__ import annotations

from typing import get_args

import pytest

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddKey,
    Change,
    ChangeClustering,
    ChangePartitioning,
    ChangeType,
    DropCheck,
    DropColumn,
    DropForeignKey,
    DropKey,
    Relax,
    RenameColumn,
    ReorderColumns,
    SetComment,
    SetDefault,
    SetGenerated,
    SetNotNull,
    SetProperty,
)
from airflow_provider_schemamig.core.schema.errors import NotApplicable
from airflow_provider_schemamig.core.schema.model import Check, ForeignKey, Key, Primitive
from tests.unit.schema.inverses import inverse
from tests.unit.schema.tables import field, table

A, B, SX = ColumnPath("a"), ColumnPath("b"), ColumnPath("s.x")
INT, BIGINT, STRING = Primitive("int"), Primitive("bigint"), Primitive("string")
FLIGHTS = CollectionName("flights")
CHECK, KEY, REFERENCE = Check("c", "a > 0"), Key(("a",)), ForeignKey(("a",), FLIGHTS, ("b",))

#: (change, columns and clauses before, after)
APPLIED: list[tuple[Change, str, str]] = [
    (AddColumn(B, field("b INT")), "(a INT)", "(a INT, b INT)"),
    (AddColumn(ColumnPath("l.element.y"), field("y INT")), "(l ARRAY<STRUCT<x: INT>>)", "(l ARRAY<STRUCT<x: INT, y: INT>>)"),
    (AddColumn(ColumnPath("m.key.y"), field("y INT")), "(m MAP<STRUCT<x: INT>, INT>)", "(m MAP<STRUCT<x: INT, y: INT>, INT>)"),
    (DropColumn(B), "(a INT, b INT)", "(a INT)"),
    (DropColumn(ColumnPath("m.value.y")), "(m MAP<INT, STRUCT<x: INT, y: INT>>)", "(m MAP<INT, STRUCT<x: INT>>)"),
    (RenameColumn(A, "b"), "(a INT, c INT) PARTITIONED BY (a)", "(b INT, c INT) PARTITIONED BY (b)"),
    (RenameColumn(SX, "y"), "(s STRUCT<x: INT>) CLUSTER BY (s.x)", "(s STRUCT<y: INT>) CLUSTER BY (s.y)"),
    (ChangeType(SX, INT, BIGINT, widening=True, shadowable=False), "(s STRUCT<x: INT>)", "(s STRUCT<x: BIGINT>)"),
    (Relax(SX), "(s STRUCT<x: INT NOT NULL>)", "(s STRUCT<x: INT>)"),
    (SetNotNull(A), "(a INT)", "(a INT NOT NULL)"),
    (SetDefault(A, "1", "2"), "(a INT DEFAULT 1)", "(a INT DEFAULT 2)"),
    (SetGenerated(A, "b + 1", "b + 2"), "(a INT GENERATED ALWAYS AS (b + 1), b INT)", "(a INT GENERATED ALWAYS AS (b + 2), b INT)"),
    (SetComment(SX, None, "what"), "(s STRUCT<x: INT>)", "(s STRUCT<x: INT COMMENT 'what'>)"),
    (SetComment(ColumnPath(""), None, "what"), "(a INT)", "(a INT) COMMENT 'what'"),
    (ReorderColumns(ColumnPath(""), ("a", "b"), ("b", "a")), "(a INT, b INT)", "(b INT, a INT)"),
    (SetProperty("owned_by", "x", "y"), "(a INT) TBLPROPERTIES ('owned_by' = 'x')", "(a INT) TBLPROPERTIES ('owned_by' = 'y')"),
    (AddCheck(CHECK), "(a INT)", "(a INT, CONSTRAINT c CHECK (a > 0))"),
    (DropCheck(CHECK), "(a INT, CONSTRAINT c CHECK (a > 0))", "(a INT)"),
    (AddKey(KEY, primary=True), "(a INT NOT NULL)", "(a INT NOT NULL PRIMARY KEY)"),
    (AddKey(KEY, primary=False), "(a INT)", "(a INT UNIQUE)"),
    (DropKey(KEY, primary=True), "(a INT NOT NULL PRIMARY KEY)", "(a INT NOT NULL)"),
    (DropKey(KEY, primary=False), "(a INT UNIQUE)", "(a INT)"),
    (AddForeignKey(REFERENCE), "(a INT, b INT)", "(a INT REFERENCES flights (b), b INT)"),
    (DropForeignKey(REFERENCE), "(a INT REFERENCES flights (b), b INT)", "(a INT, b INT)"),
    (ChangePartitioning((), ("a",)), "(a INT, b INT)", "(a INT, b INT) PARTITIONED BY (a)"),
    (ChangeClustering(("a",), ()), "(a INT, b INT) CLUSTER BY (a)", "(a INT, b INT)"),
]
WITHOUT_INVERSE = (DropColumn, ChangeType, ChangePartitioning)


def split(text: str) -> tuple[str, str]:
    """``(columns) clauses``."""
    depth = 0
    for number, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:number], text[number + 1 :]
    raise AssertionError(text)


def test_every_kind_of_change_is_here() -> None:
    assert {type(change) for change, _, _ in APPLIED} == set(get_args(Change))


@pytest.mark.parametrize(("change", "before", "after"), APPLIED)
def test_apply_applied(change: Change, before: str, after: str) -> None:
    assert apply(table(*split(before)), [change]) == table(*split(after))


@pytest.mark.parametrize(("change", "before", "after"), APPLIED)
def test_applied_again_it_changes_nothing(change: Change, before: str, after: str) -> None:
    assert apply(table(*split(after)), [change]) == table(*split(after))


@pytest.mark.parametrize(("change", "before", "after"), APPLIED)
def test_apply_its_inverse(change: Change, before: str, after: str) -> None:
    back = inverse(change)
    assert (back is None) == isinstance(change, WITHOUT_INVERSE)
    if back is not None:
        assert apply(table(*split(after)), [back]) == table(*split(before))


@pytest.mark.parametrize(
    ("change", "columns", "reason"),
    [
        (AddColumn(B, field("b INT")), "b STRING", "another type or spelling"),
        (AddColumn(B, field("b INT")), "B INT", "another type or spelling"),
        (AddColumn(SX, field("x INT")), "s INT", "no such struct"),
        (DropColumn(A), "a INT UNIQUE, b INT", "a key uses it"),
        (DropColumn(A), "a INT, b INT, CONSTRAINT c CHECK (A > 0)", "the CHECK c uses it"),
        (RenameColumn(A, "b"), "a INT, B INT", "the name b is taken"),
        (RenameColumn(A, "s"), "a INT, \u017f INT", "the name s is taken"),
        (RenameColumn(A, "b"), "c INT", "no such column"),
        (ChangeType(A, INT, BIGINT, widening=True, shadowable=True), "a STRING", "another type"),
        (Relax(A), "b INT", "no such column"),
        (Relax(ColumnPath("m.x")), "m MAP<INT, INT>", "no such column"),
        (SetDefault(A, "1", "2"), "a INT DEFAULT 3", "its default is 3"),
        (SetGenerated(A, "1", "2"), "a INT", "its generation expression is None"),
        (SetDefault(B, None, "2"), "a INT", "no such column"),
        (ReorderColumns(A, (), ()), "a INT", "no such struct"),
        (AddCheck(CHECK), "a INT, CONSTRAINT c CHECK (a > 1)", "a > 1"),
        (DropCheck(CHECK), "a INT, CONSTRAINT c CHECK (a > 1)", "a > 1"),
        (AddKey(KEY, primary=True), "a INT, b INT PRIMARY KEY", "another PRIMARY KEY"),
        (DropKey(KEY, primary=True), "a INT, b INT PRIMARY KEY", "another one"),
        (SetProperty("owned_by", "x", "y"), "a INT", "its value is None"),
        (ChangePartitioning(("b",), ()), "a INT, b INT", "partitioned otherwise"),
        (ChangeClustering(("b",), ("a",)), "a INT, b INT", "clustered otherwise"),
    ],
)
def test_a_contradiction_is_refused(change: Change, columns: str, reason: str) -> None:
    clauses = "PARTITIONED BY (a)" if isinstance(change, ChangePartitioning) else ""
    with pytest.raises(NotApplicable, match=reason) as caught:
        apply(table(columns, clauses), [change])
    assert (caught.value.code, caught.value.op, caught.value.collection) == ("not_applicable", change.op, "flights")


def test_an_order_names_what_it_knows() -> None:
    """Hidden columns keep existing, behind the declared ones and in their own order; absent ones do not matter."""
    order = ReorderColumns(ColumnPath(""), (), ("c", "gone", "a"))
    assert [f.name for f in apply(table("x INT, a INT, y INT, c INT"), [order]).fields] == ["c", "a", "x", "y"]


def test_an_addition_completes_a_column_that_stands_there() -> None:
    before = table("b STRUCT<x: INT COMMENT 'kept'>, a INT")
    after = apply(before, [AddColumn(B, field("b STRUCT<x: INT> NOT NULL COMMENT 'new'"))])
    assert after == table("b STRUCT<x: INT COMMENT 'kept'> NOT NULL COMMENT 'new', a INT")
