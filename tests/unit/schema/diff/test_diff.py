"""The outcome of every kind of change: the rules as they are here, and the ops in their order (docs/schema-changes.md)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import (
    AddCheck,
    AddColumn,
    ChangeClustering,
    ChangePartitioning,
    ChangeType,
    Cost,
    DropColumn,
    Relax,
    RenameColumn,
    ReorderColumns,
    SetNotNull,
)
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.errors import NameTaken, UnknownRename
from airflow_provider_schemamig.core.schema.expressions.renames import RenameInLambda
from airflow_provider_schemamig.core.schema.model import Array, Check, Declaration, Primitive
from tests.unit.schema.tables import field, table

NONE, INSTANT, ONLINE, REWRITE = Cost.NONE, Cost.INSTANT, Cost.ONLINE, Cost.REWRITE
INT, BIGINT, STRING = Primitive("int"), Primitive("bigint"), Primitive("string")
SAME, CAST = "g INT GENERATED ALWAYS AS (a)", "g INT GENERATED ALWAYS AS (CAST(a AS INT))"
DROPS = (INSTANT, True, ["drop_column"])

#:
RULES = [
    ("equal", "a INT", "a INT", NONE, False, []),
    ("3: a drop at the top", "a INT, b INT", "a INT", INSTANT, True, ["drop_column"]),
    ("3: a drop deep inside", "s STRUCT<l: ARRAY<STRUCT<x: INT, y: INT>>>", "s STRUCT<l: ARRAY<STRUCT<x: INT>>>", *DROPS),
    ("4: widening, refused there, is metadata here", "a INT", "a BIGINT", INSTANT, False, ["change_type"]),
    ("4: any other type", "a BIGINT", "a INT", ONLINE, False, ["change_type"]),
    ("4: any other type inside a struct", "s STRUCT<a: BIGINT>", "s STRUCT<a: INT>", ONLINE, False, ["change_type"]),
    ("4: of a map's key, of which two may become one", "m MAP<BIGINT, INT>", "m MAP<INT, INT>", REWRITE, False, ["change_type"]),
    ("4: several values instead of one, inside", "s STRUCT<a: INT>", "s STRUCT<a: ARRAY<INT>>", REWRITE, False, ["change_type"]),
    ("5: another order, refused there, needs nothing here", "a INT, b INT", "b INT, a INT", NONE, False, ["reorder_columns"]),
    ("5: another order inside", "s STRUCT<a: INT, b: INT>", "s STRUCT<b: INT, a: INT>", NONE, False, ["reorder_columns"]),
    ("6: an addition at the end", "a INT", "a INT, b INT", INSTANT, False, ["add_column"]),
    ("6: add_in_the_middle, refused there", "a INT, c INT", "a INT, b INT, c INT", INSTANT, False, ["add_column", "reorder_columns"]),
    ("6: a required addition", "a INT", "a INT, b INT NOT NULL", ONLINE, False, ["add_column"]),
    ("6: an addition with a default", "a INT", "a INT, b INT DEFAULT 1", ONLINE, False, ["add_column"]),
    ("6: an addition inside a struct", "s STRUCT<a: INT>", "s STRUCT<a: INT, b: INT>", INSTANT, False, ["add_column"]),
    ("7: a nullable struct with required children", "a INT", "a INT, s STRUCT<x: INT NOT NULL>", ONLINE, False, ["add_column"]),
    ("7: a nullable struct with nullable children", "a INT", "a INT, s STRUCT<x: INT>", INSTANT, False, ["add_column"]),
    ("8: nullable to required", "a INT", "a INT NOT NULL", ONLINE, False, ["set_not_null"]),
    ("8: required to nullable", "a INT NOT NULL", "a INT", INSTANT, False, ["drop_not_null"]),
    ("8: inside a struct", "s STRUCT<a: INT NOT NULL>", "s STRUCT<a: INT>", INSTANT, False, ["drop_not_null"]),
    (
        "9: relaxed and changed inside, refused there",
        "s STRUCT<a: INT> NOT NULL",
        "s STRUCT<b: INT>",
        *(INSTANT, True, ["drop_not_null", "add_column", "drop_column"]),
    ),
    ("10: a required field is dropped", "a INT, b INT NOT NULL", "a INT", INSTANT, True, ["drop_column"]),
    ("11: inside an array", "l ARRAY<STRUCT<a: INT>>", "l ARRAY<STRUCT<a: BIGINT, b: INT>>", INSTANT, False, ["change_type", "add_column"]),
    ("11: an array's element", "l ARRAY<INT>", "l ARRAY<BIGINT>", INSTANT, False, ["change_type"]),
    ("12: inside a map's value, refused there", "m MAP<STRING, STRUCT<a: INT, b: INT>>", "m MAP<STRING, STRUCT<a: INT>>", *DROPS),
    ("12: a map's key", "m MAP<INT, INT>", "m MAP<BIGINT, INT>", INSTANT, False, ["change_type"]),
    ("12: a map to an array", "m MAP<INT, INT>", "m ARRAY<INT>", ONLINE, False, ["change_type"]),
    ("13: an atom to a struct", "a STRING", "a STRUCT<x: INT>", ONLINE, False, ["change_type"]),
    ("14: decimals widen", "a DECIMAL(10,2)", "a DECIMAL(12,4)", INSTANT, False, ["change_type"]),
    ("14: a decimal that loses digits before the point", "a DECIMAL(10,2)", "a DECIMAL(11,4)", ONLINE, False, ["change_type"]),
    ("14: a date becomes a time without zone", "a DATE", "a TIMESTAMP_NTZ", INSTANT, False, ["change_type"]),
    ("14: a time with zone does not become one without", "a TIMESTAMP", "a TIMESTAMP_NTZ", ONLINE, False, ["change_type"]),
    ("16: drop_first_of_two_names_not_in_text_order", "`2` INT, `10` INT", "`10` INT", INSTANT, True, ["drop_column"]),
    ("a limit grows", "a VARCHAR(10)", "a VARCHAR(20)", INSTANT, False, ["change_type"]),
    ("a limit goes", "a VARCHAR(10)", "a STRING", INSTANT, False, ["change_type"]),
    ("a limit shrinks", "a VARCHAR(20)", "a VARCHAR(10)", ONLINE, False, ["change_type"]),
    ("a limit comes", "a STRING", "a VARCHAR(10)", ONLINE, False, ["change_type"]),
    ("another default", "a INT DEFAULT 1", "a INT DEFAULT 2", INSTANT, False, ["set_default"]),
    ("no default any more", "a INT DEFAULT 1", "a INT", INSTANT, False, ["set_default"]),
    ("another generation", f"a INT, {SAME}", "a INT, g INT GENERATED ALWAYS AS (a + 1)", REWRITE, False, ["set_generated"]),
    ("a generation comes", "a INT, g INT", f"a INT, {SAME}", REWRITE, False, ["set_generated"]),
    ("a generation goes", f"a INT, {SAME}", "a INT, g INT", REWRITE, False, ["set_generated"]),
    ("a generated column comes", "a INT", f"a INT, {SAME}", REWRITE, False, ["add_column"]),
    ("a generated column goes", f"a INT, {SAME}", "a INT", INSTANT, True, ["drop_column"]),
    ("it goes with what it reads", f"a INT, {SAME}, b INT", "b INT", INSTANT, True, ["drop_column"] * 2),
    ("a column beside it gets wider", f"a INT, {SAME}, b INT", f"a INT, {SAME}, b BIGINT", INSTANT, False, ["change_type"]),
    ("what it reads gets wider", f"a SMALLINT, {CAST}", f"a INT, {CAST}", REWRITE, False, ["change_type"]),
    ("another comment", "a INT", "a INT COMMENT 'x'", NONE, False, ["set_comment"]),
    ("case counts", "a INT", "A INT", INSTANT, True, ["drop_column", "add_column"]),
    ("a CHECK comes", "a INT", "a INT, CONSTRAINT c CHECK (a > 0)", ONLINE, False, ["add_check"]),
    ("a CHECK goes", "a INT, CONSTRAINT c CHECK (a > 0)", "a INT", INSTANT, False, ["drop_check"]),
    (
        "a CHECK is another",
        "a INT, CONSTRAINT c CHECK (a > 0)",
        "a INT, CONSTRAINT c CHECK (a > 1)",
        *(ONLINE, False, ["drop_check", "add_check"]),
    ),
    ("a key comes", "a INT NOT NULL", "a INT NOT NULL PRIMARY KEY", ONLINE, False, ["add_key"]),
    ("a key brings its NOT NULL", "a INT", "a INT PRIMARY KEY", ONLINE, False, ["set_not_null", "add_key"]),
    ("a key goes", "a INT UNIQUE", "a INT", INSTANT, False, ["drop_key"]),
    ("a key is another", "a INT UNIQUE, b INT", "a INT, b INT UNIQUE", ONLINE, False, ["drop_key", "add_key"]),
    ("a reference comes", "a INT, b INT", "a INT REFERENCES flights (b), b INT", ONLINE, False, ["add_foreign_key"]),
    ("a reference goes", "a INT REFERENCES flights (b), b INT", "a INT, b INT", INSTANT, False, ["drop_foreign_key"]),
]


@pytest.mark.parametrize(("old", "new", "outcome", "drops_data", "ops"), [r[1:] for r in RULES], ids=[r[0] for r in RULES])
def test_diff_rule(old: str, new: str, outcome: Cost, drops_data: bool, ops: list[str]) -> None:
    before, after = table(old), table(new)
    found = diff(before, after)
    assert (found.outcome, found.drops_data, [change.op for change in found.changes]) == (outcome, drops_data, ops)
    assert apply(before, found.changes) == after


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("PARTITIONED BY (a)", "PARTITIONED BY (b)", ChangePartitioning(("a",), ("b",))),
        ("CLUSTER BY (a)", "CLUSTER BY (a, s.x)", ChangeClustering(("a",), ("a", "s.x"))),
        ("CLUSTER BY (a)", "", ChangeClustering(("a",), ())),
    ],
)
def test_diff_layout(old: str, new: str, change: ChangePartitioning | ChangeClustering) -> None:
    columns = "a INT, b INT, s STRUCT<x: INT>"
    assert diff(table(columns, old), table(columns, new)).changes == (change,)


def test_paths_lead_through_arrays_and_maps() -> None:
    old = table("l ARRAY<STRUCT<m: MAP<STRING, STRUCT<a: INT>>>>")
    new = table("l ARRAY<STRUCT<m: MAP<STRING, STRUCT<a: BIGINT>>>>")
    path = ColumnPath("l.element.m.value.a")
    assert diff(old, new).changes == (ChangeType(path, INT, BIGINT, widening=True, shadowable=True),)


def test_elements_and_values_that_may_be_null() -> None:
    """Spark SQL cannot say it, an adopted table can have it."""
    strict = Declaration(table("a INT").name, (field("a ARRAY<INT>"),))
    strict = apply(strict, [SetNotNull(ColumnPath("a.element"))])
    assert strict.fields[0].type == Array(INT, contains_null=False)
    assert diff(strict, table("a ARRAY<INT>")).changes == (Relax(ColumnPath("a.element")),)


@pytest.mark.parametrize(
    ("columns", "clauses", "shadowable"),
    [
        ("a BIGINT, b INT", "", True),
        ("a BIGINT, b INT", "PARTITIONED BY (a)", False),
        ("a BIGINT, b INT", "CLUSTER BY (a)", False),
        ("a STRUCT<x: BIGINT, y: INT>, b INT", "", True),
        ("a STRUCT<x: BIGINT, y: INT>, b INT", "CLUSTER BY (a.y)", False),
        ("a BIGINT UNIQUE, b INT", "", False),
        ("a BIGINT, b BIGINT, FOREIGN KEY (a) REFERENCES flights (b)", "", False),
    ],
)
def test_a_shadow_column_cannot_stand_in_for_what_files_and_keys_hang_on(columns: str, clauses: str, shadowable: bool) -> None:
    old, new = table(columns, clauses), table(columns.replace("BIGINT", "INT"), clauses)
    change = next(change for change in diff(old, new).changes if isinstance(change, ChangeType))
    assert (change.shadowable, change.cost) == (shadowable, ONLINE if shadowable else REWRITE)


RENAMES: list[tuple[str, str, str, Mapping[str, str], list[object]]] = [
    ("a column", "a INT", "b INT", {"a": "b"}, [RenameColumn(ColumnPath("a"), "b")]),
    (
        "with its type and NOT NULL",
        "a INT NOT NULL",
        "b BIGINT",
        {"a": "b"},
        [
            Relax(ColumnPath("a")),
            ChangeType(ColumnPath("a"), INT, BIGINT, widening=True, shadowable=True),
            RenameColumn(ColumnPath("a"), "b"),
        ],
    ),
    (
        "a field in a renamed struct, which loses another",
        "s STRUCT<x: INT, y: INT>",
        "t STRUCT<z: INT>",
        {"s": "t", "s.x": "z"},
        [RenameColumn(ColumnPath("s.x"), "z"), RenameColumn(ColumnPath("s"), "t"), DropColumn(ColumnPath("t.y"))],
    ),
    (
        "an addition below a renamed struct has the old path",
        "s STRUCT<x: INT>",
        "t STRUCT<x: INT, y: INT>",
        {"s": "t"},
        [AddColumn(ColumnPath("s.y"), field("y INT")), RenameColumn(ColumnPath("s"), "t")],
    ),
    (
        "an order below a renamed struct has the new path",
        "s STRUCT<x: INT, y: INT>",
        "t STRUCT<y: INT, x: INT>",
        {"s": "t"},
        [RenameColumn(ColumnPath("s"), "t"), ReorderColumns(ColumnPath("t"), ("x", "y"), ("y", "x"))],
    ),
    (
        "a chain",
        "a INT, b INT",
        "b INT, c INT",
        {"a": "b", "b": "c"},
        [RenameColumn(ColumnPath("b"), "c"), RenameColumn(ColumnPath("a"), "b")],
    ),
    (
        "a swap",
        "a INT, b STRING",
        "b INT, a STRING",
        {"a": "b", "b": "a"},
        [
            RenameColumn(ColumnPath("a"), "schemamig_swap_a"),
            RenameColumn(ColumnPath("b"), "a"),
            RenameColumn(ColumnPath("schemamig_swap_a"), "b"),
        ],
    ),
    ("only the case", "a INT", "A INT", {"a": "A"}, [RenameColumn(ColumnPath("a"), "A")]),
    (
        "to the name of a dropped column",
        "a INT, b STRING",
        "b INT",
        {"a": "b"},
        [DropColumn(ColumnPath("b")), RenameColumn(ColumnPath("a"), "b")],
    ),
    (
        "while a new column takes the old name",
        "a INT",
        "b INT, a STRING",
        {"a": "b"},
        [RenameColumn(ColumnPath("a"), "b"), AddColumn(ColumnPath("a"), field("a STRING"))],
    ),
]


@pytest.mark.parametrize(("old", "new", "renames", "changes"), [r[1:] for r in RENAMES], ids=[r[0] for r in RENAMES])
def test_diff_rename(old: str, new: str, renames: Mapping[str, str], changes: list[object]) -> None:
    before, after = table(old), table(new)
    found = diff(before, after, {ColumnPath(path): name for path, name in renames.items()})
    assert list(found.changes) == changes
    assert apply(before, found.changes) == after


def test_without_the_declared_rename_it_is_a_drop_and_an_addition() -> None:
    found = diff(table("a INT"), table("b INT"))
    assert [change.op for change in found.changes] == ["add_column", "drop_column"]
    assert found.dropped == ("a",)


def test_dropped_columns_are_named_as_the_old_release_knew_them() -> None:
    old, new = table("s STRUCT<x: INT, y: INT>, a INT"), table("t STRUCT<x: INT>")
    found = diff(old, new, {ColumnPath("s"): "t"})
    assert found.dropped == ("a", "s.y")
    assert [change.path for change in found.changes if isinstance(change, DropColumn)] == ["t.y", "a"]


def test_diff_what_uses_a_renamed_column_follows_it() -> None:
    uses = "CONSTRAINT c CHECK ({0} > {1}), UNIQUE ({0}), FOREIGN KEY ({0}) REFERENCES flights ({0})"
    old = table("a INT, s STRUCT<x: INT>, " + uses.format("a", "s.x"), "CLUSTER BY (a, s.x)")
    new = table("b INT, t STRUCT<y: INT>, " + uses.format("b", "t.y"), "CLUSTER BY (b, t.y)")
    renames = {ColumnPath("a"): "b", ColumnPath("s"): "t", ColumnPath("s.x"): "y"}
    found = diff(old, new, renames)
    assert {change.op for change in found.changes} == {"rename_column"}
    assert apply(old, found.changes) == new


def test_a_constraint_on_a_column_that_makes_way_is_not_the_new_ones() -> None:
    old = table("a INT, b INT, c INT, CONSTRAINT k CHECK (b > 0), UNIQUE (b)", "CLUSTER BY (b)")
    new = table("b INT, c INT, CONSTRAINT k CHECK (b > 0), UNIQUE (b)", "CLUSTER BY (b)")
    found = diff(old, new, {ColumnPath("a"): "b"})
    assert [change.op for change in found.changes] == [
        *("drop_key", "drop_check", "add_check", "add_key", "change_clustering", "drop_column", "rename_column")
    ]
    assert apply(old, found.changes) == new


def test_a_constraint_added_with_a_rename_has_the_name_the_table_has_then() -> None:
    old, new = table("a INT"), table("b INT, CONSTRAINT c CHECK (b > 0)")
    found = diff(old, new, {ColumnPath("a"): "b"})
    assert found.changes == (AddCheck(Check("c", "a > 0")), RenameColumn(ColumnPath("a"), "b"))


@pytest.mark.parametrize(
    ("renames", "reason"),
    [
        ({"x": "b"}, "the old declaration has no such column"),
        ({"a": "x"}, "the new declaration has no such column"),
        ({"s.x": "b"}, "the new declaration has no such column"),
        ({"a": "b", "c": "b"}, "two columns are renamed to it"),
    ],
)
def test_a_rename_that_the_declarations_do_not_show(renames: Mapping[str, str], reason: str) -> None:
    old, new = table("a INT, c INT, s STRUCT<x: INT>"), table("b INT, s STRUCT<x: INT>")
    with pytest.raises(UnknownRename, match=reason):
        diff(old, new, {ColumnPath(path): name for path, name in renames.items()})


def test_a_constraint_on_a_name_that_means_another_column_until_cutover() -> None:
    old, new = table("a INT"), table("b INT, a STRING, CONSTRAINT c CHECK (a <> '')")
    with pytest.raises(NameTaken, match="the CHECK c needs it"):
        diff(old, new, {ColumnPath("a"): "b"})


def test_a_nested_rename_inside_a_lambda_is_refused() -> None:
    old = table("l ARRAY<STRUCT<x: INT>>, CONSTRAINT c CHECK (EXISTS(l, e -> e.x > 0))")
    new = table("l ARRAY<STRUCT<y: INT>>, CONSTRAINT c CHECK (EXISTS(l, e -> e.y > 0))")
    with pytest.raises(RenameInLambda):
        diff(old, new, {ColumnPath("l.element.x"): "y"})
