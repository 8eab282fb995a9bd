"""The runbook's entries of rollbacks: each is provoked, and its own words are followed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands, spark
from airflow_provider_schemamig.core.environment import Environment
from tests.support.lake import Crash, append
from tests.support.online import OnlineJobs
from tests.support.rows.rewritten import jobs, make_rewritten, upgrade
from tests.support.rows.tables import insert
from tests.support.tables import foreign
from tests.support.upgrades import make_holds_due, two_releases
from tests.unit.cli.samples import Run
from tests.unit.runbook.book import follow
from tests.unit.runbook.scenes import Releases, Scene
from tests.unit.upgrade.plan.test_cleaned_logs import clean
from tests.unit.upgrade.rollback import test_killed_ways_back as killed_ways

LOSES, GONE, UNFINISHED = "A rollback would lose something", "There is nothing to go back to", "A rollback is unfinished"


@pytest.fixture
def replaced(tmp_path: Path, run: Run) -> Scene:
    """At 1.1.0, which replaced a table that somebody has written to since."""
    lake = two_releases(tmp_path, "CREATE TABLE s (o STRING);", "CREATE TABLE s (o STRING, n BIGINT);", 'replacement("s")')
    lake.upgrade(lake.second)
    append(lake.path("s"), [{"o": "JFK", "n": 3}])
    return Scene(lake, Releases(lake.first, lake.second, lake.second, lake.second), run)


def test_a_rollback_loses_rows_that_nobody_needs(replaced: Scene) -> None:
    found = replaced.refused("lossy_rollback", LOSES, "rollback", "--env", replaced.env)
    assert "--allow-lossy" in found["next"]
    replaced.is_right("1.1.0")
    follow(replaced.run, "A rollback would lose something", "the loss is accepted", ENV=replaced.env)
    replaced.is_right("1.0.0")


def test_a_rollback_that_loses_rows_is_left(replaced: Scene) -> None:
    replaced.refused("lossy_rollback", LOSES, "rollback", "--env", replaced.env)
    (shown,) = follow(replaced.run, "A rollback would lose something", "stay", ENV=replaced.env)
    assert "1.1.0" in shown.stdout
    replaced.is_right("1.1.0")


def test_the_old_table_is_gone(replaced: Scene) -> None:
    (retired,) = commands.status(replaced.lake.env).document["retired"]
    shutil.rmtree(retired["uri"].removeprefix("file://"))
    replaced.refused("old_table_missing", GONE, "rollback", "--env", replaced.env, "--allow-lossy")
    (shown,) = follow(replaced.run, "There is nothing to go back to", "stay at the release", ENV=replaced.env)
    assert "1.1.0" in shown.stdout
    foreign.write(replaced.lake.path("s"), [{"o": "LAX", "n": 4}])
    assert replaced.lake.version == "1.1.0"


def test_the_hold_is_over(second: Scene) -> None:
    make_holds_due(second.lake)
    assert second.run("contract", "--env", second.env).exit_code == 0
    second.refused("nothing_to_roll_back", GONE, "rollback", "--env", second.env)
    second.is_right("1.1.0")


def test_the_log_that_the_way_back_needs_is_gone(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "runner_for", lambda url, conf: jobs())
    found = make_rewritten(tmp_path)
    upgrade(found, found.env, jobs())
    found.insert("keyed", [{"id": 900, "v": 9}])
    clean(found.path("keyed"))
    scene = Scene(found.lake, Releases(found.lake.first, found.lake.second, found.lake.second, found.lake.second), run)
    scene.refused("way_back_gone", GONE, "rollback", "--env", scene.env)
    follow(run, "There is nothing to go back to", "stay at the release", ENV=scene.env)
    found.check("1.1.0")


def test_a_rollback_that_was_killed(second: Scene) -> None:
    """It is unfinished for whoever wants to end the hold; its own words bring it to its end, and the upgrade again."""
    with pytest.raises(Crash):
        commands.rollback(second.lake.crashing_at(3))
    make_holds_due(second.lake)
    second.refused("rollback_open", UNFINISHED, "contract", "--env", second.env, exit_code=75)
    follow(second.run, "A rollback is unfinished", "to its end", ENV=second.env, RELEASE=second.releases.two)
    second.is_right("1.1.0")


def test_an_upgrade_over_half_a_rollback(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "runner_for", lambda url, conf: OnlineJobs())
    after, _ = killed_ways.REVERTED["NOT NULL"]
    found = killed_ways.case(tmp_path, killed_ways.BASE, after, killed_ways.ROW)
    killed_ways.upgrade(found.lake.env, found)
    killed_ways.killed(killed_ways.back, found, "rollback")
    insert(found.lake.path("t"), [killed_ways.ROW])
    scene = Scene(found.lake, Releases(found.lake.first, found.lake.second, found.lake.second, found.lake.second), run)
    error = scene.refused("rollback_unfinished", UNFINISHED, "upgrade", "--env", scene.env, "--release", scene.releases.two)
    assert "schemamig rollback" in error["next"]
    follow(run, "A rollback is unfinished", "to its end", ENV=scene.env, RELEASE=scene.releases.two)
    scene.is_right("1.1.0")
    assert Environment.open(scene.env).reader("t").arrow().num_rows == 2
