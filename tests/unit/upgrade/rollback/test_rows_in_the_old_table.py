"""A rollback opens the table of before for its own statement. What others write there, and then it fails, is not deleted with the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.spark.errors import SparkJobFailed
from tests.support.rows import tables
from tests.support.rows.rewritten import jobs, make_rewritten, upgrade


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
