"""A column with a DEFAULT that is released, rolled back and released again: what rows got meanwhile is theirs, all others are filled."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.online import unfilled
from airflow_provider_schemamig.core.upgrade.context import controls
from airflow_provider_schemamig.core.upgrade.verify.findings import Condition
from airflow_provider_schemamig.core.upgrade.verify.verify import verify
from tests.support.lake import Crash, Lake, rows
from tests.support.online import OnlineJobs
from tests.support.product import Product
from tests.support.rows.tables import Row, change, insert, newest, optimize, restore
from tests.support.upgrades import make_holds_due, two_releases, whole

pytestmark = pytest.mark.some(6, of="online again")

ONE = "CREATE TABLE t (id BIGINT);"
FIVE = ("1.1.0", "c INT DEFAULT 5")
SEVEN = ("1.1.1", "c INT DEFAULT 7")
#: Of plans that add the column again.
KEEPS, ALL_BUT_NULL, UNTOLD = "keep their value, also a NULL", "but for NULL", "it is not known"


@dataclass
class World:
    """A table with rows 1 and 2 (a file each) at 1.0.0, the releases after it, and what the plan of the last upgrade said."""

    lake: Lake
    releases: Mapping[str, Path]
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> Path:
        return self.lake.path("t")


Step = Callable[[World], object]


def up(version: str = "1.1.0") -> Step:
    def step(world: World) -> None:
        world.notes = commands.plan(world.lake.env, world.releases[version]).notes
        commands.upgrade(world.lake.env, world.releases[version], jobs=OnlineJobs())
        assert world.lake.version == version
        whole(world.lake)

    return step


def back(world: World) -> None:
    commands.rollback(world.lake.env, jobs=OnlineJobs())
    whole(world.lake)


def given_up(*then: Step, fills: int = 9, version: str = "1.1.0") -> Step:
    """An upgrade up to its online changes, of which ``fills`` batches are made (a file each), then ``then``, and back before its commit."""

    def step(world: World) -> None:
        env, left = world.lake.env, [fills]

        def dies(job: str, request: Mapping[str, Any]) -> None:
            if job == "fill":
                left[0] -= 1
                if left[0] < 0:
                    raise Crash

        jobs = OnlineJobs(before=dies)
        generation = commands.preflight(env, world.releases[version], jobs=jobs).generation
        assert generation is not None
        commands.promote(env, generation)
        commands.expand(env, generation)
        try:
            commands.change(env, generation, jobs=jobs)
        except Crash:
            assert left[0] < 0
        for one in then:
            one(world)
        back(world)

    return step


def writes(*rows: Row) -> Step:
    return lambda world: insert(world.table, rows)


def updates(row_id: int, operation: str = "UPDATE", *inserted: Row, **values: Any) -> Step:
    """By others, who leave all other columns of their file's rows as they are."""
    return lambda world: change(
        world.table, lambda row: {**row, **values} if row["id"] == row_id else row, inserted=inserted, operation=operation
    )


def optimizes(world: World) -> None:
    optimize(world.table)


def cleans(keep: int) -> Step:
    """Delta cleans the log up, but for its newest ``keep`` commits."""

    def step(world: World) -> None:
        DeltaTable(str(world.table)).create_checkpoint()
        for version in range(newest(world.table) - keep + 1):
            (world.table / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)

    return step


def contracts(world: World) -> None:
    make_holds_due(world.lake)
    commands.contract(world.lake.env)


@dataclass(frozen=True)
class History:
    """``values``: of ``c`` by id at the end."""

    steps: Sequence[Step]
    values: Mapping[int, Any]
    says: Sequence[str] = (KEEPS,)
    #: Each follows 1.0.0, as that before it was withdrawn; those of which there are ``steps_of`` follow each other.
    releases: Sequence[tuple[str, str]] = (FIVE, SEVEN)
    #: The column's name at the end.
    name: str = "c"
    steps_of: Mapping[str, str] = field(default_factory=dict)


R42, NULL = {"id": 3, "c": 42}, {"id": 4, "c": None}
OLDER, HIDDEN = {1: 5, 2: 5}, {"id": 5}
HISTORIES: dict[str, History] = {
    "values, a NULL and a default that were written": History(
        (up(), writes(R42, NULL), writes({"id": 6, "c": 5}), back, up()), {**OLDER, 3: 42, 4: None, 6: 5}
    ),
    "rows that come while it is hidden": History((up(), writes(R42), back, writes(HIDDEN), up()), {**OLDER, 3: 42, 5: 5}),
    "a value of somebody else's while it is hidden": History((up(), back, writes({"id": 5, "c": 8}), up()), {**OLDER, 5: 8}),
    "updates while it is in use": History((up(), updates(1, c=42), updates(2, c=None), back, up()), {1: 42, 2: None}),
    "updates while it is hidden": History(
        (up(), writes(NULL), back, writes(HIDDEN), updates(4, id=40), updates(5, id=50), up()), {**OLDER, 40: None, 50: 5}
    ),
    "deletes while it is hidden": History((up(), writes(R42, NULL), back, updates(3, "DELETE", id=30), up()), {**OLDER, 30: 42, 4: None}),
    "a merge while it is hidden": History(
        (up(), writes(R42, NULL), back, updates(3, "MERGE", HIDDEN, id=30), up()), {**OLDER, 30: 42, 4: 5, 5: 5}, (KEEPS, UNTOLD)
    ),
    "compacted while it is in use": History((up(), writes(R42, NULL), optimizes, back, up()), {**OLDER, 3: 42, 4: None}),
    "compacted while it is hidden, all of them from before": History(
        (up(), writes(R42, NULL), back, optimizes, up()), {**OLDER, 3: 42, 4: None}
    ),
    "compacted while it is hidden, from both times": History(
        (up(), writes(R42, NULL), back, writes(HIDDEN), optimizes, up()), {**OLDER, 3: 42, 4: 5, 5: 5}, (KEEPS, "Of 1 file(s)", UNTOLD)
    ),
    "several rounds": History(
        (up(), writes(R42), back, writes(HIDDEN), up(), writes(NULL), back, writes({"id": 6}), up(), back, up()),
        {**OLDER, 3: 42, 4: None, 5: 5, 6: 5},
    ),
    "another default": History(
        (up(), writes(R42, NULL), back, writes(HIDDEN), up("1.1.1")), {**OLDER, 3: 42, 4: None, 5: 7}, (KEEPS, "DEFAULT 7")
    ),
    "another default, the other way round": History((up("1.1.1"), writes(NULL), back, writes(HIDDEN), up()), {1: 7, 2: 7, 4: None, 5: 5}),
    "a default that was changed, and both taken back": History(
        (up(), up("1.1.1"), writes(R42, NULL), back, back, writes(HIDDEN), up()),
        {**OLDER, 3: 42, 4: None, 5: 5},
        steps_of={"1.1.1": 'evolution("t")'},
    ),
    "given up half-done": History((given_up(fills=1), writes(HIDDEN), up()), {**OLDER, 5: 5}),
    "given up half-done, another default": History((given_up(fills=1), writes(HIDDEN), up("1.1.1")), {1: 7, 2: 7, 5: 7}),
    "given up when all was filled, another default": History((given_up(), up("1.1.1")), {1: 7, 2: 7}),
    "given up half-done and compacted, another default": History(
        (given_up(fills=1), optimizes, given_up(fills=0), up("1.1.1")), {1: 7, 2: 7}
    ),
    "given up, what others wrote in between": History(
        (given_up(writes(R42, NULL), fills=1), writes(HIDDEN), up()), {**OLDER, 3: 42, 4: None, 5: 5}
    ),
    "given up, what others changed before it was filled": History((given_up(updates(1, c=42), fills=0), up("1.1.1")), {1: 42, 2: 7}),
    "given up, what others changed after it was filled": History(
        (given_up(updates(1, c=42)), up("1.1.1")), {1: 42, 2: 7}, (KEEPS, "Of 1 file(s)", UNTOLD)
    ),
    "given up when all was filled and compacted": History((given_up(optimizes), up("1.1.1")), {1: 7, 2: 7}),
    "given up when all was filled, compacted later": History((given_up(), optimizes, up("1.1.1")), {1: 7, 2: 7}),
    "given up half-done and compacted": History((given_up(optimizes, fills=1), up("1.1.1")), {1: 7, 2: 7}),
    "given up, what others deleted in between": History((given_up(updates(1, "DELETE", id=10)), up("1.1.1")), {10: 7, 2: 7}),
    "given up twice, compacted each time": History(
        (given_up(optimizes), given_up(optimizes, version="1.1.1"), optimizes, up()), {1: 5, 2: 5}
    ),
    "given up, updates of what was filled": History(
        (given_up(updates(1, id=10)), updates(2, id=20), up("1.1.1")), {10: 5, 20: 5}, (KEEPS, "Of 2 file(s)", UNTOLD)
    ),
    "given up, what was filled is compacted with what was written": History(
        (given_up(writes(R42), optimizes), writes(HIDDEN), up("1.1.1")), {**OLDER, 3: 42, 5: 7}, (KEEPS, "Of 1 file(s)", UNTOLD)
    ),
    "given up after it was in use, compacted in between": History(
        (up(), back, writes(HIDDEN), given_up(optimizes, version="1.1.1"), up()), {**OLDER, 5: 7}, (KEEPS, "Of 1 file(s)", UNTOLD)
    ),
    "given up, NOT NULL the second time": History(
        (given_up(writes(R42, NULL)), writes(HIDDEN), up("1.1.1")),
        {1: 7, 2: 7, 3: 42, 4: 7, 5: 7},
        (ALL_BUT_NULL,),
        releases=(FIVE, ("1.1.1", "c INT NOT NULL DEFAULT 7")),
    ),
    "given up after it was in use": History(
        (up(), writes(R42, NULL), back, writes(HIDDEN), given_up(version="1.1.1"), up()), {**OLDER, 3: 42, 4: None, 5: 5}
    ),
    "given up before it is in use": History((given_up(fills=1), up(), writes(R42, NULL), back, up("1.1.1")), {**OLDER, 3: 42, 4: None}),
    "the log cleaned since": History(
        (up(), writes(R42, NULL), back, writes(HIDDEN), writes({"id": 6}), cleans(1), up()),
        {**OLDER, 3: 42, 4: 5, 5: 5, 6: 5},
        (KEEPS, UNTOLD),
    ),
    "the log cleaned since, given up before": History(
        (given_up(writes(R42)), writes(HIDDEN), cleans(1), up("1.1.1")), {**OLDER, 3: 42, 5: 7}, (KEEPS, UNTOLD)
    ),
    "the log cleaned up to the rollback": History(
        (up(), writes(R42, NULL), back, writes(HIDDEN), writes({"id": 6}), cleans(2), up()), {**OLDER, 3: 42, 4: None, 5: 5, 6: 5}
    ),
    "NOT NULL": History(
        (up(), writes(R42), back, writes(HIDDEN), up()),
        {**OLDER, 3: 42, 5: 5},
        releases=(("1.1.0", "c INT NOT NULL DEFAULT 5"),),
    ),
    "NOT NULL the second time": History(
        (up(), writes(R42, NULL), back, writes(HIDDEN), up("1.1.1")),
        {**OLDER, 3: 42, 4: 7, 5: 7},
        (ALL_BUT_NULL,),
        releases=(FIVE, ("1.1.1", "c INT NOT NULL DEFAULT 7")),
    ),
    "no default the first time": History(
        (up(), writes(R42, NULL), back, writes(HIDDEN), up(), writes({"id": 6}), back, writes({"id": 7}), up("1.1.1")),
        {1: 7, 2: 7, 3: 42, 4: None, 5: 7, 6: None, 7: 7},
        releases=(("1.1.0", "c INT"), SEVEN),
    ),
    "no default the second time": History(
        (up("1.1.1"), writes(R42, NULL), back, up(), writes({"id": 6}), back, writes(HIDDEN), up("1.1.1")),
        {1: 7, 2: 7, 3: 42, 4: None, 5: 7, 6: None},
        releases=(("1.1.0", "c INT"), SEVEN),
    ),
    "renamed, and both taken back": History(
        (up(), writes(R42), up("1.2.0"), writes({"id": 4, "d": None}), back, back, writes(HIDDEN), up(), up("1.2.0")),
        {**OLDER, 3: 42, 4: None, 5: 5},
        (),
        releases=(FIVE, ("1.2.0", "d INT DEFAULT 5")),
        name="d",
        steps_of={"1.2.0": 'evolution("t", rename={"c": "d"})'},
    ),
    "dropped for good, and added again": History(
        (up(), writes(R42, NULL), contracts, up("1.2.0"), contracts, up("1.3.0")),
        {1: 7, 2: 7, 3: 7, 4: 7},
        (),
        releases=(FIVE, ("1.2.0", ""), ("1.3.0", "c INT DEFAULT 7")),
        steps_of={"1.2.0": 'evolution("t", drop=["c"])'},
    ),
}


def world_of(folder: Path, history: History) -> World:
    chain, found = Product(folder / "chain"), {}
    first = chain.release("1.0.0", ONE)
    for version, column in history.releases:
        product = chain
        if not history.steps_of:
            product = Product(folder / version)
            product.release("1.0.0", ONE)
        schema = f"CREATE TABLE t (id BIGINT{', ' if column else ''}{column});"
        found[version] = product.release(version, schema, history.steps_of.get(version, 'evolution("t")'))
    lake = Lake(Environment.open(str(folder / "lake")), first, first)
    lake.upgrade(first)
    for number in (1, 2):
        insert(lake.path("t"), [{"id": number}])
    controls.throttle(lake.env, None, max_files=1)
    return World(lake, found)


def values(world: World, name: str) -> dict[int, Any]:
    rows = world.lake.env.reader("t", str(world.lake.version)).arrow().to_pylist()
    found = {row["id"]: row[name] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.some(3)
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_what_rows_have_in_a_column_that_comes_again(tmp_path: Path, history: History) -> None:
    world = world_of(tmp_path, history)
    for step in history.steps:
        step(world)
    assert values(world, history.name) == history.values
    said = " ".join(world.notes)
    assert all((text in said) is (text in history.says) for text in (KEEPS, ALL_BUT_NULL, UNTOLD, *history.says)), said
    assert not verify(world.lake.env, world.lake.state, OnlineJobs()).findings


@pytest.mark.parametrize("name", ["given up when all was filled and compacted", "given up, what others deleted in between"])
def test_a_default_that_was_given_up_and_stays_is_found(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By ``verify``, if it was left in rows all the same."""
    monkeypatch.setattr(unfilled, "_of_all", lambda took: unfilled.Owed.NOTHING)
    world = world_of(tmp_path, HISTORIES[name])
    for step in HISTORIES[name].steps:
        step(world)
    assert 5 in values(world, "c").values()
    (finding,) = verify(world.lake.env, world.lake.state, OnlineJobs()).findings
    assert (finding.condition, finding.element) == (Condition.VALUE_MISSING, "column:c")
    assert "DEFAULT 7" in finding.text
    assert "what an attempt before gave" in finding.text


@pytest.mark.some(8, of="histories at each moment")
def test_a_rollback_that_dies_anywhere(tmp_path: Path) -> None:
    """Whoever goes on with it writes down up to when the column was in use."""
    history = HISTORIES["values, a NULL and a default that were written"]
    begun = world_of(tmp_path / "begun", history)
    for step in history.steps[:-2]:
        step(begun)
    moment, died = 0, True
    while died:
        folder = tmp_path / str(moment)
        shutil.copytree(begun.lake.env.location.local_path or "", folder)
        world = replace(begun, lake=replace(begun.lake, env=Environment.open(str(folder))))
        try:
            commands.rollback(world.lake.crashing_at(moment), jobs=OnlineJobs())
            died = False
        except Crash:
            if world.lake.version != "1.0.0":
                back(world)
        writes(HIDDEN)(world)
        up()(world)
        assert values(world, "c") == {**history.values, 5: 5}
        moment += 3
    assert moment > 6


# --- another type --------------------------------------------------------------------------------------------------------------------

#: Of ``s``: its types, what a row has at first, what is written to it at the new release, at the old one, and what it has in the end.
TYPES: dict[str, tuple[str, str, Any, Any, Any, Any]] = {
    "text that is no number's own": ("INT", "STRING", 7, "0042", ..., "0042"),
    "a value that was changed at the old release": ("INT", "STRING", 7, "0042", 8, "8"),
    "a value that was taken away there": ("INT", "STRING", 7, "0042", None, None),
    "NULL": ("INT", "STRING", 7, None, ..., None),
    "what nobody wrote": ("STRING", "INT", "007", ..., ..., 7),
    "inside a struct": ("STRUCT<x: INT>", "STRUCT<x: STRING>", {"x": 7}, {"x": "0042"}, ..., {"x": "0042"}),
}


@pytest.mark.some(1)
@pytest.mark.parametrize(("old", "new", "first", "then", "back_there", "end"), TYPES.values(), ids=TYPES)
def test_what_rows_have_in_a_column_that_gets_another_type_again(
    tmp_path: Path, old: str, new: str, first: Any, then: Any, back_there: Any, end: Any
) -> None:
    before, after = (f"CREATE TABLE a (id BIGINT, s {found});" for found in (old, new))
    lake = two_releases(tmp_path, before, after, 'evolution("a")')
    table = lake.path("a")
    insert(table, [{"id": 1, "s": first}, {"id": 2, "s": first}])
    for _ in range(2):
        commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
        if then is not ...:
            change(table, lambda row: {**row, "s": then} if row["id"] == 1 else row)
        commands.rollback(lake.env, jobs=OnlineJobs())
        if back_there is not ...:
            change(table, lambda row: {**row, "s": back_there} if row["id"] == 1 else row)
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    whole(lake)
    assert {row["id"]: row["s"] for row in lake.env.reader("a", "1.1.0").arrow().to_pylist()}[1] == end
    assert not verify(lake.env, lake.state, OnlineJobs()).findings


def test_values_of_a_hidden_column_that_somebody_restored_away_and_back_stay(tmp_path: Path) -> None:
    old, new = "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, e STRING DEFAULT 'x');"
    lake = two_releases(tmp_path, old, new, 'evolution("a")')
    insert(lake.path("a"), [{"id": 1}])
    before = newest(lake.path("a"))
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs)
    insert(lake.path("a"), [{"id": 2, "e": "kept"}])
    commands.rollback(lake.env, jobs=OnlineJobs)
    hidden = newest(lake.path("a"))
    restore(lake.path("a"), before)
    restore(lake.path("a"), hidden)
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs)
    assert [(row["id"], row["e"]) for row in rows(lake.path("a"))] == [(1, "x"), (2, "kept")]
    whole(lake)
