"""A process of a stream stands still while the target's table is rewritten, and rolled back, and then goes on: no event counts twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import ShardMoving
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.restore.restore import Wish, restore, try_restore
from airflow_provider_schemamig.core.replication.stream.position import StreamEnds
from airflow_provider_schemamig.core.spark.errors import BadValue
from tests.support.lake import Crash, Lake
from tests.support.replicas import Replicas, make_replicas
from tests.support.rows import rewritten, tables
from tests.support.rows.jobs import RowJobs
from tests.support.upgrades import releases

PLAIN = ("plain",)
#: Without a way back.
LOSSY = f'rewrite("keyed", up="{rewritten.UP_KEYED}"), rewrite("plain", up="{rewritten.UP_PLAIN}")'


def born(folder: Path, steps: str = rewritten.STEPS) -> Replicas:
    """``a`` has one release, whose rows fit the column of b's before and after b's rewrite."""
    (only,) = releases(folder / "a_product", ("CREATE TABLE plain (line STRING);", ""))
    folders = releases(folder / "b_product", (rewritten.SCHEMA_1, ""), (rewritten.SCHEMA_2, steps))
    lakes = {
        "a": Lake(Environment.open(str(folder / "a")), only, only),
        "b": Lake(Environment.open(str(folder / "b")), folders[0], folders[1]),
    }
    for lake in lakes.values():
        lake.upgrade(lake.first)
    two = Replicas(folders, lakes, rewritten.jobs())
    fill(two)
    return two


def fill(two: Replicas) -> None:
    """Restored, and a batch behind."""
    tables.enable_change_data(two.path("a", "plain"))  # read from the feed, the batch is in no file that a twin takes away
    two.insert("a", {"line": "aa"}, {"line": "bb"}, collection="plain")
    two.bring("a", "b", *PLAIN)
    two.change("a", lambda row: {**row, "line": "cc"} if row["line"] == "bb" else row, "plain")
    two.insert("a", {"line": "bb"}, collection="plain")


@pytest.fixture
def two(tmp_path: Path) -> Replicas:
    return born(tmp_path)


def there_and_back(two: Replicas) -> None:
    """The batch is brought into the new table, and comes back through ``down``."""
    two.upgrade("b", to=2, end_hold=False)
    assert two.bring("a", "b", *PLAIN).applied_rows == 1
    two.rollback("b")


def once(found: Callable[[], object]) -> Callable[..., None]:
    """For a hook: only the first time."""
    left = [found]

    def call(*args: Any) -> None:
        if left:
            left.pop()()

    return call


def stalling(hook: Callable[..., None], moment: str) -> RowJobs:
    if moment == "before it reads":
        return RowJobs(rewritten.QUERIES, before=lambda job, request: hook() if job == "apply" else None)
    return RowJobs(rewritten.QUERIES, on_commit=hook)


def equal(two: Replicas) -> None:
    found = two.bring("a", "b", *PLAIN)
    assert not found.paused, found.paused
    assert not found.stopped, found.stopped
    assert lines(two, "b") == lines(two, "a")
    two.insert("a", {"line": "ff"}, collection="plain")
    two.change("a", lambda row: None if row["line"] == "bb" else row, "plain")
    two.bring("a", "b", *PLAIN)
    assert lines(two, "b") == lines(two, "a")


def lines(two: Replicas, name: str) -> list[str]:
    return sorted(row["line"] for row in two.rows(name, "plain"))


@pytest.mark.parametrize("moment", ["before it reads", pytest.param("before it commits", marks=pytest.mark.soak)])
@pytest.mark.parametrize("meanwhile", [pytest.param("forth", marks=pytest.mark.soak), "there and back"])
def test_with_rows_to_bring(two: Replicas, moment: str, meanwhile: str) -> None:
    def goes_on() -> None:
        if meanwhile == "forth":
            two.upgrade("b", to=2, end_hold=False)
            two.bring("a", "b", *PLAIN)
        else:
            there_and_back(two)

    two.bring("a", "b", *PLAIN, jobs=stalling(once(goes_on), moment))
    equal(two)


@pytest.mark.soak
def test_with_nothing_to_bring(two: Replicas) -> None:
    """The checkpoint of a batch without rows is a commit of our own."""
    two.bring("a", "b", *PLAIN)
    two.insert("a", {"line": "dd"}, collection="plain")
    two.change("a", lambda row: None if row["line"] == "dd" else row, "plain")
    goes_on = once(lambda: there_and_back_empty(two))

    def hook(moment: str, what: str, key: str) -> None:
        if (moment, what) == ("before", "put_if_absent") and "plain" in key:
            goes_on()

    two.bring("a", "b", *PLAIN, env=two.hooked("b", hook))
    equal(two)


def there_and_back_empty(two: Replicas) -> None:
    two.upgrade("b", to=2, end_hold=False)
    two.insert("a", {"line": "ee"}, collection="plain")
    two.bring("a", "b", *PLAIN)
    two.rollback("b")


@pytest.mark.soak
def test_a_rollback_that_leaves_rows_behind(tmp_path: Path) -> None:
    """What has no way back is brought again: the old table says what it has."""
    two = born(tmp_path, LOSSY)
    two.upgrade("b", to=2, end_hold=False)
    two.bring("a", "b", *PLAIN)
    assert lines(two, "b") == lines(two, "a")
    commands.rollback(two.env("b"), jobs=two.runner, allow_lossy=True)
    assert lines(two, "b") == ["aa", "bb"]
    equal(two)


@pytest.mark.parametrize("moment", ["before it reads", pytest.param("before it commits", marks=pytest.mark.soak)])
def test_a_rollback_that_leaves_rows_behind_of_a_batch_that_somebody_still_holds(tmp_path: Path, moment: str) -> None:
    """What is agreed on anew may end elsewhere, so who held it before is turned away."""
    two = born(tmp_path, LOSSY)

    def goes_on() -> None:
        two.upgrade("b", to=2, end_hold=False)
        two.bring("a", "b", *PLAIN)
        two.insert("a", {"line": "dd"}, collection="plain")
        commands.rollback(two.env("b"), jobs=two.runner, allow_lossy=True)
        two.bring("a", "b", *PLAIN)

    two.bring("a", "b", *PLAIN, jobs=stalling(once(goes_on), moment))
    equal(two)


@pytest.mark.soak
def test_stalled_twins_who_tidies_up_late_leaves_what_was_agreed_on_for_a_later_table(two: Replicas) -> None:
    """It has brought a batch to the table before, which was opened again once, and knows of a later term."""
    two.upgrade("b", to=2, end_hold=False)
    two.rollback("b")
    agreed: list[int] = []

    def goes_on() -> None:
        two.upgrade("b", to=2, end_hold=False)
        two.insert("a", {"line": "dd"}, collection="plain")
        with pytest.raises(Crash):
            two.bring("a", "b", *PLAIN, jobs=RowJobs(rewritten.QUERIES, leave_at=1))
        agreed.append(tables.newest(two.path("a", "plain")))
        two.insert("a", {"line": "ee"}, collection="plain")

    stalled = once(goes_on)
    two.bring("a", "b", *PLAIN, jobs=RowJobs(rewritten.QUERIES, after=lambda job, request: stalled() if job == "apply" else None))
    two.runner.asked.clear()
    two.bring("a", "b", *PLAIN)
    assert [request["txn_version"] for request in two.runner.jobs("apply")] == [agreed[0], agreed[0] + 1]
    equal(two)


@pytest.mark.parametrize("then", ["it stays", pytest.param("it is tried again", marks=pytest.mark.soak)])
def test_while_a_rollback_that_fails_has_the_old_table_open(two: Replicas, then: str) -> None:
    """Its batch is in the live table, and comes back from there if at all."""
    upgraded, opened = threading.Event(), threading.Event()

    def stands_still(job: str, request: Any) -> None:
        upgraded.set()
        opened.wait(60)

    twin = threading.Thread(target=two.bring, args=("a", "b", *PLAIN), kwargs={"jobs": RowJobs(rewritten.QUERIES, before=stands_still)})
    twin.start()
    assert upgraded.wait(60)
    two.upgrade("b", to=2, end_hold=False)
    two.insert("b", {"line": "own"}, collection="plain")

    def fails(job: str, request: Any) -> None:
        if job == "apply":
            opened.set()
            twin.join(60)
            raise BadValue(condition="CAST_INVALID_INPUT", detail="x")

    with pytest.raises(BadValue):
        commands.rollback(two.env("b"), jobs=RowJobs(rewritten.QUERIES, before=fails))
    two.bring("a", "b", *PLAIN)
    assert lines(two, "b") == sorted([*lines(two, "a"), "own"])
    if then == "it is tried again":
        two.rollback("b")
        assert lines(two, "b") == sorted([*lines(two, "a"), "own"])


@pytest.mark.soak
def test_a_restore_with_an_old_ledger_in_hand_while_a_rollback_that_fails_has_the_old_table_open(two: Replicas) -> None:
    """It would take the place of rows that a rollback puts others beside."""
    ends = StreamEnds.of(two.env("a"), two.env("b"))
    two.upgrade("b", to=2, end_hold=False)
    two.bring("a", "b", *PLAIN)
    found: list[str] = []

    def fails(job: str, request: Any) -> None:
        if job == "apply":
            try:
                try_restore(ends, CollectionName("plain"), Wish(allow_schema_change=True), two.runner)
            except ShardMoving as error:
                found.append(error.code)
            raise BadValue(condition="CAST_INVALID_INPUT", detail="x")

    two.insert("a", {"line": "dd"}, collection="plain")
    with pytest.raises(BadValue):
        commands.rollback(two.env("b"), jobs=RowJobs(rewritten.QUERIES, before=fails))
    assert found == ["shard_moving"]
    two.rollback("b")
    equal(two)


@pytest.mark.soak
def test_a_restore_from_a_later_table_of_the_origin(tmp_path: Path) -> None:
    """What somebody still holds of the table before is in the rows that were restored."""
    two = make_replicas(tmp_path, (rewritten.SCHEMA_1, ""), (rewritten.SCHEMA_2, rewritten.STEPS))
    two.runner = rewritten.jobs()
    fill(two)

    def goes_on() -> None:
        two.upgrade("a", to=2)
        two.upgrade("b", to=2, end_hold=False)
        restore(two.env("a"), two.env("b"), CollectionName("plain"), jobs=two.runner)
        assert lines(two, "b") == lines(two, "a")
        two.rollback("b")

    hook = once(goes_on)
    twin = RowJobs(rewritten.QUERIES, before=lambda job, request: hook() if job == "apply" else None)
    assert not two.bring("a", "b", *PLAIN, jobs=twin).stopped
    assert lines(two, "b") == lines(two, "a")


def test_a_rewrite_whose_old_table_is_gone_before_the_stream_goes_on(two: Replicas) -> None:
    two.bring("a", "b", *PLAIN)
    old = two.path("b", "plain")
    two.upgrade("b", to=2, hold=timedelta(0))
    assert not old.exists()
    assert tables.newest(two.path("a", "plain")) == two.checkpoint("a", "b", "plain")
    equal(two)
