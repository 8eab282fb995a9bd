"""Somebody else moves a column to another place: that is no drift, so every release goes on, and back, wherever it dies."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.upgrade.rollback.errors import NothingToRollBack
from tests.support.lake import Crash, Lake, no_spark, rows
from tests.support.tables import foreign
from tests.support.tables.adopting import alter
from tests.support.upgrades import deployed, refused, releases, whole
from tests.unit.upgrade.drift.test_lookalikes import exchange, mapped

FIRST = "CREATE TABLE t (id BIGINT, a STRING, b STRING); CREATE TABLE u (id BIGINT);"
ROW = {"id": 1, "a": "A", "b": "B"}
#: What 1.1.0 makes of t, and the row afterwards.
RELEASES = {
    "a column more": ("id BIGINT, a STRING, b STRING, c STRING", 'evolution("t")', {**ROW, "c": None}),
    "a rename": ("id BIGINT, z STRING, b STRING", 'evolution("t", rename={"a": "z"})', {"id": 1, "z": "A", "b": "B"}),
    "a drop": ("id BIGINT, b STRING", 'evolution("t", drop=["a"])', {"id": 1, "b": "B"}),
    "exchanged names": ("id BIGINT, b STRING, a STRING", 'evolution("t", rename={"a": "b", "b": "a"})', {"id": 1, "a": "B", "b": "A"}),
    "another order": ("b STRING, id BIGINT, a STRING", "", ROW),
    "another order and a column": ("b STRING, c STRING, id BIGINT, a STRING", 'evolution("t")', {**ROW, "c": None}),
}


def reorder(lake: Lake, *last: str) -> None:
    fields = foreign.live_schema(lake.path("t"))
    moved = [field for field in fields if field["name"] not in last] + [field for name in last for field in fields if field["name"] == name]
    alter(lake.path("t"), moved)


def lake_of(folder: Path, release: str) -> Lake:
    columns, steps, _ = RELEASES[release]
    second = f"CREATE TABLE t ({columns}); CREATE TABLE u (id BIGINT, n INT);"
    lake = deployed(folder, *releases(folder, (FIRST, ""), (second, ", ".join(filter(None, (steps, 'evolution("u")'))))))
    foreign.write(lake.path("t"), [ROW])
    return lake


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_over_another_order_and_back(tmp_path: Path, release: str) -> None:
    lake = lake_of(tmp_path, release)
    reorder(lake, "a", "id")
    assert commands.status(lake.env).drifted == ()
    lake.upgrade(lake.second)
    whole(lake)
    assert lake.env.reader("t").arrow().to_pylist() == [RELEASES[release][2]]
    reorder(lake, "b")
    commands.rollback(lake.env)
    whole(lake)
    assert lake.env.reader("t").arrow().to_pylist() == [ROW]
    lake.upgrade(lake.second)
    whole(lake)
    assert lake.env.reader("t").arrow().to_pylist() == [RELEASES[release][2]]


@pytest.mark.some(6)
@pytest.mark.parametrize("back", [False, True], ids=["on", "back"])
@pytest.mark.parametrize("moment", range(0, 30, 2))
@pytest.mark.parametrize("release", RELEASES)
def test_reordered_tables_it_dies_over_another_order_and_goes_on_or_back(tmp_path: Path, release: str, moment: int, back: bool) -> None:
    """Somebody moves a column also between the death and what comes after it."""
    lake = lake_of(tmp_path, release)
    reorder(lake, "a", "id")
    with contextlib.suppress(Crash):
        commands.upgrade(lake.crashing_at(moment), lake.second, jobs=no_spark)
    reorder(lake, "id")
    if back:
        with contextlib.suppress(NothingToRollBack):
            commands.rollback(lake.env)
        assert lake.version == "1.0.0"
        assert lake.env.reader("t").arrow().to_pylist() == [ROW]
    lake.upgrade(lake.second)
    whole(lake)
    assert lake.env.reader("t").arrow().to_pylist() == [RELEASES[release][2]]


def test_a_rollback_over_exchanged_names_is_refused(tmp_path: Path) -> None:
    """It goes by names: the columns would be served exchanged from then on."""
    lake = mapped(tmp_path)
    lake.upgrade(lake.second)
    before = rows(lake.path("a"))
    exchange(lake)
    with refused("drift", "a"):
        commands.rollback(lake.env)
    commands.revert(lake.env, "a")
    assert rows(lake.path("a")) == before
    commands.rollback(lake.env)
    whole(lake)
