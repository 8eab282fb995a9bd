"""What is committed when, and what a table that is not as declared makes of it."""

from __future__ import annotations

import pytest

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import (
    AddCheck,
    AddColumn,
    ChangeType,
    DropCheck,
    DropColumn,
    Relax,
    RenameColumn,
    ReorderColumns,
    SetComment,
    SetDefault,
    SetNotNull,
)
from airflow_provider_schemamig.core.schema.diff.phases import Phases, phases
from airflow_provider_schemamig.core.schema.errors import HiddenConflict, NameTaken
from airflow_provider_schemamig.core.schema.model import Check, Declaration, Primitive
from tests.unit.schema.tables import field, table

INT, BIGINT, DOUBLE = Primitive("int"), Primitive("bigint"), Primitive("double")
A, B, C = ColumnPath("a"), ColumnPath("b"), ColumnPath("c")


def test_everything_at_its_time() -> None:
    old = table("a INT, b INT NOT NULL, s STRUCT<x: INT>")
    new = table("s STRUCT<y: INT>, d INT, c BIGINT, e INT NOT NULL")
    found = phases(old, old, new, {A: "c"})
    assert found.expand == (
        ChangeType(A, INT, BIGINT, widening=True, shadowable=True),
        AddColumn(ColumnPath("s.y"), field("y INT")),
        AddColumn(ColumnPath("d"), field("d INT")),
        Relax(B),
    )
    assert found.online == (AddColumn(ColumnPath("e"), field("e INT NOT NULL")),)
    assert found.cutover == (
        RenameColumn(A, "c"),
        ReorderColumns(ColumnPath(""), ("c", "b", "s", "d", "e"), ("s", "d", "c", "e")),
    )
    assert found.contract == (DropColumn(ColumnPath("s.x")), DropColumn(B))


def test_every_not_null_inside_a_dropped_column_is_relaxed() -> None:
    old = table("a INT, s STRUCT<x: INT NOT NULL, t: STRUCT<y: INT NOT NULL>> NOT NULL")
    found = phases(old, old, table("a INT"))
    assert found.expand == tuple(Relax(ColumnPath(path)) for path in ("s", "s.x", "s.t.y"))


def test_a_drop_below_a_renamed_struct_has_the_new_path_only_at_contract() -> None:
    old, new = table("s STRUCT<x: INT, y: INT NOT NULL>"), table("t STRUCT<x: INT>")
    found = phases(old, old, new, {ColumnPath("s"): "t"})
    assert found.expand == (Relax(ColumnPath("s.y")),)
    assert found.contract == (DropColumn(ColumnPath("t.y")),)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("a INT, b INT", "b INT, a INT", id="order"),
        pytest.param("a INT", "a INT COMMENT 'x'", id="comment"),
    ],
)
def test_comments_and_order_alone_are_no_commit(old: str, new: str) -> None:
    assert phases(table(old), table(old), table(new)) == Phases()


def test_a_mere_drop_orders_nothing() -> None:
    old = table("a INT, b INT, c INT")
    assert phases(old, old, table("a INT, c INT")) == Phases(contract=(DropColumn(B),))


def test_a_drop_with_another_order_waits_with_the_order() -> None:
    old = table("a INT, b INT, c INT")
    assert phases(old, old, table("c INT, a INT")).cutover == ()


def test_comments_ride_on_the_expand_or_else_on_the_cutover() -> None:
    old = table("a INT, b INT")
    with_expand = phases(old, old, table("a INT COMMENT 'x', b BIGINT"))
    assert SetComment(A, None, "x") in with_expand.expand
    with_cutover = phases(old, old, table("a INT COMMENT 'x', c INT"), {B: "c"})
    assert with_cutover.expand == ()
    assert with_cutover.cutover == (SetComment(A, None, "x"), RenameColumn(B, "c"))


def test_comments_and_order_that_waited_ride_along() -> None:
    now, declared = table("a INT, b INT"), table("b INT COMMENT 'x', a INT")
    found = phases(now, declared, table("b INT COMMENT 'x', c INT"), {A: "c"})
    assert found.cutover == (
        SetComment(B, None, "x"),
        RenameColumn(A, "c"),
        ReorderColumns(ColumnPath(""), ("c", "b"), ("b", "c")),
    )


def test_a_comment_that_nobody_declared_stays() -> None:
    now, declared = table("a INT COMMENT 'of the table'", "COMMENT 'of the table'"), table("a INT")
    found = phases(now, declared, table("a INT, b INT"))
    assert found.expand == (AddColumn(B, field("b INT")),)


def test_the_order_after_an_addition_in_the_middle_is_set_at_cutover() -> None:
    old = table("a INT, c INT")
    found = phases(old, old, table("a INT, b INT, c INT"))
    assert found.cutover == (ReorderColumns(ColumnPath(""), ("a", "c", "b"), ("a", "b", "c")),)


def test_a_column_whose_name_a_rename_takes_steps_aside_until_contract() -> None:
    old, new = table("a INT, b STRING NOT NULL"), table("b INT")
    found = phases(old, old, new, {A: "b"})
    aside = "schemamig_retired_b"
    assert found.expand == (Relax(B),)
    assert found.cutover == (RenameColumn(B, aside), RenameColumn(A, "b"))
    assert found.contract == (DropColumn(ColumnPath(aside)),)


def test_an_addition_under_a_name_that_a_rename_frees_comes_at_cutover() -> None:
    old, new = table("a INT"), table("b INT, a STRING")
    found = phases(old, old, new, {A: "b"})
    assert found == Phases(cutover=(RenameColumn(A, "b"), AddColumn(A, field("a STRING"))))


def test_an_addition_under_a_taken_name_cannot_be_filled_before_cutover() -> None:
    old, new = table("a INT"), table("b INT, a STRING NOT NULL")
    with pytest.raises(NameTaken, match="older rows"):
        phases(old, old, new, {A: "b"})


# --- a table that has more than was declared -----------------------------------------------------------------------------------------


def test_a_hidden_column_that_nobody_wants_stays_where_it_is() -> None:
    now, old = table("a INT, h STRING, b INT"), table("a INT, b INT")
    found = phases(now, old, table("a INT, c INT, b INT"))
    assert found.expand == (AddColumn(C, field("c INT")),)
    assert found.contract == ()
    after = apply(apply(now, found.expand), found.cutover)
    assert [f.name for f in after.fields] == ["a", "c", "b", "h"]


def test_a_hidden_column_is_used_again() -> None:
    now, old = table("a INT, b STRUCT<x: INT>"), table("a INT")
    assert phases(now, old, table("a INT, b STRUCT<x: INT COMMENT 'y'>")) == Phases()


def test_a_hidden_column_gets_what_it_lacks() -> None:
    now, old = table("a INT, b INT NOT NULL DEFAULT 1"), table("a INT")
    assert phases(now, old, table("a INT, b INT")).expand == (Relax(B), SetDefault(B, "1", None))


def test_older_rows_of_a_hidden_column_still_need_a_value() -> None:
    now, old = table("a INT, b INT"), table("a INT")
    wanted = table("a INT, b INT DEFAULT 1")
    found = phases(now, old, wanted)
    assert found == Phases(online=(AddColumn(B, field("b INT DEFAULT 1")),))
    assert apply(now, found.online) == wanted


@pytest.mark.parametrize(
    ("now", "new", "renames"),
    [
        pytest.param("a INT, b STRING", "a INT, b INT", {}, id="another type"),
        pytest.param("a INT, B INT", "a INT, b INT", {}, id="another spelling"),
        pytest.param("a INT, s STRUCT<x: INT>", "a INT, s STRUCT<x: INT, y: INT>", {}, id="another struct"),
        pytest.param("a INT, b INT", "b INT", {A: "b"}, id="a rename to its name"),
    ],
)
def test_a_hidden_column_in_the_way(now: str, new: str, renames: dict[ColumnPath, str]) -> None:
    with pytest.raises(HiddenConflict) as caught:
        phases(table(now), table("a INT"), table(new), renames)
    assert (caught.value.code, caught.value.collection) == ("hidden_conflict", "flights")
    assert "schemamig accept" in caught.value.next_action


def test_a_type_that_stayed_wide_is_wide_enough() -> None:
    assert phases(table("a BIGINT"), table("a INT"), table("a BIGINT")) == Phases()
    assert phases(table("a BIGINT"), table("a TINYINT"), table("a INT")) == Phases()
    assert phases(table("a BIGINT, b INT"), table("a INT, b INT"), table("a INT, b BIGINT")).expand == (
        ChangeType(B, INT, BIGINT, widening=True, shadowable=True),
    )


def test_a_type_that_stayed_wide_goes_on_from_where_it_is() -> None:
    wide = Primitive("decimal(20,0)")
    found = phases(table("a BIGINT"), table("a INT"), table("a DECIMAL(20,0)"))
    assert found.expand == (ChangeType(A, BIGINT, wide, widening=True, shadowable=True),)


def test_a_type_that_went_another_way_is_swapped_as_any_other() -> None:
    found = phases(table("a DOUBLE"), table("a INT"), table("a BIGINT"))
    assert found == Phases(online=(ChangeType(A, Primitive("double"), BIGINT, widening=False, shadowable=True),))


def test_not_null_that_stayed_dropped() -> None:
    assert phases(table("a INT"), table("a INT NOT NULL"), table("a INT")) == Phases()
    assert phases(table("a INT, b INT"), table("a INT NOT NULL, b INT"), table("a INT NOT NULL, b INT NOT NULL")).online == (SetNotNull(B),)


def test_a_rename_that_is_in_place() -> None:
    now, old, new = table("b INT, c INT"), table("a INT, c INT"), table("b BIGINT, c INT")
    assert phases(now, old, new, {A: "b"}) == Phases(expand=(ChangeType(B, INT, BIGINT, widening=True, shadowable=True),))


def test_a_check_that_was_left_behind() -> None:
    now, old = table("a INT, CONSTRAINT c CHECK (a > 0)"), table("a INT")
    assert phases(now, old, now) == Phases()
    other = table("a INT, CONSTRAINT c CHECK (a > 1)")
    found = phases(now, old, other)
    assert found.expand == (DropCheck(Check("c", "a > 0")),)
    assert found.online == (AddCheck(Check("c", "a > 1")),)


def test_a_drop_that_is_done_already() -> None:
    assert phases(table("a INT"), table("a INT, b INT"), table("a INT")) == Phases()


def hidden_aside(columns: str, **names: str) -> Declaration:
    """Return a table with some of its columns under names of ours, which no SQL declares."""
    return apply(table(columns), [RenameColumn(ColumnPath(column), name) for column, name in names.items()])


def test_a_column_that_made_way_gets_its_name_again() -> None:
    old, new = table("a INT"), table("b INT, a INT")
    now = hidden_aside("a INT, c INT, d DOUBLE, e INT", c="schemamig_retired_a", d="schemamig_retired2_a", e="schemamig_retired_b")
    found = phases(now, old, new, {A: "b"})
    assert found == Phases(
        cutover=(
            RenameColumn(A, "b"),
            RenameColumn(ColumnPath("schemamig_retired_a"), "a"),
        )
    )
    assert phases(now, old, new, {A: "b"}, frozenset({ColumnPath("schemamig_retired_a"), ColumnPath("schemamig_retired2_a")})).cutover == (
        RenameColumn(A, "b"),
        AddColumn(A, field("a INT")),
    )


@pytest.mark.parametrize(("wanted", "named"), [("BIGINT", "a BIGINT"), ("INT DEFAULT 1", "a INT with a value in every row")])
def test_a_column_that_made_way_is_not_left_behind_for_one_that_is_not_the_same(wanted: str, named: str) -> None:
    with pytest.raises(HiddenConflict) as caught:
        phases(hidden_aside("b INT, c INT", c="schemamig_retired_a"), table("b INT"), table(f"b INT, a {wanted}"))
    assert (caught.value.path, caught.value.wanted) == ("schemamig_retired_a", named)
