"""The events of a stream: what is one, of which schema it is, and where a batch of them ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.rows import tables
from tests.unit.replication.origin import Origin, T, hash_of, make_origin

ELSEWHERE = "another environment"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    return make_origin(tmp_path_factory.mktemp("origin"))


@pytest.fixture
def origin(template: Origin, tmp_path: Path) -> Origin:
    return template.copy(tmp_path)


def test_consecutive_events_are_one_batch(origin: Origin) -> None:
    origin.insert(1)
    origin.insert(2)
    origin.append(3)
    origin.update(1)
    found = origin.found(0)
    assert found.batch is not None
    assert (found.batch.lo, found.batch.hi, found.batch.commits) == (0, 4, 4)
    assert found.batch.fingerprint == origin.lake.state.objects[found.batch.collection].fingerprint == hash_of(found.batch.entry)
    assert (found.seen, found.head_version, found.drift, found.waits) == (0, 4, None, "")


def test_events_nothing_new(origin: Origin) -> None:
    version = origin.insert(1)
    found = origin.found(version)
    assert (found.batch, found.seen, found.head_version, found.behind_since) == (None, version, version, None)


def test_events_a_limit(origin: Origin) -> None:
    for number in range(5):
        origin.insert(number)
    assert [(lo, hi) for lo, hi, _ in origin.ranges(limit=2)] == [(0, 2), (2, 4), (4, 5)]


def test_commits_that_change_no_row_are_no_events(origin: Origin) -> None:
    origin.insert(1)
    origin.rearrange()
    origin.commit({"commitInfo": {"operation": "VACUUM START"}})
    origin.commit({"commitInfo": {"operation": "VACUUM END"}})
    origin.commit({"txn": {"appId": "a", "version": 1}})
    assert origin.ranges() == [(0, 1, "id x")]
    assert origin.found(1).seen == 5
    origin.insert(2)
    origin.rearrange()
    # Inside of a batch, but neither at its beginning nor at its end.
    assert origin.ranges() == [(0, 6, "id x")]
    assert origin.ranges(1) == [(5, 6, "id x")]
    assert origin.found(6).seen == 7


@pytest.mark.parametrize(
    "said",
    [
        {"schemamig": {"action": "replica", "origin": ELSEWHERE, "shard": "s", "lo": 1, "hi": 2, "schema_hash": "sf1:0"}},
        {"schemamig": {"action": "restore", "origin": ELSEWHERE}},
        {"schema_hash": "sf1:0", "release": "1.0.0", "node": None, "origin": ELSEWHERE, "source": None},
        {"schemamig": {"action": "copy", "generation": 1, "lo": 0, "hi": 1}},
        {"schemamig": {"action": "tail", "generation": 1, "lo": 0, "hi": 1}},
        {"schemamig": {"action": "fill", "generation": 1}},
        {"schemamig": {"action": "rollback/g2-x", "generation": 1, "lo": 0, "hi": 1}},
        {"schemamig": {"action": "backfill:schemamig_new_y", "generation": 1}},
    ],
)
def test_stream_events_what_came_from_elsewhere_is_passed_over(origin: Origin, said: Any) -> None:
    """It ends a batch: the difference of two versions would have its rows in it."""
    origin.insert(1)
    origin.write(said)
    assert origin.ranges() == [(0, 1, "id x")]
    assert (origin.found(1).batch, origin.found(1).seen) == (None, 2)
    origin.insert(3)
    assert origin.ranges() == [(0, 1, "id x"), (2, 3, "id x")]


@pytest.mark.parametrize(
    "said",
    [
        None,
        "not JSON",
        "[1]",
        '"a"',
        '{"schemamig": 5}',
        '{"origin": "kafka"}',
        '{"origin": "kafka", "schema_hash": "md5:0"}',
        '{"schemamig": {"action": "backfill:y"}}',
        '{"schema_hash": "sf1:0", "release": "1.0.0", "node": null}',
        '{"schema_hash": "sf1:0", "origin": 5}',
        '{"schemamig": {"action": "replica", "origin": 5}}',
    ],
)
def test_who_does_not_say_in_our_words_that_it_came_from_elsewhere_is_an_event(origin: Origin, said: str | None) -> None:
    origin.write(said)
    assert origin.ranges() == [(0, 1, "id x")]


def test_own_events_by_their_stamp(origin: Origin) -> None:
    version = origin.append(1)
    (info,) = [action["commitInfo"] for action in tables.commit_at(origin.path, version) if "commitInfo" in action]
    assert json.loads(info["userMetadata"])["origin"] == origin.lake.state.config.env_id
    assert origin.ranges() == [(0, version, "id x")]


# --- schemas -------------------------------------------------------------------------------------------------------------------------


def test_a_batch_ends_at_a_change_of_schema(origin: Origin) -> None:
    origin.insert(1)
    origin.lake.upgrade(origin.lake.second)
    changed = origin.newest
    origin.insert(2)
    assert origin.ranges() == [(0, 1, "id x"), (changed, changed + 1, "id x y")]


def test_rows_that_come_with_a_change_of_metadata(origin: Origin) -> None:
    """As a foreign OVERWRITE makes them: with the commit a new batch begins."""
    origin.insert(1)
    metadata = tables.snapshot(origin.path).metadata
    add = tables.data_file(origin.path, tables.snapshot(origin.path).fields, [{"id": 2, "x": 2}])
    origin.commit({"metaData": metadata}, {"add": add})
    origin.insert(3)
    assert origin.ranges() == [(0, 1, "id x"), (1, 3, "id x")]


def test_a_property_ends_a_batch_and_is_no_drift(origin: Origin) -> None:
    origin.insert(1)
    tables.set_property(origin.path, "delta.logRetentionDuration", "interval 3 days")
    origin.insert(2)
    assert origin.ranges() == [(0, 1, "id x"), (2, 3, "id x")]


def test_an_older_release_writes_its_own_schema(origin: Origin) -> None:
    origin.lake.upgrade(origin.lake.second)
    since = origin.newest
    origin.append(1, release="1.0.0")
    origin.append(2, release="1.1.0")
    origin.append(3, release="1.0.0")
    assert origin.ranges(since) == [
        (since, since + 1, "id x"),
        (since + 1, since + 2, "id x y"),
        (since + 2, since + 3, "id x"),
    ]


def test_an_older_release_that_overwrites_takes_newer_columns_away(origin: Origin) -> None:
    """No row of its own schema tells that y is NULL now everywhere."""
    first = hash_of(origin.lake.state.entry(T))
    origin.lake.upgrade(origin.lake.second)
    since = origin.newest
    stamp = {"schema_hash": first, "origin": origin.lake.state.config.env_id}
    origin.write(stamp, info={"operationParameters": {"mode": "Append"}})
    origin.write(stamp, info={"operationParameters": {"mode": "Overwrite"}})
    assert [hi for _, hi, _ in origin.ranges(since)] == [since + 1, since + 2]
    assert [names for _, _, names in origin.ranges(since)] == ["id x", "id x y"]


@pytest.mark.parametrize("said", ["sf1:0", "sf1:"])
def test_a_hash_nobody_knows_leaves_it_to_the_ledger(origin: Origin, said: str) -> None:
    origin.write({"schema_hash": said, "origin": origin.lake.state.config.env_id})
    assert origin.ranges() == [(0, 1, "id x")]


def test_a_newer_schema_does_not_reach_back(origin: Origin) -> None:
    """The stamp of a release in preparation, from before the table had its columns."""
    version = origin.insert(1)
    origin.lake.upgrade(origin.lake.second)
    second = origin.lake.state.objects[T].fingerprint
    log = origin.path / "_delta_log" / f"{version:020}.json"
    said = json.dumps({"schema_hash": second, "origin": origin.lake.state.config.env_id})
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    actions[0]["commitInfo"]["userMetadata"] = said
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert origin.ranges()[0] == (0, 1, "id x")


def test_back_at_the_first_schema(origin: Origin) -> None:
    """H1, H2, H1: our writers' events are of the schema that they were written in, whatever the ledger says of those versions by now."""
    origin.append(1)
    origin.lake.upgrade(origin.lake.second)
    origin.append(2)
    commands.rollback(origin.lake.env)
    origin.append(3)
    assert [names for _, _, names in origin.ranges()] == ["id x", "id x y", "id x"]
    hashes = [batch.fingerprint for batch in origin.all()]
    assert hashes[0] == hashes[2] != hashes[1]
