"""From 1.0 over 1.1 to 1.2 at once, and back: what stays hidden on the table is 1.2's, and 1.1 must not take it by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.schema.errors import HiddenConflict
from airflow_provider_schemamig.exceptions import Refused, SchemamigError
from tests.support.lake import Lake, no_spark
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.support.upgrades import deployed, refused, releases

#: Columns of 1.1 and of 1.2, the renames between them, a row of 1.2; what is refused at 1.1.
TAKEN: dict[str, tuple[str, str, str, dict[str, Any], str]] = {
    "names exchanged": (
        "price INT, cost INT",
        "price INT, cost INT",
        '{"price": "cost", "cost": "price"}',
        {"price": 100, "cost": 7},
        "cost",
    ),
    "a name given to a new one": ("e INT", "a INT, e INT", '{"e": "a"}', {"a": 35, "e": 7}, "e"),
    "inside a struct that is renamed": (
        "s STRUCT<k: INT, price: INT, cost: INT>",
        "r STRUCT<k: INT, price: INT, cost: INT>",
        '{"s": "r", "s.price": "cost", "s.cost": "price"}',
        {"r": {"k": 1, "price": 100, "cost": 7}},
        "s.price",
    ),
    "inside a struct of an array": (
        "s ARRAY<STRUCT<k: INT, price: INT, cost: INT>>",
        "r ARRAY<STRUCT<k: INT, price: INT, cost: INT>>",
        '{"s": "r", "s.element.price": "cost", "s.element.cost": "price"}',
        {"r": [{"k": 1, "price": 100, "cost": 7}]},
        "s.element.price",
    ),
    "inside a struct": (
        "s STRUCT<k: INT, e: INT>",
        "s STRUCT<k: INT, a: INT, e: INT>",
        '{"s.e": "a"}',
        {"s": {"k": 1, "a": 35, "e": 7}},
        "s.e",
    ),
}
SAME: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "no renames": ("e INT", "e INT, a INT", "{}", {"e": 35, "a": 7}),
    "another's rename": ("e INT, f INT", "e INT, g INT", '{"f": "g"}', {"e": 35, "g": 7}),
}


def leapt_and_back(folder: Path, one: str, two: str, renames: str, row: dict[str, Any]) -> tuple[Lake, Path, Path]:
    first = one.partition("k: INT")[0] + "k: INT" + ">" * one.count("<") if "STRUCT" in one else "k INT"
    schemas = [f"CREATE TABLE t (id BIGINT, {columns});" for columns in (first, one if "STRUCT" in one else f"k INT, {one}", two)]
    schemas[2] = schemas[2] if "STRUCT" in two else f"CREATE TABLE t (id BIGINT, k INT, {two});"
    found = releases(folder, (schemas[0], ""), (schemas[1], 'evolution("t")'), (schemas[2], f'evolution("t", rename={renames})'))
    lake = deployed(folder, found[0], found[1])
    lake.upgrade(found[2])
    tables.insert(lake.path("t"), [{"id": 1, **({} if "STRUCT" in two else {"k": 1}), **row}])
    commands.rollback(lake.env, jobs=no_spark)
    return lake, found[1], found[2]


@pytest.mark.parametrize(("one", "two", "renames", "row", "path"), TAKEN.values(), ids=TAKEN)
def test_a_release_that_was_leapt_over_takes_no_hidden_column_that_is_anothers_there(
    tmp_path: Path, one: str, two: str, renames: str, row: dict[str, Any], path: str
) -> None:
    lake, first, second = leapt_and_back(tmp_path, one, two, renames, row)
    with pytest.raises(SchemamigError) as caught:
        lake.upgrade(first)
    found = caught.value.refusals if isinstance(caught.value, Refused) else (caught.value,)
    assert {item.code for item in found} == {"hidden_conflict"}
    assert path in [item.path for item in found if isinstance(item, HiddenConflict)]
    assert all("Upgrade to 1.2.0 at once" in item.next_action for item in found)
    lake.upgrade(second)  # as it says
    (back,) = lake.env.reader("t", release="1.2.0").arrow().to_pylist()
    assert {**back, **row} == back


@pytest.mark.parametrize(("one", "two", "renames", "row"), SAME.values(), ids=SAME)
def test_a_release_that_was_leapt_over_takes_its_own_hidden_columns(
    tmp_path: Path, one: str, two: str, renames: str, row: dict[str, Any]
) -> None:
    lake, first, _ = leapt_and_back(tmp_path, one, two, renames, row)
    lake.upgrade(first)
    (back,) = lake.env.reader("t", release="1.1.0").arrow().to_pylist()
    assert back["e"] == 35


FIRST, SECOND = "id BIGINT, k INT", "id BIGINT, k INT, price INT, cost INT"
EXCHANGE = 'rename={"price": "cost", "cost": "price"}'
#: The mended 1.2, and its step; whether it is reached, or what of its own is refused.
MENDED: dict[str, tuple[str, str, bool]] = {
    "a column more": (f"{SECOND}, z INT", f'evolution("t", {EXCHANGE})', True),
    "a comment": (SECOND.replace("k INT", "k INT COMMENT 'c'"), f'evolution("t", {EXCHANGE})', True),
    "nothing exchanged": (f"{SECOND}, z INT", 'evolution("t")', True),
    "an older column dropped": ("id BIGINT, price INT, cost INT", f'evolution("t", {EXCHANGE}, drop=["k"])', True),
    "a new column left out": ("id BIGINT, k INT, price INT", 'evolution("t", rename={"cost": "price"}, drop=["price"])', True),
    "another type": (SECOND.replace("price INT", "price BIGINT"), f'evolution("t", {EXCHANGE})', False),
}


@pytest.mark.parametrize(("columns", "step", "is_reached"), MENDED.values(), ids=MENDED)
def test_a_release_that_was_mended_after_its_rolled_back_leap_takes_its_columns_back(
    tmp_path: Path, columns: str, step: str, is_reached: bool
) -> None:
    tables_of = [f"CREATE TABLE t ({text});" for text in (FIRST, SECOND, SECOND, columns)]
    before = [(tables_of[0], ""), (tables_of[1], 'evolution("t")')]
    found = releases(tmp_path, *before, (tables_of[2], f'evolution("t", {EXCHANGE})'))
    lake = deployed(tmp_path, found[0], found[1])
    lake.upgrade(found[2])
    tables.insert(lake.path("t"), [{"id": 1, "k": 1, "price": 100, "cost": 7}])
    commands.rollback(lake.env, jobs=no_spark)
    mended = releases(tmp_path / "mended", *before, (tables_of[3], step))[2]
    if is_reached:
        lake.upgrade(mended)
        (row,) = lake.env.reader("t", release="1.2.0").arrow().to_pylist()
        assert row["price"] == 100 and row.get("cost", 7) == 7
    else:
        with refused("hidden_conflict", "t") as told:
            lake.upgrade(mended)
        assert "Declare another name, or what is there" in told[0].next_action


def test_a_release_does_not_give_the_name_of_what_it_had_to_a_column_that_came_since(tmp_path: Path) -> None:
    one, two = "CREATE TABLE t (id BIGINT, o INT);", "CREATE TABLE t (id BIGINT, o INT, n INT);"
    exchange = 'evolution("t", rename={"o": "n", "n": "o"})'
    found = releases(tmp_path, (one, ""), (two, 'evolution("t")'), (two, exchange))
    lake = deployed(tmp_path, found[0], found[1])
    lake.upgrade(found[2])
    tables.insert(lake.path("t"), [{"id": 1, "n": 10, "o": 20}])
    commands.rollback(lake.env, jobs=no_spark)
    try:
        lake.upgrade(found[1])
        lake.upgrade(found[2])
    except SchemamigError:
        return
    assert lake.env.reader("t", release="1.2.0").arrow().to_pylist() == [{"id": 1, "n": 10, "o": 20}]


@pytest.mark.parametrize(
    ("one", "two", "renames"), [("e INT", "a INT, e INT", '{"e": "a"}'), (*[SECOND[len("id BIGINT, k INT, ") :]] * 2, "")]
)
def test_a_leap_takes_no_hidden_column_that_has_the_name_of_the_release_before(tmp_path: Path, one: str, two: str, renames: str) -> None:
    """Step by step to 1.2 and back, so what is hidden has 1.1's names."""
    change = f"rename={renames}" if renames else EXCHANGE
    texts = [f"CREATE TABLE t (id BIGINT, k INT{columns});" for columns in ("", f", {one}", f", {two}")]
    found = releases(tmp_path, (texts[0], ""), (texts[1], 'evolution("t")'), (texts[2], f'evolution("t", {change})'))
    lake = deployed(tmp_path, found[0], found[1])
    lake.upgrade(found[1])
    lake.upgrade(found[2])
    commands.rollback(lake.env, jobs=no_spark)
    new = [name.split()[0] for name in one.split(", ")]
    row = {"id": 1, "k": 1, **{name: number for number, name in enumerate(new, start=35)}}
    tables.insert(lake.path("t"), [{**dict.fromkeys(f["name"] for f in foreign.live_schema(lake.path("t"))), **row}])
    commands.rollback(lake.env, jobs=no_spark)
    with refused("stop_in_between", "t") as told:
        lake.upgrade(found[2])
    assert "Upgrade to 1.1.0 first" in told[0].next_action
    lake.upgrade(found[1])
    assert lake.env.reader("t").arrow().to_pylist() == [row]
    lake.upgrade(found[2])
    (back,) = lake.env.reader("t").arrow().to_pylist()
    assert back["a" if renames else "cost"] == 35
