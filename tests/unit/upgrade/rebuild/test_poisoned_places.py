"""Rows of shards that somebody else wrote: whatever place they name, only a table that we made there for that shard is deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.rows import Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, Generation, ShardId
from airflow_provider_schemamig.core.storage import NotOurPlace
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.bytes import tree
from tests.support.lake import Lake, append, no_spark
from tests.support.upgrades import make_holds_due, two_releases

pytestmark = pytest.mark.some(10, of="poisoned places")

ONE = "CREATE TABLE t (id BIGINT); CREATE TABLE g (id BIGINT);"
TWO = "CREATE TABLE t (id BIGINT, n INT);"
REBUILT = "CREATE TABLE t (id BIGINT, n INT); CREATE TABLE g (name STRING);"

Poison = Callable[[Shard, Lake, Path], Shard]

#: What the row says of its table instead: each would be the end of somebody's files.
POISON: dict[str, Poison] = {
    "a folder elsewhere": lambda shard, lake, victim: replace(shard, uri=victim.as_uri()),
    "a path elsewhere": lambda shard, lake, victim: replace(shard, uri=str(victim)),
    "a way out": lambda shard, lake, victim: replace(shard, uri=f"../{victim.name}"),
    "the root": lambda shard, lake, victim: replace(shard, uri=lake.env.location.uri),
    "a collection's folder": lambda shard, lake, victim: replace(shard, uri="t"),
    "the ledger": lambda shard, lake, victim: replace(shard, uri="_schemamig/ledger"),
    "another table": lambda shard, lake, victim: replace(shard, uri=lake.state.shard_of(CollectionName("t")).uri),
    "another table in full": lambda shard, lake, victim: replace(shard, uri=str(lake.path("t"))),
}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Files beside the lake."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "precious").write_text("x")
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """What is in all files but the history's."""
    found = tree(folder)
    return {path: data for path, (data, _) in found.items() if data is not None and "_schemamig/history" not in path}


def the_one(state: State, wanted: ShardState) -> Shard:
    (found,) = (shard for shard in state.shards.values() if shard.state is wanted)
    return found


def poison(lake: Lake, victim: Path, wanted: ShardState, change: Poison) -> None:
    def decide(state: State) -> list[Update]:
        return [Put(change(the_one(state, wanted), lake, victim))]

    LedgerWriter(lake.env).transact(decide)


def codes(lake: Lake) -> set[str]:
    return {finding.code for finding in verify(LedgerReader(lake.env))}


@pytest.mark.parametrize("change", POISON.values(), ids=POISON.keys())
def test_contract_deletes_no_folder_that_we_did_not_make(tmp_path: Path, victim: Path, change: Poison) -> None:
    lake = two_releases(tmp_path, ONE, TWO, 'evolution("t"), removal("g")')
    lake.upgrade(lake.second)
    append(lake.path("t"), [{"id": 1, "n": 1}])
    make_holds_due(lake)
    poison(lake, victim, ShardState.RETIRED, change)
    before = files(tmp_path)
    with pytest.raises(SchemamigError) as caught:
        commands.contract(lake.env)
    assert caught.value.code in {"not_our_place", "invalid_location"}
    assert not caught.value.retryable
    assert files(tmp_path) == before, "it is refused before the hold is ended, too"
    assert codes(lake) & {"unusable_uri", "shared_uri"}


@pytest.mark.parametrize("change", POISON.values(), ids=POISON.keys())
def test_cancel_and_clean_up_delete_no_folder_that_we_did_not_make(tmp_path: Path, victim: Path, change: Poison) -> None:
    lake = two_releases(tmp_path, ONE, REBUILT, 'evolution("t"), replacement("g")')
    claimed = commands.preflight(lake.env, lake.second, jobs=no_spark, claim_id="given up")
    poison(lake, victim, ShardState.BUILDING, change)
    assert claimed.generation is not None
    kept = {path: data for path, data in files(tmp_path).items() if "/g/" in path or "victim" in path}
    with pytest.raises(SchemamigError) as caught:
        commands.cancel(lake.env, claimed.generation)
    assert caught.value.code in {"not_our_place", "invalid_location"}
    lake.upgrade(lake.second)
    found = files(tmp_path)
    assert {path: found.get(path) for path in kept} == kept


def test_a_table_with_rows_of_a_collection_is_not_deleted_by_a_row_that_calls_it_retired(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, ONE, TWO, 'evolution("t"), removal("g")')
    lake.upgrade(lake.second)
    make_holds_due(lake)
    live = lake.state.shard_of(CollectionName("t"))
    retired = the_one(lake.state, ShardState.RETIRED)
    LedgerWriter(lake.env).transact(lambda state: [Put(replace(live, state=ShardState.RETIRED, retired_by=retired.retired_by))])
    with pytest.raises(NotOurPlace, match="the rows of t are in it") as caught:
        commands.contract(lake.env)
    assert caught.value.collection == "t"
    assert lake.path("t").exists()


def test_a_table_that_another_one_lies_in_is_not_deleted(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, ONE, TWO, 'evolution("t"), removal("g")')
    lake.upgrade(lake.second)
    make_holds_due(lake)
    retired = the_one(lake.state, ShardState.RETIRED)
    inner = Shard(
        ShardId("a2-0123456789ab"), CollectionName("x"), f"{retired.uri}/inner", "id", Generation(2), ShardState.LIVE, adopted=True
    )
    LedgerWriter(lake.env).transact(lambda state: [Put(inner)])
    with pytest.raises(NotOurPlace, match="the table of shard a2-0123456789ab is in it"):
        commands.contract(lake.env)
    LedgerWriter(lake.env).transact(lambda state: [Put(replace(inner, uri=f"{retired.uri}0/inner"))])
    commands.contract(lake.env)
    assert not (tmp_path / "lake" / retired.uri).exists()


def test_poisoned_places_what_is_mended_by_hand_is_deleted(tmp_path: Path, victim: Path) -> None:
    lake = two_releases(tmp_path, ONE, TWO, 'evolution("t"), removal("g")')
    lake.upgrade(lake.second)
    make_holds_due(lake)
    was = the_one(lake.state, ShardState.RETIRED)
    poison(lake, victim, ShardState.RETIRED, POISON["a folder elsewhere"])
    with pytest.raises(NotOurPlace):
        commands.contract(lake.env)
    LedgerWriter(lake.env).transact(lambda state: [Put(was)])
    commands.contract(lake.env)
    assert not (tmp_path / "lake" / was.uri).exists()
    assert (victim / "precious").exists()


def test_a_table_behind_a_link_ends_no_hold(tmp_path: Path) -> None:
    """Its folder was moved to another disk: what cannot be deleted is told before anything goes, and the way back stays open."""
    lake = two_releases(tmp_path, ONE, REBUILT, 'evolution("t"), replacement("g")')
    lake.upgrade(lake.first)
    path = lake.path("g")
    path.rename(tmp_path / "other disk")
    path.symlink_to(tmp_path / "other disk")
    append(path, [{"id": 1}])
    lake.upgrade(lake.second)
    make_holds_due(lake)
    before = files(tmp_path)
    with pytest.raises(NotOurPlace, match="where the link is"):
        commands.contract(lake.env)
    assert files(tmp_path) == before
    commands.rollback(lake.env, allow_lossy=True)
    assert lake.env.reader("g").arrow().to_pylist() == [{"id": 1}]
