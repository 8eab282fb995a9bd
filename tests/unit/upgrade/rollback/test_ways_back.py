"""Rolling back and contracting at the wrong moment, and seals that did not hold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import Hold, HoldState, ShardState
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.errors import CommitLost, RollbackOpen
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.rollback.errors import LossyRollback
from tests.support.lake import Crash, Lake, append, make_lake, no_spark, rows
from tests.support.product import Product


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """At 1.0.0."""
    made = make_lake(tmp_path)
    made.upgrade(made.first)
    return made


def hold_of(lake: Lake, generation: int) -> Hold:
    return lake.state.holds[Generation(generation)]


def test_a_renamed_collection_remembers_the_version_that_began_its_schema(tmp_path: Path) -> None:
    product = Product(tmp_path / "product")
    one = product.release("1.0.0", "CREATE TABLE a (x BIGINT, y STRING);")
    two = product.release("1.1.0", "CREATE TABLE b (z BIGINT, y STRING);", 'evolution("b", renamed_from="a", rename={"x": "z"})')
    lake = Lake(Environment.open(str(tmp_path / "lake")), one, two)
    lake.upgrade(one)
    append(lake.path("a"), [{"x": 1, "y": "u"}])
    lake.upgrade(two)
    (name,) = lake.state.objects
    assert lake.state.entry(name).since_table_version == 2


def test_contract_ends_the_hold_that_a_rolled_back_deployment_left(lake: Lake, tmp_path: Path) -> None:
    lake.upgrade(lake.second)
    third = Product(tmp_path / "third")
    third.release("1.0.0", (lake.first / "schema.sql").read_text())
    third.release("1.1.0", (lake.second / "schema.sql").read_text(), _steps(lake.second))
    folder = third.release("1.2.0", (lake.second / "schema.sql").read_text() + "CREATE TABLE more (id BIGINT);")
    checked = commands.preflight(lake.env, folder, jobs=no_spark)
    assert checked.generation is not None
    commands.promote(lake.env, checked.generation)
    commands.rollback(lake.env)
    assert hold_of(lake, 2).state is HoldState.OPEN
    commands.contract(lake.env, at_once=True)
    assert hold_of(lake, 2).state is HoldState.CLOSED
    assert [shard.collection for shard in lake.state.shards.values() if shard.state is ShardState.RETIRED] == []


def _steps(folder: Path) -> str:
    text = (folder / "migrations" / "v1_1_0.py").read_text()
    return text.partition("STEPS = [")[2].rpartition("]")[0]


def test_contract_waits_for_a_rollback_that_was_cut(lake: Lake) -> None:
    lake.upgrade(lake.second)
    with pytest.raises(Crash):
        commands.rollback(lake.crashing_at(3))
    with pytest.raises(RollbackOpen):
        commands.contract(lake.env, at_once=True)
    commands.rollback(lake.env)
    assert lake.version == "1.0.0"


def test_rows_that_come_in_while_a_rollback_begins_are_not_lost(lake: Lake) -> None:
    """The first look finds nothing; then somebody writes into the replacement, before it is sealed."""
    lake.upgrade(lake.second)
    written: list[str] = []

    def hook(moment: str, what: str, key: str) -> None:
        if not written and moment == "after" and what == "ledger":  # the epoch is raised
            written.append(key)
            append(lake.path("stats"), [{"origin": "JFK", "dest": "LAX", "flights": "3"}])

    with pytest.raises(LossyRollback):
        commands.rollback(replace(lake.env, on_write=hook))
    assert lake.version == "1.1.0"
    assert hold_of(lake, 2).state is HoldState.OPEN
    assert not list(lake.state.intents)
    append(lake.path("stats"), [{"origin": "JFK", "dest": "LAX", "flights": "4"}])
    assert len(rows(lake.path("stats"))) == 2
    commands.rollback(lake.env, allow_lossy=True)
    assert lake.version == "1.0.0"


def test_a_seal_that_was_overwritten_is_no_seal(lake: Lake) -> None:
    """Spark's store for local disks may replace a commit that was linked just before it renamed."""
    old = lake.path("stats")
    replaced: list[str] = []

    def hook(moment: str, what: str, key: str) -> None:
        path = old / key
        if moment == "after" and not replaced and what == "put_if_absent" and path.exists() and "moved_to" in path.read_text():
            replaced.append(key)
            new = path.with_suffix(".new")
            new.write_text(json.dumps({"commitInfo": {"timestamp": 1, "operation": "WRITE"}}) + "\n")
            new.replace(path)

    with pytest.raises(CommitLost):
        commands.upgrade(replace(lake.env, on_write=hook), lake.second, jobs=no_spark)
    assert lake.version == "1.0.0"
    lake.upgrade(lake.second)
    (shard,) = [s for s in lake.state.shards.values() if s.state is ShardState.RETIRED and s.collection == "stats"]
    assert read_head(table_store(lake.env, lake.state, shard.shard)).sealed_for is not None
