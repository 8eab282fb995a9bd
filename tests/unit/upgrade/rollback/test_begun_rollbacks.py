"""A rollback that was begun and comes to nothing leaves no hold that is neither open nor over, and no table sealed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.rows import HoldState, ShardState
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.storage.errors import StorageUnreachable
from airflow_provider_schemamig.core.upgrade.rollback import rollback as rollback_module
from airflow_provider_schemamig.core.upgrade.rollback.errors import NothingToRollBack
from tests.support.lake import Crash, Lake, append, no_spark
from tests.support.tables import foreign
from tests.support.upgrades import deployed, expanded, make_holds_due, refused, releases, seen, two_releases, whole

OLD = "CREATE TABLE a (id BIGINT, x STRING); CREATE TABLE r (id BIGINT);"
NEW = "CREATE TABLE a (id BIGINT, y STRING); CREATE TABLE r (id STRING); CREATE TABLE n (id BIGINT);"
STACKED = (("", ""), (", a INT", 'evolution("t")'), (", a INT, b INT", 'evolution("t")'))
STEPS = 'evolution("a", rename={"x": "y"}), replacement("r")'
FORGETS = {"delta.setTransactionRetentionDuration": "interval 1 days"}
UNKNOWN = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["columnMapping"],
    "writerFeatures": ["appendOnly", "checkConstraints", "columnMapping", "notKnownYet"],
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """At 1.1.0, which can be rolled back."""
    found = two_releases(tmp_path, OLD, NEW, STEPS)
    found.upgrade(found.second)
    return found


def holds(lake: Lake) -> list[HoldState]:
    return [hold.state for _, hold in sorted(lake.state.holds.items())]


def as_it_was(lake: Lake) -> None:
    assert (lake.version, holds(lake)) == ("1.1.0", [HoldState.OPEN])
    assert [seen(lake, name)["sealed"] for name in "anr"] == [False, False, False]
    whole(lake)


def damage(table: Path, rows: list[dict[str, Any]]) -> None:
    """Rows come, a checkpoint, and one more row; a commit before the checkpoint is damaged, which no reader of the table notices."""
    for row in rows:
        append(table, [row])
    DeltaTable(str(table)).create_checkpoint()
    append(table, rows[:1])
    (table / "_delta_log" / f"{1:020}.json").write_text('{"add": {"path"')


def test_the_log_of_a_new_collection_that_is_damaged_counts_as_rows_that_came(lake: Lake) -> None:
    damage(lake.path("n"), [{"id": 1}, {"id": 2}])
    done = commands.rollback(lake.env)
    assert (lake.version, holds(lake)) == ("1.0.0", [HoldState.KEEPING])
    assert any(note.startswith("n: rows written since 1.1.0 stay in") for note in done.notes)
    whole(lake)


def test_one_of_a_replacement_asks_whether_rows_may_stay_behind(lake: Lake) -> None:
    damage(lake.path("r"), [{"id": "1"}, {"id": "2"}])
    with refused("lossy_rollback"):
        commands.rollback(lake.env)
    as_it_was(lake)
    commands.rollback(lake.env, allow_lossy=True)
    assert (lake.version, holds(lake)) == ("1.0.0", [HoldState.KEEPING])
    whole(lake)


@pytest.mark.parametrize("fails", ["rows_came", "warm_up"])
def test_a_failure_beside_the_seals_opens_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    """Before them, and when all tables have gone back and it is looked what stays behind."""
    same = OLD.partition(";")[0] + ";"
    found = two_releases(tmp_path, OLD, same + NEW.partition(";")[2], 'replacement("r")')
    found.upgrade(found.second)

    def fail(*_: object) -> None:
        raise StorageUnreachable(uri="s3://lake", reason="no answer")

    with monkeypatch.context() as patched:
        patched.setattr(rollback_module, fails, fail)
        with refused("storage_unreachable"):
            commands.rollback(found.env)
    as_it_was(found)
    commands.rollback(found.env)
    assert found.version == "1.0.0"
    whole(found)


def test_a_table_that_cannot_be_opened_again_refuses_it_before_anything(lake: Lake) -> None:
    (old,) = (shard for shard in lake.state.shards.values() if shard.state is ShardState.RETIRED)
    folder = lake.env.table_location(old.uri).local_path
    assert folder is not None
    foreign.commit(folder, {"protocol": UNKNOWN})
    with refused("unsupported_feature", "r"):
        commands.rollback(lake.env)
    as_it_was(lake)


def test_a_table_of_another_release_that_forgets_leaves_the_hold_open(tmp_path: Path) -> None:
    """It was fenced once, so its fence is looked for before any work."""
    both = "CREATE TABLE a (id BIGINT, x STRING); CREATE TABLE b (id BIGINT{});"
    third = both.format(", z INT").replace("x STRING", "y STRING")
    steps = 'evolution("a", rename={"x": "y"})'
    folders = releases(tmp_path, (both.format(""), ""), (both.format(", z INT"), 'evolution("b")'), (third, steps))
    found = deployed(tmp_path, folders[0], folders[1])
    expanded(found, found.second)
    found.upgrade(found.second, claim_id="another")
    make_holds_due(found)
    commands.contract(found.env)
    found.upgrade(folders[2])
    DeltaTable(str(found.path("b"))).alter.set_table_properties(FORGETS)
    with refused("drift", "b"):
        commands.rollback(found.env)
    assert (found.version, holds(found)) == ("1.2.0", [HoldState.CLOSED, HoldState.OPEN])
    commands.revert(found.env, "b")
    commands.rollback(found.env)
    assert found.version == "1.1.0"
    whole(found)


def rows_come(lake: Lake) -> None:
    append(lake.path("r"), [{"id": "1"}])


def old_table_goes(lake: Lake) -> None:
    (old,) = (shard for shard in lake.state.shards.values() if shard.state is ShardState.RETIRED)
    shutil.rmtree(lake.env.table_location(old.uri).local_path or Path())


@pytest.mark.parametrize(("meanwhile", "code"), [(rows_come, "lossy_rollback"), (old_table_goes, "old_table_missing")])
def test_killed_before_it_announced_anything_an_upgrade_takes_it_back(lake: Lake, meanwhile: Callable[[Lake], None], code: str) -> None:
    """The rollback is refused by now, and so were the end of the hold, ``alter`` and all else that waits for it."""

    def die(moment: str, what: str, key: str) -> None:
        if (moment, what) == ("after", "ledger"):
            raise Crash

    with pytest.raises(Crash):
        commands.rollback(replace(lake.env, on_write=die))
    meanwhile(lake)
    with refused(code, "r" if code == "old_table_missing" else None):
        commands.rollback(lake.env)
    assert holds(lake) == [HoldState.ROLLING_BACK]
    with refused("rollback_open"):
        commands.contract(lake.env, at_once=True)
    report = commands.plan(lake.env, lake.second)
    assert [stage.kind for stage in report.plan.stages] == ["settle", "commit"]
    lake.upgrade(lake.second)
    as_it_was(lake)
    commands.contract(lake.env, at_once=True)
    assert holds(lake) == [HoldState.CLOSED]
    assert lake.upgrade(lake.second).generation is None
    whole(lake)


def test_a_rollback_of_one_generation_goes_no_release_further(tmp_path: Path) -> None:
    """Two people who were shown the same preview both ask for it."""
    found = releases(tmp_path, *((f"CREATE TABLE t (id BIGINT{more});", steps) for more, steps in STACKED))
    lake = deployed(tmp_path, found[0], found[1])
    for folder in found[1:]:
        lake.upgrade(folder)
    newest = lake.state.leader.generation if lake.state.leader is not None else Generation(0)
    with refused("nothing_to_roll_back"):
        commands.rollback(lake.env, generation=Generation(newest - 1), jobs=no_spark)
    commands.rollback(lake.env, generation=newest, jobs=no_spark)
    again = commands.rollback(lake.env, generation=newest, jobs=no_spark)
    assert (lake.version, again.notes) == ("1.1.0", (f"generation {newest} was rolled back already",))
    with refused("unknown_generation"):
        commands.rollback(lake.env, generation=Generation(99), jobs=no_spark)
    commands.rollback(lake.env, jobs=no_spark)
    assert lake.version == "1.0.0"
    whole(lake)


@pytest.mark.parametrize("way", ["generation", "claim", "cancel", "neither"])
def test_a_rollback_that_died_before_its_clean_up_is_finished_when_it_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    lake = two_releases(tmp_path, OLD, NEW, STEPS)
    generation = expanded(lake, lake.second)

    def die(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(rollback_module, "remove_shards", die)
        with pytest.raises(Crash):
            commands.rollback(lake.env, claim_id="task", jobs=no_spark)
    command = f"`schemamig cancel --generation {generation}` deletes it"
    built = [shard for shard in lake.state.shards.values() if shard.state is ShardState.BUILDING]
    assert built
    assert [command in finding.text for finding in verify(LedgerReader(lake.env)) if finding.code == "orphan_shard"]
    if way == "cancel":
        commands.cancel(lake.env, generation)
    else:
        ways: dict[str, dict[str, Any]] = {"generation": {"generation": generation}, "claim": {"claim_id": "task"}}
        asked = ways.get(way, {})
        again = commands.rollback(lake.env, jobs=no_spark, **asked)
        assert [stage.kind for stage in again.stages] == ["cleanup"] * len(built)
        if asked:
            assert commands.rollback(lake.env, jobs=no_spark, **asked).stages == ()
        else:
            with pytest.raises(NothingToRollBack):
                commands.rollback(lake.env, jobs=no_spark)
    assert not [shard for shard in built if lake.env.store().exists(f"{shard.uri}/_delta_log/{0:020}.json")]
    assert lake.version == "1.0.0"
    whole(lake)
