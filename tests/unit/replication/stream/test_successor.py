"""The origin's rows move to another shard: where a stream goes on, and when it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.replication.errors import LogCleaned, OriginReplaced
from airflow_provider_schemamig.core.replication.stream.events import FoundEvents, next_events
from airflow_provider_schemamig.core.replication.stream.successor import Successor, successor
from tests.support.lake import Lake
from tests.support.rows import tables
from tests.support.rows.rewritten import Rewritten, claimed, jobs, make_rewritten, upgrade
from tests.support.upgrades import two_releases

KEYED = CollectionName("keyed")
T = CollectionName("t")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Rewritten:
    return make_rewritten(tmp_path_factory.mktemp("origin"))


@pytest.fixture
def origin(before: Rewritten, tmp_path: Path) -> Rewritten:
    return before.copy(tmp_path)


def shard_of(origin: Rewritten) -> ShardId:
    return origin.state.objects[KEYED].shard


def found(origin: Rewritten, shard: ShardId, after: int) -> FoundEvents:
    return next_events(origin.env, origin.state, KEYED, shard, after)


def follow(origin: Rewritten, shard: ShardId, seen: int) -> Successor | None:
    return successor(origin.env, origin.state, shard, seen)


def drained(origin: Rewritten, shard: ShardId, after: int = 0) -> int:
    """The last event's version."""
    while (batch := found(origin, shard, after).batch) is not None:
        after = batch.hi
    return after


def test_successor_a_rewrite(origin: Rewritten) -> None:
    """Drained to its seal, then on in the new shard, after all that the rewrite has copied: its commits are no events."""
    old = shard_of(origin)
    origin.insert("keyed", [{"id": 100, "v": "100"}])
    last = drained(origin, old)
    assert follow(origin, old, last) is None
    upgrade(origin, origin.env, jobs())
    new = shard_of(origin)
    assert new != old
    assert follow(origin, old, last - 1) is None
    on = follow(origin, old, last)
    assert on is not None
    assert on == follow(origin, old, found(origin, old, last).seen)
    assert (on.shard, on.fingerprint, on.entry.shard) == (new, origin.state.objects[KEYED].fingerprint, new)
    assert on.after == tables.newest(origin.path("keyed"))
    looked = found(origin, new, 0)
    assert (looked.batch, looked.seen) == (None, on.after)
    origin.insert("keyed", [{"id": 101, "v": 101}])
    batch = found(origin, new, on.after).batch
    assert batch is not None
    assert (batch.lo, batch.hi, batch.fingerprint) == (on.after, on.after + 1, on.fingerprint)
    assert follow(origin, old, last) == on
    assert follow(origin, new, on.after + 1) is None


def test_while_the_rewrite_is_prepared_and_sealed(origin: Rewritten) -> None:
    old, runner = shard_of(origin), jobs()
    last = drained(origin, old)
    generation = claimed(origin, runner)
    commands.promote(origin.env, generation)
    commands.expand(origin.env, generation)
    assert follow(origin, old, last) is None
    assert found(origin, old, last).batch is None


def test_successor_what_got_through_the_seal_is_not_the_origins(origin: Rewritten) -> None:
    """RESTORE does. Its rows are in no table that anybody reads."""
    old, path = shard_of(origin), origin.path("keyed")
    last = drained(origin, old)
    upgrade(origin, origin.env, jobs())
    sealed = origin.state.shards[old].sealed_version
    assert tables.restore(path, 2) > (sealed or 0)
    looked = found(origin, old, last)
    assert (looked.batch, looked.seen, looked.head_version) == (None, sealed, sealed)
    assert follow(origin, old, last) is not None


def test_successor_and_back(origin: Rewritten) -> None:
    """What a rollback brings back into the first shard was an event of the second."""
    old = shard_of(origin)
    last = drained(origin, old)
    upgrade(origin, origin.env, jobs())
    new = shard_of(origin)
    on = follow(origin, old, last)
    assert on is not None
    origin.insert("keyed", [{"id": 200, "v": 200}])
    event = drained(origin, new, on.after)
    assert event == on.after + 1
    commands.rollback(origin.env, jobs=jobs())
    assert shard_of(origin) == old
    again = follow(origin, new, event)
    assert again is not None
    assert (again.shard, again.fingerprint) == (old, origin.state.objects[KEYED].fingerprint)
    assert last < again.after < tables.newest(origin.path("keyed"))
    assert found(origin, old, again.after).batch is None
    assert found(origin, old, last).batch is None
    origin.insert("keyed", [{"id": 201, "v": "201"}])
    batch = found(origin, old, again.after).batch
    assert batch is not None
    assert (batch.lo, batch.hi) == (tables.newest(origin.path("keyed")) - 1, tables.newest(origin.path("keyed")))


def test_the_new_shards_log_is_cleaned(origin: Rewritten) -> None:
    """Then nobody knows where its first event was."""
    old = shard_of(origin)
    last = drained(origin, old)
    upgrade(origin, origin.env, jobs())
    (origin.path("keyed") / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(LogCleaned) as gap:
        follow(origin, old, last)
    assert gap.value.collection == KEYED


def replaced(folder: Path, steps: str, second: str = "CREATE TABLE t (id STRING); CREATE TABLE u (id BIGINT);") -> tuple[Lake, ShardId]:
    lake = two_releases(folder, "CREATE TABLE t (id BIGINT); CREATE TABLE u (id BIGINT);", second, steps)
    shard = lake.state.objects[T].shard
    tables.insert(lake.path("t"), [{"id": 1}])
    return lake, shard


def test_successor_a_replacement(tmp_path: Path) -> None:
    lake, old = replaced(tmp_path, 'replacement("t")')
    lake.upgrade(lake.second)
    new = lake.state.objects[T].shard
    assert successor(lake.env, lake.state, old, 0) is None  # its last rows may still be brought
    with pytest.raises(OriginReplaced, match=f"{new} took its place with other rows"):
        successor(lake.env, lake.state, old, 1)
    tables.insert(lake.path("t"), [{"id": "x"}])
    commands.rollback(lake.env, allow_lossy=True)
    with pytest.raises(OriginReplaced, match=f"{old} took its place with other rows"):
        successor(lake.env, lake.state, new, tables.newest(tmp_path / "lake" / lake.state.shards[new].uri))


def test_successor_a_removal(tmp_path: Path) -> None:
    lake, old = replaced(tmp_path, 'removal("t")', "CREATE TABLE u (id BIGINT);")
    lake.upgrade(lake.second)
    with pytest.raises(OriginReplaced, match="its collection was removed"):
        successor(lake.env, lake.state, old, 1)


def test_a_fill_is_no_event(tmp_path: Path) -> None:
    """The rows of a replacement come with a restore."""
    lake, _ = replaced(tmp_path, 'replacement("t")')
    lake.upgrade(lake.second)
    new, path = lake.state.objects[T].shard, lake.path("t")
    now = tables.snapshot(path)
    add = tables.data_file(path, now.fields, [{"id": "a"}])
    info = {"operation": "WRITE", "userMetadata": '{"schemamig": {"action": "fill", "epoch": 0, "generation": 2, "number": 1}}'}
    version = tables.put(path, now.version, [{"commitInfo": info}, {"add": add}])
    looked = next_events(lake.env, lake.state, T, new, 0)
    assert (looked.batch, looked.seen) == (None, version)
