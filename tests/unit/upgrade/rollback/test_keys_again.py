"""A release drops a key, rows come that break it, and a rollback declares it again: it asks no row, and says so."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from tests.support.online import OnlineJobs
from tests.support.upgrades import two_releases

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
    told = f"t: {key} is declared again, and rows that came since were not asked: `schemamig verify` does"
    assert (told in done.notes) is writes
