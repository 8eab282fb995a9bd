"""Holds on top of each other: three releases, rows written at each, the way back one release at a time, and holds that end in between.

What a release may not do to a table on which an older hold keeps something is in ``test_hold_rules``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import ReaderFenced
from airflow_provider_schemamig.core.ledger.rows import HoldState
from airflow_provider_schemamig.core.names import CollectionName, Generation
from tests.support.lake import Lake, no_spark, rows
from tests.support.rows import tables
from tests.support.upgrades import deployed, make_holds_due, refused, releases, same_as_new, seen, whole

pytestmark = pytest.mark.some(5, of="stacked holds")

ONE = "CREATE TABLE t (id BIGINT NOT NULL, a STRING, h STRING, s STRUCT<p: INT, q: STRING>);"
#: Renames, hides a column and a field, adds one.
TWO = "CREATE TABLE t (id BIGINT NOT NULL, b STRING, n INT, s STRUCT<p: INT>);"
STEP_TWO = 'evolution("t", rename={"a": "b"}, drop=["h", "s.q"])'
#: Renames the struct around the hidden field, what was added, and the collection.
THREE = "CREATE TABLE u (id BIGINT NOT NULL, c STRING, n INT, r STRUCT<p: INT>, z INT);"
STEP_THREE = 'evolution("u", renamed_from="t", rename={"b": "c", "s": "r"})'

A, B = Generation(2), Generation(3)


class Stack:
    """A lake that went from 1.0.0 to 1.2.0, with a row written at each release."""

    def __init__(self, folder: Path) -> None:
        self.releases = releases(folder, (ONE, ""), (TWO, STEP_TWO), (THREE, STEP_THREE))
        self.folder = folder
        self.lake = deployed(folder, self.releases[0], self.releases[1])
        tables.insert(self.lake.path("t"), [{"id": 1, "a": "one", "h": "hidden", "s": {"p": 1, "q": "inside"}}])
        self.lake.upgrade(self.releases[1])
        tables.insert(self.lake.path("t"), [{"id": 2, "b": "two", "n": 2, "s": {"p": 2, "q": None}}])
        self.lake.upgrade(self.releases[2])
        tables.insert(self.lake.path("u"), [{"id": 3, "c": "three", "n": 3, "r": {"p": 3, "q": None}, "z": None}])

    def back(self) -> None:
        commands.rollback(self.lake.env, jobs=no_spark)
        whole(self.lake)

    def end(self, *generations: Generation) -> None:
        """As maintenance does once these holds are due."""
        make_holds_due(self.lake)
        for generation in generations:
            commands.contract(self.lake.env, generation)
        whole(self.lake)

    def is_at(self, number: int) -> None:
        same_as_new(self.lake, self.releases[number], self.folder / f"fresh-{number}-{self.lake.state.version}")


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(tmp_path)


def states(lake: Lake) -> dict[int, HoldState]:
    return {generation: hold.state for generation, hold in lake.state.holds.items()}


def read(lake: Lake, collection: str, release: str) -> list[dict[str, Any]]:
    return sorted(lake.env.reader(collection, release).arrow().to_pylist(), key=repr)


OLD = [
    {"id": 1, "a": "one", "h": "hidden", "s": {"p": 1, "q": "inside"}},
    {"id": 2, "a": "two", "h": None, "s": {"p": 2, "q": None}},
    {"id": 3, "a": "three", "h": None, "s": {"p": 3, "q": None}},
]
MIDDLE = [
    {"id": 1, "b": "one", "n": None, "s": {"p": 1}},
    {"id": 2, "b": "two", "n": 2, "s": {"p": 2}},
    {"id": 3, "b": "three", "n": 3, "s": {"p": 3}},
]
NEW = [
    {"id": 1, "c": "one", "n": None, "r": {"p": 1}, "z": None},
    {"id": 2, "c": "two", "n": 2, "r": {"p": 2}, "z": None},
    {"id": 3, "c": "three", "n": 3, "r": {"p": 3}, "z": None},
]


def test_an_upgrade_leaves_the_hold_of_the_one_before_open(stack: Stack) -> None:
    assert states(stack.lake) == {A: HoldState.OPEN, B: HoldState.OPEN}
    assert sorted(seen(stack.lake, "u")["hidden"]) == ["h", "r.q"]
    whole(stack.lake)
    stack.is_at(2)


def test_handles_of_all_three_releases(stack: Stack) -> None:
    for number, (name, release, wanted) in enumerate((("t", "1.0.0", OLD), ("t", "1.1.0", MIDDLE), ("u", "1.2.0", NEW))):
        assert read(stack.lake, name, release) == wanted, number


def test_back_release_by_release(stack: Stack) -> None:
    stack.back()
    assert (stack.lake.version, states(stack.lake)) == ("1.1.0", {A: HoldState.OPEN, B: HoldState.CLOSED})
    stack.is_at(1)
    assert read(stack.lake, "t", "1.0.0") == OLD
    assert read(stack.lake, "t", "1.1.0") == MIDDLE
    tables.insert(stack.lake.path("t"), [{"id": 4, "b": "four", "n": 4, "s": {"p": 4, "q": None}}])
    stack.back()
    assert (stack.lake.version, states(stack.lake)) == ("1.0.0", {A: HoldState.CLOSED, B: HoldState.CLOSED})
    stack.is_at(0)
    assert read(stack.lake, "t", "1.0.0") == [*OLD, {"id": 4, "a": "four", "h": None, "s": {"p": 4, "q": None}}]
    assert set(seen(stack.lake, "t")["hidden"]) == {"n", "z"}, "files carry them"
    with refused("nothing_to_roll_back"):
        commands.rollback(stack.lake.env)


def test_forth_and_back_again(stack: Stack) -> None:
    stack.back()
    stack.back()
    stack.lake.upgrade(stack.releases[1])
    stack.lake.upgrade(stack.releases[2])
    whole(stack.lake)
    stack.is_at(2)
    assert read(stack.lake, "u", "1.2.0") == NEW
    stack.back()
    stack.back()
    stack.is_at(0)
    assert read(stack.lake, "t", "1.0.0") == OLD


def test_the_older_hold_ends_first_and_the_way_back_of_the_newer_is_as_it_was(stack: Stack) -> None:
    """Its own hidden columns are gone, from the table and from every schema that the newer way back leads to."""
    stack.end(A)
    assert (states(stack.lake), seen(stack.lake, "u")["hidden"]) == ({A: HoldState.CLOSED, B: HoldState.OPEN}, [])
    with pytest.raises(ReaderFenced):
        read(stack.lake, "t", "1.0.0")
    assert read(stack.lake, "u", "1.2.0") == NEW
    stack.back()
    assert (stack.lake.version, seen(stack.lake, "t")["hidden"]) == ("1.1.0", ["z"])
    stack.is_at(1)
    assert read(stack.lake, "t", "1.1.0") == MIDDLE
    with refused("nothing_to_roll_back"):
        commands.rollback(stack.lake.env)


def test_a_hold_ends_between_two_rollbacks(stack: Stack) -> None:
    stack.back()
    stack.end(A)
    assert seen(stack.lake, "t")["hidden"] == ["z"]
    assert read(stack.lake, "t", "1.1.0") == MIDDLE
    with refused("nothing_to_roll_back"):
        commands.rollback(stack.lake.env)


def test_both_end_the_oldest_first(stack: Stack) -> None:
    make_holds_due(stack.lake)
    outcome = commands.contract(stack.lake.env)
    assert [stage.kind for stage in outcome.stages] == ["contract"]
    assert (outcome.pending, seen(stack.lake, "u")["hidden"]) == ((), [])
    whole(stack.lake)


def test_a_newer_hold_does_not_end_before_an_older_one(stack: Stack) -> None:
    before = stack.lake.state.raw
    with refused("hold_open") as found:
        commands.contract(stack.lake.env, B, at_once=True)
    assert "holds end oldest first" in found[0].message
    assert stack.lake.state.raw == before


def test_what_ends_a_newer_hold_waits_for_the_older_one(stack: Stack) -> None:
    older, newer = stack.lake.state.holds[A], stack.lake.state.holds[B]
    assert newer.until >= older.until


def test_a_shorter_hold_lasts_as_long_as_an_older_one(tmp_path: Path) -> None:
    found = releases(tmp_path, (ONE, ""), (TWO, STEP_TWO), (THREE, STEP_THREE))
    lake = deployed(tmp_path, found[0], found[1])
    lake.upgrade(found[1], hold=timedelta(days=3))
    with refused("hold_open"):
        lake.upgrade(found[2], hold=timedelta(0))
    assert lake.version == "1.1.0"
    lake.upgrade(found[2], hold=timedelta(minutes=1))
    assert lake.state.holds[B].until == lake.state.holds[A].until


def test_a_hold_knows_what_its_way_back_asks_for(stack: Stack) -> None:
    """Names of the table now are nobody's business: the table was renamed, and so was the struct around the hidden field."""
    (held,) = stack.lake.state.holds[A].tables
    assert (held.collection, held.schema_id, held.shard) == ("t", 1, stack.lake.state.objects[CollectionName("u")].shard)
    assert (held.before, held.table_id is not None) == (1, True)
    assert [names[0] for names in held.dropped if len(names) == 1] != []
    assert len(held.dropped) == 2


# --- collections that come, go and change their names --------------------------------------------------------------------------------

K = "CREATE TABLE k (id BIGINT);"
HISTORIES: dict[str, tuple[tuple[str, str], tuple[str, str], tuple[str, str]]] = {
    "removed, and made anew": ((K + "CREATE TABLE a (id BIGINT);", ""), (K, 'removal("a")'), (K + "CREATE TABLE a (id BIGINT);", "")),
    "made, and renamed": (
        (K, ""),
        (K + "CREATE TABLE a (id BIGINT);", ""),
        (K + "CREATE TABLE b (id BIGINT);", 'evolution("b", renamed_from="a")'),
    ),
    "renamed twice": (
        ("CREATE TABLE a (id BIGINT);", ""),
        ("CREATE TABLE b (id BIGINT);", 'evolution("b", renamed_from="a")'),
        ("CREATE TABLE c (id BIGINT);", 'evolution("c", renamed_from="b")'),
    ),
    "renamed, and another of its name": (
        ("CREATE TABLE a (id BIGINT);", ""),
        ("CREATE TABLE b (id BIGINT);", 'evolution("b", renamed_from="a")'),
        ("CREATE TABLE b (id BIGINT); CREATE TABLE a (id BIGINT);", ""),
    ),
    "replaced, and evolved": (
        ("CREATE TABLE a (id BIGINT);", ""),
        ("CREATE TABLE a (id STRING);", 'replacement("a")'),
        ("CREATE TABLE a (id STRING, x INT);", 'evolution("a")'),
    ),
    "one evolves, the other is removed": (
        (K + "CREATE TABLE a (id BIGINT, x INT);", ""),
        (K + "CREATE TABLE a (id BIGINT);", 'evolution("a", drop=["x"])'),
        ("CREATE TABLE a (id BIGINT);", 'removal("k")'),
    ),
    "removed, and another evolves": (
        (K + "CREATE TABLE a (id BIGINT, x INT);", ""),
        ("CREATE TABLE a (id BIGINT, x INT);", 'removal("k")'),
        ("CREATE TABLE a (id BIGINT);", 'evolution("a", drop=["x"])'),
    ),
    "added, and dropped": (
        ("CREATE TABLE a (id BIGINT);", ""),
        ("CREATE TABLE a (id BIGINT, x INT);", 'evolution("a")'),
        ("CREATE TABLE a (id BIGINT);", 'evolution("a", drop=["x"])'),
    ),
    "widened, and dropped": (
        ("CREATE TABLE a (id BIGINT, x INT);", ""),
        ("CREATE TABLE a (id BIGINT, x BIGINT);", 'evolution("a")'),
        ("CREATE TABLE a (id BIGINT);", 'evolution("a", drop=["x"])'),
    ),
    "dropped, and another widened": (
        ("CREATE TABLE a (id BIGINT, x INT, y INT);", ""),
        ("CREATE TABLE a (id BIGINT, x INT);", 'evolution("a", drop=["y"])'),
        ("CREATE TABLE a (id BIGINT, x BIGINT);", 'evolution("a")'),
    ),
    "a name given away, and dropped under its new one": (
        ("CREATE TABLE a (id BIGINT, x INT);", ""),
        ("CREATE TABLE a (id BIGINT, y INT, x INT);", 'evolution("a", rename={"x": "y"})'),
        ("CREATE TABLE a (id BIGINT, x INT);", 'evolution("a", drop=["y"])'),
    ),
    "made way, and made way again": (
        ("CREATE TABLE a (id BIGINT, x INT, y INT);", ""),
        ("CREATE TABLE a (id BIGINT, x INT);", 'evolution("a", rename={"y": "x"}, drop=["x"])'),
        ("CREATE TABLE a (id BIGINT, z INT);", 'evolution("a", rename={"x": "z"})'),
    ),
    "rules relaxed, and relaxed again": (
        ("CREATE TABLE a (id BIGINT NOT NULL, x INT NOT NULL, CONSTRAINT c CHECK (x > 0));", ""),
        ("CREATE TABLE a (id BIGINT NOT NULL, x INT, CONSTRAINT c CHECK (x > 0));", 'evolution("a")'),
        ("CREATE TABLE a (id BIGINT, x INT);", 'evolution("a")'),
    ),
}


def _written(lake: Lake, number: int) -> dict[str, int]:
    for name in lake.state.objects:
        row: dict[str, Any] = {field["name"]: None for field in tables.snapshot(lake.path(name)).fields}
        text = any(field["name"] == "id" and field["type"] == "string" for field in tables.snapshot(lake.path(name)).fields)
        filled = {"x": number, "y": number, "z": number}
        tables.insert(lake.path(name), [{**row, **{k: v for k, v in filled.items() if k in row}, "id": str(number) if text else number}])
    return {name: len(rows(lake.path(name))) for name in lake.state.objects}


def _contents(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """The rows as the environment's release declares them."""
    return {name: rows(lake.path(name), *(field.name for field in lake.state.entry(name).declared.fields)) for name in lake.state.objects}


@pytest.mark.some(5)
@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("end", ["no hold", "the older hold"])
def test_stacked_holds_histories(tmp_path: Path, name: str, end: str) -> None:
    found = releases(tmp_path, *HISTORIES[name])
    lake = deployed(tmp_path, found[0], found[1])
    _written(lake, 1)
    first = _contents(lake)
    lake.upgrade(found[1])
    _written(lake, 2)
    second = _contents(lake)
    lake.upgrade(found[2])
    whole(lake)
    if end == "the older hold":
        make_holds_due(lake)
        commands.contract(lake.env, A)
        whole(lake)
    commands.rollback(lake.env, jobs=no_spark)
    whole(lake)
    same_as_new(lake, found[1], tmp_path / "fresh-1")
    assert _contents(lake) == second
    if end == "the older hold":
        with refused("nothing_to_roll_back"):
            commands.rollback(lake.env)
        return
    commands.rollback(lake.env, jobs=no_spark, allow_lossy=name == "replaced, and evolved")
    whole(lake)
    same_as_new(lake, found[0], tmp_path / "fresh-0")
    _holds_all(_contents(lake), first)


def _holds_all(now: dict[str, list[dict[str, Any]]], before: dict[str, list[dict[str, Any]]]) -> None:
    """What was written at the first release is there as it was."""
    assert now.keys() == before.keys()
    for name, wanted in before.items():
        ids = {row["id"] for row in wanted}
        assert [row for row in now[name] if row["id"] in ids] == wanted, name


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("what", ["contract", "roll back"])
def test_stacked_holds_killed_anywhere(tmp_path: Path, what: str) -> None:
    """The end of the older hold, and the way back of the newer one, may be cut at any write."""
    from tests.support.lake import Crash

    run: Callable[[Any], object] = (
        (lambda env: commands.contract(env, A)) if what == "contract" else (lambda env: commands.rollback(env, jobs=no_spark))
    )
    for write in range(1, 60, 4):
        stack = Stack(tmp_path / str(write))
        make_holds_due(stack.lake)
        try:
            run(stack.lake.crashing_at(write))
        except Crash:
            done = False
        else:
            done = True
        state = stack.lake.state.holds[A if what == "contract" else B].state
        if state is not HoldState.CLOSED:
            run(stack.lake.env)
        whole(stack.lake)
        if what == "contract":
            stack.back()
        assert read(stack.lake, "t", "1.1.0") == MIDDLE
        if done:
            return
    raise AssertionError("it never ended")
