"""Streams between three environments: releases in any order, restarts, gaps, and workers that stall."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.errors import RestoreChangesSchema, RestoreWouldLose
from airflow_provider_schemamig.core.replication.model import PauseReason, StreamSettings, StreamState
from airflow_provider_schemamig.core.replication.replicate import follow
from airflow_provider_schemamig.core.replication.restore.errors import RestoreNotNewer
from airflow_provider_schemamig.core.replication.restore.restore import restore
from airflow_provider_schemamig.core.replication.stream.stored_state import wake
from tests.support.bytes import unwritten
from tests.support.lake import Crash
from tests.support.replicas import EVOLVE, FIRST, Replicas, lose_the_log, make_replicas, read_whole
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.upgrades import refused

TRIPS = CollectionName("trips")


@pytest.fixture(scope="module")
def born(tmp_path_factory: pytest.TempPathFactory) -> Replicas:
    """Three environments at the first of three releases, each of which adds a column; b and c have what a has."""
    three = make_replicas(tmp_path_factory.mktemp("born"), names="abc")
    three.insert("a", {"id": 1, "v": "one"}, {"id": 2, "v": "two"})
    three.bring("a", "b")
    three.bring("a", "c")
    return three


@pytest.fixture
def three(born: Replicas, tmp_path: Path) -> Replicas:
    return born.copy(tmp_path / "lakes")


def paused(state: StreamState) -> PauseReason | None:
    assert state.error is None, state.detail
    return None if state.pause is None else state.pause.reason


MISMATCH = PauseReason.SCHEMA_MISMATCH
ORDERS = list(itertools.permutations("abc"))


@pytest.mark.parametrize("order", [ORDERS[0], *(pytest.param(order, marks=pytest.mark.soak) for order in ORDERS[1:])], ids="".join)
def test_a_rolling_upgrade_in_any_order(three: Replicas, order: tuple[str, ...]) -> None:
    """Who is behind the origin waits, who is ahead takes all; in the end all are equal, and each was once and in order."""
    number = itertools.count(10)
    for name in order:
        three.upgrade(name, to=2)
        three.change("a", lambda row: {**row, "v": f"{row['v']}'"} if row["id"] == 1 else row)
        three.insert("a", {"id": next(number), "v": "new", "w": "w"} if "a" in order[: order.index(name) + 1] else {"id": next(number)})
        for target in "bc":
            behind = order.index("a") <= order.index(name) < order.index(target)
            assert paused(three.state("a", target)) == (MISMATCH if behind else None)
    for target in "bc":
        assert paused(three.state("a", target)) is None
        assert three.rows(target) == three.rows("a")


@pytest.mark.soak
def test_two_versions_behind_waits_and_a_depth_of_two_takes_it(three: Replicas) -> None:
    three.upgrade("b", to=2)
    three.upgrade("b", to=3)
    three.insert("a", {"id": 3})
    state = three.state("a", "b")
    assert paused(state) is MISMATCH
    assert state.pause is not None
    assert "2 schemas ago" in state.pause.detail
    assert paused(three.state("a", "b", settings=StreamSettings(depth=2, recompute=timedelta(0)))) is None
    assert [row["id"] for row in three.rows("b")] == [1, 2, 3]


def test_an_older_event_leaves_a_newer_column_alone(three: Replicas) -> None:
    three.upgrade("b", to=2)
    three.change("b", lambda row: {**row, "w": "mine"})
    three.change("a", lambda row: {**row, "v": "changed"} if row["id"] == 1 else row)
    assert paused(three.state("a", "b")) is None
    assert three.rows("b") == [{"id": 1, "v": "changed", "w": "mine"}, {"id": 2, "v": "two", "w": "mine"}]


@pytest.mark.soak
def test_order_is_kept_through_an_upgrade_and_its_rollback(three: Replicas) -> None:
    """H1, H2, H1 at the origin: b makes the same way, c comes later: rows of H2 have a column that only H2 declares."""
    three.upgrade("b", to=2)
    three.insert("a", {"id": 3, "v": "H1"})
    three.upgrade("a", to=2)
    three.change("a", lambda row: {**row, "v": "H2", "w": "w"} if row["id"] == 3 else row)
    assert paused(three.state("a", "b")) is None
    assert paused(three.state("a", "c")) is MISMATCH
    assert three.rows("c")[-1] == {"id": 3, "v": "H1"}
    three.change("a", lambda row: {**row, "v": "H2 again"} if row["id"] == 3 else row)
    three.rollback("a")
    three.change("a", lambda row: {**row, "v": "H1 again"} if row["id"] == 3 else row)
    three.rollback("b")
    three.insert("a", {"id": 4})
    assert paused(three.state("a", "b")) is None
    assert paused(three.state("a", "c")) is MISMATCH, "its values would be left out"
    three.upgrade("c", to=2)
    assert paused(three.state("a", "c")) is None
    three.rollback("c")
    for target in "bc":
        assert paused(three.state("a", target)) is None
        assert three.declared_rows(target) == three.declared_rows("a")


def test_a_paused_stream_costs_a_read_until_it_is_due_and_resumes_without_a_restart(three: Replicas) -> None:
    three.upgrade("a", to=2)
    three.insert("a", {"id": 3, "w": "w"})
    slow = StreamSettings(poll=timedelta(0), recompute=timedelta(minutes=5))
    turns = follow(three.env("a"), three.env("b"), ["trips"], jobs=three.runner, settings=slow, until=lambda: False)
    (first,) = next(turns).states
    assert paused(first) is MISMATCH
    three.upgrade("b", to=2)
    assert next(turns).states == (first,), "not due"
    wake(three.env("b"), first.updated_at.add(hours=1))
    (now,) = next(turns).states
    assert paused(now) is None
    assert three.rows("b") == three.rows("a")
    assert not now.lag_versions


@pytest.mark.soak
def test_a_pause_keeps_its_beginning_and_the_checkpoint(three: Replicas) -> None:
    three.upgrade("a", to=2)
    three.insert("a", {"id": 3, "w": "w"})
    first = three.state("a", "b")
    three.insert("a", {"id": 4})
    again = three.state("a", "b")
    assert first.pause is not None
    assert again.pause is not None
    assert (again.pause.since, again.pause.event_version) == (first.pause.since, first.pause.event_version)
    assert again.pause.recomputed_at > first.pause.recomputed_at
    assert again.checkpoint == first.checkpoint == three.checkpoint("a", "b")
    assert again.lag_versions == first.lag_versions + 1
    assert paused(three.state("a", "c")) is MISMATCH, "each pair by itself"


def test_both_ways_without_a_loop(three: Replicas) -> None:
    state = three.state("b", "a")
    assert state.error == "never_restored", "a has rows, and none of them came from b"
    restore(three.env("b"), three.env("a"), TRIPS, jobs=three.runner)  # loses nothing: b has all that a has
    for number in range(3):
        three.insert("a", {"id": 10 + number, "v": "a"})
        three.change("b", lambda row: {**row, "v": f"{row['v']}b"} if row["id"] in (1, 9 + number) else row)  # noqa: B023
        for origin, target in ("ab", "ba", "ab", "ba"):
            assert paused(three.state(origin, target)) is None
    assert three.rows("a") == three.rows("b")
    assert {row["id"]: row["v"] for row in three.rows("a")} == {1: "onebbb", 2: "two", 10: "ab", 11: "ab", 12: "a"}
    versions = [tables.newest(three.path(name)) for name in "ab"]
    for origin, target in ("ab", "ba", "ab", "ba"):
        assert not three.bring(origin, target).moved
    assert [tables.newest(three.path(name)) for name in "ab"] == versions, "nothing comes back"
    three.bring("b", "c")
    assert [row["id"] for row in three.rows("c")] == [1, 2], "c hears of a by its own stream: nothing is relayed"


def test_commits_without_events(three: Replicas) -> None:
    """ALTER without rows, and files that only moved."""
    path = three.path("a")
    tables.set_property(path, "delta.appendOnly", "false")
    now = tables.snapshot(path)
    adds = [{"add": {**tables.data_file(path, now.fields, now.rows), "dataChange": False}}]
    removes = [{"remove": {"path": file, "dataChange": False}} for file in now.files]
    tables.put(path, now.version, [{"commitInfo": {"operation": "OPTIMIZE"}}, *removes, *adds])
    before = tables.newest(three.path("b"))
    found = three.bring("a", "b")
    assert (found.moved, tables.newest(three.path("b"))) == (False, before)
    assert (found.states[0].seen, found.states[0].lag_versions) == (3, 0)


def test_drift_at_the_origin_waits_and_what_lies_before_is_brought(three: Replicas) -> None:
    three.insert("a", {"id": 3})
    tables.add_column(three.path("a"), "strange")
    three.insert("a", {"id": 4, "strange": "x"})
    state = three.state("a", "b")
    assert paused(state) is PauseReason.ORIGIN_DRIFT
    assert [row["id"] for row in three.rows("b")] == [1, 2, 3]


def test_drift_at_the_target_waits(three: Replicas) -> None:
    tables.add_column(three.path("b"), "strange")
    assert paused(three.state("a", "b")) is None, "there is nothing to bring"
    three.insert("a", {"id": 3})
    assert paused(three.state("a", "b")) is PauseReason.TARGET_BUSY


def test_others_go_on(three: Replicas) -> None:
    three.upgrade("a", to=2)
    three.insert("a", {"id": 3, "w": "w"})
    three.insert("a", {"line": "x", "n": 1}, collection="lines")
    found = three.bring("a", "b", "trips", "lines")
    assert [state.stream.collection for state in found.paused] == ["trips"]
    assert three.rows("b", "lines") == [{"line": "x", "n": 1}]


def test_a_name_that_neither_environment_has_is_refused_before_anything_is_brought(three: Replicas) -> None:
    three.insert("a", {"line": "x", "n": 1}, collection="lines")
    with unwritten(three.env("a")), unwritten(three.env("b")), refused("unknown_collection", "lnies"):
        three.bring("a", "b", "lines", "lnies")


def test_a_collection_that_both_have_removed_since_its_stream_ran_waits(tmp_path: Path) -> None:
    both = make_replicas(tmp_path, (FIRST, ""), (FIRST.partition("CREATE TABLE lines")[0], 'removal("lines")'))
    both.bring("a", "b", "lines")
    both.upgrade("a", "b", to=2)
    assert paused(both.state("a", "b", "lines")) is PauseReason.SCHEMA_MISMATCH


def test_a_stream_whose_origin_never_pauses_lets_others_have_their_turn(three: Replicas) -> None:
    """With each batch that is brought comes another commit, which is the next turn's."""
    written = iter(range(10, 40))

    class Busy(RowJobs):
        def run(self, job: Any, request: Mapping[str, Any]) -> dict[str, Any]:
            three.insert("a", {"id": next(written)})
            return super().run(job, request)

    three.insert("a", {"id": 3})
    three.insert("a", {"line": "x", "n": 1}, collection="lines")
    found = three.bring("a", "b", "trips", "lines", jobs=Busy({}))
    assert (found.applied_batches, found.restores, next(written)) == (1, 1, 12), "a batch of the one, all rows of the other"
    assert three.rows("b", "lines") == three.rows("a", "lines")
    assert [row["id"] for row in three.rows("b")] == [1, 2, 3]
    three.bring("a", "b")
    assert three.rows("b") == three.rows("a")


# --- restores ------------------------------------------------------------------------------------------------------------------------


def test_exactly_first_minus_one_is_no_gap(three: Replicas) -> None:
    at = three.checkpoint("a", "b")
    three.insert("a", {"id": 3})
    three.insert("a", {"id": 4})
    lose_the_log(three, at)
    assert three.state("a", "b").error is None
    assert three.checkpoint("a", "b") == at + 2


def test_a_gap_stops_the_stream_until_it_is_restored(three: Replicas) -> None:
    at = three.checkpoint("a", "b")
    for number in range(3):
        three.insert("a", {"id": 3 + number})
    lose_the_log(three, at + 1)
    assert three.state("a", "b").error == "log_cleaned"
    assert three.state("a", "b").error == "log_cleaned"
    assert three.checkpoint("a", "b") == at, "never on over a gap"
    before = three.state("a", "b").restores
    done = restore(three.env("a"), three.env("b"), TRIPS, jobs=read_whole(three))
    assert (done.version, done.rows) == (at + 3, 5)
    state = three.state("a", "b")
    assert (state.error, state.pause, state.restores) == (None, None, before + 1)
    assert three.rows("b") == three.rows("a")
    three.insert("a", {"id": 9})
    three.bring("a", "b")
    assert three.rows("b") == three.rows("a")


@pytest.mark.soak
def test_a_restore_at_a_pinned_version_and_never_back(three: Replicas) -> None:
    for number in range(3):
        three.insert("a", {"id": 3 + number})
    assert restore(three.env("a"), three.env("b"), TRIPS, version=2, jobs=three.runner).rows == 3
    assert three.checkpoint("a", "b") == 2
    with pytest.raises(RestoreNotNewer):
        restore(three.env("a"), three.env("b"), TRIPS, version=2, jobs=three.runner)
    three.bring("a", "b")
    assert three.rows("b") == three.rows("a")


def test_a_restore_never_loses_silently(three: Replicas) -> None:
    """Own rows of the target; and columns, of a schema that the target never had or left long ago."""
    three.insert("b", {"id": 100, "v": "mine"})
    three.insert("a", {"id": 3})
    before = three.rows("b")
    with pytest.raises(RestoreWouldLose) as caught:
        restore(three.env("a"), three.env("b"), TRIPS, jobs=three.runner)
    assert (caught.value.commits, caught.value.first) == (1, 2)
    three.upgrade("c", to=2)
    three.upgrade("c", to=3)
    with pytest.raises(RestoreChangesSchema, match="2 schemas ago"):
        restore(three.env("a"), three.env("c"), TRIPS, jobs=three.runner)
    assert three.rows("b") == before
    restore(three.env("a"), three.env("b"), TRIPS, allow_lossy=True, jobs=three.runner)
    assert three.rows("b") == three.rows("a")
    restore(three.env("a"), three.env("c"), TRIPS, allow_schema_change=True, jobs=three.runner)
    assert [row["id"] for row in three.rows("c")] == [1, 2, 3]


def test_a_restore_that_was_killed_has_not_happened(three: Replicas) -> None:
    """What its driver goes on writing nobody sees."""
    three.insert("a", {"id": 3})
    jobs = RowJobs({}, leave_at=1)
    with pytest.raises(Crash):
        restore(three.env("a"), three.env("b"), TRIPS, jobs=jobs)
    three.insert("a", {"id": 4})
    found = three.bring("a", "b")
    assert (found.restores, found.applied_batches) == (0, 1)
    (zombie,) = jobs.zombies
    zombie()
    assert three.rows("b") == three.rows("a")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_restore_that_dies_at_its_commit_has_happened_or_not(three: Replicas, moment: str) -> None:
    three.insert("a", {"id": 3})

    def dies(when: str, what: str, key: str) -> None:
        if (when, what) == (moment, "put_if_absent"):
            raise Crash

    with pytest.raises(Crash):
        restore(three.env("a"), three.hooked("b", dies), TRIPS, jobs=three.runner)
    found = three.bring("a", "b")
    assert found.applied_batches == (1 if moment == "before" else 0)
    assert three.rows("b") == three.rows("a")


# --- what a release may do to a column -----------------------------------------------------------------------------------------------

COLUMNS = {
    "dropped": (FIRST.replace("v STRING, ", ""), 'evolution("trips", drop=["v"])'),
    "widened": (FIRST.replace("n INT", "n BIGINT"), 'evolution("lines")'),
    "renamed": (FIRST.replace("v STRING", "vv STRING"), 'evolution("trips", rename={"v": "vv"})'),
    "NOT NULL added": (FIRST.replace("v STRING", "v STRING NOT NULL"), EVOLVE),
}


@pytest.mark.parametrize("first", ["target first", pytest.param("origin first", marks=pytest.mark.soak)])
@pytest.mark.parametrize("case", ["renamed", *(pytest.param(case, marks=pytest.mark.soak) for case in COLUMNS if case != "renamed")])
def test_scenarios_a_column(case: str, first: str, tmp_path: Path) -> None:
    two = make_replicas(tmp_path, (FIRST, ""), COLUMNS[case])
    two.insert("a", {"id": 1, "v": "x"}, {"id": 2, "v": "y"})
    two.insert("a", {"line": "x", "n": 1}, collection="lines")
    two.bring("a", "b", "trips", "lines")
    for number, name in enumerate("ba" if first == "target first" else "ab"):
        two.upgrade(name, to=2)
        for collection, column in (("trips", "id"), ("lines", "n")):
            names = {field["name"] for field in tables.snapshot(two.path("a", collection)).fields}
            row = {"id": 10 + number, "v": "new", "vv": "new", "line": "new", "n": 10 + number}
            two.insert("a", {key: value for key, value in row.items() if key in names}, collection=collection)
            two.change("a", lambda row: None if row[column] == 2 else row, collection)  # noqa: B023
        held = [state.stream.collection for state in two.bring("a", "b", "trips", "lines").paused]
        changed = "lines" if case == "widened" else "trips"
        # Rows without a column, or with a stricter one, fit the target of before.
        assert held == ([changed] if first == "origin first" and number == 0 and case in ("renamed", "widened") else [])
    for collection in ("trips", "lines"):
        assert two.declared_rows("b", collection) == two.declared_rows("a", collection)


@pytest.mark.soak
def test_a_null_where_the_target_has_none_waits(tmp_path: Path) -> None:
    two = make_replicas(tmp_path, (FIRST, ""), COLUMNS["NOT NULL added"])
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b")
    two.upgrade("b", to=2)
    two.insert("a", {"id": 2, "v": None})
    assert paused(two.state("a", "b")) is MISMATCH
    two.rollback("b")
    assert paused(two.state("a", "b")) is None
    assert two.declared_rows("b") == two.declared_rows("a")
