"""The rows of docs/safety.md, "The way back", that are about whole collections, and what a rollback would lose."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.commit.seal import seal_name
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.ledger.rows import HoldState, ShardState
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.rollback.errors import LossyRollback
from tests.support.bytes import unwritten
from tests.support.lake import Lake, rows
from tests.support.tables import foreign
from tests.support.upgrades import deployed, fingerprints, heartbeat, promoted, refused, releases, same_as_new, seen, two_releases, whole

A = "CREATE TABLE a (id BIGINT);"
B = "CREATE TABLE b (id BIGINT);"
ONE, TWO = {"id": 1}, {"id": 2}


def back(lake: Lake, folder: Path) -> None:
    """To the release before, whole; what is left behind is sealed."""
    commands.rollback(lake.env)
    assert lake.version == "1.0.0"
    same_as_new(lake, lake.first, folder / "fresh-1")
    sealed_if_retired(lake)
    whole(lake)
    assert commands.plan(lake.env, lake.first).exit_code == 0, "at the release it says it is at"


def sealed_if_retired(lake: Lake) -> None:
    state = lake.state
    for shard in state.shards.values():
        sealed = read_head(table_store(lake.env, state, shard.shard)).sealed_for
        assert sealed == (seal_name(shard.successor) if shard.state is ShardState.RETIRED else None), shard


def test_rollback_collections_created(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, A + B, "")
    lake.upgrade(lake.second)
    foreign.write(lake.path("b"), [ONE])
    left = lake.path("b")
    back(lake, tmp_path)
    assert sorted(lake.state.objects) == ["a"]
    assert rows(left) == [ONE], "its shard stays, with its rows"
    lake.upgrade(lake.second)
    assert rows(lake.path("b")) == [], "the second upgrade makes its own"
    whole(lake)
    same_as_new(lake, lake.second, tmp_path / "fresh-2")


def test_rollback_collections_removed(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A + B, A, 'removal("b")')
    foreign.write(lake.path("b"), [ONE])
    lake.upgrade(lake.second)
    assert sorted(lake.state.objects) == ["a"]
    back(lake, tmp_path)
    assert rows(lake.path("b")) == [ONE]
    lake.upgrade(lake.second, hold=timedelta(0))
    assert sorted(lake.state.objects) == ["a"]
    whole(lake)


def test_rollback_collections_replaced(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A + B, A + "CREATE TABLE b (id BINARY);", 'replacement("b")')
    foreign.write(lake.path("b"), [ONE])
    lake.upgrade(lake.second)
    assert rows(lake.path("b")) == []
    back(lake, tmp_path)
    assert rows(lake.path("b")) == [ONE]
    lake.upgrade(lake.second)
    assert rows(lake.path("b")) == []
    whole(lake)


def test_rollback_collections_renamed(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, "CREATE TABLE b (id BIGINT, x STRING);", 'evolution("b", renamed_from="a")')
    foreign.write(lake.path("a"), [ONE])
    folder = lake.path("a")
    lake.upgrade(lake.second)
    assert lake.path("b") == folder
    foreign.write(lake.path("b"), [{"id": 2, "x": "y"}])
    back(lake, tmp_path)
    assert rows(lake.path("a"), "id") == [ONE, TWO]
    assert seen(lake, "a")["hidden"] == ["x"]
    lake.upgrade(lake.second)
    assert rows(lake.path("b"), "id", "x") == [{"id": 1, "x": None}, {"id": 2, "x": "y"}]
    whole(lake)
    lake.upgrade(lake.second, hold=timedelta(0))
    same_as_new(lake, lake.second, tmp_path / "fresh-2")


def test_renamed_step_by_step_and_back(tmp_path: Path) -> None:
    """Every rollback finds the schema before, whatever the collection was called on the way."""
    lake = two_releases(tmp_path, A, "CREATE TABLE b (id BIGINT, x STRING);", 'evolution("b", renamed_from="a")')
    for _ in range(3):
        lake.upgrade(lake.second)
        back(lake, tmp_path)
    assert seen(lake, "a")["schema_id"] == 4, "ids are never used again"


def test_renamed_and_then_replaced(tmp_path: Path) -> None:
    """Two releases in one: all in all, a is removed and b is created."""
    found = releases(tmp_path, (A, ""), (B, 'evolution("b", renamed_from="a")'), ("CREATE TABLE b (id DATE);", 'replacement("b")'))
    lake = deployed(tmp_path, found[0], found[-1])
    foreign.write(lake.path("a"), [ONE])
    lake.upgrade(lake.second)
    assert sorted(lake.state.objects) == ["b"]
    back(lake, tmp_path)
    assert rows(lake.path("a")) == [ONE]


# --- rows that would be lost ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def replaced(tmp_path: Path) -> Lake:
    lake = two_releases(tmp_path, A + B, A + "CREATE TABLE b (id STRING);", 'replacement("b")')
    foreign.write(lake.path("b"), [ONE])
    lake.upgrade(lake.second)
    return lake


def test_rows_that_came_into_a_replacement_are_not_given_up_unasked(replaced: Lake) -> None:
    foreign.write(replaced.path("b"), [{"id": "new"}])
    before = replaced.state.version
    with refused("lossy_rollback") as found:
        commands.rollback(replaced.env)
    assert isinstance(found[0], LossyRollback)
    assert found[0].losses[0].startswith("b: rows written into")
    assert replaced.state.version == before
    commands.rollback(replaced.env, allow_lossy=True)
    assert rows(replaced.path("b")) == [ONE]
    whole(replaced)


def test_metadata_alone_is_no_loss(replaced: Lake) -> None:
    foreign.set_property(replaced.path("b"), "owned_by", "me")
    commands.rollback(replaced.env)
    assert rows(replaced.path("b")) == [ONE]


def test_rows_in_a_table_that_evolved_are_kept_and_so_no_loss(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, "CREATE TABLE a (id BIGINT, x STRING);", 'evolution("a")')
    lake.upgrade(lake.second)
    foreign.write(lake.path("a"), [{"id": 1, "x": "y"}])
    commands.rollback(lake.env)
    assert rows(lake.path("a"), "id") == [ONE]


# --- nothing to roll back ------------------------------------------------------------------------------------------------------------


def test_rollback_collections_nothing_was_ever_promoted(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, A + B, "")
    fresh = Lake(lake.env.open(str(tmp_path / "fresh")), lake.first, lake.second)
    with refused("no_environment"):
        commands.rollback(fresh.env)
    commands.preflight(fresh.env, fresh.first, jobs=lambda: pytest.fail("no Spark"), create=True)
    with refused("nothing_to_roll_back") as found:
        commands.rollback(fresh.env)
    assert "nothing was ever promoted" in found[0].message


def test_the_first_release(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, A + B, "")
    with refused("nothing_to_roll_back") as found:
        commands.rollback(lake.env)
    assert "1.0.0 is the environment's first release" in found[0].message


def test_the_hold_is_over(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, A + B, "")
    lake.upgrade(lake.second, hold=timedelta(0))
    with refused("nothing_to_roll_back") as found:
        commands.rollback(lake.env)
    assert found[0].message.endswith(": the hold of 1.1.0 is over.")


def test_a_generation_that_is_asked_for_is_the_one_that_the_refusal_is_about(tmp_path: Path) -> None:
    first, second, third = releases(tmp_path, (A, ""), (A + B, ""), (A + B + "CREATE TABLE c (id BIGINT);", ""))
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second, hold=timedelta(0))
    lake.upgrade(third)
    for _ in range(2):  # with a later hold open, and after that went back
        with unwritten(lake.env), refused("nothing_to_roll_back") as found:
            commands.rollback(lake.env, generation=Generation(2))
        assert found[0].message.endswith(": the hold of generation 2, 1.1.0, is over.")
        commands.rollback(lake.env, generation=Generation(3))


def test_the_hold_is_over_and_its_contract_was_killed(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, A + B, "")
    lake.upgrade(lake.second)
    hold = lake.state.holds[Generation(2)]
    LedgerWriter(lake.env).transact(lambda state: [Put(replace(hold, state=HoldState.CONTRACTING))])
    with refused("nothing_to_roll_back") as found:
        commands.rollback(lake.env)
    assert found[0].message.endswith(": the hold of 1.1.0 is over, and contract has begun.")


def test_rolled_back_already(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, A + B, "")
    lake.upgrade(lake.second)
    commands.rollback(lake.env)
    with refused("nothing_to_roll_back") as found:
        commands.rollback(lake.env)
    assert "generation 2 is rolled_back already" in found[0].message


def test_a_hold_that_is_due_is_still_a_way_back_until_contract_begins(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, A, A + B, "")
    heartbeat(lake.env, "1.0.0")
    lake.upgrade(lake.second, hold=timedelta(0))
    assert (lake.version, lake.state.holds[Generation(2)].state) == ("1.1.0", HoldState.OPEN)
    commands.rollback(lake.env)
    assert lake.version == "1.0.0"


def test_a_promoted_attempt_is_rolled_back_first_and_then_the_release_before(tmp_path: Path) -> None:
    first, second, third = releases(tmp_path, (A, ""), (A + B, ""), (A + B + "CREATE TABLE c (id BIGINT);", ""))
    lake = deployed(tmp_path, first, second)
    before = fingerprints(lake)
    lake.upgrade(second)
    promoted(lake, third)
    assert commands.rollback(lake.env).generation == 3
    assert lake.version == "1.1.0"
    assert commands.rollback(lake.env).generation == 2
    assert lake.version == "1.0.0"
    assert fingerprints(lake) == before
    whole(lake)
