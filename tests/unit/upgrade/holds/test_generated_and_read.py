"""A release takes a generated column away together with what it reads: the end of its hold drops them in that order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.rows import HoldState
from airflow_provider_schemamig.core.names import Generation
from tests.support.lake import Lake, no_spark
from tests.support.tables import foreign
from tests.support.upgrades import deployed, make_holds_due, releases, whole

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
