"""A rollback opens the table of before for its own statement. What others write there, and then it fails, is not deleted with the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.spark.errors import SparkJobFailed
from airflow_provider_schemamig.core.upgrade.errors import SourceTouched
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import DOWN_KEYED, QUERIES, UP_KEYED, jobs, make_rewritten, upgrade
from tests.support.upgrades import two_releases, whole


@pytest.mark.parametrize("writes", [True, False], ids=["somebody writes", "nobody does"])
def test_rows_in_the_old_table_of_a_failed_rollback_are_left_alone(tmp_path: Path, writes: bool) -> None:
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
    outcome = commands.contract(found.env, None, at_once=True, ignore_nodes=True)
    assert old.exists() == writes
    assert any("others wrote rows to it after its own had moved on" in note for note in outcome.notes) == writes


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
