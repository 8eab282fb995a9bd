"""A process of a stream stands still while the target is restored, and goes on at any moment: nothing comes on top, nothing is lost.

What it holds is a batch that was agreed on, of the table that is restored from or of one whose rows went there by another way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.errors import OriginReplaced, RestoreWouldLose, TargetAppendOnly
from airflow_provider_schemamig.core.replication.restore.errors import RestoreNotNewer
from airflow_provider_schemamig.core.replication.restore.restore import restore
from airflow_provider_schemamig.core.replication.stream.position import StreamEnds
from airflow_provider_schemamig.core.spark.errors import BadValue, ConcurrentTransaction, FillSuperseded, SourceVacuumed
from tests.support.lake import Crash, Lake
from tests.support.replicas import Replicas
from tests.support.rows import tables
from tests.support.rows.jobs import Query, RowJobs
from tests.support.tables.foreign import set_property
from tests.support.upgrades import releases

LINES = CollectionName("lines")
UP, DOWN = "SELECT line, 1 AS n FROM {lines}", "SELECT line FROM {lines}"
QUERIES: dict[str, Query] = {UP: lambda row: [{"line": row["line"], "n": 1}], DOWN: lambda row: [{"line": row["line"]}]}
BEFORE, AFTER = "CREATE TABLE lines (line STRING);\n", "CREATE TABLE lines (line STRING, n INT);\n"
#: What it meets, or what it was to read is gone.
TURNED_AWAY = (ConcurrentTransaction, FillSuperseded, SourceVacuumed)
#: Goes on with what was held.
Held = Callable[[], object]


@pytest.fixture
def two(tmp_path: Path) -> Replicas:
    return born(tmp_path, f', down="{DOWN}"')


def born(tmp_path: Path, down: str) -> Replicas:
    """``a`` is about to be rewritten into the schema that ``b`` was made with; b is a batch behind."""
    folders = releases(tmp_path / "a_product", (BEFORE, ""), (AFTER, f'rewrite("lines", up="{UP}"{down})'))
    (only,) = releases(tmp_path / "b_product", (AFTER, ""))
    lakes = {
        "a": Lake(Environment.open(str(tmp_path / "a")), folders[0], folders[1]),
        "b": Lake(Environment.open(str(tmp_path / "b")), only, only),
    }
    for lake in lakes.values():
        lake.upgrade(lake.first)
    found = Replicas(folders, lakes, RowJobs(QUERIES))
    tables.enable_change_data(found.path("a", "lines"))  # read from the feed, the batch is in no file that a twin takes away
    found.insert("a", {"line": "aa"}, {"line": "bb"}, collection="lines")
    bring(found)
    found.insert("a", {"line": "cc"}, collection="lines")
    found.change("a", lambda row: None if row["line"] == "bb" else row, "lines")
    return found


def bring(two: Replicas, **options: Any) -> None:
    found = two.bring("a", "b", "lines", **options)
    assert not found.paused, found.paused
    assert not found.stopped, found.stopped


def restored(two: Replicas, jobs: RowJobs, env: Environment | None = None, **options: Any) -> None:
    restore(two.env("a"), env or two.env("b"), LINES, allow_schema_change=True, jobs=jobs, **options)


def held_by_a_driver(two: Replicas) -> Held:
    """It has made its rows, and is about to commit them."""
    jobs = RowJobs(QUERIES, leave_at=1)
    with pytest.raises(Crash):
        bring(two, jobs=jobs)
    (zombie,) = jobs.zombies
    return zombie


def held_before_it_reads(two: Replicas) -> Held:
    asked: list[Any] = []

    def dies(job: str, request: Any) -> None:
        asked.append((job, request))
        raise Crash

    with pytest.raises(Crash):
        bring(two, jobs=RowJobs(QUERIES, before=dies))
    ((job, request),) = asked
    assert job == "apply"
    return lambda: two.runner.run(job, request)


HELD = pytest.mark.parametrize(
    "held", [held_before_it_reads, pytest.param(held_by_a_driver, marks=pytest.mark.soak)], ids=["before it reads", "by a driver"]
)


def equal(two: Replicas) -> None:
    bring(two)
    assert lines(two, "b") == lines(two, "a")
    two.insert("a", {"line": "dd"}, collection="lines")
    bring(two)
    assert lines(two, "b") == lines(two, "a")


def lines(two: Replicas, name: str) -> list[str]:
    return sorted(row["line"] for row in two.rows(name, "lines"))


def turned_away(goes_on: Held) -> None:
    with pytest.raises(TURNED_AWAY):
        goes_on()


def goes(goes_on: Held) -> None:
    """Whether it lands or is turned away."""
    with contextlib.suppress(*TURNED_AWAY):
        goes_on()


#: Where the rows are restored from: another table than that of what is held, the same, or one that took the place of a table that is gone.
ORIGINS: dict[str, Callable[[Replicas], None]] = {
    "from a later table": lambda two: two.upgrade("a", to=2),
    "from the same": lambda two: None,
    "from a later table, the one before is gone": lambda two: two.upgrade("a", to=2, hold=timedelta(0)),
}


@HELD
@pytest.mark.parametrize("origin", ORIGINS)
def test_just_after_the_restore(two: Replicas, held: Callable[[Replicas], Held], origin: str) -> None:
    """Of the same table it is a batch beyond what is restored, which somebody agreed on while the rows were copied."""
    goes_on = held(two)
    at = tables.newest(two.path("a", "lines"))
    ORIGINS[origin](two)
    restored(two, two.runner, version=at - 1 if origin == "from the same" else None)
    turned_away(goes_on)
    equal(two)


def test_while_the_rows_are_copied(two: Replicas) -> None:
    """It lands, a batch beyond what is copied is agreed on, and that one goes on just behind the restore."""
    first = held_before_it_reads(two)
    two.insert("a", {"line": "ee"}, collection="lines")
    wanted = lines(two, "a")
    left: list[Held] = []

    def hook(job: str, request: Any) -> None:
        if job == "fill" and not left:
            first()
            two.insert("a", {"line": "ff"}, collection="lines")
            left.append(held_before_it_reads(two))

    restored(two, RowJobs(QUERIES, after=hook))
    assert lines(two, "b") == wanted
    turned_away(left[0])
    equal(two)


def test_a_stream_that_goes_on_while_the_rows_are_copied(two: Replicas) -> None:
    """Beyond them, so it goes back along with them and brings the rest again."""
    two.insert("a", {"line": "ee"}, collection="lines")
    wanted = lines(two, "a")

    def hook(job: str, request: Any) -> None:
        if job == "fill":
            two.insert("a", {"line": "ff"}, collection="lines")
            bring(two)

    restored(two, RowJobs(QUERIES, after=hook))
    assert lines(two, "b") == wanted
    equal(two)


@pytest.mark.soak
def test_a_restore_that_stood_still_until_the_origin_forgot_what_follows(two: Replicas) -> None:
    """The stream could not come to where it is now again."""
    two.insert("a", {"line": "ee"}, collection="lines")
    at = tables.newest(two.path("a", "lines"))

    def hook(job: str, request: Any) -> None:
        if job == "fill":
            two.insert("a", {"line": "ff"}, collection="lines")
            two.insert("a", {"line": "gg"}, collection="lines")
            bring(two)
            DeltaTable(str(two.path("a", "lines"))).create_checkpoint()
            for version in range(at + 2):
                (two.path("a", "lines") / "_delta_log" / f"{version:020}.json").unlink()

    with pytest.raises(RestoreNotNewer):
        restored(two, RowJobs(QUERIES, after=hook))
    assert "gg" in lines(two, "b")


@pytest.mark.some(7)
@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("killed", [False, True], ids=["goes on", "killed"])
@pytest.mark.parametrize("origin", [pytest.param(name, marks=() if name == "from a later table" else pytest.mark.soak) for name in ORIGINS])
def test_at_every_write_of_the_restore(two: Replicas, origin: str, killed: bool, at: int) -> None:
    goes_on = held_by_a_driver(two)
    ORIGINS[origin](two)
    left = [at]

    def hook(moment: str, what: str, key: str) -> None:
        left[0] -= moment == "before"
        if left[0] == 0 and moment == "before":
            left[0] = -1
            goes(goes_on)
            if killed:
                raise Crash

    with contextlib.suppress(Crash, RestoreNotNewer):  # what it held may be all there is
        restored(two, RowJobs(QUERIES), env=two.hooked("b", hook))
    goes(goes_on)
    found = two.bring("a", "b", "lines")
    if found.paused or found.stopped:  # the restore has not happened, and the stream cannot go on without it
        restored(two, two.runner)
    equal(two)


@HELD
@pytest.mark.parametrize("down", ["", f', down="{DOWN}"'], ids=["rows stay behind", "rows come back"])
def test_after_the_origin_went_back(tmp_path: Path, held: Callable[[Replicas], Held], down: str) -> None:
    """What was held is of the table that the origin's rollback has retired."""
    two = born(tmp_path, down)
    two.upgrade("a", to=2, end_hold=False)
    tables.enable_change_data(two.path("a", "lines"))
    restored(two, two.runner)
    two.insert("a", {"line": "cc", "n": 3}, collection="lines")
    two.change("a", lambda row: None if row["line"] == "aa" else row, "lines")
    goes_on = held(two)
    commands.rollback(two.env("a"), jobs=two.runner, allow_lossy=True)
    if not down:
        assert two.state("a", "b", "lines").error == "origin_replaced"
    restored(two, two.runner)
    turned_away(goes_on)
    equal(two)


def test_in_the_middle_of_what_a_rollback_brought_back(two: Replicas) -> None:
    """Those commits are no events, so what comes after that version would never come."""
    two.upgrade("a", to=2, end_hold=False)
    restored(two, two.runner)
    two.insert("a", {"line": "cc", "n": 3}, collection="lines")
    two.rollback("a")
    last = tables.newest(two.path("a", "lines"))
    with pytest.raises(OriginReplaced):
        restored(two, two.runner, version=last - 1)
    restored(two, two.runner, version=last)
    equal(two)


def test_two_begin_a_stream_at_once(two: Replicas) -> None:
    """The second finds all rows there, which is no error of the stream."""
    only = two.lakes["b"].first
    two.lakes["c"] = Lake(Environment.open(str(only.parents[2] / "c")), only, only)
    two.lakes["c"].upgrade(only)
    begun: list[str] = []

    def first(job: str, request: Any) -> None:
        if not begun:
            begun.append(job)
            two.bring("a", "c", "lines")

    found = two.bring("a", "c", "lines", jobs=RowJobs(QUERIES, before=first))
    assert begun == ["fill"]
    assert [state.error for state in found.states] == [None]
    assert lines(two, "c") == lines(two, "a")


def test_an_old_ledger_of_the_origin_in_hand(two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table of then is not the one to restore from any more."""
    old = StreamEnds.of(two.env("a"), two.env("b"))
    two.upgrade("a", to=2)
    two.insert("a", {"line": "ee", "n": 5}, collection="lines")
    real, found = StreamEnds.of, [old]
    monkeypatch.setattr(StreamEnds, "of", lambda origin, target: found.pop() if found else real(origin, target))
    restored(two, two.runner)
    assert lines(two, "b") == lines(two, "a")


# --- rows of the target's own --------------------------------------------------------------------------------------------------------


def test_own_rows_that_come_while_the_rows_are_copied(two: Replicas) -> None:
    def writes(job: str, request: Any) -> None:
        two.insert("b", {"line": "own", "n": 7}, collection="lines")

    before, folders = lines(two, "b"), list(two.path("b", "lines").iterdir())
    with pytest.raises(RestoreWouldLose):
        restored(two, RowJobs(QUERIES, after=writes))
    assert lines(two, "b") == sorted([*before, "own"])
    assert [path for path in two.path("b", "lines").iterdir() if path.is_dir()] == [path for path in folders if path.is_dir()]


def at_the_last_moment(two: Replicas, what: Callable[[], object], **options: Any) -> None:
    """A restore, and ``what`` between its last look and its commit."""
    left = [what]

    def hook(moment: str, kind: str, key: str) -> None:
        if (moment, kind) == ("before", "put_if_absent") and key.startswith("_delta_log/") and left:
            left.pop()()

    restored(two, RowJobs(QUERIES), env=two.hooked("b", hook), **options)
    assert not left


def test_own_rows_that_come_at_the_last_moment(two: Replicas) -> None:
    before = lines(two, "b")
    with pytest.raises(RestoreWouldLose):
        at_the_last_moment(two, lambda: two.insert("b", {"line": "own", "n": 7}, collection="lines"))
    assert lines(two, "b") == sorted([*before, "own"])


def test_own_rows_that_come_at_the_last_moment_stand_beside_where_they_may_be_lost(two: Replicas) -> None:
    """As with any overwrite of Delta's."""
    at_the_last_moment(two, lambda: two.insert("b", {"line": "own", "n": 7}, collection="lines"), allow_lossy=True)
    assert lines(two, "b") == sorted([*lines(two, "a"), "own"])


def test_files_that_others_rewrite_at_the_last_moment_go_with_the_rest(two: Replicas) -> None:
    at_the_last_moment(two, lambda: two.change("b", lambda row: {**row, "n": 5}, "lines"), allow_lossy=True)
    assert lines(two, "b") == lines(two, "a")


def test_an_append_only_table_is_refused_before_anything_is_copied(two: Replicas) -> None:
    set_property(two.path("b", "lines"), "delta.appendOnly", "true")
    there = sorted(two.path("b", "lines").rglob("*"))
    with pytest.raises(TargetAppendOnly):
        restored(two, two.runner)
    assert sorted(two.path("b", "lines").rglob("*")) == there


def test_a_restore_that_is_refused_leaves_all_as_it_was(two: Replicas) -> None:
    def fails(job: str, request: Any) -> None:
        raise BadValue(condition="CAST_INVALID_INPUT", detail="x")

    newest, there = tables.newest(two.path("b", "lines")), sorted(two.path("b", "lines").rglob("*"))
    with pytest.raises(BadValue):
        restored(two, RowJobs(QUERIES, before=fails))
    assert tables.newest(two.path("b", "lines")) == newest
    assert sorted(two.path("b", "lines").rglob("*")) == there
    equal(two)
