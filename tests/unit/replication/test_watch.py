"""What a scheduler is told of streams that it does not run: whether there is anything to do, and whether the target fits."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pendulum
import pytest

from airflow_provider_schemamig.core.names import CollectionName, Fingerprint, ShardId
from airflow_provider_schemamig.core.replication.cluster.registry import refresh
from airflow_provider_schemamig.core.replication.errors import TargetTakesNoRows
from airflow_provider_schemamig.core.replication.model import PauseReason, StreamSettings
from airflow_provider_schemamig.core.replication.restore.restore import restore
from airflow_provider_schemamig.core.replication.stream.stored_state import read_states, write_state
from airflow_provider_schemamig.core.replication.watch import StreamDue, look, mismatches
from tests.support.bytes import unwritten
from tests.support.replicas import FIRST, Replicas, make_replicas
from tests.support.tables import foreign

IDLE, DUE = StreamDue(due=False, waiting=False), StreamDue(due=True, waiting=False)
LATER = timedelta(minutes=6)


@pytest.fixture
def two(tmp_path: Path) -> Replicas:
    made = make_replicas(tmp_path)
    made.bring("a", "b", "trips", "lines", settings=StreamSettings())
    return made


def seen(two: Replicas, *collections: str, after: timedelta = timedelta()) -> StreamDue:
    return look(two.env("a"), two.env("b"), collections or None, StreamSettings(), pendulum.now("UTC") + after)


def test_an_idle_stream_is_left_alone(two: Replicas) -> None:
    with unwritten(two.env("a")), unwritten(two.env("b")):
        assert seen(two) == seen(two, after=LATER) == IDLE


def test_a_commit_is_something_to_do_until_it_is_brought(two: Replicas) -> None:
    two.insert("a", {"id": 1, "v": "x"})
    assert (seen(two), seen(two, "trips"), seen(two, "lines")) == (DUE, DUE, IDLE)
    two.bring("a", "b", "trips", settings=StreamSettings())
    assert seen(two) == IDLE


def test_a_stream_that_never_ran_is_something_to_do(tmp_path: Path) -> None:
    assert seen(make_replicas(tmp_path)) == DUE


def test_a_table_that_the_rows_moved_from_is_something_to_do(two: Replicas) -> None:
    write_state(two.env("b"), replace(read_states(two.env("b"))[-1], shard=ShardId("g0-before")))
    assert (seen(two, "trips"), seen(two, "lines")) == (DUE, IDLE)


def test_a_mismatch_rests_until_the_recompute_or_a_refresh(two: Replicas) -> None:
    pause(two)
    assert seen(two) == StreamDue(due=False, waiting=True)
    assert seen(two, after=LATER) == StreamDue(due=True, waiting=True)
    refresh(two.env("b"), pendulum.now("UTC"))
    assert seen(two) == StreamDue(due=True, waiting=True)


@pytest.mark.parametrize("reason", [PauseReason.ORIGIN_DRIFT, PauseReason.TARGET_BUSY])
def test_stream_watch_what_costs_no_spark_to_find_again_rests_for_a_shorter_time(two: Replicas, reason: PauseReason) -> None:
    pause(two)
    known = read_states(two.env("b"))[-1]
    assert known.pause is not None
    write_state(two.env("b"), replace(known, pause=replace(known.pause, reason=reason)))
    assert seen(two) == StreamDue(due=False, waiting=True)
    assert seen(two, after=StreamSettings().retry) == StreamDue(due=True, waiting=True)


def test_a_stopped_stream_rests_too(two: Replicas) -> None:
    write_state(two.env("b"), replace(read_states(two.env("b"))[-1], error="log_cleaned", updated_at=pendulum.now("UTC")))
    assert seen(two) == StreamDue(due=False, waiting=True)
    assert seen(two, after=LATER) == StreamDue(due=True, waiting=True)
    refresh(two.env("b"), pendulum.now("UTC"))
    assert seen(two) == StreamDue(due=True, waiting=True)


def pause(two: Replicas) -> None:
    two.upgrade("a", to=2)
    two.insert("a", {"id": 9, "v": "x", "w": "w"})
    (state,) = two.bring("a", "b", "trips", settings=StreamSettings()).states
    assert state.pause is not None


def details(two: Replicas, origin: str = "a", target: str = "b", depth: int = 1) -> dict[str, str]:
    with unwritten(two.env(origin)), unwritten(two.env(target)):
        found = mismatches(two.env(origin), two.env(target), None, depth)
    return {mismatch.collection: mismatch.detail for mismatch in found}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Replicas:
    """``x`` at the first release, ``y`` at the second, ``z`` at the third; each was at all before."""
    made = make_replicas(tmp_path_factory.mktemp("three"), names="xyz")
    made.upgrade("y", "z", to=2)
    made.upgrade("z", to=3)
    return made


@pytest.mark.parametrize(
    ("origin", "target", "depth", "accepted"),
    [
        ("x", "y", 1, True),
        ("y", "z", 1, True),
        ("x", "z", 1, False),
        ("x", "z", 2, True),
        ("x", "y", 0, False),
        ("y", "x", 1, False),
    ],
)
def test_the_target_accepts_what_it_has_or_just_had(three: Replicas, origin: str, target: str, depth: int, accepted: bool) -> None:
    assert (details(three, origin, target, depth) == {}) is accepted


def test_a_mismatch_names_the_columns(two: Replicas) -> None:
    two.upgrade("a", to=2)
    assert details(two) == {"trips": "w is not in the target"}
    two.upgrade("b", to=2)
    assert details(two) == {}


def test_the_event_at_which_a_stream_stands_counts_too(two: Replicas) -> None:
    """The schemas at both ends may be equal, and what lies between not."""
    pause(two)
    two.rollback("a")
    assert details(two) == {"trips": "w is not in the target"}
    known = next(state for state in read_states(two.env("b")) if state.pause is not None)
    assert known.pause is not None
    write_state(two.env("b"), replace(known, pause=replace(known.pause, event_hash=Fingerprint("sf1:of nobody"))))
    assert details(two) == {}


def test_a_stream_that_waits_for_its_collection_is_behind_by_all_of_it(tmp_path: Path) -> None:
    """So that an alert on the lag fires."""
    lacks = make_replicas(tmp_path, (FIRST, ""), (FIRST + "CREATE TABLE more (id INT);", ""))
    lacks.upgrade("a", to=2)
    version = lacks.insert("a", {"id": 1}, collection="more")
    found = lacks.state("a", "b", "more")
    assert found.pause is not None and found.pause.detail.startswith("the target has no collection of this name; a release brings it")
    assert (found.lag_versions, found.lag_seconds(pendulum.now("UTC")) > 0) == (version + 1, True)


def test_a_collection_that_one_end_lacks_is_a_mismatch(two: Replicas) -> None:
    (found,) = mismatches(two.env("a"), two.env("b"), ["nowhere"], 1)
    assert found.detail == "the origin has no collection of this name"


def test_a_target_that_makes_its_own_values_is_no_place_for_a_stream(two: Replicas) -> None:
    """A column GENERATED ALWAYS AS IDENTITY takes no values: the stream stops in words, and a sensor says so."""
    found = foreign.metadata(two.path("b"))
    schema = json.loads(found["schemaString"])
    schema["fields"][0]["metadata"] |= {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
    foreign.commit(two.path("b"), {"metaData": found | {"schemaString": json.dumps(schema)}})
    two.insert("a", {"id": 1, "v": "x"})
    (mismatch,) = mismatches(two.env("a"), two.env("b"), ("trips",), 1)
    assert "GENERATED ALWAYS AS IDENTITY" in mismatch.detail
    (state,) = two.bring("a", "b", "trips", settings=StreamSettings()).states
    assert (state.error, "GENERATED ALWAYS" in state.detail) == ("target_takes_no_rows", True)
    with pytest.raises(TargetTakesNoRows):
        restore(two.env("a"), two.env("b"), CollectionName("trips"), allow_lossy=True, allow_schema_change=True, jobs=lambda: two.runner)
