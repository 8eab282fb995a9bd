"""Whom a seal will stop: the plan names who wrote to a table without schemamig's handles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pendulum
import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.upgrade.plan.notes import stopped_writers
from tests.support.bytes import unwritten
from tests.support.lake import Lake
from tests.support.online import OnlineJobs
from tests.support.rows.tables import data_file, insert, newest, put, snapshot
from tests.support.upgrades import two_releases

OLD = "CREATE TABLE swapped (id BIGINT, s STRING);\nCREATE TABLE gone (id BIGINT);\nCREATE TABLE kept (id BIGINT);\n"
NEW = "CREATE TABLE swapped (id BIGINT, s INT);\nCREATE TABLE kept (id BIGINT, n INT);\n"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return two_releases(tmp_path, OLD, NEW, 'evolution("swapped"), removal("gone"), evolution("kept")')


def committed(lake: Lake, collection: str, *, days: int = 1, **info: Any) -> None:
    """A row by somebody whose commit says ``info``."""
    path = lake.path(collection)
    now = snapshot(path)
    row = {field["name"]: None for field in now.fields}
    at = int(pendulum.now("UTC").subtract(days=days).timestamp() * 1000)
    said: Mapping[str, Any] = {"timestamp": at, "operation": "WRITE", **info}
    put(path, newest(path), [{"commitInfo": said}, {"add": data_file(path, now.fields, [row])}])


def notes(lake: Lake) -> dict[str, str]:
    found = commands.plan(lake.env, lake.second).to_json()["notes"]
    return {note.partition(":")[0]: note for note in found if "without schemamig's handles" in note}


def test_stopped_writers_who_writes_to_a_table_that_is_sealed(lake: Lake) -> None:
    assert notes(lake) == {}, "our own commits are nobody's"
    for collection in ("swapped", "gone", "kept"):
        committed(lake, collection, engineInfo="Apache-Spark/4.2.0 Delta-Lake/4.4.0", userName="ingest")
    committed(lake, "gone", clientVersion="delta-rs.1.2.3", operation="MERGE\x1b[2J")
    committed(lake, "gone", clientVersion="delta-rs.1.2.3")
    found = notes(lake)
    assert found.keys() == {"swapped", "gone"}, "nothing seals the third"
    assert "a seal may stop for a moment" in found["swapped"]
    assert "Apache-Spark/4.2.0 Delta-Lake/4.4.0 by ingest (WRITE; 1 commit(s)" in found["swapped"]
    assert "the seal stops" in found["gone"] and "delta-rs.1.2.3 (MERGE␛[2J, WRITE; 2 commit(s), the last at " in found["gone"]
    assert found["gone"].index("delta-rs") < found["gone"].index("Apache-Spark"), "the newest first"


def test_stopped_writers_what_is_old_or_ours_or_moves_rows_only_is_left_out(lake: Lake) -> None:
    committed(lake, "gone", days=31, engineInfo="an old one")
    lake.env.writer("gone", release="1.0.0").append(pa.table({"id": [1]}))
    assert notes(lake) == {}
    insert(lake.path("gone"), [{"id": 1}])
    with unwritten(lake.env):
        assert notes(lake).keys() == {"gone"}


def test_of_a_long_log_the_newest_commits_are_looked_at(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopped_writers, "_MOST_COMMITS", 2)
    for number in range(4):
        committed(lake, "gone", engineInfo=f"engine {number}")
    assert "engine 2" in notes(lake)["gone"] and "engine 1" not in notes(lake)["gone"]


def test_the_digest_does_not_depend_on_it(lake: Lake) -> None:
    before = commands.plan(lake.env, lake.second).plan.digest
    committed(lake, "gone", engineInfo="somebody")
    report = commands.plan(lake.env, lake.second)
    assert report.stopped and report.plan.digest == before
    checked = commands.preflight(lake.env, lake.second, jobs=OnlineJobs())
    assert checked.report.stopped == report.stopped
