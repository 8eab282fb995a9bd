"""Rollbacks whose tables had their logs cleaned up inside of the hold: what cannot be told any more, and what that costs."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core.upgrade import verbs
from tests.support import foreign
from tests.support.lake import Lake, append, no_spark
from tests.support.upgrades import seen, two_releases, whole

#: One table evolves, and another one is replaced.
ONE = "CREATE TABLE t (id BIGINT, b INT NOT NULL, CONSTRAINT few CHECK (b < 9)); CREATE TABLE s (o STRING);"
TWO = "CREATE TABLE t (id BIGINT, g STRING); CREATE TABLE s (o STRING, n BIGINT);"
STEPS = 'evolution("t", drop=["b"]), replacement("s")'


def clean(path: Path) -> None:
    """What Delta does by itself when commits are older than the table keeps them: a checkpoint, and no commit before it."""
    table = DeltaTable(str(path))
    table.create_checkpoint()
    for version in range(table.version()):
        (path / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = two_releases(tmp_path, ONE, TWO, STEPS)
    append(found.path("t"), [{"id": 1, "b": 1}])
    found.upgrade(found.second)
    return found


def test_an_evolved_table_goes_back_as_if_everything_had_come(lake: Lake) -> None:
    for number in range(3):
        foreign.write(lake.path("t"), [{"id": number}])
    clean(lake.path("t"))
    outcome = verbs.rollback(lake.env, jobs=no_spark)
    assert lake.version == "1.0.0"
    whole(lake)
    assert seen(lake, "t")["hidden"] == ["g"]
    assert any("stays nullable" in note for note in outcome.notes) and any("g stays as a hidden column" in note for note in outcome.notes)
    lake.upgrade(lake.second, end_hold=True)
    whole(lake)
