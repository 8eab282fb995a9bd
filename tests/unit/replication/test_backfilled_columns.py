"""Environments replicate to each other, or one to the other, and a release gives older rows values: each fills its own rows, and nothing
that a writer did meanwhile is taken back by the other's backfill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.errors import RestoreWouldLose
from airflow_provider_schemamig.core.replication.restore.restore import restore
from tests.support.lake import Crash
from tests.support.online import OnlineJobs
from tests.support.replicas import Replicas, make_replicas
from tests.support.rows import tables
from tests.support.rows.tables import Row

pytestmark = pytest.mark.some(8, of="backfilled columns")

KEYED = "CREATE TABLE trips (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id));\n"
KEYLESS = "CREATE TABLE trips (id BIGINT, v STRING);\n"
TRIPS = CollectionName("trips")


def make(folder: Path, schema: str, before: str = "v STRING", after: str = "v STRING, d INT DEFAULT 7") -> Replicas:
    made = make_replicas(folder, (schema, ""), (schema.replace(before, after), 'evolution("trips")'))
    made.runner = OnlineJobs()
    return made


def caught_up(two: Replicas, *streams: str) -> bool:
    """Whether all streams have nothing left to do."""
    found = [two.state(*stream) for _ in range(3) for stream in streams][-len(streams) :]
    assert not [state.error or state.pause for state in found if state.error or state.pause]
    return two.declared_rows("a") == two.declared_rows("b")


#: What b's writer does to the row that is b's, when b has the release and a has not.
MEANWHILE: dict[str, Callable[[Row], Row | None]] = {
    "another column changed": lambda row: {**row, "v": "changed"},
    "the new column changed": lambda row: {**row, "d": 9},
    "the row deleted": lambda row: None,
}


@pytest.mark.parametrize("streams", ["ba ab", "ab ba"])
@pytest.mark.parametrize("what", MEANWHILE)
def test_backfilled_both_ways_what_the_owner_of_a_row_did_meanwhile_stays(what: str, streams: str, tmp_path: Path) -> None:
    two = make(tmp_path, KEYED)
    two.insert("a", {"id": 1, "v": "of a"})
    two.bring("a", "b")
    restore(two.env("b"), two.env("a"), TRIPS, allow_lossy=True, jobs=lambda: two.runner)
    two.insert("b", {"id": 2, "v": "of b"})
    assert caught_up(two, "ab", "ba")
    two.upgrade("b", to=2)
    assert two.state("b", "a").pause is not None
    two.change("b", lambda row: MEANWHILE[what](row) if row["id"] == 2 else row)
    two.upgrade("a", to=2)
    assert caught_up(two, *streams.split())
    assert [row for row in two.rows("b") if row["id"] == 1] == [{"id": 1, "v": "of a", "d": 7}]
    kept = MEANWHILE[what]({"id": 2, "v": "of b", "d": 7})
    assert [row for row in two.rows("b") if row["id"] == 2] == ([] if kept is None else [kept])


def test_backfilled_by_the_target_a_restore_takes_nothing_back_before_the_origin_has_it(tmp_path: Path) -> None:
    two = make(tmp_path, KEYED)
    two.insert("a", {"id": 1, "v": "of a"})
    two.bring("a", "b")
    restore(two.env("b"), two.env("a"), TRIPS, allow_lossy=True, jobs=lambda: two.runner)
    two.upgrade("a", to=2)
    two.insert("b", {"id": 2, "v": "of b"})
    two.bring("b", "a")
    two.upgrade("b", to=2)
    with pytest.raises(RestoreWouldLose):
        restore(two.env("a"), two.env("b"), TRIPS, jobs=lambda: two.runner)
    two.bring("b", "a")
    two.insert("a", {"id": 3, "v": "of a", "d": 9})
    restore(two.env("a"), two.env("b"), TRIPS, jobs=lambda: two.runner)
    assert caught_up(two, "ab", "ba")
    assert {row["id"]: row["d"] for row in two.rows("b")} == {1: 7, 2: 7, 3: 9}


def test_backfilled_by_a_release_that_the_target_took_back_hinders_no_restore(tmp_path: Path) -> None:
    two = make(tmp_path, KEYED)
    two.insert("a", {"id": 1, "v": "of a"})
    two.bring("a", "b")
    restore(two.env("b"), two.env("a"), TRIPS, allow_lossy=True, jobs=lambda: two.runner)
    two.insert("b", {"id": 2, "v": "of b"})
    two.bring("b", "a")
    two.upgrade("b", to=2)
    two.rollback("b")
    two.bring("b", "a")
    two.insert("a", {"id": 3, "v": "of a"})
    restore(two.env("a"), two.env("b"), TRIPS, jobs=lambda: two.runner)
    assert caught_up(two, "ab", "ba")


@pytest.mark.some(1)
@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("schema", [KEYED, KEYLESS], ids=["with a key", "without a key"])
def test_backfilled_one_way_in_either_order_nothing_stops(schema: str, order: str, tmp_path: Path) -> None:
    two = make(tmp_path, schema)
    two.insert("a", {"id": 1, "v": "x"}, {"id": 1 if schema is KEYLESS else 2, "v": "x"})
    two.bring("a", "b")
    for name in order:
        two.upgrade(name, to=2)
        two.bring("a", "b")
    two.insert("a", {"id": 3, "v": "y", "d": 9})
    two.change("a", lambda row: {**row, "d": 8} if row["id"] == 1 else row)
    assert caught_up(two, "ab")


@pytest.mark.parametrize("schema", [KEYED, KEYLESS], ids=["with a key", "without a key"])
def test_backfilled_another_type_at_the_target_first_goes_on(schema: str, tmp_path: Path) -> None:
    two = make(tmp_path, schema.replace("v STRING", "v INT"), "v INT", "v STRING")
    two.insert("a", {"id": 1, "v": 1}, {"id": 2, "v": 2})
    two.bring("a", "b")
    two.upgrade("b", to=2)
    two.bring("a", "b")
    two.upgrade("a", to=2)
    two.change("a", lambda row: {**row, "v": "one"} if row["id"] == 1 else row)
    assert caught_up(two, "ab")


@pytest.mark.parametrize("schema", [KEYED, KEYLESS], ids=["with a key", "without a key"])
def test_backfilled_rows_that_were_restored_half_way_get_their_values(schema: str, tmp_path: Path) -> None:
    """They came from the origin before its backfill did, to a target whose own was over."""
    two = make(tmp_path, schema)
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b")
    two.upgrade("b", to=2)

    def dies(moment: str, what: str, key: str) -> None:
        if (moment, what) == ("before", "spark"):
            raise Crash

    two.runner.on_commit = dies
    with pytest.raises(Crash):
        two.upgrade("a", to=2)
    two.runner.on_commit = None
    restore(two.env("a"), two.env("b"), TRIPS, allow_schema_change=True, allow_lossy=True, jobs=lambda: two.runner)
    assert two.rows("b") == [{"id": 1, "v": "x", "d": None}]
    two.upgrade("a", to=2)
    assert caught_up(two, "ab")
    assert two.rows("b") == [{"id": 1, "v": "x", "d": 7}]


def test_backfilled_a_batch_of_writers_ends_where_a_backfill_begins(tmp_path: Path) -> None:
    two = make(tmp_path, KEYED)
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b")
    two.upgrade("b", "a", to=2)
    two.insert("a", {"id": 2, "v": "y", "d": 8})
    two.bring("a", "b")
    filled = [request.get("filled") for _, request in two.runner.asked if "changes" in request]
    assert filled == ["d", None]
    assert caught_up(two, "ab")


def once_filling(two: Replicas, what: Callable[[], object]) -> None:
    """Do something before the first batch of a backfill is made."""

    def before(job: str, request: object) -> None:
        if job == "fill":
            two.runner.before = None
            what()

    two.runner.before = before


@pytest.mark.some(1)
@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("rule", ["INT NOT NULL DEFAULT 7", "INT DEFAULT 7, CONSTRAINT c CHECK (d IS NOT NULL)", "INT DEFAULT 7"])
def test_backfilled_rows_that_a_writer_changed_before_keep_to_the_rules_of_the_target(rule: str, order: str, tmp_path: Path) -> None:
    """They have NULL in the new column, in the same row and in one that got another key."""
    two = make(tmp_path, KEYED, after=f"v STRING, d {rule}")
    two.insert("a", *({"id": number, "v": "x"} for number in (1, 2, 3)))
    two.bring("a", "b")
    for name in order:
        if name == "a":
            once_filling(two, lambda: two.change("a", lambda row: {1: row | {"v": "y"}, 2: row | {"id": 9}}.get(row["id"], row)))
        two.upgrade(name, to=2)
    assert caught_up(two, "ab")
    assert [(row["id"], row["v"], row["d"]) for row in two.rows("b")] == [(1, "y", 7), (3, "x", 7), (9, "x", 7)]


@pytest.mark.some(1)
@pytest.mark.parametrize("writes", ["nothing", "a row"])
@pytest.mark.parametrize("column", ["v", "w"], ids=["its name", "another name"])
def test_backfilled_another_type_at_the_origin_first_what_came_before_the_swap_is_brought(column: str, writes: str, tmp_path: Path) -> None:
    """Rows of writers that know nothing of the release are of the schema that the table shows them."""
    steps = 'evolution("trips")' if column == "v" else 'evolution("trips", rename={"v": "w"})'
    first = KEYED.replace("v STRING", "v INT")
    two = make_replicas(tmp_path, (first, ""), (first.replace("v INT", f"{column} STRING"), steps))
    two.runner = OnlineJobs()
    two.insert("a", {"id": 1, "v": 1})
    two.bring("a", "b")
    if writes == "a row":
        once_filling(two, lambda: two.insert("a", {"id": 2, "v": 2}))
    two.upgrade("a", to=2)
    two.insert("a", {"id": 3, column: "three"})
    two.bring("a", "b")
    assert two.declared_rows("b") == [{"id": number, "v": number} for number in ((1,) if writes == "nothing" else (1, 2))]
    two.upgrade("b", to=2)
    assert caught_up(two, "ab")


def insert_at(two: Replicas, moment: int) -> bool:
    """Upgrade a, and insert a row as the table is after its ``moment``-th commit; return whether there was one before the swap."""
    commits, written = 0, list[bool]()

    def hook(when: str, what: str, key: str) -> None:
        nonlocal commits
        commits += when == "after" and "_delta_log" in key and what == "put_if_absent"
        if commits == moment and not written:
            shown = {field["name"]: field["type"] for field in tables.snapshot(two.path("a")).fields}
            written.append(shown["v"] == "integer")
            if written[0]:
                tables.insert(two.path("a"), [dict.fromkeys(shown) | {"id": 2, "v": 2}])

    commands.upgrade(replace(two.env("a"), on_write=hook), two.folders[1], jobs=two.runner)
    return written == [True]


def test_backfilled_another_type_beside_a_new_column_what_came_at_any_moment_is_brought(tmp_path: Path) -> None:
    """The table gets the new column in a commit of its own, and shows the old type for some commits more."""
    first = KEYED.replace("v STRING", "v INT")
    for moment in range(1, 30):
        two = make_replicas(tmp_path / str(moment), (first, ""), (first.replace("v INT", "v STRING, d INT"), 'evolution("trips")'))
        two.runner = OnlineJobs()
        two.insert("a", {"id": 1, "v": 1})
        two.bring("a", "b")
        was_written = insert_at(two, moment)
        two.bring("a", "b")
        two.upgrade("b", to=2)
        assert caught_up(two, "ab"), moment
        if not was_written:
            return
    raise AssertionError("the upgrade never ended")


def test_backfilled_by_a_release_that_was_taken_back_nothing_waits(tmp_path: Path) -> None:
    two = make(tmp_path, KEYED)
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b")
    two.upgrade("a", to=2, end_hold=False)
    two.rollback("a")
    two.insert("a", {"id": 2, "v": "y"})
    assert caught_up(two, "ab")


#: Releases (what stands for ``v INT DEFAULT 7``) in which NULL is a value that writers may put there, and no backfill takes away.
NULL_IS_A_VALUE = {
    "an old column, a rule of its own": "v INT DEFAULT 7, w INT, CONSTRAINT c CHECK (v IS NULL OR v < 100)",
    "an old column, a rule for two": "v INT DEFAULT 7, w INT, CONSTRAINT c CHECK (v IS NULL OR w IS NULL OR v < w)",
    "an old column, beside one that is filled": "v INT DEFAULT 7, w INT NOT NULL DEFAULT 8, CONSTRAINT c CHECK (v < w OR v IS NULL)",
}


@pytest.mark.some(2)
@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("what", NULL_IS_A_VALUE)
def test_backfilled_is_no_column_that_was_there_before_a_null_in_it_is_brought(what: str, order: str, tmp_path: Path) -> None:
    two = make(tmp_path, KEYED.replace("v STRING", "v INT DEFAULT 7"), "v INT DEFAULT 7", NULL_IS_A_VALUE[what])
    two.insert("a", {"id": 1, "v": 1}, {"id": 2, "v": 2})
    two.bring("a", "b")

    def write() -> None:
        two.insert("a", {"id": 3, "v": None, "w": 9})
        two.change("a", lambda row: row | {"v": None} if row["id"] == 1 else row)

    for name in order:
        if name == "a" and "filled" not in what:
            between_expand_and_change(two, write)
            continue
        if name == "a":
            once_filling(two, write)
        two.upgrade(name, to=2)
        two.bring("a", "b")
    assert caught_up(two, "ab")
    assert [row["v"] for row in two.rows("b")] == [None, 2, None]


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_backfilled_a_null_in_a_new_column_stays_where_the_release_allows_it(order: str, tmp_path: Path) -> None:
    two = make(tmp_path, KEYED, after="v STRING, d INT DEFAULT 7, CONSTRAINT c CHECK (d IS NULL OR d < 100)")
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b")
    for name in order:
        if name == "a":
            once_filling(two, lambda: two.insert("a", {"id": 2, "v": "y", "d": None}))
        two.upgrade(name, to=2)
    assert caught_up(two, "ab")
    assert [row["d"] for row in two.rows("b")] == [7, None]


def between_expand_and_change(two: Replicas, what: Callable[[], object]) -> None:
    """Upgrade a to the second release, and do something before its rules are on the table."""
    env = two.env("a")
    generation = commands.preflight(env, two.folders[1], jobs=two.runner).generation
    assert generation is not None
    commands.promote(env, generation)
    commands.expand(env, generation)
    what()
    commands.change(env, generation, jobs=two.runner)
    commands.cutover(env, generation, jobs=two.runner)
