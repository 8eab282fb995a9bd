"""Somebody exchanges names of columns, or drops one and adds another of its name, while we are at work on the table: what we record is what
our commits made of it, so that the rest is drift and no handle takes one column for another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import NotInRelease, ReaderFenced, UnknownRelease
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.upgrade.compare_and_evolve import compare_and_evolve_schema
from airflow_provider_schemamig.core.upgrade.errors import DriftFound
from tests.support.lake import Crash, Lake, copy_of, no_spark
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.support.upgrades import claimed, deployed, expanded, promoted, refused, releases

T = CollectionName("t")
ONE = ("CREATE TABLE t (id BIGINT, gone INT, x STRING, y STRING);", "")
#: From here on the columns have names of their own in the files.
TWO = ("CREATE TABLE t (id BIGINT, g INT, x STRING, y STRING);", 'evolution("t", rename={"gone": "g"})')
RENAMED = ("CREATE TABLE t (id BIGINT, h INT, x STRING, y STRING);", 'evolution("t", rename={"g": "h"})')
MOVED = ("CREATE TABLE u (id BIGINT, g INT, x STRING, y STRING);", 'evolution("u", renamed_from="t")')
ADDED = ("CREATE TABLE t (id BIGINT, g INT, x STRING, y STRING, z INT);", 'evolution("t")')
LAST = {"a column renamed": RENAMED, "the table renamed": MOVED, "a column added": ADDED}
WRITTEN = {"x": "written as x", "y": "written as y"}


def at_two(folder: Path, last: tuple[str, str]) -> tuple[Lake, Path]:
    found = releases(folder, ONE, TWO, last)
    lake = deployed(folder, found[0], found[1])
    tables.insert(lake.path("t"), [{"id": 1, "gone": 7, **WRITTEN}])
    lake.upgrade(found[1])
    return lake, found[2]


def exchange(path: Path) -> None:
    for old, new in (("x", "between"), ("y", "x"), ("between", "y")):
        foreign.rename_column(path, old, new)


def add_again(path: Path) -> None:
    foreign.drop_column(path, "x")
    foreign.add_column(path, "x")


def after_each_write(env: Environment, path: Path, act: Callable[[Path], None], at: int) -> tuple[Environment, list[int]]:
    """``act`` at the moment ``at``; which moments there were."""
    moments: list[int] = []

    def hook(moment: str, what: str, key: str) -> None:
        moments.append(len(moments))
        if len(moments) - 1 == at:
            act(path)

    return replace(env, on_write=hook), moments


def check(lake: Lake, at: int) -> None:
    """Every handle shows each column under its own name, or is fenced."""
    for release in ("1.0.0", "1.1.0", "1.2.0"):
        for name in ("t", "u"):
            try:
                rows = lake.env.reader(name, release).arrow().to_pylist()
            except (ReaderFenced, NotInRelease, UnknownRelease):
                continue
            assert [{key: row[key] for key in WRITTEN} for row in rows] == [WRITTEN], (at, release)


@pytest.mark.some(1)
@pytest.mark.parametrize("act", [exchange, add_again])
@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("way", ["there", "back"])
def test_names_after_our_commit_are_ours(tmp_path: Path, way: str, last: str, act: Callable[[Path], None]) -> None:
    base, release = at_two(tmp_path / "base", LAST[last])
    if way == "back":
        base.upgrade(release)
    table = "u" if "u" in base.state.objects else "t"
    for at in range(200):
        lake, stopped = copy_of(base, tmp_path / str(at)), True
        env, moments = after_each_write(lake.env, lake.path(table), act, at)
        with contextlib.suppress(DriftFound):
            commands.upgrade(env, release, jobs=no_spark) if way == "there" else commands.rollback(env, jobs=no_spark)
            stopped = False
        if len(moments) <= at:
            return
        assert stopped or commands.status(lake.env).drifted, at
        check(lake, at)
    raise AssertionError("it never ended")


@pytest.mark.some(8, of="histories at each moment")
def test_names_after_a_commit_of_compare_and_evolve_are_ours(tmp_path: Path) -> None:
    base, _ = at_two(tmp_path / "base", ADDED)
    commands.contract(base.env, at_once=True)
    new = next(iter(parse_schema(ADDED[0], "schema.sql")))
    for at in range(50):
        lake = copy_of(base, tmp_path / str(at))
        env, moments = after_each_write(lake.env, lake.path("t"), exchange, at)
        with contextlib.suppress(DriftFound):
            compare_and_evolve_schema(env, T, lake.state.entry(T).schema_id, new)
        if len(moments) <= at:
            return
        assert commands.status(lake.env).drifted == ("t",), at
        check(lake, at)
    raise AssertionError("it never ended")


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("begun", [promoted, expanded])
def test_a_column_added_in_place_under_way_stops_the_cut_over_and_no_way_back(
    tmp_path: Path, last: str, begun: Callable[[Lake, Path], object]
) -> None:
    lake, release = at_two(tmp_path, LAST[last])
    begun(lake, release)
    generation = lake.state.leader
    assert generation is not None
    add_again(lake.path("t"))
    if begun is promoted:
        commands.expand(lake.env, generation.generation)
    with refused("drift", "t"):
        commands.cutover(lake.env, generation.generation, jobs=no_spark)
    commands.rollback(lake.env, jobs=no_spark)
    assert commands.status(lake.env).drifted == ("t",)
    check(lake, 0)


@pytest.mark.parametrize("last", LAST)
def test_a_reader_of_a_claimed_release_is_fenced_by_a_column_that_somebody_dropped(tmp_path: Path, last: str) -> None:
    lake, release = at_two(tmp_path, LAST[last])
    claimed(lake, release)
    foreign.drop_column(lake.path("t"), "x")
    for version, name in (("1.1.0", "t"), ("1.2.0", "u" if last == "the table renamed" else "t")):
        with pytest.raises(ReaderFenced) as fenced:
            lake.env.reader(name, version).arrow()
        assert (fenced.value.column, fenced.value.reason) == ("x", "was dropped")


@pytest.mark.parametrize("moment", range(5))
def test_names_are_read_at_our_commit_though_somebody_set_a_property_before_it(tmp_path: Path, moment: int) -> None:
    """The task dies between its commit and the ledger's record, and runs again: a property that nobody declares is no drift."""
    lake = deployed(tmp_path, *releases(tmp_path, ONE, TWO))
    path, generation = lake.path("t"), expanded(lake, lake.second)
    tables.insert(path, [{"id": 1, "gone": 7, **WRITTEN}])
    moments: list[int] = []

    def hook(when: str, what: str, key: str) -> None:
        if len(moments) == moment:
            foreign.set_property(path, "team", "blue")
        moments.append(len(moments))
        if any(field["name"] == "g" for field in foreign.live_schema(path)):
            raise Crash

    with contextlib.suppress(Crash):
        commands.cutover(replace(lake.env, on_write=hook), generation)
    commands.cutover(lake.env, generation)
    assert dict(lake.state.entry(T).stored_names) == {"g": "gone"}
    assert not commands.status(lake.env).drifted
    for release, name in (("1.0.0", "gone"), ("1.1.0", "g")):
        assert lake.env.reader("t", release).arrow().to_pylist() == [{"id": 1, name: 7, **WRITTEN}]
    commands.rollback(lake.env)
    assert not commands.status(lake.env).drifted


@pytest.mark.parametrize("moment", range(5))
def test_names_given_back_are_read_at_our_commit_though_somebody_set_a_property_before_it(tmp_path: Path, moment: int) -> None:
    """Of two columns that exchange their names the version before our commit has the other's."""
    exchanged = (ONE[0], 'evolution("t", rename={"x": "y", "y": "x"})')
    lake = deployed(tmp_path, *releases(tmp_path, ONE, exchanged))
    path = lake.path("t")
    tables.insert(path, [{"id": 1, "gone": 7, **WRITTEN}])
    lake.upgrade(lake.second)
    before, moments = tables.snapshot(path).rows, list[int]()

    def hook(when: str, what: str, key: str) -> None:
        if len(moments) == moment:
            foreign.set_property(path, "team", "blue")
        moments.append(len(moments))
        if tables.snapshot(path).rows != before:
            raise Crash

    with contextlib.suppress(Crash):
        commands.rollback(replace(lake.env, on_write=hook))
    if lake.version == "1.1.0":
        commands.rollback(lake.env)
    assert not commands.status(lake.env).drifted
    assert tables.snapshot(path).rows == lake.env.reader("t", "1.0.0").arrow().to_pylist() == [{"id": 1, "gone": 7, **WRITTEN}]
