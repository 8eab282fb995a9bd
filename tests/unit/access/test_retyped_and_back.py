"""Another type of a column, taken back while the table had no rows: nothing of the new column is left, and its readers got NULL."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.online import OnlineJobs
from tests.support.rows.tables import insert
from tests.support.upgrades import refused, two_releases
from tests.unit.access.support import rows

OLD = "CREATE TABLE t (id BIGINT, c INT);"
RELEASES = {
    "the same name": ("CREATE TABLE t (id BIGINT, c STRING);", 'evolution("t")'),
    "another name": ("CREATE TABLE t (id BIGINT, d STRING);", 'evolution("t", rename={"c": "d"})'),
}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("before", [[], [{"id": 0, "c": 1}]], ids=["empty", "rows"])
def test_a_reader_of_the_release_that_was_taken_back_is_fenced(tmp_path: Path, before: list[dict[str, int]], release: str) -> None:
    lake = two_releases(tmp_path, OLD, *RELEASES[release])
    if before:
        insert(lake.path("t"), before)
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    commands.rollback(lake.env, jobs=OnlineJobs())
    since = [{"id": 1, "c": 3}]
    insert(lake.path("t"), since)
    assert rows(lake, "1.0.0") == [*before, *since]
    with refused("reader_fenced", "t"):
        rows(lake, "1.1.0")
    assert rows(lake, "1.1.0", ["id"]) == [{"id": row["id"]} for row in (*before, *since)]
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    assert [list(row.values())[1] for row in rows(lake, "1.1.0")] == [str(row["c"]) for row in (*before, *since)]
