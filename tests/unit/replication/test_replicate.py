"""One stream between two environments: what is brought, what waits, and what goes on by itself (docs/replicas.md)."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.delta.errors import AnotherTable
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.replication.errors import RestoreWouldLose
from airflow_provider_schemamig.core.replication.model import ClaimedRestore, PauseReason, RestoredRows
from airflow_provider_schemamig.core.replication.restore.errors import RestoreNotNewer
from airflow_provider_schemamig.core.replication.restore.restore import restore
from airflow_provider_schemamig.core.replication.stream.stored_state import claimed_restore, note_restore, read_states, write_state
from airflow_provider_schemamig.core.spark.errors import DuplicateKeys
from tests.support.bytes import tree
from tests.support.lake import Crash
from tests.support.replicas import Replicas, lose_the_log, make_replicas, read_whole
from tests.support.rows.jobs import RowJobs
from tests.support.rows.tables import enable_change_data
from tests.support.tables import foreign


@pytest.fixture
def two(tmp_path: Path) -> Replicas:
    return make_replicas(tmp_path)


def test_inserts_updates_deletes_and_changes_of_keys(two: Replicas) -> None:
    two.insert("a", {"id": 1, "v": "x"}, {"id": 2, "v": "y"}, {"id": 3, "v": "z"})
    first = two.state("a", "b")
    assert (first.restores, first.pause, first.error) == (1, None, None), "an empty target begins with all rows"
    assert two.rows("b") == two.rows("a")
    two.change("a", lambda row: {**row, "v": "new"} if row["id"] == 1 else row)
    two.change("a", lambda row: None if row["id"] == 2 else row)
    two.change("a", lambda row: {**row, "id": 30} if row["id"] == 3 else row)
    two.insert("a", {"id": 4, "v": None})
    found = two.bring("a", "b")
    assert two.rows("b") == two.rows("a")
    assert (found.applied_batches, two.checkpoint("a", "b")) == (1, 5)
    again = two.bring("a", "b")
    assert not again.moved
    assert again.states == found.states, "an idle stream writes nothing"


@pytest.mark.parametrize("feed", [False, True])
@pytest.mark.parametrize("comes", ["new", "moved"])
def test_two_rows_of_one_key_stop_the_stream_also_from_two_batches(two: Replicas, comes: str, feed: bool) -> None:
    """Keys are not Delta's, and a foreign writer breaks them."""
    if feed:
        enable_change_data(two.path("a"))
    two.insert("a", {"id": 5, "v": "first"}, {"id": 6, "v": "other"})
    two.bring("a", "b")
    before, at = two.rows("b"), two.checkpoint("a", "b")
    if comes == "new":
        two.insert("a", {"id": 5, "v": "second"})
    else:
        two.change("a", lambda row: {**row, "id": 5} if row["id"] == 6 else row)
    assert two.state("a", "b").error == "duplicate_keys"
    two.change("a", lambda row: None if row["v"] != "first" and row["id"] == 5 else row)
    assert two.state("a", "b").error == "duplicate_keys", "what was agreed on to be brought has both"
    assert (two.rows("b"), two.checkpoint("a", "b")) == (before, at)
    restore(two.env("a"), two.env("b"), CollectionName("trips"), jobs=two.runner)
    two.insert("a", {"id": 7, "v": "x"})
    found = two.state("a", "b")
    assert (found.error, found.pause) == (None, None)
    assert two.rows("b") == two.rows("a")


def test_two_rows_of_one_key_are_not_restored(two: Replicas) -> None:
    """An update of the one would be one of the other, too."""
    two.insert("a", {"id": 5, "v": "first"})
    two.insert("a", {"id": 5, "v": "second"})
    assert two.state("a", "b").error == "duplicate_keys"
    assert two.rows("b") == []
    with pytest.raises(DuplicateKeys, match="2 rows"):
        restore(two.env("a"), two.env("b"), CollectionName("trips"), jobs=two.runner)
    two.change("a", lambda row: None if row["v"] == "second" else row)
    assert two.state("a", "b").error is None
    assert two.rows("b") == two.rows("a")


def test_a_row_that_others_wrote_to_the_target_makes_way(two: Replicas) -> None:
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b")
    two.insert("b", {"id": 2, "v": "theirs"})
    two.insert("a", {"id": 2, "v": "ours"})
    assert two.state("a", "b").error is None
    assert two.rows("b") == two.rows("a")


def test_a_mismatch_waits_and_goes_on_by_itself(two: Replicas) -> None:
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b")
    two.upgrade("a", to=2)
    two.insert("a", {"id": 2, "v": "y", "w": "w"})
    paused = two.state("a", "b")
    assert paused.pause is not None
    assert (paused.pause.reason, paused.pause.event_version) == (PauseReason.SCHEMA_MISMATCH, 3)
    assert "w is not in the target" in paused.pause.detail
    assert two.checkpoint("a", "b") == 1
    assert two.rows("b") == [{"id": 1, "v": "x"}]
    two.upgrade("b", to=2)
    assert two.state("a", "b").pause is None
    assert two.rows("b") == two.rows("a")


def test_an_origin_that_was_made_anew_is_never_gone_on_from(two: Replicas) -> None:
    for number in range(3):
        two.insert("a", {"id": number, "v": "old"})
    assert two.state("a", "b").checkpoint == two.checkpoint("a", "b") == 3
    kept = two.rows("b")
    foreign.make_anew(two.path("a"))
    for number in range(10, 15):
        two.insert("a", {"id": number, "v": "new"})
    stopped = two.state("a", "b")
    assert (stopped.error, stopped.checkpoint) == ("origin_replaced", 3) and "made in its place" in stopped.detail
    assert two.rows("b") == kept
    # Its rows are no rows of the collection that the origin's ledger knows, so a restore does not take them either.
    with pytest.raises(AnotherTable):
        restore(two.env("a"), two.env("b"), CollectionName("trips"), jobs=lambda: two.runner)


def test_a_target_that_was_made_anew_is_not_written_to(two: Replicas) -> None:
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b")
    foreign.make_anew(two.path("b"), commits=4)
    two.insert("a", {"id": 2, "v": "x"})
    before = tree(two.path("b"))
    assert two.state("a", "b").error == "another_table"
    assert tree(two.path("b")) == before


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_restore_that_is_tried_again_is_found_done_only_if_it_was(two: Replicas, moment: str) -> None:
    """A worker dies before the commit, and the stream moves on; or after it, and could not say so."""
    two.insert("a", {"id": 1, "v": "x"}, {"id": 2, "v": "y"})
    two.bring("a", "b")
    a, target = two.env("a"), two.env("b")
    again = functools.partial(
        restore, a, target, CollectionName("trips"), allow_lossy=True, claim_id="airflow:replicas/monday/restore", jobs=two.runner
    )
    two.change("b", lambda row: {**row, "v": "wrong"})
    two.insert("a", {"id": 3})
    if moment == "before":
        two.runner.before = lambda job, request: crash() if job == "fill" else None
        with pytest.raises(Crash):
            again()
        two.runner.before = None
        two.bring("a", "b")
        with pytest.raises(RestoreNotNewer):
            again()
        assert two.rows("b") != two.rows("a")
    else:
        first = again()
        two.insert("a", {"id": 4})
        two.bring("a", "b")
        two.insert("b", {"id": 100})
        before = two.rows("b"), two.state("a", "b")
        assert again() == first
        assert (two.rows("b"), two.state("a", "b")) == before, "the stream has gone on since"
        with pytest.raises(RestoreNotNewer):
            restore(a, target, CollectionName("trips"), allow_lossy=True, claim_id="tuesday", jobs=two.runner)


@pytest.mark.parametrize("told", ["at once", "by its retry", "beside a batch"])
@pytest.mark.parametrize("since", ["another run restored it", "both were rewritten"])
def test_a_restore_that_is_cleared_finds_what_it_did_before_others(tmp_path: Path, since: str, told: str) -> None:
    """Else it would take away what came to the target after it."""
    up, down = "SELECT id, v, id + 1 AS m FROM {trips}", "SELECT id, v FROM {trips}"
    columns = "id BIGINT NOT NULL, v STRING"
    releases = (
        (f"CREATE TABLE trips ({columns}, PRIMARY KEY (id));", ""),
        (f"CREATE TABLE trips ({columns}, m BIGINT, PRIMARY KEY (id));", f'rewrite("trips", up="{up}", down="{down}")'),
    )
    two = make_replicas(tmp_path, *releases)
    two.runner = RowJobs({up: lambda row: [{**row, "m": row["id"] + 1}], down: lambda row: [{"id": row["id"], "v": row["v"]}]})
    again = functools.partial(restore, two.env("a"), two.env("b"), CollectionName("trips"), allow_lossy=True, jobs=two.runner)
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b")
    two.insert("a", {"id": 2, "v": "y"})
    monday = functools.partial(again, claim_id="airflow:replicas/monday/restore")
    if told == "by its retry":
        with pytest.raises(Crash):
            restore(two.env("a"), two.hooked("b", die_before_the_state), CollectionName("trips"), **monday.keywords)
        two.insert("a", {"id": 7, "v": "y"})
        two.bring("a", "b")
    elif told == "beside a batch":

        def beside(job: str, request: Any) -> None:
            if job == "apply":
                monday(jobs=RowJobs({}))

        two.runner.before = beside
        two.insert("a", {"id": 7, "v": "y"})
        two.bring("a", "b")
        two.runner.before = None
    first = monday()
    two.insert("a", {"id": 8, "v": "y"})
    if since == "another run restored it":
        again(claim_id="airflow:replicas/tuesday/restore")
    else:
        two.upgrade("b", to=2)
        two.upgrade("a", to=2)
    two.insert("b", {"id": 100, "v": "own"})
    two.insert("a", {"id": 3, "v": "z"})
    before = tree(two.path("b"))
    assert monday() == first
    assert tree(two.path("b")) == before


def die_before_the_state(at: str, what: str, key: str) -> None:
    if key.startswith("_schemamig/replicas/streams"):
        raise Crash(key)


def test_a_restore_from_a_quiet_origin_advises_at_once_what_works(two: Replicas) -> None:
    """``restore_would_lose`` would advise ``--allow-lossy``, which the origin's version then refuses."""
    two.insert("a", {"id": 1})
    two.bring("a", "b")
    two.insert("b", {"id": 100})
    with pytest.raises(RestoreNotNewer):
        restore(two.env("a"), two.env("b"), CollectionName("trips"), jobs=two.runner)
    two.insert("a", {"id": 2})
    with pytest.raises(RestoreWouldLose):
        restore(two.env("a"), two.env("b"), CollectionName("trips"), jobs=two.runner)
    restore(two.env("a"), two.env("b"), CollectionName("trips"), allow_lossy=True, jobs=two.runner)
    assert two.rows("b") == two.rows("a")


def test_a_restore_under_the_claim_of_one_before_the_last_gap_is_made(two: Replicas) -> None:
    """The run that restored after the first gap is cleared after the second one."""
    two.insert("a", {"id": 1})
    two.bring("a", "b")
    again = functools.partial(restore, two.env("a"), two.env("b"), CollectionName("trips"), claim_id="monday", jobs=read_whole(two))
    for first in (3, 13):
        at = two.checkpoint("a", "b")
        for number in range(3):
            two.insert("a", {"id": first + number})
        lose_the_log(two, at + 1)
        assert two.state("a", "b").error == "log_cleaned"
        done = again()
        assert (done.version, done.rows, again()) == (at + 3, len(two.rows("a")), done)
        assert (two.state("a", "b").error, two.rows("b")) == (None, two.rows("a"))


def test_a_restore_by_a_clock_that_is_behind_is_found_done(two: Replicas) -> None:
    """The process that stopped the stream has a later time than the one that restores, and dies before it tells the stream."""
    two.insert("a", {"id": 1})
    two.bring("a", "b")
    lose_the_log(two, two.insert("a", {"id": 2}) or two.checkpoint("a", "b") + 1)
    stopped = two.state("a", "b")
    assert stopped.error == "log_cleaned"
    write_state(two.env("b"), replace(stopped, updated_at=stopped.updated_at.add(hours=1)))

    def die(at: str, what: str, key: str) -> None:
        if key.startswith("_schemamig/replicas/streams"):
            raise Crash(key)

    again = functools.partial(
        restore, two.env("a"), collection=CollectionName("trips"), claim_id="monday", allow_lossy=True, jobs=read_whole(two)
    )
    with pytest.raises(Crash):
        again(target=two.hooked("b", die))
    two.insert("b", {"id": 78})
    assert again(target=two.env("b")).rows == len(two.rows("a"))
    assert {"id": 78, "v": None} in two.rows("b"), "restored a second time"


def test_restores_that_are_noted_in_one_moment_are_both_known(two: Replicas) -> None:
    two.insert("a", {"id": 1})
    stream, others = two.state("a", "b").stream, RestoredRows(ShardId("trips-1"), 7, 9, 1, "", "monday")

    def meanwhile(at: str, what: str, key: str) -> None:
        if key.startswith("_schemamig/replicas/restores"):
            note_restore(two.env("b"), stream, others, 2)

    tuesday = replace(others, claim_id="tuesday")
    note_restore(two.hooked("b", meanwhile), stream, tuesday, 3)
    found = [claimed_restore(two.env("b"), stream, claim) for claim in ("monday", "tuesday", "sunday")]
    assert found == [ClaimedRestore(others, 2), ClaimedRestore(tuesday, 3), None]


def test_a_restore_whose_worker_dies_before_the_stream_is_told_is_noted(two: Replicas) -> None:
    two.insert("a", {"id": 1})
    two.bring("a", "b")
    lose_the_log(two, two.insert("a", {"id": 2}) or two.checkpoint("a", "b") + 1)
    stopped = two.state("a", "b")
    again = functools.partial(restore, two.env("a"), collection=CollectionName("trips"), claim_id="monday", jobs=read_whole(two))

    def die(at: str, what: str, key: str) -> None:
        if at == "before" and key.startswith("_schemamig/replicas/streams"):
            raise Crash(key)

    with pytest.raises(Crash):
        again(target=two.hooked("b", die))
    noted = claimed_restore(two.env("b"), stopped.stream, "monday")
    assert noted is not None and noted.number > read_states(two.env("b"))[0].restores
    assert again(target=two.env("b")) == noted.rows
    assert read_states(two.env("b"))[0].error is None, "the stream was told"


@pytest.mark.parametrize("more", [0, 1], ids=["quiet origin", "more rows"])
def test_a_cleared_restore_is_not_made_again_for_an_error_of_before_it_that_came_late(two: Replicas, more: int) -> None:
    """A run of the stream fails; while it writes that down, somebody restores. Then the target has rows of its own."""
    two.insert("a", {"id": 1})
    two.bring("a", "b")
    lose_the_log(two, two.insert("a", {"id": 2}) or two.checkpoint("a", "b") + 1)
    again = functools.partial(
        restore, two.env("a"), two.env("b"), CollectionName("trips"), claim_id="monday", allow_lossy=True, jobs=read_whole(two)
    )
    done: list[RestoredRows] = []

    def meanwhile(at: str, what: str, key: str) -> None:
        if not done and at == "before" and key.startswith("_schemamig/replicas/streams"):
            done.append(again())

    two.bring("a", "b", env=two.hooked("b", meanwhile))
    assert done and (found := read_states(two.env("b"))[0]).error == "log_cleaned" and found.restores < 2, "written late"
    two.insert("b", {"id": 78})
    for number in range(more):
        two.insert("a", {"id": 3 + number})
    assert again() == done[0]
    assert {"id": 78, "v": None} in two.rows("b"), "restored a second time"
    assert (two.state("a", "b").error, two.checkpoint("a", "b")) == (None, done[0].version + more), "the stream was told"


def crash() -> None:
    raise Crash("the worker is killed")
