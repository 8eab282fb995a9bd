"""Somebody drops a table that a rewrite looks up, and makes another one in its place, before or while a job reads it by version."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.errors import AnotherTable
from airflow_provider_schemamig.core.transfer.errors import RewriteDiffers
from tests.support.lake import Lake
from tests.support.rows.jobs import RowJobs
from tests.support.rows.tables import Row, insert, snapshot
from tests.support.tables import foreign
from tests.support.upgrades import two_releases, whole

FIRST = "CREATE TABLE mk (id BIGINT, name STRING);\nCREATE TABLE p (id BIGINT NOT NULL, name STRING, PRIMARY KEY (id));"
SECOND = FIRST.replace("NOT NULL, name STRING", "NOT NULL, mk BIGINT")
UP = "SELECT {p}.id, {mk}.id AS mk FROM {p} LEFT JOIN {mk} ON {mk}.name = {p}.name"
DOWN = "SELECT {p}.id, {mk}.name FROM {p} LEFT JOIN {mk} ON {mk}.id = mk"
STEPS = f'rewrite("p", up="{UP}", down="{DOWN}", lookups=["mk"])'


def jobs_of() -> RowJobs:
    jobs = RowJobs({})

    def found(wanted: str, by: str, value: object) -> object:
        return next((row[wanted] for row in jobs.lookups.get("schemamig_mk", ()) if row[by] == value), None)

    def up(row: Row) -> list[Row]:
        return [{"id": row["id"], "mk": found("id", "name", row["name"])}]

    def down(row: Row) -> list[Row]:
        return [{"id": row["id"], "name": found("name", "id", row["mk"])}]

    jobs.queries = {UP: up, DOWN: down}
    return jobs


def made(path: Path) -> Lake:
    lake = two_releases(path, FIRST, SECOND, STEPS)
    insert(lake.path("mk"), [{"id": 1, "name": "x"}])
    insert(lake.path("p"), [{"id": 1, "name": "x"}])
    return lake


def made_anew(lake: Lake) -> Callable[[], None]:
    """Put another table in the place of the one that is looked up; returns what puts the first one back."""
    place, kept = lake.path("mk"), lake.path("mk").with_name("kept")
    shutil.copytree(place, kept)
    foreign.make_anew(place, commits=2)
    insert(place, [{"id": 77, "name": "x"}])

    def put_back() -> None:
        shutil.rmtree(place)
        kept.rename(place)

    return put_back


def at(jobs: RowJobs, job: str, moment: str, what: Callable[[], object]) -> None:
    """Do ``what`` once, before or after the next run of a job."""

    def hook(ran: str, request: Mapping[str, Any]) -> None:
        if ran == job:
            setattr(jobs, moment, None)
            what()

    setattr(jobs, moment, hook)


@pytest.mark.parametrize(("job", "moment"), [("digest", "before"), ("digest", "after"), ("preflight", "after"), ("apply", "before")])
def test_a_cut_over_commits_no_row_by_another_lookup(tmp_path: Path, job: str, moment: str) -> None:
    lake, jobs = made(tmp_path), jobs_of()
    generation = commands.preflight(lake.env, lake.second, jobs=jobs).generation
    assert generation is not None
    commands.fill(lake.env, generation, [], jobs=jobs)
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation, jobs=jobs)
    commands.change(lake.env, generation, jobs=jobs)
    puts_back: list[Callable[[], None]] = []

    def another_table_and_a_row() -> None:
        puts_back.append(made_anew(lake))
        insert(lake.path("p"), [{"id": 9, "name": "x"}])

    at(jobs, job, moment, another_table_and_a_row)
    if job == "apply":
        insert(lake.path("p"), [{"id": 8, "name": "x"}])
    for _ in range(2):
        with pytest.raises(AnotherTable) as refused:
            commands.cutover(lake.env, generation, jobs=jobs)
        assert refused.value.collection == "mk"
    assert lake.version == "1.0.0"
    assert not snapshot(lake.path("p")).sealed
    puts_back[0]()
    if (job, moment) == ("apply", "before"):  # rows by the other table are in the copy
        with pytest.raises(RewriteDiffers):
            commands.upgrade(lake.env, lake.second, jobs=jobs)
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    assert {row["mk"] for row in snapshot(lake.path("p")).rows} == {1}
    whole(lake)


def test_a_rollback_by_another_lookup_stops(tmp_path: Path) -> None:
    lake, jobs = made(tmp_path), jobs_of()
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    insert(lake.path("p"), [{"id": 9, "mk": 1}])
    at(jobs, "apply", "before", lambda: made_anew(lake))
    with pytest.raises(AnotherTable, match="mk"):
        commands.rollback(lake.env, jobs=jobs)
    assert lake.version == "1.1.0"


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "made anew"])
def test_a_rollback_with_nothing_to_bring_back_asks_for_no_lookup(tmp_path: Path, gone: bool) -> None:
    lake, jobs = made(tmp_path), jobs_of()
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    if gone:
        shutil.rmtree(lake.path("mk"))
    else:
        made_anew(lake)
    commands.rollback(lake.env, jobs=jobs)
    assert lake.version == "1.0.0"
    assert [(row["id"], row["name"]) for row in snapshot(lake.path("p")).rows] == [(1, "x")]
