"""A column that a rollback has hidden comes up with its values in the release that has it again; a leap over that release to one that does
more about the column would lose them, or show them in another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.bytes import unwritten
from tests.support.lake import Lake, no_spark
from tests.support.rows.jobs import RowJobs
from tests.support.rows.tables import insert, snapshot
from tests.support.upgrades import deployed, refused, releases, whole

A, AC = "CREATE TABLE a (id BIGINT, x STRING);", "CREATE TABLE a (id BIGINT, x STRING, c STRING);"
K, KW = "CREATE TABLE k (id BIGINT);", "CREATE TABLE k (id BIGINT, w STRING);"
HAS_C = (AC + K, 'evolution("a")')
UP, DOWN, FILL = "SELECT id, x, c, c AS e FROM {a}", "SELECT id, x, c FROM {a}", "SELECT id, c AS w FROM {a}"
REWRITTEN = (AC.replace("c STRING", "c STRING, e STRING") + K, f'rewrite("a", up="{UP}", down="{DOWN}")')
S, SC = "CREATE TABLE a (id BIGINT, s STRUCT<p: STRING>);", "CREATE TABLE a (id BIGINT, s STRUCT<p: STRING, c: STRING>);"
JOBS = RowJobs({UP: lambda row: [{**row, "e": row["c"]}], FILL: lambda row: [{"id": row["id"], "w": row["c"]}]})

Steps = list[tuple[str, str]]
#: What 1.1.0 declares that was rolled back, and the releases after it. a has {"id": 1, "x": "x", "c": "of 1.1.0"}.
TOUCHED: dict[str, Steps] = {
    "rewritten": [REWRITTEN],
    "read by a fill": [(AC + KW, f'replacement("k", fill="{FILL}")')],
    "renamed": [(AC.replace("c STRING", "d STRING") + K, 'evolution("a", rename={"c": "d"})')],
    "renamed, and a new one": [(AC.replace("c STRING", "d STRING, c STRING") + K, 'evolution("a", rename={"c": "d"})')],
    "its name goes to another": [(AC.replace("x STRING, c", "c STRING, d") + K, 'evolution("a", rename={"c": "d", "x": "c"})')],
    "dropped": [(A + K, 'evolution("a", drop=["c"])')],
    "dropped, and a new one": [(A + K, 'evolution("a", drop=["c"])'), HAS_C],
    "later": [(AC + KW, 'evolution("k")'), (REWRITTEN[0].replace(K, KW), REWRITTEN[1])],
}


def hidden(folder: Path, first: str, has: tuple[str, str], after: Steps, row: dict[str, Any]) -> tuple[Lake, list[Path]]:
    folders = releases(folder, (first + K, ""), has, *after)
    lake = deployed(folder, folders[0], folders[-1])
    lake.upgrade(folders[1])
    insert(lake.path("a"), [row])
    commands.rollback(lake.env, jobs=no_spark)
    return lake, folders


def upgrade(lake: Lake, folder: Path) -> None:
    commands.upgrade(lake.env, folder, jobs=JOBS, end_hold=True)


@pytest.mark.parametrize("name", TOUCHED)
def test_a_leap_is_refused_with_the_release_to_stop_at(tmp_path: Path, name: str) -> None:
    lake, folders = hidden(tmp_path, A, HAS_C, TOUCHED[name], {"id": 1, "x": "x", "c": "of 1.1.0"})
    stop = "1.2.0" if name == "later" else "1.1.0"
    with unwritten(lake.env), refused("stop_in_between", "a") as found:
        commands.plan(lake.env, lake.second)
    assert found[0].next_action == f"Upgrade to {stop} first (with that release's folder), then to 1.{len(folders) - 1}.0."
    for folder in folders[1:]:
        upgrade(lake, folder)
    if name in ("rewritten", "later"):
        assert snapshot(lake.path("a")).rows == [{"id": 1, "x": "x", "c": "of 1.1.0", "e": "of 1.1.0"}]
    whole(lake)


def test_a_field_is_followed_through_the_renames_of_what_it_is_in(tmp_path: Path) -> None:
    renamed = (S.replace("s STRUCT", "t STRUCT") + K, 'evolution("a", rename={"s": "t"})')
    again = (SC.replace("s STRUCT", "t STRUCT") + K, 'evolution("a")')
    other = (again[0].replace("c: STRING", "d: STRING"), 'evolution("a", rename={"t.c": "d"})')
    made = releases(tmp_path / "other", (S + K, ""), renamed, again, other)
    lake, _ = hidden(tmp_path, S, (SC + K, 'evolution("a")'), [], {"id": 1, "s": {"p": "x", "c": "of 1.1.0"}})
    with refused("stop_in_between", "a") as found:
        commands.plan(lake.env, made[-1])
    assert "Upgrade to 1.2.0 first" in str(found[0].next_action)
    for folder in made[2:]:
        upgrade(lake, folder)
    assert snapshot(lake.path("a")).rows == [{"id": 1, "t": {"p": "x", "d": "of 1.1.0"}}]


@pytest.mark.parametrize("touched", [True, False])
def test_a_column_that_made_way_is_followed_by_its_own_name(tmp_path: Path, touched: bool) -> None:
    has = ("CREATE TABLE a (id BIGINT, y STRING, x STRING);" + K, 'evolution("a", rename={"x": "y"})')
    renamed = (has[0].replace("x STRING", "z STRING"), 'evolution("a", rename={"x": "z"})')
    lake, folders = hidden(
        tmp_path, A, has, [renamed if touched else (has[0].replace(K, KW), 'evolution("k")')], {"id": 1, "x": "of 1.1.0", "y": "y"}
    )
    if touched:
        with refused("stop_in_between", "a") as found:
            commands.plan(lake.env, lake.second)
        assert "Upgrade to 1.1.0 first" in str(found[0].next_action)
        upgrade(lake, folders[1])
    upgrade(lake, folders[2])
    assert snapshot(lake.path("a")).rows == [{"id": 1, "y": "y", ("z" if touched else "x"): "of 1.1.0"}]
    whole(lake)


#: What comes after 1.0.0 instead, and is made in one go: nothing of the hidden column would come up on the way.
LEFT_ALONE: dict[str, Steps] = {
    "another column": [HAS_C, (AC.replace("x STRING", "z STRING") + K, 'evolution("a", rename={"x": "z"})')],
    "it is not declared": [(A.replace("x ", "y ") + K, 'evolution("a", rename={"x": "y"})'), (A + K, 'evolution("a", rename={"y": "x"})')],
    "its rows go": [HAS_C, (AC.replace("x STRING", "x INT") + K, 'replacement("a")')],
    "another collection": [HAS_C, (AC + KW, 'evolution("k")')],
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_a_leap_that_leaves_it_alone_is_made(tmp_path: Path, name: str) -> None:
    lake, _ = hidden(tmp_path, A, HAS_C, [], {"id": 1, "x": "x", "c": "of 1.1.0"})
    upgrade(lake, releases(tmp_path / "other", (A + K, ""), *LEFT_ALONE[name])[-1])
    assert lake.version == "1.2.0"
    whole(lake)


def test_what_a_hold_keeps_is_no_matter_of_leaps(tmp_path: Path) -> None:
    """The column goes with the hold; the one of its name is new, in one go and release by release."""
    renamed = (AC.replace("c STRING", "d STRING") + K, 'evolution("a", rename={"c": "d"})')
    folders = releases(tmp_path, (AC + K, ""), (A + K, 'evolution("a", drop=["c"])'), HAS_C, renamed)
    lake = deployed(tmp_path, folders[0], folders[-1])
    insert(lake.path("a"), [{"id": 1, "x": "x", "c": "of 1.0.0"}])
    lake.upgrade(folders[1])
    upgrade(lake, folders[-1])
    assert snapshot(lake.path("a")).rows == [{"id": 1, "x": "x", "d": None}]
