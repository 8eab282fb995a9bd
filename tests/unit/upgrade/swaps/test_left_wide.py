"""A rollback leaves a widened type as wide as it is; the next release widens the column in another way."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.lake import rows
from tests.support.online import OnlineJobs
from tests.support.rows import tables
from tests.support.upgrades import deployed, releases, whole


@pytest.mark.parametrize(("before", "wide", "other"), [("INT", "BIGINT", "DOUBLE"), ("INT", "DOUBLE", "BIGINT")])
def test_a_column_left_wide_gets_another_type_and_keeps_its_values(tmp_path: Path, before: str, wide: str, other: str) -> None:
    texts = [f"CREATE TABLE t (id BIGINT, x {kind});" for kind in (before, wide, other)]
    first, second = releases(tmp_path / "given up", (texts[0], ""), (texts[1], 'evolution("t")'))
    _, third = releases(tmp_path / "instead", (texts[0], ""), (texts[2], 'evolution("t")'))
    lake = deployed(tmp_path, first, second)
    tables.insert(lake.path("t"), [{"id": 1, "x": 101}])
    lake.upgrade(second)
    commands.rollback(lake.env, jobs=OnlineJobs())
    tables.insert(lake.path("t"), [{"id": 2, "x": 102}])
    commands.upgrade(lake.env, third, jobs=OnlineJobs())
    assert {row["id"]: row["x"] for row in rows(lake.path("t"))} == {1: 101, 2: 102}
    whole(lake)
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert {row["id"]: row["x"] for row in rows(lake.path("t"))} == {1: 101, 2: 102}
    whole(lake)
