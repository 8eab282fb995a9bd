"""Dying at every single write of an upgrade or a rollback, then going on or going back.

An upgrade of every kind of step makes some dozens of durable writes; each is a place to die just before and just after. For every one of
these moments the same must hold: whoever comes next reaches the target (or the source), whole.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from airflow_provider_schemamig.cli.render.status import status_view
from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.storage.errors import StorageUnreachable
from airflow_provider_schemamig.core.upgrade.rollback.errors import NothingToRollBack
from tests.support.lake import SCHEMA_1, Crash, Lake, append, copy_of, make_lake, no_spark, rows

#: Every STRIDE-th moment in ``make test``; all of them in ``make soak``.
STRIDE = 9
FLIGHT = {"id": 1, "dep_delay": 5, "hour": 9, "origin": {"code": "JFK", "name": "Kennedy"}}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """At 1.0.0 with a row in each table."""
    lake = make_lake(tmp_path_factory.mktemp("deployed"))
    lake.upgrade(lake.first)
    append(lake.path("flights"), [FLIGHT])
    append(lake.path("planes"), [{"tailnum": "N1", "year": 1999}])
    append(lake.path("legacy"), [{"id": 7}])
    append(lake.path("stats"), [{"origin": "JFK", "flights": 3}])
    return lake


def moments(lake: Lake, work: Callable[[Environment], object]) -> int:
    """How many moments to die ``work`` has."""
    count = 0

    def hook(moment: str, what: str, key: str) -> None:
        nonlocal count
        count += 1

    work(replace(lake.env, on_write=hook))
    return count


def upgrade(lake: Lake) -> Callable[[Environment], object]:
    return lambda env: commands.upgrade(env, lake.second, jobs=no_spark)


def rollback(env: Environment) -> object:
    return commands.rollback(env)


def at_target(lake: Lake) -> None:
    state = lake.state
    assert lake.version == "1.1.0"
    assert sorted(state.objects) == ["airports", "flights", "planes", "stats", "untouched"]
    assert rows(lake.path("flights"), "id", "departure_delay", "gate") == [{"id": 1, "departure_delay": 5, "gate": None}]
    assert rows(lake.path("planes"), "tailnum", "year", "seats") == [{"year": 1999, "tailnum": "N1", "seats": None}]
    assert rows(lake.path("stats")) == []
    whole(lake)


def at_source(lake: Lake) -> None:
    state = lake.state
    assert lake.version == "1.0.0"
    assert sorted(state.objects) == ["flights", "legacy", "planes", "stats", "untouched"]
    assert rows(lake.path("flights"), "id", "dep_delay", "hour", "origin") == [FLIGHT]
    assert rows(lake.path("planes"), "tailnum", "year") == [{"tailnum": "N1", "year": 1999}]
    assert rows(lake.path("legacy")) == [{"id": 7}]
    assert rows(lake.path("stats")) == [{"origin": "JFK", "flights": 3}]
    for collection in ("legacy", "stats", "planes"):
        assert not commands.status(lake.env).document["collections"][collection]["sealed"]
    whole(lake)


def whole(lake: Lake) -> None:
    """No drift, no open intent, a sound ledger."""
    assert not commands.status(lake.env).drifted
    assert not list(lake.state.intents)
    assert verify(LedgerReader(lake.env)) == ()


def die(lake: Lake, moment: int, work: Callable[[Environment], object]) -> bool:
    """Run ``work`` in a process that dies at ``moment``; False if it ended before."""
    try:
        work(lake.crashing_at(moment))
    except Crash:
        return True
    return False


@pytest.fixture(scope="module")
def upgrade_moments(deployed: Lake, tmp_path_factory: pytest.TempPathFactory) -> int:
    lake = copy_of(deployed, tmp_path_factory.mktemp("count"))
    count = moments(lake, upgrade(lake))
    at_target(lake)
    return count


def check_upgrade_moments(deployed: Lake, tmp_path: Path, which: range) -> None:
    for moment in which:
        folder = tmp_path / str(moment)
        for name in ("on", "back", "other"):
            lake = copy_of(deployed, folder / name)
            assert die(lake, moment, upgrade(lake)), moment
            if name == "on":
                lake.upgrade(lake.second)
                at_target(lake)
            elif name == "back":
                with contextlib.suppress(NothingToRollBack):  # it died before promotion: nothing was done
                    rollback(lake.env)
                at_source(lake)
            else:  # another generation takes over: a claim of its own
                lake.upgrade(lake.second, claim_id="another")
                at_target(lake)
        shutil.rmtree(folder)


@pytest.mark.some(8, of="histories at each moment")
def test_upgrade_dies_anywhere(deployed: Lake, tmp_path: Path, upgrade_moments: int) -> None:
    assert upgrade_moments > 40
    check_upgrade_moments(deployed, tmp_path, range(0, upgrade_moments, STRIDE))


@pytest.mark.soak
def test_upgrade_dies_everywhere(deployed: Lake, tmp_path: Path, upgrade_moments: int) -> None:
    check_upgrade_moments(deployed, tmp_path, range(upgrade_moments))


def check_rollback_moments(deployed: Lake, tmp_path: Path, stride: int) -> None:
    upgraded = copy_of(deployed, tmp_path / "upgraded")
    upgraded.upgrade(upgraded.second)
    count = moments(copy_of(upgraded, tmp_path / "count"), rollback)
    assert count > 20
    for moment in range(0, count, stride):
        folder = tmp_path / str(moment)
        for name in ("on", "forward"):
            lake = copy_of(upgraded, folder / name)
            assert die(lake, moment, rollback), moment
            if name == "on":
                if lake.version == "1.1.0":
                    rollback(lake.env)
                at_source(lake)
            else:  # somebody upgrades again instead
                lake.upgrade(lake.second)
                if lake.version == "1.1.0":
                    at_target(lake)
        shutil.rmtree(folder)


def test_rollback_dies_anywhere(deployed: Lake, tmp_path: Path) -> None:
    check_rollback_moments(deployed, tmp_path, STRIDE)


@pytest.mark.soak
def test_rollback_dies_everywhere(deployed: Lake, tmp_path: Path) -> None:
    check_rollback_moments(deployed, tmp_path, 1)


@pytest.mark.some(8, of="histories at each moment")
def test_contract_dies_anywhere(deployed: Lake, tmp_path: Path) -> None:
    upgraded = copy_of(deployed, tmp_path / "upgraded")
    upgraded.upgrade(upgraded.second, hold=timedelta(0, 1))

    def contract(env: Environment) -> object:
        return commands.contract(env, at_once=True)

    count = moments(copy_of(upgraded, tmp_path / "count"), contract)
    for moment in range(count):
        lake = copy_of(upgraded, tmp_path / str(moment))
        assert die(lake, moment, contract), moment
        contract(lake.env)
        at_target(lake)
        assert commands.status(lake.env).document["collections"]["flights"]["hidden"] == []
        assert not [shard for shard in lake.state.shards.values() if shard.collection == CollectionName("legacy")]
        with pytest.raises(NothingToRollBack):
            rollback(lake.env)


def test_initialise_dies_anywhere(tmp_path: Path) -> None:
    assert "flights" in SCHEMA_1
    lake = make_lake(tmp_path)
    count = moments(
        replace(lake, env=Environment.open(str(tmp_path / "count"))),
        lambda env: commands.upgrade(env, lake.first, jobs=no_spark, create=True),
    )
    for moment in range(0, count, STRIDE):
        found = replace(lake, env=Environment.open(str(tmp_path / "dies" / str(moment))))
        assert die(found, moment, lambda env: commands.upgrade(env, lake.first, jobs=no_spark, create=True)), moment
        found.upgrade(found.first)
        assert found.version == "1.0.0"
        whole(found)


def test_a_store_that_goes_away_behind_the_seal_leaves_tables_sealed_and_that_is_told(deployed: Lake, tmp_path: Path) -> None:
    """The same command opens them and goes on."""
    lake = copy_of(deployed, tmp_path)
    told: list[Event] = []
    is_away = False

    def hook(moment: str, what: str, key: str) -> None:
        nonlocal is_away
        is_away = is_away or any(event.stage == "seal" and event.done == 2 for event in told)
        if is_away:
            raise StorageUnreachable(uri="file:///lake", reason="connection refused")

    with pytest.raises(StorageUnreachable):
        commands.upgrade(replace(lake.env, on_write=hook), lake.second, jobs=no_spark, listen=told.append)
    (left,) = [event.note for event in told if event.stage == "unseal" and "not done for" in event.note]
    assert left.startswith("not done for legacy, stats: writers are refused until the same is run again")
    shown = Console(width=200, file=io.StringIO(), record=True)
    shown.print(status_view("file:///lake", commands.status(lake.env).to_json(), cluster=False))
    assert "sealed  legacy, stats: writers are refused until it goes on or is taken back" in shown.export_text()
    lake.upgrade(lake.second)
    assert lake.version == "1.1.0"
