"""What a restore would take away from the target, each of a kind that its table's newest commits do not show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.delta.commit.append import Appended, append
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.errors import OriginReplaced, RestoreChangesSchema, RestoreWouldLose
from airflow_provider_schemamig.core.replication.restore import full_copy
from airflow_provider_schemamig.core.replication.restore.restore import restore
from tests.support.online import OnlineJobs
from tests.support.replicas import Replicas, make_replicas
from tests.support.rows import tables

TRIPS = CollectionName("trips")
COLUMNS = "CREATE TABLE trips (id BIGINT NOT NULL, v STRING%s, PRIMARY KEY (id));"
UP, DOWN = "SELECT id, v, v AS w FROM {trips}", "SELECT id, v FROM {trips}"
REWRITE = (COLUMNS % "", ""), (COLUMNS % ", w STRING", f'rewrite("trips", up="{UP}", down="{DOWN}")')
DROP = (COLUMNS % ", x STRING", ""), (COLUMNS % "", 'evolution("trips", drop=["x"])')


def from_to(envs: Replicas, origin: str, target: str, *, version: int | None = None, allow_lossy: bool = False) -> None:
    restore(envs.env(origin), envs.env(target), TRIPS, version=version, allow_lossy=allow_lossy, jobs=lambda: envs.runner)


def with_jobs(envs: Replicas) -> Replicas:
    envs.runner = OnlineJobs()
    return envs


def test_restore_closes_the_position_of_rows_that_came_by_a_restore(tmp_path: Path) -> None:
    """They were not brought one by one, and are the origin's only ones all the same."""
    envs = make_replicas(tmp_path, names="abc")
    envs.insert("b", {"id": 1, "v": "b"}, {"id": 2, "v": "b"})
    envs.insert("a", {"id": 50, "v": "a"})
    from_to(envs, "b", "a", allow_lossy=True)
    envs.insert("c", {"id": 9, "v": "c"})
    from_to(envs, "c", "a", allow_lossy=True)
    assert envs.state("b", "a").error == "never_restored"
    with pytest.raises(RestoreWouldLose):
        from_to(envs, "a", "b")
    assert [row["id"] for row in envs.rows("b")] == [1, 2]


def test_restore_counts_rows_of_a_third_that_a_rollback_brought_back(tmp_path: Path) -> None:
    envs = with_jobs(make_replicas(tmp_path, *REWRITE, names="abc"))
    for origin in "ca":
        assert envs.state(origin, "b").error is None
    for name in "cb":
        envs.upgrade(name, to=2, end_hold=False)
    envs.insert("c", {"id": 100, "v": "c", "w": "c"})
    envs.state("c", "b")
    for name in "bc":
        envs.rollback(name)
    envs.insert("a", {"id": 5, "v": "a"})
    with pytest.raises(RestoreWouldLose, match="rows of the environment"):
        from_to(envs, "a", "b")
    assert [row["id"] for row in envs.rows("b")] == [100]


def test_restore_counts_rows_of_a_third_that_came_along_with_one_from_elsewhere(tmp_path: Path) -> None:
    """b began with the rows of c, and those that c had of d."""
    envs = make_replicas(tmp_path, names="abcd")
    envs.insert("c", {"id": 1, "v": "c"})
    envs.bring("c", "a")
    envs.insert("d", {"id": 100, "v": "d"})
    from_to(envs, "d", "c", allow_lossy=True)
    envs.insert("c", {"id": 2, "v": "c"})
    for origin, target in (("c", "b"), ("d", "b"), ("c", "a")):
        envs.bring(origin, target)
    envs.insert("a", {"id": 50, "v": "a"})
    with pytest.raises(RestoreWouldLose, match="rows of the environment"):
        from_to(envs, "a", "b")
    assert [row["id"] for row in envs.rows("b")] == [100, 2]


def test_restore_counts_rows_that_were_appended_beside_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    envs = make_replicas(tmp_path, names="ab")
    envs.insert("a", {"id": 1, "v": "a"})

    def append_late(*args: Any, **options: Any) -> Appended:
        monkeypatch.undo()
        envs.insert("b", {"id": 200, "v": "b"})
        return append(*args, **options)

    monkeypatch.setattr(f"{full_copy.__name__}.append", append_late)
    from_to(envs, "a", "b", allow_lossy=True)
    envs.insert("a", {"id": 3, "v": "a"})
    with pytest.raises(RestoreWouldLose, match="commit"):
        from_to(envs, "a", "b")
    assert sorted(row["id"] for row in envs.rows("b")) == [1, 200]


def test_restore_looks_again_after_a_stream_that_brings_rows_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They never stand beside it: where the stream goes on is what the restore has looked at."""
    envs, lines = make_replicas(tmp_path, names="abc"), CollectionName("lines")

    def write(name: str, number: int) -> None:
        envs.insert(name, {"line": f"{number}", "n": number}, collection=lines)

    write("c", 1)
    for target in "ab":
        envs.bring("c", target, lines)
    write("a", 5)

    def append_late(*args: Any, **options: Any) -> Appended:
        monkeypatch.undo()
        write("c", 2)
        envs.bring("c", "b", lines)
        return append(*args, **options)

    monkeypatch.setattr(f"{full_copy.__name__}.append", append_late)
    restore(envs.env("a"), envs.env("b"), lines, allow_lossy=True, jobs=lambda: envs.runner)
    envs.bring("c", "b", lines)
    assert sorted(row["n"] for row in envs.rows("b", lines)) == [1, 2, 5]


def test_restore_at_a_version_that_an_upgrade_was_still_filling_is_refused(tmp_path: Path) -> None:
    envs = with_jobs(make_replicas(tmp_path, *REWRITE, names="ab"))
    envs.insert("a", {"id": 1, "v": "a"})
    envs.upgrade("a", "b", to=2)
    filled = next(version for version in range(9) if tables.snapshot(envs.path("a"), version).rows)
    for version in range(filled):
        with pytest.raises(OriginReplaced, match=f"at version {version} an upgrade was still filling it"):
            from_to(envs, "a", "b", version=version)
    assert (filled > 0, envs.rows("b")) == (True, [])
    from_to(envs, "a", "b", version=filled)
    assert [row["id"] for row in envs.rows("b")] == [1]


def test_restore_over_a_column_that_the_target_keeps_for_its_rollback_is_refused(tmp_path: Path) -> None:
    envs = with_jobs(make_replicas(tmp_path, *DROP, names="ab"))
    envs.insert("a", {"id": 1, "v": "a", "x": "kept"})
    envs.bring("a", "b")
    envs.upgrade("a", "b", to=2, end_hold=False)
    envs.insert("a", {"id": 2, "v": "a"})
    with pytest.raises(RestoreChangesSchema, match="x is kept at the target for a rollback of generation 2"):
        from_to(envs, "a", "b")
    envs.bring("a", "b")
    envs.rollback("b")
    assert [(row["id"], row["x"]) for row in envs.rows("b")] == [(1, "kept"), (2, None)]


def test_restore_over_a_column_of_a_release_that_was_taken_back_is_none_over_a_way_back(tmp_path: Path) -> None:
    """It stays on the table, and would be in every restore's way for ever."""
    envs = with_jobs(make_replicas(tmp_path, (COLUMNS % "", ""), (COLUMNS % ", x STRING", 'evolution("trips")'), names="ab"))
    envs.insert("a", {"id": 1, "v": "a"})
    envs.bring("a", "b")
    envs.upgrade("b", to=2, end_hold=False)
    envs.insert("a", {"id": 2, "v": "a"})
    envs.bring("a", "b")
    envs.rollback("b")
    envs.insert("a", {"id": 3, "v": "a"})
    from_to(envs, "a", "b")
    assert [row["id"] for row in envs.declared_rows("b")] == [1, 2, 3]


def test_first_look_leaves_streams_into_a_target_without_rows_alone(tmp_path: Path) -> None:
    """Rows of another origin came there and went again."""
    envs = make_replicas(tmp_path, names="abc")
    envs.insert("c", {"id": 1, "v": "c"})
    envs.bring("c", "b")
    envs.change("c", lambda row: None)
    envs.bring("c", "b")
    envs.insert("a", {"id": 5, "v": "a"})
    envs.bring("a", "b")
    envs.insert("c", {"id": 2, "v": "c"})
    assert envs.state("c", "b").error is None
    assert sorted(row["id"] for row in envs.rows("b")) == [2, 5]
