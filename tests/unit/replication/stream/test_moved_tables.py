"""Streams whose tables are rewritten at one end or both, and rolled back: the checkpoint goes with the rows."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.errors import RestoreWouldLose
from airflow_provider_schemamig.core.replication.model import PauseReason
from airflow_provider_schemamig.core.replication.restore.restore import restore
from tests.support.replicas import FIRST, Replicas, make_replicas
from tests.support.rows import rewritten, tables
from tests.support.rows.jobs import RowJobs

COLLECTIONS = ("keyed", "plain")


@pytest.fixture(scope="module")
def born(tmp_path_factory: pytest.TempPathFactory) -> Replicas:
    """The next release rewrites both collections; b has what a has."""
    releases = (rewritten.SCHEMA_1, ""), (rewritten.SCHEMA_2, rewritten.STEPS)
    two = make_replicas(tmp_path_factory.mktemp("born"), *releases)
    two.runner = rewritten.jobs()
    two.insert("a", {"id": 1, "v": "1"}, {"id": 2, "v": "2"}, collection="keyed")
    two.insert("a", {"line": "aa", "n": 1}, {"line": "aa", "n": 1}, collection="plain")
    two.bring("a", "b", *COLLECTIONS)
    return two


@pytest.fixture
def two(born: Replicas, tmp_path: Path) -> Replicas:
    found = born.copy(tmp_path / "lakes")
    found.runner = rewritten.jobs()
    return found


def write(two: Replicas, number: int, *, old: bool) -> None:
    two.insert("a", {"id": number, "v": str(number) if old else number}, collection="keyed")
    two.change("a", lambda row: None if row["id"] == number - 1 else row, "keyed")
    two.insert("a", {"line": "bb", "n": number, **({} if old else {"day": "bb"})}, collection="plain")


def waits(two: Replicas) -> list[PauseReason | None]:
    states = two.bring("a", "b", *COLLECTIONS).states
    assert all(state.error is None for state in states), [state.detail for state in states]
    return [None if state.pause is None else state.pause.reason for state in states]


def equal(two: Replicas) -> None:
    assert waits(two) == [None, None]
    for collection in COLLECTIONS:
        assert two.rows("b", collection) == two.rows("a", collection), collection
    assert not two.bring("a", "b", *COLLECTIONS).moved


def test_the_origin_first(two: Replicas) -> None:
    """The old table is drained; the rest waits for the target's own rewrite, and begins where the origin's ended."""
    write(two, 3, old=True)
    two.upgrade("a", to=2)
    write(two, 5, old=False)
    assert waits(two) == [PauseReason.SCHEMA_MISMATCH] * 2
    assert [row["id"] for row in two.rows("b", "keyed")] == [1, 3], "all of the old table is there"
    two.upgrade("b", to=2)
    equal(two)
    write(two, 7, old=False)
    equal(two)


@pytest.mark.soak
def test_both_at_once_and_rolled_back(two: Replicas) -> None:
    write(two, 3, old=True)
    equal(two)
    two.upgrade("b", to=2)
    two.upgrade("a", to=2)
    write(two, 5, old=False)
    equal(two)
    two.rollback("a")
    write(two, 7, old=True)
    assert waits(two) == [PauseReason.SCHEMA_MISMATCH] * 2
    two.rollback("b")
    equal(two)
    write(two, 9, old=True)
    equal(two)


def test_the_target_alone_goes_there_and_back(two: Replicas) -> None:
    """What it cannot have as it is now waits; the checkpoint goes along both ways."""
    two.upgrade("b", to=2)
    assert waits(two) == [None, None], "nothing to bring; the checkpoint was carried over"
    write(two, 3, old=True)
    assert waits(two) == [PauseReason.SCHEMA_MISMATCH] * 2
    two.rollback("b")
    equal(two)


@pytest.mark.soak
def test_a_rollback_of_an_origin_whose_new_table_was_never_followed(two: Replicas) -> None:
    """Rows came back by commits of the rollback, which are no events: only a restore brings them."""
    two.upgrade("a", to=2)
    write(two, 5, old=False)
    two.rollback("a")
    states = two.bring("a", "b", *COLLECTIONS).states
    assert [state.error for state in states] == ["origin_replaced"] * 2


class BadStorage(Exception):
    """The upgrade has happened, its last stage not."""


# --- an origin that went back, long ago or again -------------------------------------------------------------------------------------


@pytest.fixture
def back(two: Replicas) -> Replicas:
    """Both ends went to the next release and back, the stream along with them."""
    two.upgrade("b", to=2, end_hold=False)
    two.upgrade("a", to=2, end_hold=False)
    write(two, 5, old=False)
    two.bring("a", "b", *COLLECTIONS)
    two.rollback("a")
    two.rollback("b")
    write(two, 7, old=True)
    equal(two)
    return two


@pytest.mark.soak
def test_an_idle_stream_whose_origin_went_back_long_ago(back: Replicas) -> None:
    """The seal that tells where it was opened again is cleaned out of the log; nothing before is needed any more."""
    write(back, 9, old=True)
    equal(back)
    path = back.path("a", "plain")
    newest = tables.newest(path)
    DeltaTable(str(path), version=newest - 1).create_checkpoint()
    for version in range(newest - 1):
        (path / "_delta_log" / f"{version:020}.json").unlink()
    assert back.state("a", "b", "plain").error is None
    assert not back.bring("a", "b", "plain").moved


@pytest.mark.soak
def test_a_second_way_back_from_a_table_that_was_never_followed(back: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the stream followed another one to its end says nothing of this one."""

    def fails(*found: Any, **options: Any) -> None:
        raise BadStorage

    monkeypatch.setattr(commands, "cleanup", fails)  # what was retired first is still there
    with contextlib.suppress(BadStorage):
        back.upgrade("a", to=2, end_hold=False)
    write(back, 9, old=False)
    back.rollback("a")
    assert [state.error for state in back.bring("a", "b", *COLLECTIONS).states] == ["origin_replaced"] * 2


# --- rows of the target's own in the tables before -----------------------------------------------------------------------------------


@pytest.mark.parametrize("back", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["forth", "there and back"])
def test_own_rows_that_moved_along_are_not_lost_either(two: Replicas, back: bool) -> None:
    """No commit of the live table says that they are the target's."""
    if not back:
        two.insert("b", {"line": "own", "n": 1}, collection="plain")
    two.upgrade("a", "b", to=2, end_hold=False)
    if back:
        two.insert("b", {"line": "own", "n": 1, "day": "ow"}, collection="plain")
        two.rollback("a")
        two.rollback("b")
    two.insert("a", {"line": "bb", "n": 9}, collection="plain")
    before = two.rows("b", "plain")
    with pytest.raises(RestoreWouldLose):
        restore(two.env("a"), two.env("b"), CollectionName("plain"), jobs=two.runner)
    assert two.rows("b", "plain") == before


def outrun(two: Replicas, number: int, *, old: bool) -> int:
    """A restore that the stream goes beyond while it copies; the version that both are at then."""
    newest = tables.newest(two.path("a", "plain"))

    def goes_on(job: str, request: Any) -> None:
        if job == "fill":
            write(two, number, old=old)
            two.bring("a", "b", *COLLECTIONS)

    jobs = RowJobs(rewritten.QUERIES, after=goes_on)
    assert restore(two.env("a"), two.env("b"), CollectionName("plain"), jobs=jobs).version == newest
    return newest


def test_a_stream_that_went_back_stays_there_when_the_rows_move(two: Replicas) -> None:
    """Its checkpoint was higher once in the table before, which had other rows then."""
    write(two, 3, old=True)
    at = outrun(two, 5, old=True)
    two.upgrade("b", to=2, end_hold=False)
    assert two.checkpoint("a", "b", "plain") == at
    state = two.state("a", "b", "plain")
    assert state.pause is not None, "what comes next is from before the rewrite"
    assert state.checkpoint == at


@pytest.mark.soak
def test_a_stream_that_went_back_stays_there_when_the_rows_move_back(two: Replicas) -> None:
    two.upgrade("a", "b", to=2, end_hold=False)
    write(two, 5, old=False)
    two.bring("a", "b", *COLLECTIONS)
    write(two, 7, old=False)
    outrun(two, 9, old=False)
    two.rollback("a")
    two.rollback("b")
    assert waits(two) == [None, PauseReason.SCHEMA_MISMATCH], "what it has not brought is of the release that both have left"
    restore(two.env("a"), two.env("b"), CollectionName("plain"), jobs=two.runner)
    equal(two)


@pytest.mark.soak
def test_the_table_that_was_looked_at_is_removed_meanwhile(two: Replicas) -> None:
    """Of that stream alone, and it looks again."""
    write(two, 5, old=True)
    gone: list[str] = []

    def hook(job: str, request: Any) -> None:
        if not gone:
            gone.append(job)
            two.upgrade("b", to=2, hold=timedelta(0))

    jobs = RowJobs(rewritten.QUERIES, before=hook)
    states = two.bring("a", "b", *COLLECTIONS, jobs=jobs).states
    assert gone
    assert [state.error for state in states] == [None, None]


def test_a_collection_that_the_origin_removes_while_a_batch_is_agreed_on(tmp_path: Path) -> None:
    """It waits as one that was removed before."""
    two = make_replicas(tmp_path, (FIRST, ""), (FIRST.replace("trips", "tours"), 'removal("trips")'))
    two.insert("a", {"id": 1})
    two.bring("a", "b")
    two.insert("a", {"id": 2})
    gone: list[str] = []

    def hook(moment: str, what: str, key: str) -> None:
        if (moment, what) == ("before", "put_if_absent") and "/trips/" in key and not gone:
            gone.append(key)
            two.upgrade("a", to=2)

    state = two.state("a", "b", env=two.hooked("b", hook))
    assert gone
    assert (state.error, state.pause is None) == (None, False)
