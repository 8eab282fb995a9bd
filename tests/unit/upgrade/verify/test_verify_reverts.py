"""What ``verify`` says of columns with a default that a ``revert`` brought back."""

from __future__ import annotations

import json
from pathlib import Path

from airflow_provider_schemamig.core import commands
from tests.support.lake import no_spark
from tests.support.online import OnlineJobs
from tests.support.rows.tables import alter, insert, restore, snapshot
from tests.support.tables import foreign
from tests.support.upgrades import two_releases
from tests.unit.upgrade.verify.test_verify import defaults, one, told, verified


def test_a_column_that_a_revert_brought_back_is_null_and_no_finding(tmp_path: Path) -> None:
    mapped = "CREATE TABLE a (id BIGINT, t INT, n INT DEFAULT 7);"
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT, s INT);", mapped, 'evolution("a", rename={"s": "t"})')
    insert(lake.path("a"), [{"id": 1}])
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    foreign.drop_column(lake.path("a"), "n")
    commands.revert(lake.env, "a", allow_lossy=True)
    assert [row["n"] for row in snapshot(lake.path("a")).rows] == [None]
    assert told(verified(lake, no_spark)) == []


def test_a_default_that_a_revert_brought_back_changes_nothing_of_what_is_owed(tmp_path: Path) -> None:
    lake = defaults(tmp_path)
    path, now = lake.path("a"), snapshot(lake.path("a"))
    restore(path, 2)
    alter(path, **now.metadata)
    before = one(verified(lake, no_spark))
    schema = foreign.live_schema(path)
    (field,) = (field for field in schema if field["name"] == "n")
    del field["metadata"]["CURRENT_DEFAULT"]
    alter(path, **{**now.metadata, "schemaString": json.dumps({"type": "struct", "fields": schema})})
    commands.revert(lake.env, "a")
    assert one(verified(lake, no_spark)) == before
