"""Moves after which a table looks as before: what is done must be told by the log, not by the columns."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from tests.support import foreign
from tests.support.lake import Crash, Lake, no_spark, rows
from tests.support.upgrades import promoted, two_releases, whole

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


@pytest.mark.parametrize("go_on", [forward, back, another], ids=lambda go_on: go_on.__name__)
def test_killed_anywhere(tmp_path: Path, swapped: Swapped, go_on: Callable[[Lake], None]) -> None:
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


def test_done_once(swapped: Swapped) -> None:
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
