"""Somebody changes a table while a hold is open: neither a rollback nor the end of the hold begins what it cannot finish."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import HoldState
from airflow_provider_schemamig.core.names import Generation
from tests.support.bytes import unwritten
from tests.support.lake import Lake
from tests.support.tables import foreign
from tests.support.upgrades import deployed, expanded, make_holds_due, refused, releases

FIRST = "CREATE TABLE t (id BIGINT, n INT, a STRING, b STRING, h STRING);"
SECOND = "CREATE TABLE t (id BIGINT, n INT, a STRING, c STRING);"
ROW = {"id": 1, "n": 1, "a": "A", "b": "B", "h": "H"}


@pytest.fixture
def held(tmp_path: Path) -> Lake:
    """At the second release, which renamed a column and hides one; its hold is open."""
    first, second = releases(tmp_path, (FIRST, ""), (SECOND, 'evolution("t", rename={"b": "c"}, drop=["h"])'))
    lake = deployed(tmp_path, first, second)
    foreign.write(lake.path("t"), [ROW])
    lake.upgrade(second)
    return lake


def widen(lake: Lake) -> None:
    """What ALTER cannot take back."""
    foreign.widen_int(lake.path("t"), "n")


def rename(lake: Lake) -> None:
    foreign.rename_column(lake.path("t"), "a", "z")


@pytest.mark.parametrize("change", [widen, rename])
def test_a_rollback_refuses_before_it_begins(held: Lake, change: Callable[[Lake], None]) -> None:
    change(held)
    with unwritten(held.env, but="_schemamig/history"), refused("drift", "t"):
        commands.rollback(held.env)
    if change is rename:
        commands.revert(held.env, "t")
        commands.rollback(held.env)
        assert held.version == "1.0.0"


def test_the_end_of_a_hold_refuses_before_it_begins(held: Lake) -> None:
    widen(held)
    make_holds_due(held)
    with unwritten(held.env, but="_schemamig/history"), refused("drift", "t"):
        commands.contract(held.env)
    assert held.state.holds[Generation(2)].state is HoldState.OPEN


def accept(lake: Lake) -> None:
    commands.accept(lake.env, lake.second, ["t"])


def unmanage(lake: Lake) -> None:
    commands.unmanage(lake.env, "t")


@pytest.mark.parametrize("way", [accept, unmanage])
def test_what_cannot_be_undone_waits_for_the_hold_and_not_for_ever(held: Lake, way: Callable[[Lake], None]) -> None:
    """Contract asks that there be no drift, so whoever takes the drift over closes the way back whose time is over."""
    widen(held)
    with refused("hold_open"):
        way(held)
    make_holds_due(held)
    way(held)
    with refused("nothing_to_roll_back"):
        commands.rollback(held.env)
    commands.contract(Environment.open(held.env.location.uri))
    assert held.state.holds[Generation(2)].state is HoldState.CLOSED
    columns = [field["name"] for field in foreign.live_schema(held.path("t") if way is accept else _only_table(held))]
    assert ("h" in columns) is (way is unmanage), "a table that was given back is its owners'"


def _only_table(lake: Lake) -> Path:
    assert lake.env.location.local_path is not None
    (found,) = Path(lake.env.location.local_path).glob("t/*")
    return found


def test_drift_under_way_is_told_without_what_the_leader_did_and_with_what_leads_on(tmp_path: Path) -> None:
    schemas = ("CREATE TABLE t (id BIGINT);", "CREATE TABLE t (id BIGINT, w INT);")
    first, second = releases(tmp_path, (schemas[0], ""), (schemas[1], 'evolution("t")'))
    lake = deployed(tmp_path, first, second)
    expanded(lake, second)
    foreign.add_column(lake.path("t"), "theirs")
    with refused("drift", "t") as found:
        lake.upgrade(second)
    assert "theirs" in found[0].message and "w:" not in found[0].message
    assert "Undo that on the table itself" in found[0].next_action


@pytest.mark.parametrize("check", ["`set` > 0", "map(1) IS NULL", "id >", "id GLOB 'x'"])
def test_a_check_that_somebody_adds_can_be_reverted_whoever_reads_it(tmp_path: Path, check: str) -> None:
    schemas = ("CREATE TABLE t (id BIGINT, `set` INT);", "CREATE TABLE t (id BIGINT, `set` INT, w INT);")
    first, second = releases(tmp_path, (schemas[0], ""), (schemas[1], 'evolution("t")'))
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second)
    foreign.set_property(lake.path("t"), "delta.constraints.c", check)
    assert commands.status(lake.env).drifted == ("t",)
    assert commands.revert(lake.env, "t").changes
    assert commands.status(lake.env).drifted == ()


def test_a_check_that_begins_with_a_bare_name_follows_its_column(tmp_path: Path) -> None:
    """Spark reads ``set > 0``, and stores it as it was written."""
    one, two = "CREATE TABLE t (id BIGINT, `set` INT);", "CREATE TABLE t (id BIGINT, `set` INT, w INT);"
    first, second = releases(tmp_path, (one, ""), (two, 'evolution("t")'))
    lake = deployed(tmp_path, first, second)
    foreign.set_property(lake.path("t"), "delta.constraints.c", "set > 0")
    folder = tmp_path / "accepted"
    shutil.copytree(first, folder)
    commands.accept(lake.env, folder)
    renamed = (folder / "schema.sql").read_text().replace("`set`", "other").replace("set INT", "other INT")
    (folder / "schema.sql").write_text(renamed)
    commands.new_release(folder, "Rename", ask=lambda question: True)
    (module,) = (folder / "migrations").glob("v1_2_0.py")
    module.write_text(re.sub(r"Why: .*", "Why: a test.", module.read_text()))
    commands.snapshot_release(folder)
    lake.upgrade(folder)
    assert foreign.metadata(lake.path("t"))["configuration"]["delta.constraints.c"] == "other > 0"
    assert commands.status(lake.env).drifted == ()
