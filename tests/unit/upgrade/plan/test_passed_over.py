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
from tests.support.upgrades import deployed, releases

EXCHANGED = '{"price": "cost", "cost": "price"}'
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
    first = "s STRUCT<k: INT>" if "STRUCT" in one else "k INT"
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
