"""Gaps: what a stream needs and cannot have any more, and the warning before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pendulum
import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core.delta.errors import TableMissing
from airflow_provider_schemamig.core.delta.log.files import file_difference
from airflow_provider_schemamig.core.names import ShardId
from airflow_provider_schemamig.core.replication.errors import ChangeDataVacuumed, ChangeFeedOff, GapError, LogCleaned, OriginReplaced
from airflow_provider_schemamig.core.replication.stream import gaps
from airflow_provider_schemamig.core.replication.stream.events import next_events
from airflow_provider_schemamig.core.replication.stream.gaps import check_gap
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES
from airflow_provider_schemamig.core.times import minute
from airflow_provider_schemamig.core.upgrade.drift.accept import accept
from airflow_provider_schemamig.core.upgrade.drift.revert import revert
from tests.support.bytes import unwritten
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.unit.replication.origin import Origin, T, make_origin

Look = Callable[[Origin, int], object]
MADE = pendulum.datetime(2024, 3, 1, 12)
WEEK = 7 * 24


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    return make_origin(tmp_path_factory.mktemp("origin"))


@pytest.fixture
def origin(template: Origin, tmp_path: Path) -> Origin:
    return template.copy(tmp_path)


def check(origin: Origin, after: int, now: pendulum.DateTime | None = None) -> str:
    """And next_events finds what the log alone tells."""
    with unwritten(origin.lake.env):
        return look_for_gap(origin, origin.shard, after, now or pendulum.now("UTC"))


def look_for_gap(origin: Origin, shard: ShardId, after: int, now: pendulum.DateTime) -> str:
    env, state = origin.lake.env, origin.lake.state
    return check_gap(env, state, shard, next_events(env, state, T, shard, after), now)


def clean(origin: Origin, upto: int) -> None:
    """The log's commits up to a version, of which there is a checkpoint then."""
    DeltaTable(str(origin.path), version=upto).create_checkpoint()
    for version in range(upto + 1):
        (origin.path / "_delta_log" / f"{version:020}.json").unlink()


def changed_files(origin: Origin, version: int, kind: str = "remove") -> list[Path]:
    return [origin.path / action[kind]["path"] for action in tables.commit_at(origin.path, version) if kind in action]


def with_change_data(origin: Origin, version: int) -> Path:
    """As Spark writes it with the feed on: an UPDATE's changes beside its files."""
    file = origin.path / "_change_data" / f"cdc {version}.parquet"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"PAR1")
    actions = [*tables.commit_at(origin.path, version), {"cdc": {"path": f"_change_data/cdc%20{version}.parquet", "size": 4}}]
    (origin.path / "_delta_log" / f"{version:020}.json").unlink()
    tables.put(origin.path, version - 1, actions)
    return file


# --- the log -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cleaned", [0, 1, 2])
def test_a_log_that_begins_with_the_next_commit_is_no_gap(origin: Origin, cleaned: int) -> None:
    for number in range(4):
        origin.insert(number)
    clean(origin, cleaned)
    looks: list[Look] = [check, Origin.found]
    assert check(origin, cleaned) == ""
    for after in range(cleaned):
        for look in looks:
            with pytest.raises(LogCleaned) as gap:
                look(origin, after)
            assert (gap.value.after, gap.value.first, gap.value.collection) == (after, cleaned + 1, T)


def test_a_log_of_which_all_was_seen_has_no_gap(origin: Origin) -> None:
    origin.insert(1)
    clean(origin, 0)
    assert check(origin, 1) == ""
    assert origin.found(1).seen == 1


def test_a_commit_that_is_lost_in_between(origin: Origin) -> None:
    """Nobody cleans so; it is not passed over."""
    for number in range(4):
        origin.insert(number)
    (origin.path / "_delta_log" / f"{3:020}.json").unlink()
    with pytest.raises(Exception, match="version 3 of the log"):
        origin.found(1)
    with pytest.raises(LogCleaned):
        origin.found(2)


def test_commits_without_the_checkpoint_that_they_go_on_from(origin: Origin) -> None:
    """What the table was at their versions is not known any more: nobody can read their rows."""
    for number in range(3):
        origin.insert(number)
    tables.set_property(origin.path, FILES, "interval 8 days")
    kept = {version: tables.commit_at(origin.path, version) for version in (2, 3, 4)}
    origin.insert(5)
    clean(origin, 4)
    for version, actions in kept.items():
        tables.put(origin.path, version - 1, actions)
    with pytest.raises(LogCleaned) as gap:
        check(origin, 1)
    assert gap.value.first == 4
    assert check(origin, 4) == ""


def test_cleaned_up_to_a_checkpoint(origin: Origin) -> None:
    """Nothing but the checkpoint is left."""
    origin.insert(1)
    clean(origin, 1)
    assert check(origin, 1) == ""
    with pytest.raises(LogCleaned) as gap:
        check(origin, 0)
    assert gap.value.first == 1


def test_another_table_in_its_place(origin: Origin) -> None:
    """Its log has not come to where the stream stands: it is not the one that was followed."""
    origin.insert(1)
    looks: list[Look] = [check, Origin.found]
    for look in looks:
        with pytest.raises(OriginReplaced, match="its log ends before version 7"):
            look(origin, 7)
    assert check(origin, 1) == ""


def test_another_table_in_its_place_whose_log_is_longer(origin: Origin) -> None:
    origin.insert(1)
    foreign.make_anew(origin.path, commits=5)
    origin.insert(2)
    looks: list[Look] = [check, Origin.found]
    for look in looks:
        with pytest.raises(OriginReplaced, match="made in its place"):
            look(origin, 2)


def test_another_id_of_the_table_is_drift_of_the_origin(origin: Origin) -> None:
    origin.insert(1)
    known = foreign.metadata(origin.path)["id"]
    foreign.give_id(origin.path, "NEW")
    origin.insert(2)
    found = origin.found(1)
    assert found.batch is None and found.drift is not None
    assert (found.seen, found.drift.version) == (1, 2) and known in found.drift.detail
    revert(origin.lake.env, "t")
    assert [(lo, hi) for lo, hi, _ in origin.ranges(1)] == [(2, 3)]
    foreign.give_id(origin.path, "NEWER")
    origin.insert(3)
    accept(origin.lake.env, origin.lake.first)
    assert [(lo, hi) for lo, hi, _ in origin.ranges(4)] == [(5, 6)]


def test_gaps_no_table(origin: Origin) -> None:
    log = origin.path / "_delta_log"
    log.rename(log.with_name("away"))
    looks: list[Look] = [check, Origin.found]
    for look in looks:
        with pytest.raises(TableMissing):
            look(origin, 0)


def test_a_shard_that_was_contracted(origin: Origin) -> None:
    with pytest.raises(OriginReplaced, match="hold"):
        look_for_gap(origin, ShardId("g0-gone"), 3, MADE)
    with pytest.raises(OriginReplaced, match="hold"):
        next_events(origin.lake.env, origin.lake.state, T, ShardId("g0-gone"), 3)


# --- files ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("feed", "kind", "gone", "expected"),
    [
        (True, "cdc", (), None),
        (True, "cdc", ("remove", "add"), None),  # the feed has all
        (True, "cdc", ("cdc",), ChangeDataVacuumed),
        (True, "remove", ("remove",), ChangeDataVacuumed),  # a DELETE of whole files has no change data
        (False, "remove", (), None),
        (False, "remove", ("remove",), ChangeFeedOff),
        (False, "remove", ("add",), ChangeFeedOff),
    ],
)
def test_files_that_are_gone(origin: Origin, feed: bool, kind: str, gone: tuple[str, ...], expected: type[GapError] | None) -> None:
    origin.insert(1)
    origin.insert(2)
    if feed:
        tables.enable_change_data(origin.path)
    version = origin.update(1)
    files = {"remove": changed_files(origin, version), "add": changed_files(origin, version, "add")}
    files["cdc"] = [with_change_data(origin, version)] if kind == "cdc" else []
    for name in gone:
        for file in files[name]:
            file.unlink()
    if expected is None:
        assert check(origin, version - 1) == ""
        return
    with pytest.raises(expected) as gap:
        check(origin, version - 1)
    assert (gap.value.collection, gap.value.code) == (T, expected.code)
    assert any(str(file.relative_to(origin.path)) in gap.value.message for file in files[gone[0]])


def test_rows_that_came_and_went_are_not_needed(origin: Origin) -> None:
    """The batch is read as one difference."""
    origin.insert(1)
    origin.update(1)
    tables.vacuum(origin.path)
    assert check(origin, 0) == ""
    with pytest.raises(ChangeFeedOff):
        check(origin, 1)


def test_appended_rows_that_were_compacted_and_vacuumed(origin: Origin) -> None:
    """Tables that are only appended to have gaps, too: if the compaction is not in the same batch."""
    origin.insert(1)
    origin.rearrange()
    tables.vacuum(origin.path)
    with pytest.raises(ChangeFeedOff):
        check(origin, 0)
    origin.insert(2)
    assert check(origin, 0) == ""


def test_files_elsewhere_are_not_ours_to_look_for(origin: Origin) -> None:
    add = {"partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    origin.commit({"add": {**add, "path": "s3://bucket/t/f.parquet"}}, {"add": {**add, "path": "/data/f.parquet"}})
    assert check(origin, 0) == ""
    origin.commit({"add": {**add, "path": "f.parquet"}})
    with pytest.raises(ChangeFeedOff):
        check(origin, 0)


def test_no_poll_asks_for_more_files_than_it_should(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "PROBED", 3)
    for number in range(5):
        origin.insert(number)
    for version in (5, 4):
        changed_files(origin, version, "add")[0].unlink()
    assert check(origin, 0) == ""
    with pytest.raises(ChangeFeedOff):
        check(origin, 1)


def feed_serves(origin: Origin, lo: int, hi: int) -> bool:
    store = origin.lake.env.table_store(origin.lake.state.shards[origin.shard].uri)
    return gaps.feed_serves(store, lo, hi, file_difference(store, lo, hi))


def test_the_feed_serves_only_rows_of_the_newest_schema(origin: Origin) -> None:
    origin.insert(1)
    on = tables.enable_change_data(origin.path)
    version = origin.update(1)
    assert feed_serves(origin, on, version)
    assert feed_serves(origin, on - 1, version)
    origin.lake.upgrade(origin.lake.second)
    assert not feed_serves(origin, on, version)
    origin.insert(2)
    version = origin.update(2)
    assert feed_serves(origin, version - 1, version)


@pytest.mark.parametrize(
    "act", [lambda t: t.update({"x": "1"}, predicate="id = 2"), lambda t: t.delete("id = 1")], ids=["update", "delete"]
)
def test_the_feed_serves_not_where_files_only_came_or_delta_rs_wrote_it(origin: Origin, act: Callable[[DeltaTable], object]) -> None:
    tables.enable_change_data(origin.path)
    version = origin.insert(1, 2)
    assert not feed_serves(origin, version - 1, version)
    act(DeltaTable(origin.path))
    assert not feed_serves(origin, version, version + 1)
    later = origin.update(2)
    assert feed_serves(origin, later - 1, later)
    assert not feed_serves(origin, version, later)


# --- while there is time -------------------------------------------------------------------------------------------------------------


def made(origin: Origin, at: pendulum.DateTime) -> int:
    info = {"timestamp": int(at.timestamp() * 1000)}
    return origin.write(None, info=info)


@pytest.mark.parametrize(("hours", "warned"), [(0, False), (WEEK // 2 - 1, False), (WEEK // 2, True), (WEEK + 1, True)])
def test_a_warning_from_half_of_the_retention_on(origin: Origin, hours: int, warned: bool) -> None:
    made(origin, MADE)
    version = made(origin, MADE.add(hours=hours))
    text = check(origin, 0, MADE.add(hours=hours))
    assert bool(text) == warned
    if warned:
        assert "version 1 waits" in text
        assert minute(MADE.add(hours=WEEK)) in text
    assert check(origin, version, MADE.add(years=1)) == ""


def test_a_shorter_retention(origin: Origin) -> None:
    tables.set_property(origin.path, FILES, "interval 10 hours")
    made(origin, MADE)
    assert check(origin, 1, MADE.add(hours=4)) == ""
    assert minute(MADE.add(hours=10)) in check(origin, 1, MADE.add(hours=5))


@pytest.mark.parametrize("said", [None, {"schemamig": {"action": "replica", "origin": "another"}}])
def test_gaps_what_is_not_to_be_brought_needs_no_warning(origin: Origin, said: Any) -> None:
    made(origin, MADE)
    if said is None:
        origin.rearrange()
    else:
        origin.write(said)
    assert check(origin, 1, MADE.add(years=1)) == ""


def test_drift_is_warned_of_as_well(origin: Origin) -> None:
    """A stream that is paused comes nearer to its gap."""
    made(origin, MADE)
    origin.commit({"metaData": {**tables.snapshot(origin.path).metadata, "schemaString": '{"type":"struct","fields":[]}'}})
    made(origin, MADE.add(hours=1))
    assert origin.found(1).drift is not None
    assert check(origin, 1, MADE.add(hours=WEEK // 2 + 1)) != ""
