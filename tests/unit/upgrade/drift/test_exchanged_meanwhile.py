"""Somebody gives two columns each other's names by hand, while work of ours is under way: whoever goes by names would take one for the
other, and fill, drop or record the wrong one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import HoldState
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.upgrade.compare_and_evolve import compare_and_evolve_schema
from airflow_provider_schemamig.core.upgrade.errors import DriftFound
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.lake import Crash, Lake, copy_of, rows
from tests.support.online import OnlineJobs
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.support.upgrades import deployed, make_holds_due, refused, releases, whole

T = CollectionName("t")
MAPPED = (
    ("CREATE TABLE t (id BIGINT, x INT, a STRING, b STRING);", ""),
    (
        "CREATE TABLE t (id BIGINT, y INT, a STRING, b STRING);",
        'evolution("t", rename={"x": "y"})',
    ),
)
RETYPED = ("CREATE TABLE t (id BIGINT, y INT, a BIGINT, b STRING);", 'evolution("t")')
ADDED = ("CREATE TABLE t (id BIGINT, y INT, c STRING, n STRING);", 'evolution("t", rename={"a": "c"}, drop=["b"])')
DROPPED = (
    ("CREATE TABLE t (id BIGINT, x INT, a STRING, h STRING);\nCREATE TABLE u (id BIGINT);", ""),
    (
        "CREATE TABLE t (id BIGINT, y INT, a STRING);\nCREATE TABLE u (id BIGINT);",
        'evolution("t", rename={"x": "y"}, drop=["h"])',
    ),
)


def exchange(lake: Lake, one: str, other: str) -> None:
    path = lake.path("t")
    for old, new in ((one, "between"), (other, one), ("between", other)):
        foreign.rename_column(path, old, new)


def mapped(folder: Path, *more: tuple[str, str]) -> tuple[Lake, list[Path]]:
    """At 1.1.0 without a hold, with a row; the rename has given columns names of their own in the files."""
    found = releases(folder, *MAPPED, *more)
    lake = deployed(folder, found[0], found[-1])
    tables.insert(lake.path("t"), [{"id": 1, "x": 7, "a": "10", "b": "99"}])
    commands.upgrade(lake.env, found[1], hold=timedelta(0), jobs=OnlineJobs)
    return lake, found


def promoted(lake: Lake, release: Path) -> Generation:
    generation = commands.preflight(lake.env, release, jobs=OnlineJobs).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    return generation


def test_a_change_of_type_is_not_filled_from_a_column_that_took_the_name(tmp_path: Path) -> None:
    lake, found = mapped(tmp_path, RETYPED)
    generation = promoted(lake, found[2])
    commands.expand(lake.env, generation, jobs=OnlineJobs)
    exchange(lake, "a", "b")
    with refused("drift", "t"):
        commands.change(lake.env, generation, jobs=OnlineJobs)
    exchange(lake, "a", "b")
    commands.upgrade(lake.env, found[2], jobs=OnlineJobs)
    assert rows(lake.path("t"), "a", "b") == [{"a": 10, "b": "99"}]
    whole(lake)


@pytest.mark.parametrize("others", [("a", "n"), ("b", "n"), ("a", "b")])
def test_cancel_drops_no_column_that_took_the_name(tmp_path: Path, others: tuple[str, str]) -> None:
    lake, found = mapped(tmp_path, ADDED)
    generation = promoted(lake, found[2])
    commands.expand(lake.env, generation, jobs=OnlineJobs)
    exchange(lake, *others)
    with refused("drift", "t"):
        commands.cancel(lake.env, generation, jobs=OnlineJobs)
    exchange(lake, *others)
    commands.cancel(lake.env, generation, jobs=OnlineJobs)
    assert rows(lake.path("t"), "a", "b") == [{"a": "10", "b": "99"}]
    whole(lake)


@pytest.mark.parametrize("columns", ["id BIGINT, y INT, a STRING", "id BIGINT, y INT, a STRING, b STRING, c INT"], ids=["drop", "add"])
def test_compare_and_evolve_takes_no_exchange_for_the_truth(tmp_path: Path, columns: str) -> None:
    lake, _ = mapped(tmp_path)
    exchange(lake, "a", "b")
    new = next(iter(parse_schema(f"CREATE TABLE t ({columns});", "schema.sql")))
    with refused("drift", "t"):
        compare_and_evolve_schema(lake.env, T, lake.state.entry(T).schema_id, new)
    assert commands.status(lake.env).drifted == ("t",)
    assert rows(lake.path("t"), "a", "b") == [{"a": "99", "b": "10"}]


AFTER: list[Callable[[Lake], object]] = [
    lambda lake: None,
    lambda lake: commands.accept(lake.env, lake.second, ("u",)),
    lambda lake: commands.unmanage(lake.env, "u"),
]


@pytest.mark.some(2)
@pytest.mark.parametrize("before", AFTER, ids=["open", "accept", "unmanage"])
@pytest.mark.parametrize("is_exchange", [True, False])
def test_contract_looks_for_drift_also_where_the_hold_was_closed_before(
    tmp_path: Path, before: Callable[[Lake], object], is_exchange: bool
) -> None:
    """``accept`` and ``unmanage`` of another table close a hold whose time is over; and every way out of the drift stays open."""
    found = releases(tmp_path, *DROPPED)
    lake = deployed(tmp_path, *found)
    tables.insert(lake.path("t"), [{"id": 1, "x": 7, "a": "value", "h": "old"}])
    commands.upgrade(lake.env, found[1], jobs=OnlineJobs)
    make_holds_due(lake)
    if is_exchange:
        exchange(lake, "a", "h")
    else:
        foreign.add_column(lake.path("t"), "surprise")
    foreign.add_column(lake.path("u"), "more")
    before(lake)
    for _ in range(2):
        with refused("drift", "t"):
            commands.contract(lake.env)
    commands.revert(lake.env, "t")
    commands.contract(lake.env)
    assert rows(lake.path("t"), "id", "y", "a") == [{"id": 1, "y": 7, "a": "value"}]
    assert {hold.state for hold in lake.state.holds.values()} == {HoldState.CLOSED}


@pytest.mark.some(8, of="histories at each moment")
def test_drift_over_a_contract_that_was_killed_leads_to_an_end_from_every_moment(tmp_path: Path) -> None:
    """Where ``accept`` and ``revert`` wait for the contract, it does not send anybody to them."""
    found = releases(tmp_path / "releases", *DROPPED)
    base = deployed(tmp_path / "releases", *found)
    tables.insert(base.path("t"), [{"id": 1, "x": 7, "a": "value", "h": "old"}])
    commands.upgrade(base.env, found[1], jobs=OnlineJobs)
    make_holds_due(base)
    for write in range(100):
        lake = copy_of(base, tmp_path / str(write))
        try:
            commands.contract(lake.crashing_at(write))
            return
        except Crash:
            foreign.add_column(lake.path("t"), "surprise")
        try:
            commands.contract(lake.env)
        except DriftFound as drift:
            if drift.under_way:
                foreign.drop_column(lake.path("t"), "surprise")
            else:
                commands.revert(lake.env, "t")
            commands.contract(lake.env)
        assert {hold.state for hold in lake.state.holds.values()} == {HoldState.CLOSED}, write
        assert rows(lake.path("t"), "id", "y", "a") == [{"id": 1, "y": 7, "a": "value"}]
    raise AssertionError("it never ended")


def hooked(lake: Lake, write: int, act: Callable[[], None]) -> Environment:
    """The environment in which ``act`` happens at the ``write``-th moment of ours."""
    count = 0

    def hook(moment: str, what: str, key: str) -> None:
        nonlocal count
        count += 1
        if count == write:
            act()

    return replace(lake.env, on_write=hook)


#: Each with the values that are there at its end.
VERBS: dict[str, tuple[set[str], Callable[[Environment], object]]] = {
    "rollback": ({"10", "99"}, lambda env: commands.rollback(env, jobs=OnlineJobs)),
    "contract": ({"10"}, lambda env: commands.contract(env, at_once=True)),
}


@pytest.mark.some(4)
@pytest.mark.parametrize("is_killed", [False, True], ids=["running", "killed"])
@pytest.mark.parametrize("names", [("c", "b"), ("c", "n")])
@pytest.mark.parametrize("verb", VERBS)
def test_names_exchanged_beside_a_way_back_or_its_end_lose_no_value(
    tmp_path: Path, verb: str, names: tuple[str, str], is_killed: bool
) -> None:
    """At every moment of it."""
    base, found = mapped(tmp_path / "base", ADDED)
    commands.upgrade(base.env, found[2], jobs=OnlineJobs)
    kept, run = VERBS[verb]
    for write in range(1, 100):
        exchanged: list[bool] = []
        lake = copy_of(base, tmp_path / str(write))

        def act(lake: Lake = lake, exchanged: list[bool] = exchanged) -> None:
            there = {field["name"] for field in foreign.live_schema(lake.path("t"))}
            exchanged.append(set(names) <= there)
            if exchanged[0]:
                exchange(lake, *names)
            if is_killed:
                raise Crash

        with contextlib.suppress(Crash, SchemamigError):
            run(hooked(lake, write, act))
        if not exchanged:
            return
        if is_killed:
            with contextlib.suppress(SchemamigError):
                run(lake.env)
        if exchanged[0]:
            values = {value for row in rows(lake.path("t")) for value in row.values()}
            assert values >= kept, (write, values)
    raise AssertionError("it never ended")


def test_a_swap_that_somebody_changed_the_table_after_goes_on_once_that_is_undone(tmp_path: Path) -> None:
    """The cut-over was killed after its swap, and could not be ended over the change."""
    base, found = mapped(tmp_path / "base", RETYPED)
    generation = promoted(base, found[2])
    commands.expand(base.env, generation, jobs=OnlineJobs)
    commands.change(base.env, generation, jobs=OnlineJobs)
    for write in range(1, 100):
        lake = copy_of(base, tmp_path / str(write))
        try:
            commands.cutover(lake.crashing_at(write), generation, jobs=OnlineJobs)
            return
        except Crash:
            foreign.add_column(lake.path("t"), "surprise")
        with contextlib.suppress(SchemamigError):
            commands.cutover(lake.env, generation, jobs=OnlineJobs)
        if lake.version == "1.1.0":
            foreign.drop_column(lake.path("t"), "surprise")
            commands.cutover(lake.env, generation, jobs=OnlineJobs)
        assert lake.version == "1.2.0", write
        assert rows(lake.path("t"), "a", "b") == [{"a": 10, "b": "99"}], write
    raise AssertionError("it never ended")
