"""What came outside of a release, and a leap over the release that declares it to one that does more about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.upgrade.alter import alter
from airflow_provider_schemamig.core.upgrade.drift.accept import accept
from tests.support.bytes import unwritten
from tests.support.lake import Lake, no_spark, rows
from tests.support.rows.tables import insert
from tests.support.tables import foreign
from tests.support.upgrades import deployed, refused, releases, whole

A, AE = "CREATE TABLE a (id BIGINT, x STRING);", "CREATE TABLE a (id BIGINT, x STRING, e STRING);"
K, KW, N = "CREATE TABLE k (id BIGINT);", "CREATE TABLE k (id BIGINT, w STRING);", "CREATE TABLE n (id BIGINT, v STRING);"
S = "CREATE TABLE a (id BIGINT, s STRUCT<p: STRING>);"
ADD, NEW, INNER = "ALTER TABLE a ADD COLUMN e STRING", "CREATE TABLE n (id BIGINT, v STRING)", "ALTER TABLE a ADD COLUMN s.e STRING"
HAS_E, HAS_N, HAS_X = (AE + K, 'evolution("a")'), (A + K + N, ""), (A + K, "")
HAS_Y = ("CREATE TABLE a (id BIGINT, y STRING);" + K, 'evolution("a", rename={"x": "y"})')
INSIDE = S.replace("STRING>", "STRING, e: STRING>")

#: what is done at 1.0.0, the collection then, 1.1.0 that declares it, and what comes after that
TOUCHED: dict[str, tuple[str, str, tuple[str, str], list[tuple[str, str]]]] = {
    "renamed": (ADD, "a", HAS_E, [(AE.replace("e STRING", "f STRING") + K, 'evolution("a", rename={"e": "f"})')]),
    "renamed, and a new one": (ADD, "a", HAS_E, [(AE.replace(")", ", f STRING)") + K, 'evolution("a", rename={"e": "f"})')]),
    "dropped, and a new one": (ADD, "a", HAS_E, [(A + K, 'evolution("a", drop=["e"])'), HAS_E]),
    "dropped": (ADD, "a", HAS_E, [(A + K, 'evolution("a", drop=["e"])')]),
    "exchanged": (ADD, "a", HAS_E, [(AE + K, 'evolution("a", rename={"e": "x", "x": "e"})')]),
    "its new name is moved on": (
        "ALTER TABLE a RENAME COLUMN x TO y",
        "a",
        HAS_Y,
        [(HAS_Y[0].replace("y STRING", "z STRING, y STRING"), 'evolution("a", rename={"y": "z"})')],
    ),
    "a field, and a new one": (
        INNER,
        "a",
        (INSIDE + K, 'evolution("a")'),
        [(INSIDE.replace("e:", "f: STRING, e:") + K, 'evolution("a", rename={"s.e": "f"})')],
    ),
    "rewritten": (
        ADD,
        "a",
        HAS_E,
        [
            (
                AE.replace("x STRING", "x INT") + K,
                'rewrite("a", up="SELECT id, 7 AS x, e FROM {a}", down="SELECT id, STRING(x) AS x, e FROM {a}")',
            )
        ],
    ),
    "filled from itself": (
        ADD,
        "a",
        HAS_E,
        [(AE.replace("x STRING", "x INT") + K, 'replacement("a", fill="SELECT id, 7 AS x, e FROM {a}")')],
    ),
    "read by a fill": (ADD, "a", HAS_E, [(AE + KW, 'replacement("k", fill="SELECT id, e AS w FROM {a}")')]),
    "removed, and a new one": (NEW, "n", HAS_N, [(A + K, 'removal("n")'), HAS_N]),
    "replaced and back": (
        NEW,
        "n",
        HAS_N,
        [(A + K + N.replace("v STRING", "v INT"), 'replacement("n")'), (A + K + N, 'replacement("n")')],
    ),
    "moved on": (NEW, "n", HAS_N, [(A + K + N.replace("TABLE n", "TABLE m"), 'evolution("m", renamed_from="n")')]),
    "its column renamed, and a new one": (
        NEW,
        "n",
        HAS_N,
        [(A + K + N.replace("v STRING", "w STRING, v STRING"), 'evolution("n", rename={"v": "w"})')],
    ),
    "its table's new name is moved on": (
        "ALTER TABLE a RENAME TO b",
        "b",
        (A.replace("TABLE a", "TABLE b") + K, 'evolution("b", renamed_from="a")'),
        [(A.replace("TABLE a", "TABLE c") + K, 'evolution("c", renamed_from="b")')],
    ),
}


def lake_of(folder: Path, declares: tuple[str, str], after: list[tuple[str, str]], statement: str) -> tuple[Lake, list[Path]]:
    first = (S if statement == INNER else A) + K
    folders = releases(folder, (first, ""), declares, *after)
    lake = deployed(folder, folders[0], folders[-1])
    alter(lake.env, statement, jobs=no_spark)
    return lake, folders


@pytest.mark.parametrize("name", TOUCHED)
def test_alter_leaps_touched_again(tmp_path: Path, name: str) -> None:
    statement, collection, declares, after = TOUCHED[name]
    lake, folders = lake_of(tmp_path, declares, after, statement)
    with unwritten(lake.env), refused("stop_in_between", collection) as found:
        commands.plan(lake.env, lake.second)
    assert found[0].next_action == f"Upgrade to 1.1.0 first (with that release's folder), then to 1.{len(after) + 1}.0."
    lake.upgrade(folders[1])
    assert lake.state.unreleased_of(next(iter(lake.state.objects))) is None
    whole(lake)


def test_taken_over_from_somebody_else(tmp_path: Path) -> None:
    _, _, declares, after = TOUCHED["renamed, and a new one"]
    folders = releases(tmp_path, (A + K, ""), declares, *after)
    lake = deployed(tmp_path, folders[0], folders[-1])
    foreign.add_column(lake.path("a"), "e")
    accept(lake.env, lake.second)
    insert(lake.path("a"), [{"id": 1, "x": "one", "e": "precious"}])
    with unwritten(lake.env), refused("stop_in_between", "a"):
        lake.upgrade(lake.second)
    for folder in folders[1:]:
        lake.upgrade(folder)
    assert rows(lake.path("a")) == [{"id": 1, "x": "one", "e": None, "f": "precious"}]


#: statement, 1.1.0 that declares what it made, 1.2.0 that leaves that alone; a's rows then
LEFT_ALONE: dict[str, tuple[str, tuple[str, str], tuple[str, str], dict[str, object] | None]] = {
    "another column": (ADD, HAS_E, (AE.replace("x STRING", "z STRING") + K, 'evolution("a", rename={"x": "z"})'), {"z": "x", "e": None}),
    "another collection": (ADD, HAS_E, (AE + KW, 'replacement("k")'), {"x": "x", "e": None}),
    "declared later": (ADD, (A + KW, 'evolution("k")'), (AE + KW, 'evolution("a")'), {"x": "x", "e": None}),
    "a column more": (NEW, HAS_N, (A + K + N.replace(")", ", u INT)"), 'evolution("n")'), {"x": "x"}),
    "its rows go": (ADD, HAS_E, (AE.replace("x STRING", "x INT") + K, 'replacement("a")'), None),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_alter_leaps_left_alone(tmp_path: Path, name: str) -> None:
    statement, declares, after, row = LEFT_ALONE[name]
    lake, _ = lake_of(tmp_path, declares, [after], statement)
    columns: dict[str, object] = {"id": 1, "x": "x"} | ({"e": None} if statement == ADD else {})
    insert(lake.path("a"), [columns])
    lake.upgrade(lake.second)
    assert rows(lake.path("a")) == ([] if row is None else [{"id": 1, **row}])
    whole(lake)


@pytest.mark.parametrize("inner", [False, True], ids=["column", "field"])
def test_a_rename_that_a_release_has_as_a_drop_and_an_addition_is_refused(tmp_path: Path, inner: bool) -> None:
    """Here all would be in place; every other environment would lose the values."""
    old, new = ("s STRUCT<x: INT, y: INT>", "s STRUCT<z: INT, y: INT>") if inner else ("x INT, y INT", "z INT, y INT")
    path = "s.x" if inner else "x"
    text = "CREATE TABLE a (id BIGINT, {});"
    wrong = releases(tmp_path, (text.format(old), ""), (text.format(new), f'evolution("a", drop=["{path}"])'))
    right = releases(tmp_path / "right", (text.format(old), ""), (text.format(new), f'evolution("a", rename={{"{path}": "z"}})'))
    lake = deployed(tmp_path, *wrong)
    alter(lake.env, f"ALTER TABLE a RENAME COLUMN {path} TO z", jobs=no_spark)
    with unwritten(lake.env), refused("ahead_not_in_release", "a") as found:
        lake.upgrade(wrong[1])
    assert f"the rename of {path} to z" in found[0].message
    lake.upgrade(right[1])
    assert lake.version == "1.1.0"
