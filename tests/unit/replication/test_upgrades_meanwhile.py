"""Upgrades and rollbacks of either end under a stream and a restore: no value of a new column, and no row, stays behind unsaid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.replication.errors import RestoreWouldLose
from airflow_provider_schemamig.core.replication.restore.errors import OriginUpgrading
from tests.support.online import OnlineJobs
from tests.support.replicas import Replicas, make_replicas
from tests.support.upgrades import make_holds_due
from tests.unit.replication.test_rows_taken_away import COLUMNS, REWRITE, from_to, with_jobs

ADDED = (COLUMNS % "", ""), (COLUMNS % ", x STRING", 'evolution("trips")')
LINES = "CREATE TABLE lines (line STRING, n INT);\n"
TWO_TABLES = (LINES + ADDED[0][0], ""), (LINES + ADDED[1][0], ADDED[1][1])


@pytest.mark.parametrize("is_target_ahead", [False, True])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_restore_in_the_middle_of_an_upgrade_of_the_origin_waits(tmp_path: Path, is_first: bool, is_target_ahead: bool) -> None:
    envs = with_jobs(make_replicas(tmp_path, *ADDED))
    if not is_first:
        envs.insert("a", {"id": 1, "v": "a"})
        envs.state("a", "b")
    if is_target_ahead:
        envs.upgrade("b", to=2)
    generation = commands.preflight(envs.env("a"), envs.folders[1], jobs=lambda: envs.runner).generation
    assert generation is not None
    commands.promote(envs.env("a"), generation)
    commands.expand(envs.env("a"), generation, jobs=lambda: envs.runner)
    envs.insert("a", {"id": 2, "v": "a", "x": "val"})
    if is_first:
        pause = envs.state("a", "b").pause
        assert pause is not None and "an upgrade of the origin is under way" in pause.detail
    else:
        with pytest.raises(OriginUpgrading, match="is known when it is over"):
            from_to(envs, "a", "b")
    commands.cutover(envs.env("a"), generation, jobs=lambda: envs.runner)
    if not is_target_ahead:
        envs.upgrade("b", to=2)
    if not is_first:
        from_to(envs, "a", "b")
    assert envs.state("a", "b").pause is None
    assert {row["id"]: row["x"] for row in envs.declared_rows("b")}[2] == "val"


def between(envs: Replicas, job: str, act: Callable[[], None]) -> None:
    """Run ``act`` before the first ``job`` of Spark."""

    def before(name: str, request: object) -> None:
        if name == job:
            envs.runner.before = None
            act()

    envs.runner.before = before


def test_a_first_look_goes_by_the_ledger_of_when_the_rows_were_copied(tmp_path: Path) -> None:
    """While another collection of the same run is copied, the origin makes a release."""
    envs = with_jobs(make_replicas(tmp_path, *TWO_TABLES))
    envs.insert("a", {"line": "l", "n": 1}, collection="lines")
    envs.insert("a", {"id": 1, "v": "a"})

    def released() -> None:
        envs.upgrade("a", to=2)
        envs.insert("a", {"id": 2, "v": "a", "x": "val"})

    between(envs, "fill", released)
    envs.bring("a", "b", "lines", "trips")
    envs.upgrade("b", to=2)
    envs.bring("a", "b", "lines", "trips")
    assert envs.declared_rows("b") == [{"id": 1, "v": "a", "x": None}, {"id": 2, "v": "a", "x": "val"}]


@pytest.mark.parametrize("is_target_ahead", [False, True])
def test_rows_are_read_by_no_ledger_that_is_older_than_where_a_twin_has_put_the_stream(tmp_path: Path, is_target_ahead: bool) -> None:
    envs = with_jobs(make_replicas(tmp_path, *TWO_TABLES))
    envs.insert("a", {"id": 1, "v": "a"})
    envs.insert("a", {"line": "l", "n": 1}, collection="lines")
    envs.bring("a", "b", "lines", "trips")
    if is_target_ahead:
        envs.upgrade("b", to=2)
    envs.insert("a", {"line": "m", "n": 2}, collection="lines")
    envs.insert("a", {"id": 2, "v": "a"})

    def released() -> None:
        envs.upgrade("a", to=2)
        envs.state("a", "b", jobs=OnlineJobs())
        envs.insert("a", {"id": 3, "v": "a", "x": "x3"})

    between(envs, "apply", released)
    envs.bring("a", "b", "lines", "trips")
    if not is_target_ahead:
        envs.upgrade("b", to=2)
    envs.bring("a", "b", "lines", "trips")
    assert {row["id"]: row["x"] for row in envs.declared_rows("b")} == {1: None, 2: None, 3: "x3"}


def test_a_pair_begins_after_a_rewrite_of_the_one_that_has_the_rows(tmp_path: Path) -> None:
    """Its rows from before the rewrite are the other's by its stream, though the old table never was."""
    envs = with_jobs(make_replicas(tmp_path, *REWRITE))
    envs.insert("b", {"id": 1, "v": "b"})
    for name in "ba":
        envs.upgrade(name, to=2)
    envs.insert("b", {"id": 2, "v": "b", "w": "b"})
    assert envs.state("b", "a").error is None
    from_to(envs, "a", "b")
    assert [row["id"] for row in envs.rows("b")] == [1, 2]
    assert envs.state("a", "b").error is None


def test_a_restore_counts_rows_of_a_thirds_new_table_that_the_origin_does_not_follow_yet(tmp_path: Path) -> None:
    envs = with_jobs(make_replicas(tmp_path, *REWRITE, names="abd"))
    envs.insert("d", {"id": 1, "v": "d"})
    for target in "ab":
        envs.state("d", target)
    for name in "dab":
        envs.upgrade(name, to=2)
    envs.state("d", "b")
    envs.insert("d", {"id": 2, "v": "d", "w": "d"})
    envs.state("d", "b")
    envs.insert("a", {"id": 50, "v": "a", "w": "a"})
    with pytest.raises(RestoreWouldLose, match="rows of the environment"):
        from_to(envs, "a", "b")
    assert [row["id"] for row in envs.rows("b")] == [1, 2]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_restore_counts_own_rows_that_came_back_with_a_rollback(tmp_path: Path, is_deleted: bool) -> None:
    """Also once the table that they came back from is deleted, with which goes what says whose they are."""
    envs = with_jobs(make_replicas(tmp_path, *REWRITE))
    envs.insert("a", {"id": 1, "v": "a"})
    envs.state("a", "b")
    envs.upgrade("b", to=2)
    envs.insert("b", {"id": 20, "v": "b", "w": "b"})
    envs.rollback("b")
    if is_deleted:
        make_holds_due(envs.lakes["b"])
        commands.contract(envs.env("b"))
    envs.insert("a", {"id": 3, "v": "a"})
    with pytest.raises(RestoreWouldLose):
        from_to(envs, "a", "b")
    assert [row["id"] for row in envs.rows("b")] == [1, 20]


def test_a_restore_counts_rows_of_a_thirds_new_table_also_after_a_rewrite_of_the_target(tmp_path: Path) -> None:
    """Whose log begins anew then, and tells of no stream."""
    up = "SELECT id, v, w, w AS q FROM {trips}"
    again = (COLUMNS % ", w STRING, q STRING", f'rewrite("trips", up="{up}", down="SELECT id, v, w FROM {{trips}}")')
    envs = with_jobs(make_replicas(tmp_path, *REWRITE, again, names="abd"))
    envs.insert("d", {"id": 1, "v": "d"})
    for target in "ab":
        envs.state("d", target)
    for name in "dab":
        envs.upgrade(name, to=2, end_hold=True)
    envs.state("d", "b")
    envs.insert("d", {"id": 2, "v": "d", "w": "d"})
    envs.state("d", "b")
    for name in "ab":
        envs.upgrade(name, to=3, end_hold=True)
    envs.insert("a", {"id": 50, "v": "a", "w": "a", "q": "a"})
    with pytest.raises(RestoreWouldLose, match="rows of the environment"):
        from_to(envs, "a", "b")
    assert [row["id"] for row in envs.rows("b")] == [1, 2]
