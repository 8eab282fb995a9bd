"""The runbook's entries of tables: each is provoked, and its own words are followed."""

from __future__ import annotations

import shutil
from pathlib import Path

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import ReaderFenced
from airflow_provider_schemamig.core.environment import Environment
from tests.support.lake import rows
from tests.support.tables import foreign
from tests.support.upgrades import heartbeat, make_holds_due, refused, two_releases
from tests.unit.cli.samples import Run
from tests.unit.runbook.book import follow, sees
from tests.unit.runbook.scenes import ROW, Scene

DRIFT = "Drift"


def drifted(scene: Scene, *found: dict[str, object]) -> None:
    """Somebody added a column, with these rows in it, and an upgrade is refused."""
    foreign.add_column(scene.lake.path("t"), "extra")
    if found:
        foreign.write(scene.lake.path("t"), list(found))
    scene.refused("drift", DRIFT, "upgrade", "--env", scene.env, "--release", scene.releases.two)


def test_drift_is_undone(first: Scene) -> None:
    drifted(first)
    follow(first.run, "Drift", "undo it on the table", ENV=first.env, COLLECTION="t")
    first.upgrade(first.releases.two)
    first.is_right("1.1.0")


def test_drift_is_undone_although_values_go(first: Scene) -> None:
    drifted(first, {"id": 2, "a": "z", "gone": None, "extra": "mine"})
    first.refused("lossy_revert", DRIFT, "revert", "--env", first.env, "--collection", "t")
    follow(first.run, "Drift", "undo it although values are lost", ENV=first.env, COLLECTION="t")
    first.is_right("1.0.0")
    assert len(rows(first.lake.path("t"), "id")) == 2


def test_drift_is_kept(first: Scene, tmp_path: Path) -> None:
    drifted(first)
    release = shutil.copytree(first.releases.one, tmp_path / "release")
    follow(first.run, "Drift", "keep it", ENV=first.env, COLLECTION="t", RELEASE=release)
    assert (release / "migrations" / "v1_1_0.py").exists()
    first.is_right("1.0.0")
    first.upgrade(release)
    first.is_right("1.1.0")


def test_a_drifted_table_is_given_back(first: Scene) -> None:
    drifted(first)
    before = sorted((first.lake.path("t") / "_delta_log").iterdir())
    path = first.lake.path("t")
    follow(first.run, "Drift", "neither goes", ENV=first.env, COLLECTION="t")
    assert sorted((path / "_delta_log").iterdir()) == before
    first.is_right("1.0.0")


def test_a_table_that_is_gone_comes_from_a_backup(first: Scene, tmp_path: Path) -> None:
    path = first.lake.path("t")
    shutil.move(path, tmp_path / "backup")
    first.refused("shard_missing", "A table is gone or another one", "upgrade", "--env", first.env, "--release", first.releases.two)
    shutil.move(tmp_path / "backup", path)
    follow(first.run, "A table is gone or another one", "bring the table's folder back", ENV=first.env)
    first.upgrade(first.releases.two)
    first.is_right("1.1.0")


def test_a_table_that_is_gone_for_ever_is_given_up(first: Scene) -> None:
    shutil.rmtree(first.lake.path("t"))
    follow(first.run, "A table is gone or another one", "its files are nowhere any more", ENV=first.env, COLLECTION="t")
    assert "t" not in commands.status(Environment.open(first.env)).document["collections"]
    assert first.run("ledger", "verify", "--env", first.env).exit_code == 0


def test_a_hold_that_cannot_end_as_its_table_is_gone_ends_when_that_is_given_up(tmp_path: Path, run: Run) -> None:
    two = "CREATE TABLE t (id BIGINT, g INT);", "CREATE TABLE t (id BIGINT);"
    lake = two_releases(tmp_path, *two, 'evolution("t", drop=["g"])')
    lake.upgrade(lake.second)
    shutil.rmtree(lake.path("t"))
    make_holds_due(lake)
    env = lake.env.location.uri
    stuck = run("contract", "--env", env, "--json")
    assert stuck.document["error"]["code"] == "shard_missing"
    assert "`schemamig unmanage --collection t`" in stuck.document["error"]["next"]
    follow(run, "A table is gone or another one", "its files are nowhere any more", ENV=env, COLLECTION="t")
    assert run("contract", "--env", env).exit_code == 0
    assert commands.status(Environment.open(env)).document["holds"] == []


def test_a_collection_that_an_upgrade_has_claimed(first: Scene) -> None:
    generation, _ = first.claim(first.releases.two)
    title = "A collection is in use"
    first.refused("collection_in_use", title, "unmanage", "--env", first.env, "--collection", "t")
    follow(first.run, "A collection is in use", "a claimed upgrade has it", ENV=first.env, COLLECTION="t", GENERATION=generation)
    first.is_right("1.0.0")
    assert "t" not in commands.status(Environment.open(first.env)).document["collections"]


def test_a_collection_whose_history_is_pinned(first: Scene) -> None:
    assert first.run("pin", "--env", first.env, "--collection", "t", "--hours", 900, "--holder", "ann").exit_code == 0
    found = first.refused("collection_in_use", "A collection is in use", "unmanage", "--env", first.env, "--collection", "t")
    assert "--holder ann" in found["next"]
    follow(first.run, "A collection is in use", "a pin has it", ENV=first.env, COLLECTION="t", HOLDER="ann")
    first.is_right("1.0.0")


def fenced(scene: Scene) -> None:
    """1.1.0 took a column away, and its hold is over."""
    make_holds_due(scene.lake)
    commands.contract(scene.lake.env)
    with refused("reader_fenced", "t"):
        scene.lake.env.reader("t", release="1.0.0").arrow()
    sees(ReaderFenced.code, "Readers or writers are fenced")


def test_a_reader_that_is_fenced_moves(second: Scene) -> None:
    fenced(second)
    shown = follow(second.run, "Readers or writers are fenced", "see the release", ENV=second.env)
    assert "1.1.0" in shown[0].stdout
    assert second.lake.env.reader("t", release="1.1.0").arrow().to_pylist() == [{"id": 1, "b": "x"}]


def test_a_reader_that_cannot_move_tonight(second: Scene) -> None:
    follow(second.run, "Readers or writers are fenced", "the old job has to run", ENV=second.env)
    second.is_right("1.0.0")
    assert Environment.open(second.env).reader("t", release="1.0.0").arrow().to_pylist() == [ROW]


def test_a_hold_that_a_node_keeps_open(second: Scene) -> None:
    heartbeat(second.lake.env, "1.0.0", name="old-dashboard")
    make_holds_due(second.lake)
    contract = ("contract", "--env", second.env)
    second.refused("hold_in_use", "An older hold is in the way", *contract)
    heartbeat(second.lake.env, "1.0.0", name="old-dashboard", seconds=-1)
    follow(second.run, "A hold does not end", "see until when", ENV=second.env)
    second.is_right("1.1.0")
    assert commands.status(Environment.open(second.env)).document["holds"] == []


def test_a_hold_that_a_dead_node_keeps_open(second: Scene) -> None:
    heartbeat(second.lake.env, "1.0.0", name="old-dashboard")
    make_holds_due(second.lake)
    follow(second.run, "A hold does not end", "the node is dead", ENV=second.env)
    second.is_right("1.1.0")
    assert commands.status(Environment.open(second.env)).document["holds"] == []


def test_no_run_of_maintenance_ends_a_hold_before_its_time(second: Scene) -> None:
    """Green, and nothing is done: that is what the entry says."""
    done = second.run("contract", "--env", second.env, "--json")
    assert (done.exit_code, done.document["stages"], len(done.document["pending"])) == (0, [], 1)
