"""Moves after which a table looks as before: what is done must be told by the log, not by the columns."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.upgrade.drift.accept import accept
from airflow_provider_schemamig.core.upgrade.drift.revert import revert
from tests.support.lake import Crash, Lake, no_spark, rows
from tests.support.tables import foreign
from tests.support.tables.adopting import alter
from tests.support.upgrades import deployed, expanded, promoted, refused, releases, seen, two_releases, whole

FIRST = "CREATE TABLE a (id BIGINT, p STRING, q STRING) TBLPROPERTIES ('owned_by' = 'me');"
SECOND = "CREATE TABLE a (id BIGINT, p STRING, q STRING);"
SWAP = 'evolution("a", rename={"p": "q", "q": "p"})'
BEFORE, AFTER = [{"id": 1, "p": "p", "q": "q"}], [{"id": 1, "p": "q", "q": "p"}]


@dataclass(frozen=True)
class Swapped:
    lake: Lake

    def copy(self, folder: Path) -> Lake:
        shutil.copytree(self.lake.env.location.local_path or Path(), folder)
        return Lake(Environment.open(str(folder)), self.lake.first, self.lake.second)


@pytest.fixture
def swapped(tmp_path: Path) -> Swapped:
    """Promoted to a release that swaps two names and drops a property, which look the same after as before."""
    lake = two_releases(tmp_path, FIRST, SECOND, SWAP)
    foreign.write(lake.path("a"), BEFORE)
    promoted(lake, lake.second)
    return Swapped(lake)


def forward(lake: Lake) -> None:
    lake.upgrade(lake.second)
    at_target(lake)


def back(lake: Lake) -> None:
    commands.rollback(lake.env)
    at_source(lake)


def another(lake: Lake) -> None:
    commands.upgrade(lake.env, lake.second, claim_id="another", jobs=no_spark)
    at_target(lake)


def at_source(lake: Lake) -> None:
    assert rows(lake.path("a")) == BEFORE
    assert foreign.metadata(lake.path("a"))["configuration"]["owned_by"] == "me"
    whole(lake)


def at_target(lake: Lake) -> None:
    assert rows(lake.path("a")) == AFTER
    assert "owned_by" not in foreign.metadata(lake.path("a"))["configuration"]
    whole(lake)


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("go_on", [forward, back, another], ids=lambda go_on: go_on.__name__)
def test_lookalikes_killed_anywhere(tmp_path: Path, swapped: Swapped, go_on: Callable[[Lake], None]) -> None:
    moment = 0
    while True:
        lake = swapped.copy(tmp_path / str(moment))
        try:
            lake_dies = Lake(lake.crashing_at(moment), lake.first, lake.second)
            lake_dies.upgrade(lake.second)
        except Crash:
            go_on(lake)
            moment += 3
            continue
        break
    assert moment > 20


def test_lookalikes_done_once(swapped: Swapped) -> None:
    """Every task twice: a second swap would undo the first."""
    lake = swapped.lake
    (generation,) = [number for number in lake.state.deployments if number > 1]
    for verb in (commands.expand, commands.cutover):
        for _ in range(2):
            verb(lake.env, generation)
    at_target(lake)
    commands.rollback(lake.env)
    at_source(lake)
    lake.upgrade(lake.second)
    at_target(lake)


# --- the same of somebody else -------------------------------------------------------------------------------------------------------


def exchange(lake: Lake) -> None:
    """As two foreign renames by way of a third name, or a RESTORE, leave it: names, types and order as before."""
    first, p, q, *others = foreign.live_schema(lake.path("a"))
    alter(lake.path("a"), [first, {**q, "name": p["name"]}, {**p, "name": q["name"]}, *others])


def mapped(folder: Path) -> Lake:
    """At a release that exchanged the names, with the next one to go to."""
    first, second, third = releases(folder, (FIRST, ""), (SECOND, SWAP), (f"{SECOND[:-2]}, z INT);", 'evolution("a")'))
    lake = deployed(folder, first, second)
    foreign.write(lake.path("a"), BEFORE)
    lake.upgrade(second, hold=timedelta(0))
    return replace(lake, first=second, second=third)


def test_foreign_renames_that_exchange_two_names_are_drift(tmp_path: Path) -> None:
    lake = mapped(tmp_path)
    exchange(lake)
    found = seen(lake, "a")
    assert found["drift"] == [
        "p: expected the column that the data files call q, found the one they call p, which was q",
        "q: expected the column that the data files call p, found the one they call q, which was p",
    ]
    assert [bool(way.get("why_not")) for way in found["ways_on"]] == [True, False, False]
    with refused("drift", "a"):
        lake.upgrade(lake.second)
    with refused("cannot_accept", "a"):
        accept(lake.env, lake.first)
    revert(lake.env, "a")
    whole(lake)
    assert rows(lake.path("a")) == AFTER
    lake.upgrade(lake.second)
    assert rows(lake.path("a")) == [{**AFTER[0], "z": None}]


def test_foreign_renames_while_a_release_is_deployed(tmp_path: Path) -> None:
    """The release does not take them for its own: nothing is committed until they are undone."""
    lake = mapped(tmp_path)
    generation = expanded(lake, lake.second)
    exchange(lake)
    with refused("drift", "a"):
        commands.cutover(lake.env, generation, jobs=no_spark)
    exchange(lake)
    commands.cutover(lake.env, generation, jobs=no_spark)
    whole(lake)
    assert rows(lake.path("a")) == [{**AFTER[0], "z": None}]
