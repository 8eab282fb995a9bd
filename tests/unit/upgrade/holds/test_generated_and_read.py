"""A release takes a generated column away together with what it reads: the end of its hold drops them in that order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.rows import HoldState
from airflow_provider_schemamig.core.names import Generation
from tests.support.lake import Lake, no_spark
from tests.support.online import OnlineJobs
from tests.support.tables import foreign
from tests.support.upgrades import deployed, make_holds_due, refused, releases, whole

#: What is read comes before what reads it by name, and after it.
BEFORE = "CREATE TABLE t (id BIGINT, day DATE, year INT GENERATED ALWAYS AS (YEAR(day)), b INT);"
AFTER = "CREATE TABLE t (id BIGINT, z INT, g INT GENERATED ALWAYS AS (z + 1), b INT);"
GONE = "CREATE TABLE t (id BIGINT, b INT);"
NEXT = "CREATE TABLE t (id BIGINT, b INT, c INT);"


def _contract(lake: Lake, _: Path) -> None:
    make_holds_due(lake)
    commands.contract(lake.env)


def _at_once(lake: Lake, _: Path) -> None:
    commands.contract(lake.env, at_once=True)


def _end_hold(lake: Lake, following: Path) -> None:
    lake.upgrade(following, end_hold=True)


def _stacked(lake: Lake, following: Path) -> None:
    lake.upgrade(following)
    _contract(lake, following)


READ = "CREATE TABLE t (id BIGINT, a INT, g INT GENERATED ALWAYS AS (a + 1));"
LEFT = "CREATE TABLE t (id BIGINT, a INT);"
#: What the dropped one read -> the schema after that, and its step.
CHANGED = {
    "renamed": ("CREATE TABLE t (id BIGINT, b INT);", 'evolution("t", rename={"a": "b"})'),
    "widened": ("CREATE TABLE t (id BIGINT, a BIGINT);", 'evolution("t")'),
    "another type": ("CREATE TABLE t (id BIGINT, a STRING);", 'evolution("t")'),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_a_generated_column_read_stays_as_it_is_while_a_hold_keeps_that(tmp_path: Path, name: str) -> None:
    folders = releases(tmp_path, (READ, ""), (LEFT, 'evolution("t", drop=["g"])'), CHANGED[name])
    lake = deployed(tmp_path, folders[0], folders[2])
    with refused("stop_in_between") if name == "renamed" else refused("stop_in_between", "t") as found:
        lake.upgrade(folders[2])
    assert "Upgrade to 1.1.0 first" in found[0].next_action
    lake.upgrade(folders[1])
    with refused("hold_open", "t") as found:
        commands.upgrade(lake.env, folders[2], jobs=OnlineJobs())
    assert "needs column g until" in found[0].message and "--end-hold" in found[0].next_action
    commands.upgrade(lake.env, folders[2], jobs=OnlineJobs(), end_hold=True)
    whole(lake)


@pytest.mark.parametrize(("schema", "drops"), [(BEFORE, ("year", "day")), (AFTER, ("g", "z"))], ids=["read first", "read last"])
@pytest.mark.parametrize("end", [_contract, _at_once, _end_hold, _stacked])
def test_the_hold_of_both_ends(tmp_path: Path, end: Callable[[Lake, Path], None], schema: str, drops: tuple[str, str]) -> None:
    first, second, third = releases(tmp_path, (schema, ""), (GONE, f'evolution("t", drop={list(drops)})'), (NEXT, 'evolution("t")'))
    lake = deployed(tmp_path, first, third)
    lake.upgrade(second)
    end(lake, third)
    assert lake.state.holds[Generation(2)].state is HoldState.CLOSED
    assert not {field["name"] for field in foreign.live_schema(lake.path("t"))} & set(drops)
    whole(lake)


def test_what_cannot_be_dropped_leaves_the_hold_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is wrong here on purpose: a refusal comes before the mark from which on there is no way back."""
    from airflow_provider_schemamig.core.upgrade.plan.holds import open_holds

    first, second = releases(tmp_path, (BEFORE, ""), (GONE, 'evolution("t", drop=["year", "day"])'))
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second)
    make_holds_due(lake)
    right = open_holds.dropped_paths
    monkeypatch.setattr(open_holds, "dropped_paths", lambda entry, held: tuple(reversed(right(entry, held))))
    with pytest.raises(Exception, match="not_applicable"):
        commands.contract(lake.env)
    assert lake.state.holds[Generation(2)].state is HoldState.OPEN
    monkeypatch.undo()
    commands.rollback(lake.env, jobs=no_spark)
    assert str(lake.state.release.version if lake.state.release else None) == "1.0.0"
