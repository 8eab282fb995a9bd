"""An upgrade died when columns had their new names, and before its commit: no fill, no copy and no question about rows reads them as each
other, and its retry goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.spark.session import MEANING_SETTINGS
from tests.support.lake import Crash, Lake
from tests.support.online import OnlineJobs
from tests.support.rows.jobs import RowJobs
from tests.support.rows.tables import insert, snapshot
from tests.support.upgrades import deployed, refused, releases, whole

A, SWAPPED = "CREATE TABLE a (id BIGINT, x STRING, y STRING);", "CREATE TABLE a (id BIGINT, y STRING, x STRING);"
K, KW = "CREATE TABLE k (id BIGINT);", "CREATE TABLE k (id BIGINT, w STRING);"
SWAP = 'evolution("a", rename={"x": "y", "y": "x"})'
FILL, LOOK = "SELECT id, x AS w FROM {a}", "SELECT {k}.id, {a}.x AS w FROM {k} LEFT JOIN {a} ON {a}.id = {k}.id"
UP = "SELECT id, y, x, x AS z FROM {a}"
FILLED = f'replacement("k", fill="{FILL}")'
JOBS = RowJobs({LOOK: lambda row: [], FILL: lambda row: [{"id": row["id"], "w": row["x"]}], UP: lambda row: [{**row, "z": row["x"]}]})


def killed(folder: Path, *found: tuple[str, str]) -> tuple[Lake, list[Path]]:
    """The upgrade to 1.1.0 dies once the names are exchanged."""
    folders = releases(folder, (A + K, ""), *found)
    lake = deployed(folder, folders[0], folders[1])
    insert(lake.path("a"), [{"id": 1, "x": "of x", "y": "of y"}])

    def dies(moment: str, what: str, key: str) -> None:
        if is_swapped(lake):
            raise Crash

    with pytest.raises(Crash):
        commands.upgrade(replace(lake.env, on_write=dies), folders[1], jobs=JOBS)
    assert is_swapped(lake)
    assert lake.version == "1.0.0"
    return lake, folders


def is_swapped(lake: Lake) -> bool:
    names = {field["name"]: field["metadata"].get("delta.columnMapping.physicalName") for field in snapshot(lake.path("a")).fields}
    return bool(names["x"] == "y")


#: The release after the one that died, which is upgraded to in one go; what it then shows of the row that "of y" is x of.
LEAPS = {
    "a fill": ((SWAPPED + KW, FILLED), "k", "w"),
    "a rewrite": ((SWAPPED.replace("x STRING", "x STRING, z STRING") + K, f'rewrite("a", up="{UP}")'), "a", "z"),
}


@pytest.mark.parametrize("name", LEAPS)
def test_another_upgrade_reads_nothing_meanwhile(tmp_path: Path, name: str) -> None:
    release, collection, column = LEAPS[name]
    lake, folders = killed(tmp_path, (SWAPPED + K, SWAP), release)
    with refused("names_under_way", "a"):
        commands.upgrade(lake.env, folders[2], jobs=JOBS)
    commands.rollback(lake.env, jobs=JOBS)
    commands.upgrade(lake.env, folders[2], jobs=JOBS)
    assert [row[column] for row in snapshot(lake.path(collection)).rows] == ["of y"]
    whole(lake)


def test_a_lookup_is_not_read_meanwhile(tmp_path: Path) -> None:
    lake, folders = killed(tmp_path, (SWAPPED + K, SWAP), (SWAPPED + KW, f'rewrite("k", up="{LOOK}", lookups=["a"])'))
    with refused("names_under_way", "a"):
        commands.upgrade(lake.env, folders[2], jobs=JOBS)


def test_a_preview_reads_a_lookup_by_its_columns_not_by_their_names(tmp_path: Path) -> None:
    """It showed y as x until the commit."""
    lake, _ = killed(tmp_path, (SWAPPED + KW, f'{SWAP}, rewrite("k", up="{LOOK}", lookups=["a"])'))
    conf = SimpleNamespace(get=lambda name, default: MEANING_SETTINGS[name])
    session: Any = SimpleNamespace(conf=conf, sql=None)
    query = lake.env.reader("k", "1.1.0", spark=session).pin().query
    assert f"SELECT `id`, `y` AS `x`, `x` AS `y` FROM delta.`{lake.path('a').as_uri()}`" in query, query


@pytest.mark.parametrize("rows_came", [False, True])
def test_its_own_retry_reads_nothing_under_names_of_after(tmp_path: Path, rows_came: bool) -> None:
    """Without new rows there is nothing to be filled again, and it goes on."""
    lake, folders = killed(tmp_path, (SWAPPED + KW, f"{SWAP}, {FILLED}"))
    wanted = {1: "of x"}
    if rows_came:
        insert(lake.path("a"), [{"id": 2, "y": "of x, too"}])
        wanted |= {2: "of x, too"}
        with refused("names_under_way", "a"):
            commands.upgrade(lake.env, folders[1], jobs=JOBS)
        commands.rollback(lake.env, jobs=JOBS)
    commands.upgrade(lake.env, folders[1], jobs=JOBS)
    assert {row["id"]: row["w"] for row in snapshot(lake.path("k")).rows} == wanted
    whole(lake)


N = "CREATE TABLE a (id BIGINT, x INT, y INT);"
RENAMED, NAMES = N.replace("x INT", "z INT"), 'evolution("a", rename={"x": "z"})'
EXCHANGED = N.replace("x INT, y INT", "y INT, x INT")
#: What 1.1.0 declares: names, and a rule that all rows keep under them, and none would with the names of before.
RULES = {
    "renamed, CHECK": (RENAMED.replace(");", ", CONSTRAINT c CHECK (z > 0));"), NAMES),
    "renamed, NOT NULL": (RENAMED.replace("z INT", "z INT NOT NULL"), NAMES),
    "exchanged, CHECK": (EXCHANGED.replace(");", ", CONSTRAINT c CHECK (y > 0));"), SWAP),
    "exchanged, NOT NULL": (EXCHANGED.replace("y INT", "y INT NOT NULL"), SWAP),
    "exchanged, UNIQUE": (EXCHANGED.replace(");", ", UNIQUE (y));"), SWAP),
}


@pytest.mark.parametrize("name", RULES)
def test_its_retry_asks_nothing_under_names_of_before(tmp_path: Path, name: str) -> None:
    """That was asked before they changed: the retry called rows wrong that are not, or asked for a column that is gone."""
    first, second = releases(tmp_path, (N, ""), RULES[name])
    lake, jobs = deployed(tmp_path, first, second), OnlineJobs()
    insert(lake.path("a"), [{"id": 1, "x": 1, "y": -1}, {"id": 2, "x": 2, "y": None}, {"id": 3, "x": 3, "y": -1}])

    def dies(moment: str, what: str, key: str) -> None:
        names = {field["name"]: field["metadata"].get("delta.columnMapping.physicalName") for field in snapshot(lake.path("a")).fields}
        if names.get("x") != "x" and any(names.values()):
            raise Crash

    with pytest.raises(Crash):
        commands.upgrade(replace(lake.env, on_write=dies), second, jobs=jobs)
    assert lake.version == "1.0.0"
    commands.upgrade(lake.env, second, jobs=jobs)
    assert lake.version == "1.1.0"
    assert sorted(row["z" if "renamed" in name else "y"] for row in snapshot(lake.path("a")).rows) == [1, 2, 3]
    whole(lake)
