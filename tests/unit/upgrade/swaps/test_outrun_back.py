"""Somebody changes rows as fast as a rollback fills the column of before: ``force`` lets them wait, as on the way forth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.storage.errors import StorageUnreachable
from airflow_provider_schemamig.core.upgrade.tables import batches
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.lake import Lake
from tests.support.online import OnlineJobs
from tests.support.rows import tables
from tests.support.upgrades import two_releases, whole

FIRST, SECOND = "CREATE TABLE t (id BIGINT, n STRING, v BIGINT);", "CREATE TABLE t (id BIGINT, n BIGINT, v BIGINT);"


def outrun(lake: Lake, *, during: bool) -> tuple[Environment, OnlineJobs]:
    """Let somebody update all rows while each batch is made, or after its commit; a seal refuses that."""
    jobs, filled = OnlineJobs(), [False]

    def update() -> None:
        if not tables.snapshot(lake.path("t")).sealed:
            tables.change(lake.path("t"), lambda row: {**row, "v": row["v"] + 1})

    def hook(moment: str, what: str, key: str) -> None:
        if moment == "after" and key.startswith("_delta_log/") and filled[0]:
            filled[0] = False
            update()

    if during:
        jobs.after = lambda job, request: update()
        return lake.env, jobs
    jobs.after = lambda job, request: filled.__setitem__(0, job != "preflight")
    return replace(lake.env, on_write=hook), jobs


@pytest.mark.parametrize(("during", "code"), [(False, "backfill_starved"), (True, "files_moved")])
def test_an_outrun_rollback_comes_through_after_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, during: bool, code: str) -> None:
    monkeypatch.setattr(batches, "_LONGEST_PAUSE_SECONDS", 0.0)  # between two lost races
    lake = two_releases(tmp_path, FIRST, SECOND, 'evolution("t")')
    tables.insert(lake.path("t"), [{"id": 1, "n": "007", "v": 0}])
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    tables.insert(lake.path("t"), [{"id": 2, "n": 5, "v": 0}])
    env, jobs = outrun(lake, during=during)
    with pytest.raises(SchemamigError) as refused:
        commands.rollback(env, jobs=jobs)
    assert refused.value.code == code
    commands.force(lake.env, "t")
    env, jobs = outrun(lake, during=during)
    commands.rollback(env, jobs=jobs)
    assert lake.version == "1.0.0"
    assert {row["id"]: row["n"] for row in tables.snapshot(lake.path("t")).rows} == {1: "007", 2: "5"}
    whole(lake)


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_an_outrun_rollback_leaves_no_seal_where_the_store_does_not_answer_once(tmp_path: Path, stride: int) -> None:
    moment = 0
    while _fails(tmp_path / str(moment), moment):
        moment += stride
    assert moment > 4, "a fill, its end, and what lifts the seal"


def _fails(folder: Path, moment: int) -> bool:
    """Let the store fail at the write number ``moment`` behind the seal. Return whether there was one."""
    lake = two_releases(folder, FIRST, SECOND, 'evolution("t")')
    tables.insert(lake.path("t"), [{"id": 1, "n": "007", "v": 0}])
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    tables.insert(lake.path("t"), [{"id": 2, "n": 5, "v": 0}])
    commands.force(lake.env, "t")
    env, jobs = outrun(lake, during=False)
    races, left = env.on_write, [moment]

    def hook(at: str, what: str, key: str) -> None:
        assert races is not None
        races(at, what, key)
        if tables.snapshot(lake.path("t")).sealed:
            left[0] -= 1
            if left[0] == -1:
                raise StorageUnreachable(uri=key, reason="no answer")

    try:
        commands.rollback(replace(env, on_write=hook), jobs=jobs)
    except StorageUnreachable:
        assert not tables.snapshot(lake.path("t")).sealed, "nobody waits for the next try"
        commands.rollback(lake.env, jobs=OnlineJobs())
    assert lake.version == "1.0.0"
    assert {row["id"]: row["n"] for row in tables.snapshot(lake.path("t")).rows} == {1: "007", 2: "5"}
    assert not lake.state.controls
    tables.insert(lake.path("t"), [])
    whole(lake)
    return left[0] < 0
