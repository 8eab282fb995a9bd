"""The origin's ledger or a table of it came back from a backup, or an upgrade was given up: nothing of its rows is left behind unseen."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.backup import backup
from airflow_provider_schemamig.core.ledger.admin.backup import restore as restore_ledger
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.errors import RestoreWouldLose
from airflow_provider_schemamig.core.replication.model import PauseReason
from airflow_provider_schemamig.core.replication.restore.restore import restore
from airflow_provider_schemamig.core.upgrade.drift.accept import accept
from tests.support.lake import Crash
from tests.support.online import OnlineJobs
from tests.support.replicas import Replicas, make_replicas
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs

FIRST = "CREATE TABLE trips (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id));\n"
REWRITTEN = FIRST.replace("v STRING", "v STRING, w STRING")
UP, DOWN = "SELECT id, v, v AS w FROM {trips}", "SELECT id, v FROM {trips}"


def restore_from(two: Replicas, folder: Path) -> None:
    """Lose a's ledger, and bring back the one in ``folder``."""
    root = two.env("a").location.local_path
    assert root is not None
    shutil.rmtree(root / "_schemamig" / "ledger")
    restore_ledger(Environment.open(str(root)), str(folder))
    two.lakes["a"] = replace(two.lakes["a"], env=Environment.open(str(root)))


def from_backup(two: Replicas, kept: Path) -> None:
    """Lose the folder of a's table, and bring back the copy ``kept``."""
    shutil.rmtree(two.path("a"))
    shutil.copytree(kept, two.path("a"))


@pytest.mark.some(2)
@pytest.mark.parametrize("column", ["d INT", "d INT DEFAULT 7"])
@pytest.mark.parametrize("stream", ["is beyond the upgrade", "is behind the upgrade"])
def test_restored_origin_its_events_wait_until_the_drift_is_accepted(stream: str, column: str, tmp_path: Path) -> None:
    two = make_replicas(tmp_path, (FIRST, ""), (FIRST.replace("v STRING", f"v STRING, {column}"), 'evolution("trips")'))
    two.runner = OnlineJobs()
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b")
    backup(two.env("a"), str(tmp_path / "backup"))
    two.upgrade("a", "b", to=2)
    if stream == "is beyond the upgrade":
        assert two.state("a", "b").pause is None
    two.insert("a", {"id": 2, "v": "y", "d": 9})
    restore_from(two, tmp_path / "backup")
    two.change("a", lambda row: row | {"d": 5} if row["id"] == 1 else row)
    pause = two.state("a", "b").pause
    assert pause is not None
    assert pause.reason is PauseReason.ORIGIN_DRIFT
    accept(two.env("a"), two.folders[1])
    two.upgrade("a", to=2)
    state = two.state("a", "b")
    assert (state.pause, state.error) == (None, None)
    assert two.rows("a") == two.rows("b")


@pytest.mark.parametrize("looks", ["while its log is shorter", "when it is longer again"])
def test_restored_origin_a_table_from_a_backup_is_not_followed_although_it_has_as_many_versions(looks: str, tmp_path: Path) -> None:
    two = make_replicas(tmp_path, (FIRST, ""))
    two.insert("a", {"id": 1})
    two.bring("a", "b")
    shutil.copytree(two.path("a"), tmp_path / "kept")
    two.insert("a", {"id": 2})
    two.insert("a", {"id": 3})
    two.bring("a", "b")
    from_backup(two, tmp_path / "kept")
    if looks == "while its log is shorter":
        assert two.state("a", "b").error == "origin_replaced"
    for number in (10, 11, 12, 13):
        two.insert("a", {"id": number})
    for _ in range(2):
        assert two.state("a", "b").error == "origin_replaced"
    assert [row["id"] for row in two.rows("b")] == [1, 2, 3]
    restore(two.env("a"), two.env("b"), CollectionName("trips"), jobs=lambda: two.runner)
    two.insert("a", {"id": 14})
    assert two.state("a", "b").error is None
    assert two.rows("a") == two.rows("b")


#: What the origin commits last before its table is lost, and the stream passes over.
PASSED_OVER: dict[str, Callable[[Replicas], object]] = {
    "rows laid out anew": lambda two: tables.optimize(two.path("a")),
    "a row of the other environment": lambda two: (two.insert("b", {"id": 51}), two.bring("b", "a")),
}


@pytest.mark.parametrize("what", PASSED_OVER)
def test_restored_origin_a_table_from_a_backup_is_not_followed_although_the_backup_has_all_that_was_brought(
    what: str, tmp_path: Path
) -> None:
    two = make_replicas(tmp_path, (FIRST, ""))
    two.insert("a", {"id": 1})
    two.insert("a", {"id": 2})
    two.bring("a", "b")
    restore(two.env("b"), two.env("a"), CollectionName("trips"), allow_lossy=True, jobs=lambda: two.runner)
    two.insert("a", {"id": 3})
    two.bring("a", "b")
    shutil.copytree(two.path("a"), tmp_path / "kept")
    PASSED_OVER[what](two)
    before = two.state("a", "b")
    assert before.seen > before.checkpoint
    from_backup(two, tmp_path / "kept")
    for number in (10, 11):
        two.insert("a", {"id": number})
    for _ in range(2):
        assert two.state("a", "b").error == "origin_replaced"
    assert not [row for row in two.rows("b") if row["id"] in (10, 11)]


def test_restored_origin_what_lies_behind_commits_that_are_passed_over_is_looked_at_as_they_come(tmp_path: Path) -> None:
    """The table comes back between two looks that have nothing to bring."""
    two = make_replicas(tmp_path, (FIRST, ""))
    two.insert("a", {"id": 1})
    two.insert("a", {"id": 2})
    two.bring("a", "b")
    shutil.copytree(two.path("a"), tmp_path / "kept")
    tables.optimize(two.path("a"))
    two.bring("a", "b")
    from_backup(two, tmp_path / "kept")
    two.insert("a", {"id": 10})
    tables.optimize(two.path("a"))
    assert two.state("a", "b").error == "origin_replaced"


def loses_its_state(two: Replicas) -> None:
    two.bring("a", "b")
    root = two.env("b").location.local_path
    assert root is not None
    (state,) = (root / "_schemamig" / "replicas" / "streams").rglob("trips.json")
    state.unlink()


def dies_behind_its_commit(two: Replicas) -> None:
    def dies(moment: str, what: str, key: str) -> None:
        if moment == "after":
            raise Crash

    with pytest.raises(Crash):
        two.bring("a", "b", jobs=RowJobs({}, on_commit=dies))


#: How it comes that no state object says which commit the stream has come to.
UNKNOWN = {"its state is lost": loses_its_state, "its process dies behind its commit": dies_behind_its_commit}


@pytest.mark.some(2)
@pytest.mark.parametrize("target", ["stays", "commits rows of its own", "rewrites its table"])
@pytest.mark.parametrize("stream", UNKNOWN)
def test_restored_origin_a_table_from_a_backup_is_not_followed_by_a_stream_without_state(stream: str, target: str, tmp_path: Path) -> None:
    two = make_replicas(tmp_path, (FIRST, ""), (REWRITTEN, f'rewrite("trips", up="{UP}", down="{DOWN}")'))
    two.runner = RowJobs({UP: lambda row: [{**row, "w": row["v"]}]})
    two.insert("a", {"id": 1})
    two.bring("a", "b")
    shutil.copytree(two.path("a"), tmp_path / "kept")
    two.insert("a", {"id": 2, "v": "x"})
    two.insert("a", {"id": 3, "v": "x"})
    UNKNOWN[stream](two)
    if target == "commits rows of its own":
        two.insert("b", {"id": 51})
    elif target == "rewrites its table":
        two.upgrade("b", to=2, end_hold=False)
    from_backup(two, tmp_path / "kept")
    for number in (10, 11, 12, 13):
        two.insert("a", {"id": number})
    for _ in range(2):
        assert two.state("a", "b").error == "origin_replaced"
    assert not [row for row in two.rows("b") if row["id"] in (10, 11, 12, 13)]


def test_restored_origin_a_restore_that_dies_behind_its_commit_is_where_the_stream_goes_on(tmp_path: Path) -> None:
    """Its state still says that of the table that was lost."""
    two = make_replicas(tmp_path, (FIRST, ""))
    two.insert("a", {"id": 1})
    two.bring("a", "b")
    shutil.copytree(two.path("a"), tmp_path / "kept")
    two.insert("a", {"id": 2})
    two.bring("a", "b")
    from_backup(two, tmp_path / "kept")
    two.insert("a", {"id": 10})
    two.insert("a", {"id": 11})
    assert two.state("a", "b").error == "origin_replaced"

    def dies(moment: str, what: str, key: str) -> None:
        if "replicas/streams" in key:
            raise Crash

    with pytest.raises(Crash):
        restore(two.env("a"), two.hooked("b", dies), CollectionName("trips"), jobs=lambda: two.runner)
    two.insert("a", {"id": 12})
    assert two.state("a", "b").error is None
    assert two.rows("a") == two.rows("b")


@pytest.mark.parametrize("rows", [(10,), (10, 11)], ids=["while its log is shorter", "when it is as long again"])
def test_restored_origin_a_restore_does_not_take_what_came_after_the_backup_for_brought(rows: Sequence[int], tmp_path: Path) -> None:
    """The other environment had as many versions of the table before it was lost."""
    two = make_replicas(tmp_path, (FIRST, ""))
    two.insert("a", {"id": 1})
    two.bring("a", "b")
    restore(two.env("b"), two.env("a"), CollectionName("trips"), allow_lossy=True, jobs=lambda: two.runner)
    shutil.copytree(two.path("a"), tmp_path / "kept")
    two.insert("a", {"id": 2})
    two.insert("a", {"id": 3})
    two.bring("a", "b")
    from_backup(two, tmp_path / "kept")
    for number in rows:
        two.insert("a", {"id": number})
    two.insert("b", {"id": 51})
    with pytest.raises(RestoreWouldLose):
        restore(two.env("b"), two.env("a"), CollectionName("trips"), jobs=lambda: two.runner)
    assert {row["id"] for row in two.rows("a")} >= set(rows)


@pytest.mark.parametrize("column", ["d INT", "d INT DEFAULT 7"])
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_an_upgrade_of_the_origin_that_was_given_up_and_made_again_keeps_what_came_into_its_columns(
    order: str, column: str, tmp_path: Path
) -> None:
    """The column was on the table, and whoever writes by what the table shows gave it values."""
    two = make_replicas(tmp_path, (FIRST, ""), (FIRST.replace("v STRING", f"v STRING, {column}"), 'evolution("trips")'))
    two.runner = OnlineJobs()
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b")
    for name in order:
        if name == "a":
            generation = commands.preflight(two.env("a"), two.folders[1], jobs=two.runner).generation
            assert generation is not None
            commands.promote(two.env("a"), generation)
            commands.expand(two.env("a"), generation)
            if "DEFAULT" in column:
                commands.change(two.env("a"), generation, jobs=two.runner)
            two.insert("a", {"id": 2, "v": "y", "d": 9})
            two.change("a", lambda row: row | {"d": 5} if row["id"] == 1 else row)
            commands.cancel(two.env("a"), generation, jobs=two.runner)
        two.upgrade(name, to=2)
        two.bring("a", "b")
    state = two.state("a", "b")
    assert (state.pause, state.error) == (None, None)
    assert [row["d"] for row in two.declared_rows("b")] == [5, 9]
    assert two.declared_rows("a") == two.declared_rows("b")
