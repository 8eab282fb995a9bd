"""A process of a stream stands still while the origin rewrites and the target is restored from its new table: nothing comes on top.

What it holds is of a table whose rows have come by another way; or it is a restore that its twins gave up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.deltalog.fence import Fence
from airflow_provider_schemamig.core.deltalog.head import read_head
from airflow_provider_schemamig.core.deltalog.seal import seal
from airflow_provider_schemamig.core.deltalog.tag import Tag
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation
from airflow_provider_schemamig.core.replication.errors import OriginReplaced
from airflow_provider_schemamig.core.replication.restore import restore
from airflow_provider_schemamig.core.spark.errors import BadValue, ConcurrentTransaction, FillSuperseded
from airflow_provider_schemamig.core.upgrade import verbs
from tests.support import row_tables as tables
from tests.support.lake import Crash, Lake
from tests.support.replicas import Replicas
from tests.support.row_jobs import Query, RowJobs
from tests.support.upgrades import releases

LINES = CollectionName("lines")
UP, DOWN = "SELECT line, 1 AS n FROM {lines}", "SELECT line FROM {lines}"
QUERIES: dict[str, Query] = {UP: lambda row: [{"line": row["line"], "n": 1}], DOWN: lambda row: [{"line": row["line"]}]}
BEFORE, AFTER = "CREATE TABLE lines (line STRING);\n", "CREATE TABLE lines (line STRING, n INT);\n"


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


def restored(two: Replicas, jobs: RowJobs) -> None:
    restore(two.env("a"), two.env("b"), LINES, allow_schema_change=True, jobs=jobs)


def held_by_a_driver(two: Replicas) -> Callable[[], object]:
    """It has made its rows, and is about to commit them."""
    jobs = RowJobs(QUERIES, leave_at=1)
    with pytest.raises(Crash):
        bring(two, jobs=jobs)
    (zombie,) = jobs.zombies
    return zombie


def held_before_it_reads(two: Replicas) -> Callable[[], object]:
    asked: list[Any] = []

    def dies(job: str, request: Any) -> None:
        asked.append((job, request))
        raise Crash

    with pytest.raises(Crash):
        bring(two, jobs=RowJobs(QUERIES, before=dies))
    ((job, request),) = asked
    return lambda: two.runner.run(job, request)


HELD = {"before it reads": held_before_it_reads, "by a driver": held_by_a_driver}


def equal(two: Replicas) -> None:
    bring(two)
    assert lines(two, "b") == lines(two, "a")
    two.insert("a", {"line": "dd"}, collection="lines")
    bring(two)
    assert lines(two, "b") == lines(two, "a")


def lines(two: Replicas, name: str) -> list[str]:
    return sorted(row["line"] for row in two.rows(name, "lines"))


def turned_away(goes_on: Callable[[], object]) -> None:
    with pytest.raises((ConcurrentTransaction, FillSuperseded)):
        goes_on()


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["goes on", "killed"])
def test_between_the_rows_of_a_restore_and_its_end(two: Replicas, held: str, killed: bool) -> None:
    goes_on = HELD[held](two)
    two.upgrade("a", to=2)

    def then(moment: str, what: str, key: str) -> None:
        if moment == "after":
            turned_away(goes_on)
            if killed:
                raise Crash

    jobs = RowJobs(QUERIES, on_commit=then)
    if killed:
        with pytest.raises(Crash):
            restored(two, jobs)
    else:
        restored(two, jobs)
    equal(two)


@pytest.mark.parametrize("held", HELD)
def test_before_the_rows_of_a_restore(two: Replicas, held: str) -> None:
    """What somebody held may be the origin's very last batch before its rewrite; whoever looks now restores."""
    goes_on = HELD[held](two)
    two.upgrade("a", to=2)

    def dies(job: str, request: Any) -> None:
        turned_away(goes_on)
        raise Crash

    with pytest.raises(Crash):
        restored(two, RowJobs(QUERIES, before=dies))
    two.runner.asked.clear()
    bring(two)
    assert [job for job, _ in two.runner.asked] == ["fill"], "no batch begins before it is finished"
    equal(two)


@pytest.mark.parametrize("crosses", [True, False], ids=["from a later table", "from the same"])
def test_a_restore_that_a_twin_gave_up(two: Replicas, crosses: bool) -> None:
    """Batches begin again, so who still is at it must not get through."""
    if crosses:
        two.upgrade("a", to=2)
    first = RowJobs(QUERIES, leave_at=1)
    with pytest.raises(Crash):
        restored(two, first)
    (zombie,) = first.zombies

    def fails(job: str, request: Any) -> None:
        raise BadValue(condition="CAST_INVALID_INPUT", detail="x")

    before = two.rows("b", "lines"), two.checkpoint("a", "b", "lines")
    with pytest.raises(BadValue):
        restored(two, RowJobs(QUERIES, before=fails))
    assert (two.rows("b", "lines"), two.checkpoint("a", "b", "lines")) == before
    assert not list((two.env("b").location.local_path or Path()).glob("_schemamig/replicas/streams/*/lines/*"))
    turned_away(zombie)
    if crosses:
        found = two.bring("a", "b", "lines")
        assert found.paused, "the target did not make the rewrite"
        restored(two, two.runner)
    equal(two)


@pytest.mark.soak
@pytest.mark.parametrize("at", range(1, 12))
def test_a_restore_from_a_later_table_killed_at_every_write(two: Replicas, at: int) -> None:
    """And whoever held a batch goes on just then."""
    goes_on = held_by_a_driver(two)
    two.upgrade("a", to=2)
    left = [at]

    def dies(moment: str, what: str, key: str) -> None:
        left[0] -= moment == "after"
        if left[0] == 0 and moment == "after":
            raise Crash

    with contextlib.suppress(Crash):
        restore(two.env("a"), two.hooked("b", dies), LINES, jobs=two.runner)
    with contextlib.suppress(ConcurrentTransaction, FillSuperseded):
        goes_on()
    if two.bring("a", "b", "lines").paused:  # it had not begun
        restored(two, two.runner)
    equal(two)


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("down", ["", f', down="{DOWN}"'], ids=["rows stay behind", "rows come back"])
def test_a_restore_after_the_origin_went_back(tmp_path: Path, held: str, down: str) -> None:
    """What was held is of the table that the origin's rollback has retired."""
    two = born(tmp_path, down)
    two.upgrade("a", to=2, end_hold=False)
    tables.enable_change_data(two.path("a", "lines"))
    restored(two, two.runner)
    two.insert("a", {"line": "cc", "n": 3}, collection="lines")
    two.change("a", lambda row: None if row["line"] == "aa" else row, "lines")
    goes_on = HELD[held](two)
    verbs.rollback(two.env("a"), jobs=two.runner, allow_lossy=True)
    if not down:
        assert two.state("a", "b", "lines").error == "origin_replaced"
    restored(two, two.runner)
    turned_away(goes_on)
    equal(two)


def test_a_restore_in_the_middle_of_what_a_rollback_brought_back(two: Replicas) -> None:
    """Those commits are no events, so what comes after that version would never come."""
    two.upgrade("a", to=2, end_hold=False)
    restored(two, two.runner)
    two.insert("a", {"line": "cc", "n": 3}, collection="lines")
    two.rollback("a")
    last = tables.newest(two.path("a", "lines"))
    with pytest.raises(OriginReplaced):
        restore(two.env("a"), two.env("b"), LINES, version=last - 1, allow_schema_change=True, jobs=two.runner)
    restore(two.env("a"), two.env("b"), LINES, version=last, allow_schema_change=True, jobs=two.runner)
    equal(two)


def test_two_begin_a_stream_at_once(two: Replicas) -> None:
    """The second finds all rows there, which is no error of the stream."""
    folders = two.folders
    lake = Lake(Environment.open(str(folders[0].parent.parent / "c")), two.lakes["b"].first, two.lakes["b"].first)
    lake.upgrade(lake.first)
    two.lakes["c"] = lake
    begun: list[str] = []

    def first(moment: str, what: str, key: str) -> None:
        if moment == "before" and "/lines/" in key and not begun:
            begun.append(key)
            two.bring("a", "c", "lines")

    found = two.bring("a", "c", "lines", env=two.hooked("c", first))
    assert begun
    assert [state.error for state in found.states] == [None]
    assert lines(two, "c") == lines(two, "a")


def test_nothing_follows_a_seal(two: Replicas) -> None:
    """Sealed just behind the rows of the restore: that table is compared to the version of its seal."""
    two.upgrade("a", to=2)
    store = two.env("b").table_store(two.lakes["b"].state.shard_of(LINES).uri)

    def seals(moment: str, what: str, key: str) -> None:
        if moment == "after":
            head = read_head(store)
            fence = Fence("env", two.lakes["b"].state.shard_of(LINES).shard, Epoch(9))
            seal(store, head, "elsewhere", fence, Tag(Generation(9), Epoch(9), "seal"), since=head.version)

    restored(two, RowJobs(QUERIES, on_commit=seals))
    head = read_head(store)
    assert head.sealed_for == "elsewhere"
    assert read_head(store, head.version - 1).sealed_for is None
