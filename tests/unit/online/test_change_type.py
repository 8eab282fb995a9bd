"""Another type, as data: what fills the shadow, and what the swap does to the table, for columns of every shape."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.online.errors import NotOnline
from airflow_provider_schemamig.core.online.nested_types import comparable, same_value
from airflow_provider_schemamig.core.online.operation import Enter, Reorg, schedule
from airflow_provider_schemamig.core.online.operations import chains_of
from airflow_provider_schemamig.core.schema import changes as c
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.model import Array, Check, Declaration, Field, Map, Primitive, Struct

INT, TEXT = Primitive("int"), Primitive("string")
INNER = Struct((Field("b", TEXT, nullable=False, comment="it"), Field("l", Array(TEXT)), Field("k", INT)))
CHECKS = (Check("far", "a.k < 9 OR s > 1"), Check("pair", "s < t"), Check("third", "id > 0"))
TABLE = Declaration(
    CollectionName("t"), (Field("id", INT), Field("s", TEXT), Field("t", TEXT), Field("a", INNER, nullable=False)), checks=CHECKS
)


def change(path: str, old: Primitive = TEXT, new: Primitive = INT) -> c.ChangeType:
    return c.ChangeType(ColumnPath(path), old, new, widening=False, shadowable=True)


def fills(*changes: c.Change, table: Declaration = TABLE) -> dict[str, str]:
    steps = [step for chain in chains_of(changes, table) for operation in chain for step in operation.steps]
    return {step.column: step.expression for step in steps if isinstance(step, Reorg)}


def end(*changes: c.Change, table: Declaration = TABLE) -> Declaration:
    for turn in schedule(chains_of(changes, table)):
        table = apply(table, turn.changes)
    return table


def test_a_fill_asks_the_checks_that_use_its_column_over_all_that_change() -> None:
    found = fills(change("s"), change("t"))
    assert found.keys() == {"schemamig_new_s", "schemamig_new_t"}
    assert "((CAST(`s` AS INT)) < (CAST(`t` AS INT))) IS NOT TRUE" in found["schemamig_new_s"]
    assert "(a.k < 9 OR (CAST(`s` AS INT)) > 1) IS NOT TRUE" in found["schemamig_new_s"]
    assert "far" not in found["schemamig_new_t"] and "third" not in found["schemamig_new_s"]
    assert "< t) IS NOT TRUE" in fills(change("s"))["schemamig_new_s"]


def test_changes_inside_one_column_are_one_shadow() -> None:
    found = fills(change("a.b"), change("a.l.element"), change("s"))
    assert found.keys() == {"schemamig_new_a", "schemamig_new_s"}
    by_name = "IF(`a` IS NULL, NULL, named_struct('b', `a`.`b`, 'l', `a`.`l`, 'k', `a`.`k`))"
    assert found["schemamig_new_a"].endswith(f"ELSE CAST({by_name} AS STRUCT<`b`: INT, `l`: ARRAY<INT>, `k`: INT>) END")


def test_the_swap_leaves_everything_else_as_it_was() -> None:
    changes = (change("a.b"), change("a.l.element"), change("s"))
    after = end(*changes)
    assert after.checks == TABLE.checks
    assert after.fields[:4] == apply(TABLE, changes).fields
    aside = {field.name: field for field in after.fields[4:]}
    assert aside.keys() == {"schemamig_old_a", "schemamig_old_s"}
    inner = aside["schemamig_old_a"].type
    assert isinstance(inner, Struct) and all(field.nullable for field in (*aside.values(), *inner.fields))


def test_until_the_swap_the_shadow_asks_nothing_of_a_writer() -> None:
    (chain,) = chains_of([change("a.b")], TABLE)
    (first,) = (step for step in chain[0].steps if isinstance(step, Enter))
    shadow = apply(TABLE, first.changes).field("schemamig_new_a")
    assert shadow is not None and isinstance(shadow.type, Struct)
    assert shadow.nullable and all(field.nullable for field in shadow.type.fields)


@pytest.mark.parametrize(("names", "again"), [("blk", True), ("lbk", False)])
def test_a_shadow_of_an_earlier_attempt_is_used_again_if_it_is_in_the_same_order(names: str, again: bool) -> None:
    """A CAST of a struct goes by position."""
    made = {"b": Field("b", INT), "l": Field("l", Array(TEXT)), "k": Field("k", INT)}
    hidden = Field("schemamig_new_a", Struct(tuple(made[name] for name in names)))
    table = replace(TABLE, fields=(*TABLE.fields, hidden))
    assert fills(change("a.b"), table=table).keys() == {"schemamig_new_a" if again else "schemamig_new2_a"}
    after = end(change("a.b"), table=table).field("a")
    assert after == apply(TABLE, [change("a.b")]).field("a")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (Array(TEXT), TEXT, "made of several"),
        (TEXT, Array(TEXT), "made of several"),
        (Array(TEXT, contains_null=False), Array(INT, contains_null=False), "NOT NULL inside arrays"),
        (Map(TEXT, Struct((Field("x", TEXT, nullable=False),))), Map(TEXT, Struct((Field("x", INT, nullable=False),))), "NOT NULL inside"),
        (Map(TEXT, INT), Map(INT, INT), "made of several"),
        (Struct((Field("x", TEXT),)), Struct((Field("x", Primitive("varchar(3)")),)), "length of a VARCHAR"),
    ],
)
def test_change_type_what_no_cast_does(old: Array | Map | Struct | Primitive, new: Array | Map | Struct | Primitive, reason: str) -> None:
    table = Declaration(CollectionName("t"), (Field("z", old),))
    with pytest.raises(NotOnline, match=reason):
        chains_of([c.ChangeType(ColumnPath("z"), old, new, widening=False, shadowable=True)], table)


def test_maps_are_compared_by_their_entries() -> None:
    """Spark has no equality of maps."""
    inner = Map(TEXT, INT)
    assert comparable("v", Array(Struct((Field("x", INT),)))) == "v"
    assert comparable("v", Array(inner)) == "transform(v, item -> map_entries(item))"
    assert comparable("v", Struct((Field("x y", inner), Field("z", INT)))) == (
        "IF(v IS NULL, NULL, struct(map_entries(v.`x y`) AS `x y`, v.`z` AS `z`))"
    )
    assert comparable("v", Map(TEXT, inner)) == (
        "transform(map_entries(v), entry -> struct(entry.key AS key, map_entries(entry.value) AS value))"
    )


def test_minus_zero_is_another_value_than_zero() -> None:
    """To ``=`` it is none, whatever it is nested in."""
    number = "struct({0} AS number, IF({0} = 0, power({0}, -1) < 0, false) AS minus_zero)"
    double = Primitive("double")
    assert comparable("v", double) == "v"
    assert comparable("v", Array(double)) == f"transform(v, item -> {number.format('item')})"
    assert comparable("v", Struct((Field("x", Primitive("float")),))) == f"IF(v IS NULL, NULL, struct({number.format('v.`x`')} AS `x`))"
    assert same_value("a", "b", INT) == "a = b"
    minus_zero = [f"IF({v} = 0, power({v}, -1) < 0, false)" for v in "ab"]
    assert same_value("a", "b", double) == f"(a = b AND {' = '.join(minus_zero)})"
