"""The time in which a release may be taken back, what ends it, and what is taken away then for good."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.ledger.rows import HoldState
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from tests.support.bytes import unwritten
from tests.support.lake import Lake, no_spark, rows
from tests.support.tables import foreign
from tests.support.upgrades import (
    claimed,
    deployed,
    expanded,
    heartbeat,
    make_holds_due,
    promoted,
    refused,
    releases,
    same_as_new,
    seen,
    two_releases,
    whole,
)

A = "CREATE TABLE a (id BIGINT, x STRING);"
B = "CREATE TABLE b (id BIGINT);"
NARROW = "CREATE TABLE a (id BIGINT);"
DROP = 'evolution("a", drop=["x"]), removal("b")'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """At 1.1.0, which dropped a column and removed a collection; the hold is open."""
    found = two_releases(tmp_path, A + B, NARROW, DROP)
    foreign.write(found.path("a"), [{"id": 1, "x": "old"}])
    foreign.write(found.path("b"), [{"id": 1}])
    found.upgrade(found.second)
    return found


def retired(lake: Lake) -> list[Path]:
    folders = [lake.env.table_location(shard.uri).local_path for shard in lake.state.shards.values() if shard.retired_by is not None]
    return [folder for folder in folders if folder is not None]


def test_holds_nothing_is_taken_away_before_its_time(lake: Lake) -> None:
    with unwritten(lake.env):
        outcome = commands.contract(lake.env)
    assert [(hold["generation"], hold["from"], hold["to"], hold["state"]) for hold in outcome.pending] == [(2, "1.0.0", "1.1.0", "open")]
    assert seen(lake, "a")["hidden"] == ["x"]
    assert [rows(folder) for folder in retired(lake)] == [[{"id": 1}]]


def test_when_its_time_is_over(lake: Lake) -> None:
    (folder,) = retired(lake)
    make_holds_due(lake)
    outcome = commands.contract(lake.env)
    assert [stage.kind for stage in outcome.stages] == ["contract", "retire"]
    assert outcome.pending == ()
    assert seen(lake, "a")["hidden"] == []
    assert rows(lake.path("a")) == [{"id": 1}]
    assert not list(folder.rglob("*.*"))
    assert retired(lake) == []
    whole(lake)


def test_holds_contract_twice(lake: Lake) -> None:
    commands.contract(lake.env, at_once=True)
    state, log = lake.state, sorted(lake.path("a").glob("_delta_log/*"))
    with unwritten(lake.env):
        assert commands.contract(lake.env, at_once=True).stages == ()
    assert lake.state.raw == state.raw
    assert sorted(lake.path("a").glob("_delta_log/*")) == log


def test_contract_of_another_generation(lake: Lake) -> None:
    with unwritten(lake.env):
        commands.contract(lake.env, Generation(1), at_once=True)
    commands.contract(lake.env, Generation(2), at_once=True)
    assert seen(lake, "a")["hidden"] == []


def test_an_upgrade_to_where_it_is_ends_a_hold_that_is_due(lake: Lake) -> None:
    make_holds_due(lake)
    outcome = lake.upgrade(lake.second)
    assert [stage.kind for stage in outcome.stages] == ["contract", "retire"]
    assert outcome.generation is None
    whole(lake)


def test_no_hold_at_all(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A + B, NARROW, DROP)
    outcome = lake.upgrade(lake.second, hold=timedelta(0))
    assert [stage.kind for stage in outcome.stages][-2:] == ["contract", "retire"]
    assert (outcome.pending, seen(lake, "a")["hidden"], retired(lake)) == ((), [], [])
    whole(lake)


def test_the_first_release_has_none(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A + B, NARROW, DROP)
    assert lake.state.holds == {}


def test_a_rollback_closes_it(lake: Lake) -> None:
    commands.rollback(lake.env)
    assert [hold.state for hold in lake.state.holds.values()] == [HoldState.CLOSED]
    make_holds_due(lake)
    assert commands.contract(lake.env, at_once=True).stages == ()
    assert rows(lake.path("a")) == [{"id": 1, "x": "old"}]


# --- the next upgrade over an open hold ----------------------------------------------------------------------------------------------


def test_the_next_upgrade_ends_it_first_if_it_is_told_to(tmp_path: Path) -> None:
    first, second, third = releases(tmp_path, (A + B, ""), (NARROW, DROP), ("CREATE TABLE a (id BIGINT, y INT);", 'evolution("a")'))
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second)
    claimed(lake, third, end_hold=True)
    assert seen(lake, "a")["hidden"] == ["x"], "not before promotion"
    promoted(lake, third, end_hold=True)
    assert seen(lake, "a")["hidden"] == ["x"]
    expanded(lake, third, end_hold=True)
    commands.cutover(lake.env, Generation(3))
    assert {generation: hold.state for generation, hold in lake.state.holds.items()} == {2: HoldState.CLOSED, 3: HoldState.OPEN}
    assert (seen(lake, "a")["hidden"], retired(lake)) == ([], [])
    commands.rollback(lake.env)
    assert lake.version == "1.1.0"
    whole(lake)
    same_as_new(lake, second, tmp_path / "fresh")
    with refused("nothing_to_roll_back"):
        commands.rollback(lake.env)


@pytest.mark.parametrize("kind", ["STRING", "INT"])
def test_a_name_dropped_and_taken_again(tmp_path: Path, kind: str) -> None:
    """The old x is still hidden when the next release is planned; the new one never shows its values."""
    first, second, third = releases(
        tmp_path, (A, ""), (NARROW, 'evolution("a", drop=["x"])'), (f"CREATE TABLE a (id BIGINT, x {kind});", 'evolution("a")')
    )
    lake = deployed(tmp_path, first, second)
    foreign.write(lake.path("a"), [{"id": 1, "x": "old"}])
    lake.upgrade(second)
    lake.upgrade(third, end_hold=True)
    assert rows(lake.path("a")) == [{"id": 1, "x": None}]
    whole(lake)
    commands.rollback(lake.env)
    assert lake.version == "1.1.0"
    whole(lake)


def test_an_upgrade_that_fails_before_expand_leaves_the_way_back(tmp_path: Path) -> None:
    first, second, third = releases(tmp_path, (A, ""), (NARROW, 'evolution("a", drop=["x"])'), (NARROW + B, ""))
    lake = deployed(tmp_path, first, second)
    foreign.write(lake.path("a"), [{"id": 1, "x": "old"}])
    lake.upgrade(second)
    promoted(lake, third, end_hold=True)
    heartbeat(lake.env, "1.0.0")
    with refused("hold_in_use"):
        commands.expand(lake.env, Generation(3))
    assert [commands.rollback(lake.env).generation for _ in range(2)] == [3, 2]
    assert rows(lake.path("a")) == [{"id": 1, "x": "old"}]
    whole(lake)


def test_a_hold_is_ended_by_maintenance_after_a_failed_upgrade(tmp_path: Path) -> None:
    """Generation 3 was promoted and rolled back; the hold of generation 2 comes due all the same."""
    first, second, third = releases(tmp_path, (A, ""), (NARROW, 'evolution("a", drop=["x"])'), (NARROW + B, ""))
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second)
    promoted(lake, third)
    commands.rollback(lake.env)
    make_holds_due(lake)
    commands.contract(lake.env)
    assert seen(lake, "a")["hidden"] == []
    lake.upgrade(third)
    whole(lake)


def test_a_plan_checked_over_an_open_hold_runs_after_maintenance_ended_it(tmp_path: Path) -> None:
    first, second, third = releases(tmp_path, (A, ""), (NARROW, 'evolution("a", drop=["x"])'), (NARROW + B, ""))
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second)
    generation = claimed(lake, third, end_hold=True)
    commands.contract(lake.env, at_once=True)
    for verb in (commands.promote, commands.expand, commands.cutover):
        verb(lake.env, generation)
    assert lake.version == "1.2.0"
    whole(lake)


# --- adopted tables ------------------------------------------------------------------------------------------------------------------


def adopt(lake: Lake, collection: str) -> Path:
    """As if the collection's table had been there before schemamig."""
    shard = lake.state.shard_of(CollectionName(collection))
    LedgerWriter(lake.env).transact(lambda state: [Put(replace(state.shards[shard.shard], adopted=True))])
    return lake.path(collection)


@pytest.mark.parametrize("step", ['removal("b")', 'replacement("b")'])
def test_the_files_of_an_adopted_table_are_never_deleted(tmp_path: Path, step: str) -> None:
    after = A if "removal" in step else A + "CREATE TABLE b (id DATE);"
    lake = two_releases(tmp_path, A + B, after, step)
    foreign.write(lake.path("b"), [{"id": 1}])
    folder = adopt(lake, "b")
    lake.upgrade(lake.second, hold=timedelta(0))
    assert rows(folder) == [{"id": 1}]
    whole(lake)
    lake.upgrade(lake.second)
    commands.cleanup(lake.env, Generation(2))
    assert rows(folder) == [{"id": 1}]


def test_an_adopted_table_comes_back_adopted(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A + B, A, 'removal("b")')
    folder = adopt(lake, "b")
    lake.upgrade(lake.second)
    commands.rollback(lake.env)
    shard = lake.state.shard_of(CollectionName("b"))
    assert (shard.adopted, lake.path("b")) == (True, folder)
    assert read_head(table_store(lake.env, lake.state, shard.shard)).sealed_for is None
    commands.preflight(lake.env, lake.second, jobs=no_spark)
