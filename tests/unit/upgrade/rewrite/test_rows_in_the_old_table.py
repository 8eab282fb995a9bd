"""A rollback opens the table of before for its own statement. What others write there, and then it fails, is not deleted with the table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.spark.errors import SparkJobFailed
from airflow_provider_schemamig.core.upgrade.errors import SourceTouched
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import DOWN_KEYED, QUERIES, UP_KEYED, jobs, make_rewritten, upgrade
from tests.support.tables.adopting import Site
from tests.support.upgrades import two_releases, whole
from tests.unit.upgrade.adopt.test_adopt import begin
from tests.unit.upgrade.plan.test_cleaned_logs import clean


@pytest.mark.parametrize(
    ("writes", "is_cleaned"), [(True, False), (True, True), (False, False)], ids=["others", "others, cleaned", "nobody"]
)
def test_rows_in_the_old_table_of_a_failed_rollback_are_left_alone(tmp_path: Path, writes: bool, is_cleaned: bool) -> None:
    found = make_rewritten(tmp_path)
    old = found.path("keyed")
    upgrade(found, found.env, jobs())
    found.insert("keyed", [{"id": 900, "v": 9}])
    failing = jobs()

    def before(job: str, request: Mapping[str, Any]) -> None:
        if job == "apply" and writes and not any(row["id"] == 4242 for row in tables.snapshot(old).rows):
            tables.insert(old, [{"id": 4242, "v": "4242"}])

    def after(job: str, request: Mapping[str, Any]) -> None:
        if job == "apply":
            raise SparkJobFailed(job="apply", tail="the cluster went away")

    failing.before, failing.after = before, after
    with pytest.raises(SparkJobFailed):
        commands.rollback(found.env, jobs=failing)
    assert tables.snapshot(old).sealed
    if is_cleaned:
        clean(old)
    outcome = commands.contract(found.env, None, at_once=True, ignore_nodes=True)
    assert old.exists() == writes
    why = "others may have written rows to it" if is_cleaned else "others wrote rows to it after its own had moved on"
    assert any(why in note for note in outcome.notes) == writes


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_rows_in_the_old_table_that_a_restore_opened_are_left_alone(tmp_path: Path, is_cleaned: bool) -> None:
    found = make_rewritten(tmp_path)
    old = found.path("keyed")
    before = tables.newest(old)
    upgrade(found, found.env, jobs())
    tables.restore(old, before)
    tables.insert(old, [{"id": 4242, "v": "4242"}])
    if is_cleaned:
        clean(old)
    outcome = commands.contract(found.env, None, at_once=True, ignore_nodes=True)
    assert any("it is open for writers, and in the ledger it is retired" in note for note in outcome.notes)
    assert any(row["id"] == 4242 for row in tables.snapshot(old).rows)


def test_rows_in_an_adopted_table_do_not_keep_it_sealed_for_its_owners(tmp_path: Path) -> None:
    site = Site(tmp_path)
    keyed = site.table("keyed", {"id": pa.array([1, 2], pa.int64()), "v": pa.array(["1", "2"])})
    legacy = site.table("legacy", {"n": pa.array([1], pa.int64())})
    site.adopt(keyed=keyed, legacy=legacy)
    up, down = (f"SELECT id, CAST(v AS {to}) AS v FROM {{keyed}}" for to in ("BIGINT", "STRING"))
    row_jobs = RowJobs({up: lambda row: [{**row, "v": int(row["v"])}], down: lambda row: [{**row, "v": str(row["v"])}]})
    declared = site.release / "schema.sql"
    declared.write_text("".join(text for text in re.split(r"(?<=;)\n", declared.read_text()) if "legacy" not in text))
    begin(site, "v STRING", "v BIGINT", f'rewrite("keyed", up="{up}", down="{down}"), removal("legacy")')
    site.upgrade(jobs=row_jobs)
    tables.insert(Path(site.uri("keyed").removeprefix("file://")), [{"id": 3, "v": 3}])
    opened: list[str] = []

    def owners(moment: str, what: str, key: str) -> None:
        if not opened and not tables.snapshot(legacy).sealed:
            opened.append(key)
            tables.insert(legacy, [{"n": 4242}])
            commands.pin(site.env, "keyed", "night", 1000)

    with pytest.raises(SourceTouched):
        commands.rollback(replace(site.env, on_write=owners), jobs=row_jobs)
    assert opened and tables.snapshot(legacy).sealed
    commands.contract(site.env, None, at_once=True, ignore_nodes=True)
    assert not tables.snapshot(legacy).sealed
    tables.insert(legacy, [{"n": 5}])
    assert sorted(row["n"] for row in tables.snapshot(legacy).rows) == [1, 5, 4242]


def test_a_removed_table_is_sealed_again_where_the_rollback_fails_after_it_was_opened(tmp_path: Path) -> None:
    one = "CREATE TABLE keyed (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id)); CREATE TABLE legacy (id BIGINT);"
    two = "CREATE TABLE keyed (id BIGINT NOT NULL, v BIGINT, PRIMARY KEY (id));"
    lake = two_releases(tmp_path, one, two, f'rewrite("keyed", up="{UP_KEYED}", down="{DOWN_KEYED}"), removal("legacy")')
    legacy = lake.path("legacy")
    tables.insert(lake.path("keyed"), [{"id": 1, "v": "1"}])
    tables.insert(legacy, [{"id": 1}])
    commands.upgrade(lake.env, lake.second, jobs=RowJobs(QUERIES))
    tables.insert(lake.path("keyed"), [{"id": 2, "v": 2}])
    pinned: list[str] = []

    def pins(moment: str, what: str, key: str) -> None:
        if not pinned and not tables.snapshot(legacy).sealed:
            pinned.append(key)
            commands.pin(lake.env, "keyed", "night", 1000)

    with pytest.raises(SourceTouched):
        commands.rollback(replace(lake.env, on_write=pins), jobs=RowJobs(QUERIES))
    assert pinned and tables.snapshot(legacy).sealed
    commands.unpin(lake.env, "keyed", "night")
    commands.rollback(lake.env, jobs=RowJobs(QUERIES))
    whole(lake)
    assert [row["id"] for row in tables.snapshot(lake.path("legacy")).rows] == [1]
