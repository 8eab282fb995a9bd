"""Rows that users wrote into the tables a release brought: a rollback keeps them, says where and for how long, and nothing deletes them
before that unless a plan lists it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.rows import HoldState
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.alter import alter
from airflow_provider_schemamig.core.upgrade.plan.stages import EndHold
from tests.support.lake import Crash, Lake, append, no_spark, rows
from tests.support.upgrades import make_holds_due, refused, two_releases, whole

T = "CREATE TABLE t (id BIGINT);"
AIRPORTS = T + "CREATE TABLE airports (code STRING);"
ROWS = [{"code": "JFK"}, {"code": "SFO"}]
SECOND = Generation(2)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """At 1.1.0, which brought a collection, and its users wrote into it."""
    found = two_releases(tmp_path, T, AIRPORTS, "")
    found.upgrade(found.second)
    append(found.path("airports"), ROWS)
    return found


def test_the_upgrade_that_follows_a_rollback_deletes_nothing(lake: Lake) -> None:
    before = lake.path("airports")
    (note,) = commands.rollback(lake.env, jobs=no_spark).notes
    hold = lake.state.holds[SECOND]
    assert (hold.state, lake.version) == (HoldState.KEEPING, "1.0.0")
    assert all(text in note for text in ("airports: rows written since 1.1.0 stay in", str(before), f"until {hold.until:YYYY-MM-DD HH:mm}"))
    whole(lake)
    lake.upgrade(lake.second)
    whole(lake)
    assert (lake.path("airports") != before, rows(lake.path("airports")), rows(before)) == (True, [], ROWS)
    commands.cleanup(lake.env, Generation(3))
    commands.contract(lake.env)
    assert rows(before) == ROWS


def test_they_stay_as_long_as_the_rollback_said(lake: Lake) -> None:
    before = lake.path("airports")
    commands.rollback(lake.env, jobs=no_spark)
    (pending,) = commands.plan(lake.env, lake.second).to_json()["pending"]
    assert (pending["state"], [item["collection"] for item in pending["keeps"]], pending["bytes"] > 0) == ("keeping", ["airports"], True)
    make_holds_due(lake)
    lake.upgrade(lake.second)
    assert rows(before) == ROWS, "only contract ends it"
    outcome = commands.contract(lake.env)
    assert [(stage.kind, stage.collection) for stage in outcome.stages] == [("retire", "airports")]
    assert not list(before.rglob("*.*"))
    assert lake.state.holds[SECOND].state is HoldState.CLOSED
    whole(lake)


def test_a_plan_that_ends_it_before_lists_it(lake: Lake) -> None:
    before = lake.path("airports")
    shard = before.name
    commands.rollback(lake.env, jobs=no_spark)
    (stage,) = commands.plan(lake.env, lake.second, end_hold=True).plan.of_kind(EndHold)
    assert (stage.collection, stage.shards) == ("airports", (shard,))
    lake.upgrade(lake.second, end_hold=True)
    assert not list(before.rglob("*.*"))
    whole(lake)


def test_left_behind_is_in_nobodys_way(lake: Lake) -> None:
    """It keeps no way back: no hold waits for it, and tables may be changed."""
    commands.rollback(lake.env, jobs=no_spark)
    alter(lake.env, "ALTER TABLE t ADD COLUMNS (z INT)", jobs=no_spark)
    with refused("nothing_to_roll_back"):
        commands.rollback(lake.env)


def test_no_hold_needs_no_older_one_to_end(lake: Lake) -> None:
    commands.rollback(lake.env, jobs=no_spark)
    lake.upgrade(lake.second, hold=timedelta(0))
    assert lake.version == "1.1.0"
    assert lake.state.holds[SECOND].state is HoldState.KEEPING
    whole(lake)


def test_what_nobody_wrote_into_is_cleaned_up_by_the_next_upgrade(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, T, AIRPORTS, "")
    lake.upgrade(lake.second)
    before = lake.path("airports")
    assert commands.rollback(lake.env, jobs=no_spark).notes == ()
    assert lake.state.holds[SECOND].state is HoldState.CLOSED
    lake.upgrade(lake.second)
    assert not list(before.rglob("*.*"))
    whole(lake)


def test_a_table_that_was_created_outside_of_a_release(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, T, "CREATE TABLE t (id BIGINT, z INT)", 'evolution("t")')
    alter(lake.env, "CREATE TABLE fresh (code STRING)", hold=timedelta(hours=1), jobs=no_spark)
    before = lake.path("fresh")
    append(before, ROWS)
    (note,) = commands.rollback(lake.env, jobs=no_spark).notes
    assert "fresh: rows written since 1.0.0 stay in" in note
    lake.upgrade(lake.second)
    assert rows(before) == ROWS
    whole(lake)


def test_what_stays_behind_in_a_replacement(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, T, "CREATE TABLE t (id STRING)", 'replacement("t")')
    lake.upgrade(lake.second)
    before = lake.path("t")
    append(before, [{"id": "precious"}])
    with refused("lossy_rollback"):
        commands.rollback(lake.env, jobs=no_spark)
    commands.rollback(lake.env, jobs=no_spark, allow_lossy=True)
    lake.upgrade(lake.second)
    assert rows(before) == [{"id": "precious"}]
    whole(lake)


def test_a_removed_and_recreated_collection_at_once(tmp_path: Path) -> None:
    """Old and new table of one name, both with rows: back, the old one is there again, and the new one's rows are kept."""
    from tests.support.upgrades import deployed, releases

    a, k = "CREATE TABLE a (id BIGINT);", "CREATE TABLE k (id BIGINT);"
    found = releases(tmp_path, (a + k, ""), (k, 'removal("a")'), (k + a, ""))
    lake = deployed(tmp_path, found[0], found[1])
    old = lake.path("a")
    append(old, [{"id": 1}])
    lake.upgrade(found[2])
    new = lake.path("a")
    if new != old:
        append(new, [{"id": 7}])
        commands.rollback(lake.env, jobs=no_spark, allow_lossy=True)
        assert (lake.path("a"), rows(old), rows(new)) == (old, [{"id": 1}], [{"id": 7}])
    whole(lake)


def test_killed_anywhere_in_the_rollback(tmp_path: Path) -> None:
    for write in range(1, 40, 3):
        lake = two_releases(tmp_path / str(write), T, AIRPORTS, "")
        lake.upgrade(lake.second)
        before = lake.path("airports")
        append(before, ROWS)
        try:
            commands.rollback(lake.crashing_at(write), jobs=no_spark)
        except Crash:
            if lake.version != "1.0.0":
                commands.rollback(lake.env, jobs=no_spark)
            done = False
        else:
            done = True
        whole(lake)
        lake.upgrade(lake.second)
        assert rows(before) == ROWS
        if done:
            return
    raise AssertionError("it never ended")
