"""A release drops a key, rows come that break it, and a rollback declares it again: it asks no row, and says so."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from tests.support.lake import Lake
from tests.support.online import OnlineJobs
from tests.support.rows import tables
from tests.support.upgrades import refused, two_releases

PARENT = "CREATE TABLE p (u INT NOT NULL, PRIMARY KEY (u));"
KEYS = {
    "UNIQUE (u)": ("u INT", ", UNIQUE (u)"),
    "PRIMARY KEY (u)": ("u INT NOT NULL", ", PRIMARY KEY (u)"),
    "FOREIGN KEY (u) REFERENCES p": ("u INT", ", FOREIGN KEY (u) REFERENCES p (u)"),
}


@pytest.mark.parametrize("writes", [True, False], ids=["rows came", "no rows"])
@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_is_declared_again_was_asked_of_no_row_that_came_since(tmp_path: Path, key: str, writes: bool) -> None:
    column, rule = KEYS[key]
    first, second = (f"CREATE TABLE t (id BIGINT, {column}{text});{PARENT}" for text in (rule, ""))
    lake = two_releases(tmp_path, first, second, 'evolution("t")')
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    if writes:
        lake.env.writer("t", "1.1.0").append(pa.table({"id": pa.array([1], pa.int64()), "u": pa.array([9], pa.int32())}))
    done = commands.rollback(lake.env, jobs=OnlineJobs())
    is_foreign = key.startswith("FOREIGN")  # the rows that it refers to may be gone, too
    asked = "no row was asked" if is_foreign else "rows that came since were not asked"
    assert (f"t: {key} is declared again, and {asked}: `schemamig verify` does" in done.notes) is (writes or is_foreign)


@pytest.mark.parametrize("step", ["removal", "replacement"])
def test_a_foreign_key_that_comes_back_with_its_table_was_asked_of_no_row(tmp_path: Path, step: str) -> None:
    """Nothing keeps the rows that it referred to, once the release has no such key."""
    table = "CREATE TABLE t (id BIGINT, u INT, FOREIGN KEY (u) REFERENCES p (u));"
    after = "CREATE TABLE t (id BIGINT);" if step == "replacement" else ""
    lake = two_releases(tmp_path, table + PARENT, after + PARENT, f'{step}("t")')
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    told = "t: FOREIGN KEY (u) REFERENCES p is declared again, and no row was asked: `schemamig verify` does"
    assert told in commands.rollback(lake.env, jobs=OnlineJobs()).notes


REWRITE = 'rewrite("t", up="SELECT id, u, CAST(v AS BIGINT) AS v FROM {t}", down="SELECT id, u, CAST(v AS STRING) AS v FROM {t}")'


def rewritten(folder: Path, before: str, after: str) -> Lake:
    table = "CREATE TABLE t (id BIGINT NOT NULL, u INT NOT NULL, v {}{});"
    lake = two_releases(folder, table.format("STRING", before), table.format("BIGINT", after), REWRITE)
    tables.insert(lake.path("t"), [{"id": 1, "u": 7, "v": "1"}])
    return lake


def test_a_rewrite_that_dropped_a_key_says_so_too_when_it_goes_back(tmp_path: Path) -> None:
    lake = rewritten(tmp_path, ", UNIQUE (u)", "")
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    done = commands.rollback(lake.env, jobs=OnlineJobs())
    assert "t: UNIQUE (u) is declared again, and rows that came since were not asked: `schemamig verify` does" in done.notes


@pytest.mark.parametrize("key", ["UNIQUE (u)", "PRIMARY KEY (u)"])
def test_a_row_that_comes_after_the_copy_was_asked_is_asked_before_writers_are_stopped(tmp_path: Path, key: str) -> None:
    lake, jobs = rewritten(tmp_path, "", f", {key}"), OnlineJobs()
    generation = commands.preflight(lake.env, lake.second, jobs=jobs).generation
    assert generation is not None
    commands.fill(lake.env, generation, ["t"], jobs=jobs)
    tables.insert(lake.path("t"), [{"id": 2, "u": 7, "v": "2"}])
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation, jobs=jobs)
    with refused("data_violation", "t"):
        commands.cutover(lake.env, generation, jobs=jobs)
    assert lake.version == "1.0.0"
    tables.change(lake.path("t"), lambda row: {**row, "u": 8} if row["id"] == 2 else row)
    commands.cutover(lake.env, generation, jobs=jobs)
    assert lake.version == "1.1.0"
