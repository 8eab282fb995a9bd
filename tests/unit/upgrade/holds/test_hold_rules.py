"""What a release may not do to a table as long as an older hold keeps something of it, and what ``--end-hold`` says and does then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pendulum
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.rows import Hold, HoldState
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.plan.errors import HoldKeeps
from airflow_provider_schemamig.core.upgrade.plan.stages import EndHold
from tests.support.bytes import unwritten
from tests.support.lake import Crash, Lake, no_spark, rows
from tests.support.rows import tables
from tests.support.upgrades import claimed, deployed, heartbeat, make_holds_due, promoted, refused, releases, seen, whole

#: name -> the three releases' tables, the two steps, what the older hold would lose.
REFUSED: dict[str, tuple[str, str, str, str, str, str]] = {
    "a rewrite": (
        "t (id BIGINT, x INT)", "t (id BIGINT)", "t (id STRING)", 'evolution("t", drop=["x"])',
        'rewrite("t", up="SELECT CAST(id AS STRING) AS id FROM {t}")', "column x",
    ),
    "a replacement": (
        "t (id BIGINT, x INT)", "t (id BIGINT)", "t (id STRING)", 'evolution("t", drop=["x"])', 'replacement("t")', "column x",
    ),
    "a removal": ("t (id BIGINT, x INT)", "t (id BIGINT)", "", 'evolution("t", drop=["x"])', 'removal("t")', "column x"),
    "another type": (
        "t (id BIGINT, n STRING, x INT)", "t (id BIGINT, n STRING)", "t (id BIGINT, n INT)", 'evolution("t", drop=["x"])', 'evolution("t")',
        "column x",
    ),
    "a removal of what took another's place": (
        "t (id BIGINT)", "t (id STRING)", "", 'replacement("t")', 'removal("t")', "the table",
    ),
    "a replacement of what took another's place": (
        "t (id BIGINT)", "t (id STRING)", "t (id DATE)", 'replacement("t")', 'replacement("t")', "the table",
    ),
    "a hidden name, of the same type": (
        "t (id BIGINT, x INT)", "t (id BIGINT)", "t (id BIGINT, x INT)", 'evolution("t", drop=["x"])', 'evolution("t")', "column x",
    ),
    "a hidden name, in other letters": (
        "t (id BIGINT, x INT)", "t (id BIGINT)", "t (id BIGINT, X INT)", 'evolution("t", drop=["x"])', 'evolution("t")', "column x",
    ),
    "a hidden name, of another type": (
        "t (id BIGINT, x INT)", "t (id BIGINT)", "t (id BIGINT, x DATE)", 'evolution("t", drop=["x"])', 'evolution("t")', "column x",
    ),
    "a rename to a hidden name": (
        "t (id BIGINT, x INT, y INT)", "t (id BIGINT, y INT)", "t (id BIGINT, x INT)", 'evolution("t", drop=["x"])',
        'evolution("t", rename={"y": "x"})', "column x",
    ),
    "a hidden name inside of a struct": (
        "t (id BIGINT, s STRUCT<p: INT, q: INT>)", "t (id BIGINT, s STRUCT<p: INT>)", "t (id BIGINT, r STRUCT<p: INT, q: INT>)",
        'evolution("t", drop=["s.q"])', 'evolution("t", rename={"s": "r"})', "column s.q",
    ),
    "a hidden name inside of an array": (
        "t (id BIGINT, s ARRAY<STRUCT<p: INT, q: INT>>)", "t (id BIGINT, s ARRAY<STRUCT<p: INT>>)",
        "t (id BIGINT, s ARRAY<STRUCT<p: INT, q: INT>>)", 'evolution("t", drop=["s.element.q"])', 'evolution("t")', "column s.element.q",
    ),
    "the drop of a struct around it": (
        "t (id BIGINT, s STRUCT<p: INT, q: INT>)", "t (id BIGINT, s STRUCT<p: INT>)", "t (id BIGINT)", 'evolution("t", drop=["s.q"])',
        'evolution("t", drop=["s"])', "column s.q",
    ),
    "another change of a type that was widened": (
        "t (id BIGINT, n SMALLINT)", "t (id BIGINT, n INT)", "t (id BIGINT, n BIGINT)", 'evolution("t")', 'evolution("t")', "the type",
    ),
    "another type of what was widened": (
        "t (id BIGINT, n INT)", "t (id BIGINT, n BIGINT)", "t (id BIGINT, n STRING)", 'evolution("t")', 'evolution("t")', "the type",
    ),
}  # fmt: skip


def three(folder: Path, name: str) -> tuple[Lake, Path]:
    """A lake at the second of three releases, with a row written at each, and the third."""
    *shapes, two, three, _ = REFUSED[name]
    one, second, third = (f"CREATE TABLE k (id BIGINT); {f'CREATE TABLE {shape};' if shape else ''}" for shape in shapes)
    found = releases(folder, (one, ""), (second, two), (third, three))
    lake = deployed(folder, found[0], found[1])
    tables.insert(lake.path("t"), [{"id": 1}])
    lake.upgrade(found[1])
    return lake, found[2]


@pytest.mark.some(5)
@pytest.mark.parametrize("name", REFUSED)
def test_hold_rules_refused(tmp_path: Path, name: str) -> None:
    lake, third = three(tmp_path, name)
    with unwritten(lake.env), refused("hold_open", "t") as found:
        commands.preflight(lake.env, third, jobs=no_spark)
    assert isinstance(found[0], HoldKeeps)
    assert found[0].lost.startswith(REFUSED[name][-1])
    assert (found[0].generation, found[0].until, found[0].retryable) == (2, lake.state.holds[Generation(2)].until, False)
    assert "--end-hold" in found[0].next_action
    commands.rollback(lake.env, jobs=no_spark, allow_lossy=True)
    assert lake.version == "1.0.0"
    whole(lake)


@pytest.mark.some(4)
@pytest.mark.parametrize("name", [name for name in REFUSED if ("rewrite" not in name and "type" not in name) or "widened" in name])
def test_done_once_the_hold_is_over(tmp_path: Path, name: str) -> None:
    if name == "another type of what was widened":
        pytest.skip("needs Spark")
    lake, third = three(tmp_path, name)
    make_holds_due(lake)
    commands.contract(lake.env)
    lake.upgrade(third)
    assert lake.version == "1.2.0"
    whole(lake)


def test_a_column_that_comes_again_is_another_one(tmp_path: Path) -> None:
    """Not the values of the column that the older hold hides, and the end of that hold does not drop it."""
    lake, third = three(tmp_path, "a hidden name, of the same type")
    lake.upgrade(third, end_hold=True)
    tables.insert(lake.path("t"), [{"id": 2, "x": 2}])
    make_holds_due(lake)
    commands.contract(lake.env)
    assert rows(lake.path("t"), "id", "x") == [{"id": 1, "x": None}, {"id": 2, "x": 2}]
    whole(lake)


# --- --end-hold ----------------------------------------------------------------------------------------------------------------------

WIDE = "CREATE TABLE a (id BIGINT, x STRING); CREATE TABLE b (id BIGINT);"
NARROW = "CREATE TABLE a (id BIGINT);"
MORE = "CREATE TABLE a (id BIGINT, y INT);"


@pytest.fixture
def held(tmp_path: Path) -> tuple[Lake, Path]:
    """At 1.1.0, which dropped a column and removed a collection, with its hold open, and the folder of 1.2.0."""
    found = releases(tmp_path, (WIDE, ""), (NARROW, 'evolution("a", drop=["x"]), removal("b")'), (MORE, 'evolution("a")'))
    lake = deployed(tmp_path, found[0], found[1])
    tables.insert(lake.path("a"), [{"id": 1, "x": "old"}])
    tables.insert(lake.path("b"), [{"id": 1}])
    lake.upgrade(found[1])
    return lake, found[2]


def retired(lake: Lake) -> str:
    (shard,) = [shard.shard for shard in lake.state.shards.values() if shard.retired_by is not None]
    return shard


def test_nothing_ends_an_open_hold_but_a_person_who_says_so(held: tuple[Lake, Path]) -> None:
    lake, third = held
    plan = commands.plan(lake.env, third).plan
    assert plan.of_kind(EndHold) == ()
    lake.upgrade(third)
    commands.contract(lake.env)
    assert {generation: hold.state for generation, hold in lake.state.holds.items()} == {2: HoldState.OPEN, 3: HoldState.OPEN}
    assert seen(lake, "a")["hidden"] == ["x"]
    commands.rollback(lake.env)
    commands.rollback(lake.env)
    assert rows(lake.path("a"), "id", "x") == [{"id": 1, "x": "old"}]
    assert rows(lake.path("b")) == [{"id": 1}]


def test_the_plan_lists_each_column_and_table_that_goes(held: tuple[Lake, Path]) -> None:
    lake, third = held
    report = commands.plan(lake.env, third, end_hold=True)
    found = [(stage["collection"], [change["path"] for change in stage["changes"]], stage["shards"])
             for stage in report.to_json()["stages"] if stage["kind"] == "end_hold"]  # fmt: skip
    assert found == [("a", ["x"], []), ("b", [], [retired(lake)])]
    said = [item for item in report.explained if item.kind == "end_hold"]
    assert "column x is gone" in said[0].irreversible
    assert f"table {retired(lake)} is gone" in said[1].irreversible
    lake.upgrade(third, end_hold=True)
    assert seen(lake, "a")["hidden"] == []
    whole(lake)


def test_hold_rules_what_is_deleted_is_in_the_digest(held: tuple[Lake, Path]) -> None:
    lake, third = held
    without, with_it = commands.plan(lake.env, third).plan.digest, commands.plan(lake.env, third, end_hold=True).plan.digest
    assert without != with_it


def test_hold_rules_what_was_not_approved_to_go_does_not_go(held: tuple[Lake, Path]) -> None:
    """What the hold keeps is more than what the plan listed."""
    lake, third = held
    hold = lake.state.holds[Generation(2)]
    put(lake, replace(hold, tables=()))
    generation = claimed(lake, third, end_hold=True)
    put(lake, hold)
    with refused("plan_changed"):
        commands.promote(lake.env, generation)


def put(lake: Lake, hold: Hold) -> None:
    LedgerWriter(lake.env).transact(lambda state: [Put(hold)])


def test_a_hold_that_maintenance_ended_meanwhile_is_no_change_of_plan(held: tuple[Lake, Path]) -> None:
    lake, third = held
    generation = claimed(lake, third, end_hold=True, claim_id="run")
    make_holds_due(lake)
    commands.contract(lake.env)
    assert claimed(lake, third, end_hold=True, claim_id="run") == generation, "a retry of preflight finds its claim"
    assert claimed(lake, third, end_hold=True) == generation
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    commands.cutover(lake.env, generation)
    assert lake.version == "1.2.0"
    whole(lake)


def test_killed_while_it_ends_a_hold(held: tuple[Lake, Path], tmp_path: Path) -> None:
    """The next run of the same command goes on with the same generation."""
    lake, third = held
    generation = promoted(lake, third, end_hold=True)
    for write in range(1, 40):
        try:
            commands.expand(lake.crashing_at(write), generation)
        except Crash:
            assert claimed(lake, third, end_hold=True) == generation
        else:
            break
    commands.cutover(lake.env, generation)
    assert (lake.version, seen(lake, "a")["hidden"]) == ("1.2.0", [])
    whole(lake)


def test_live_nodes_are_another_question(held: tuple[Lake, Path]) -> None:
    lake, third = held
    heartbeat(lake.env, "1.0.0")
    with unwritten(lake.env), refused("hold_in_use"):
        commands.preflight(lake.env, third, end_hold=True, jobs=no_spark)
    assert [refusal.code for refusal in commands.plan(lake.env, third, end_hold=True).refusals] == ["hold_in_use"]
    generation = promoted(lake, third, end_hold=True, ignore_nodes=True)
    commands.expand(lake.env, generation)
    commands.cutover(lake.env, generation)
    assert (lake.version, seen(lake, "a")["hidden"]) == ("1.2.0", [])


def test_nodes_do_not_matter_where_nothing_ends(held: tuple[Lake, Path]) -> None:
    lake, third = held
    heartbeat(lake.env, "1.0.0")
    lake.upgrade(third)
    assert lake.version == "1.2.0"


def test_what_holds_cost(held: tuple[Lake, Path]) -> None:
    lake, third = held
    (hold,) = commands.plan(lake.env, third).to_json()["pending"]
    kept = {item["collection"]: item for item in hold["keeps"]}
    assert (kept["a"]["columns"], kept["b"]["shard"]) == (["x"], retired(lake))
    size = sum(add["size"] for path in [lake.env.table_location(f"b/{retired(lake)}").local_path] if path is not None
               for add in tables.snapshot(path).files.values())  # fmt: skip
    assert kept["b"]["bytes"] == size > 0
    assert 0 < kept["a"]["bytes"] < sum(add["size"] for add in tables.snapshot(lake.path("a")).files.values())
    assert hold["bytes"] == kept["a"]["bytes"] + kept["b"]["bytes"]
    (shown,) = commands.status(lake.env).document["holds"]
    assert (shown["bytes"], shown["keeps"]) == (hold["bytes"], hold["keeps"])


def test_a_hold_whose_time_is_over_says_how_to_end_it(tmp_path: Path) -> None:
    lake, third = three(tmp_path, "a removal")
    make_holds_due(lake)
    with refused("hold_open", "t") as found:
        commands.preflight(lake.env, third, jobs=no_spark)
    assert "`schemamig contract --generation 2`" in found[0].next_action
    assert pendulum.now("UTC") >= lake.state.holds[Generation(2)].until
