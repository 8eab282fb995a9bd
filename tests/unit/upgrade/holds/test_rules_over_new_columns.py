"""What preflight asks of a column that no row has a value in: what the rows will say, never a hidden column of the same name."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.rows import HoldState
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.errors import DataViolation
from tests.support.lake import Lake, no_spark
from tests.support.online import OnlineJobs
from tests.support.rows import tables
from tests.support.upgrades import deployed, releases

HELD = Generation(2)


def over_an_open_hold(folder: Path, again: str) -> tuple[Lake, Path]:
    """1.1.0 hides d, which is 5 in each row; 1.2.0 has a new column of that name, as ``again`` says."""
    first, second = "CREATE TABLE t (id BIGINT, d BIGINT);", "CREATE TABLE t (id BIGINT);"
    third = f"CREATE TABLE t (id BIGINT, {again});"
    found = releases(folder, (first, ""), (second, 'evolution("t", drop=["d"])'), (third, 'evolution("t")'))
    lake = deployed(folder, found[0], found[1])
    tables.insert(lake.path("t"), [{"id": 1, "d": 5}, {"id": 2, "d": 5}])
    lake.upgrade(found[1])
    return lake, found[2]


@pytest.mark.parametrize(
    ("again", "value"),
    [
        ("d INT, CONSTRAINT k CHECK (d IS NULL OR d <> 5)", None),
        ("d BIGINT, CONSTRAINT k CHECK (d IS NULL OR d <> 5)", None),
        ("d INT, CONSTRAINT k UNIQUE (d)", None),
        ("d BIGINT, CONSTRAINT k UNIQUE (d)", None),
        ("d DECIMAL(10, 2), CONSTRAINT k CHECK (d IS NULL OR id > 0)", None),
        ("d INT NOT NULL DEFAULT 7, CONSTRAINT k CHECK (d = 7)", 7),
    ],
)
def test_a_rule_is_not_asked_of_a_column_that_goes(tmp_path: Path, again: str, value: object) -> None:
    lake, third = over_an_open_hold(tmp_path, again)
    commands.upgrade(lake.env, third, jobs=OnlineJobs, end_hold=True)
    assert [row["d"] for row in tables.snapshot(lake.path("t")).rows] == [value, value]


@pytest.mark.parametrize("type_", ["INT", "BIGINT"])
def test_a_rule_that_a_new_column_breaks_is_told_before_the_hold_ends(tmp_path: Path, type_: str) -> None:
    lake, third = over_an_open_hold(tmp_path, f"d {type_}, CONSTRAINT k CHECK (d IS NOT NULL)")
    with pytest.raises(DataViolation, match="violate k"):
        commands.preflight(lake.env, third, jobs=OnlineJobs, end_hold=True)
    state = lake.state
    assert (state.holds[HELD].state, state.is_promoted) == (HoldState.OPEN, False)
    commands.rollback(lake.env, jobs=no_spark)
    assert [row["d"] for row in tables.snapshot(lake.path("t")).rows] == [5, 5]


def test_a_rule_that_a_new_column_breaks_is_told_by_preflight(tmp_path: Path) -> None:
    second = "CREATE TABLE t (id BIGINT, d DECIMAL(10, 2), CONSTRAINT k CHECK (D IS NOT NULL OR ID > 1));"
    found = releases(tmp_path, ("CREATE TABLE t (id BIGINT);", ""), (second, 'evolution("t")'))
    lake = deployed(tmp_path, found[0], found[1])
    tables.insert(lake.path("t"), [{"id": 1}, {"id": 2}])
    with pytest.raises(DataViolation, match=r"1 row\(s\) violate k"):
        commands.preflight(lake.env, found[1], jobs=OnlineJobs)


def test_the_plan_does_not_say_that_a_column_which_goes_is_shown(tmp_path: Path) -> None:
    lake, third = over_an_open_hold(tmp_path, "d BIGINT")
    assert commands.plan(lake.env, third, end_hold=True).notes == ()
