"""The way back of a rewrite without a primary key, where `down` does not give back what a row of before was, and that row was changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.lake import Lake
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.rows.tables import Row
from tests.support.upgrades import refused, two_releases, whole

UP, DOWN = "SELECT id, CAST(v AS INT) AS v FROM {t}", "SELECT id, CAST(v AS STRING) AS v FROM {t}"
JOBS = RowJobs({UP: lambda row: [{**row, "v": int(row["v"])}], DOWN: lambda row: [{**row, "v": str(row["v"])}]})


def rewritten(folder: Path, key: str = "") -> Lake:
    schema = f"CREATE TABLE t (id BIGINT NOT NULL, v {{}}{key});"
    lake = two_releases(folder, schema.format("STRING"), schema.format("INT"), f'rewrite("t", up="{UP}", down="{DOWN}")')
    tables.insert(lake.path("t"), [{"id": 1, "v": "007"}, {"id": 2, "v": "8"}])
    commands.upgrade(lake.env, lake.second, jobs=JOBS)
    return lake


def change(lake: Lake, number: int, value: int | None) -> None:
    def of(row: Row) -> Row | None:
        return row if row["id"] != number else None if value is None else {**row, "v": value}

    tables.change(lake.path("t"), of)


@pytest.mark.parametrize("value", [9, None], ids=["changed", "deleted"])
def test_it_is_refused_and_said_and_goes_once_the_row_is_as_it_was(tmp_path: Path, value: int | None) -> None:
    lake = rewritten(tmp_path)
    tables.insert(lake.path("t"), [{"id": 3, "v": 3}])
    change(lake, 1, value)
    for lossy in (False, True):
        with refused("rows_not_found", "t") as found:
            commands.rollback(lake.env, jobs=JOBS, allow_lossy=lossy)
        assert "values that these rows had at the commit" in str(found[0].next_action)
    assert lake.version == "1.1.0"
    assert not tables.snapshot(lake.path("t")).sealed
    whole(lake)
    if value is None:
        tables.insert(lake.path("t"), [{"id": 1, "v": 7}])
    else:
        change(lake, 1, 7)
    commands.rollback(lake.env, jobs=JOBS)
    assert sorted(row["v"] for row in tables.snapshot(lake.path("t")).rows) == ["007", "3", "8"]
    whole(lake)


def test_with_a_key_it_is_found(tmp_path: Path) -> None:
    lake = rewritten(tmp_path, ", PRIMARY KEY (id)")
    change(lake, 1, 9)
    commands.rollback(lake.env, jobs=JOBS)
    assert {row["id"]: row["v"] for row in tables.snapshot(lake.path("t")).rows} == {1: "9", 2: "8"}


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"])
def test_the_plan_says_so(tmp_path: Path, key: str) -> None:
    schema = f"CREATE TABLE t (id BIGINT NOT NULL, v {{}}{key});"
    lake = two_releases(tmp_path, schema.format("STRING"), schema.format("INT"), f'rewrite("t", up="{UP}", down="{DOWN}")')
    told = [line for stage in commands.plan(lake.env, lake.second).explained for line in stage.rollback]
    assert any("rows_not_found" in line for line in told) == (not key)
