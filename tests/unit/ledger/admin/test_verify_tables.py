"""Tables, folders and plans that the ledger names, and those it does not."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.admin.verify_tables import verify_tables
from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.objects.plan_store import write_plan
from airflow_provider_schemamig.core.ledger.rows import DeploymentState, Hold, HoldState, Leader, ShardState
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation, ShardId, Version
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.drift.accept import accept
from airflow_provider_schemamig.core.upgrade.drift.errors import SealedByLostHistory
from airflow_provider_schemamig.core.upgrade.drift.revert import revert
from airflow_provider_schemamig.core.upgrade.drift.unmanage import unmanage
from tests.support.bytes import tree
from tests.support.lake import Lake
from tests.support.upgrades import two_releases
from tests.unit.ledger.samples import NOW, append_raw, deployment

FIRST = "CREATE TABLE flights (id BIGINT);\nCREATE TABLE planes (id BIGINT);"
SECOND = "CREATE TABLE flights (id BIGINT, gate STRING);\nCREATE TABLE planes (id BIGINT);\nCREATE TABLE gates (id BIGINT);"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return two_releases(tmp_path, FIRST, SECOND, 'evolution("flights")')


def codes(env: EnvironmentRoot) -> list[tuple[str, str]]:
    return [(finding.code, finding.where) for finding in verify_tables(LedgerReader(env))]


def root(lake: Lake) -> Path:
    assert lake.env.location.local_path is not None
    return lake.env.location.local_path


def shard_of(lake: Lake, name: str) -> ShardId:
    return lake.state.objects[CollectionName(name)].shard


def test_a_lake_in_order_has_no_finding_and_no_byte_changes(lake: Lake, tmp_path: Path) -> None:
    before = tree(tmp_path)
    assert codes(lake.env) == []
    assert tree(tmp_path) == before
    lake.upgrade(lake.second)
    assert codes(lake.env) == []
    commands.rollback(lake.env)
    assert codes(lake.env) == []
    assert verify(LedgerReader(lake.env)) == ()


def test_a_missing_table(lake: Lake) -> None:
    shutil.rmtree(root(lake) / "flights")
    assert codes(lake.env) == [("table_missing", f'shards "{shard_of(lake, "flights")}"')]


def test_a_retired_shard_may_be_gone_already(lake: Lake) -> None:
    shard = shard_of(lake, "flights")
    shutil.rmtree(root(lake) / "flights")
    LedgerWriter(lake.env).transact(lambda state: [Put(replace(state.shards[shard], state=ShardState.RETIRED))])
    assert codes(lake.env) == []


def test_a_ledger_older_than_its_tables(lake: Lake) -> None:
    from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
    from airflow_provider_schemamig.core.delta.commit.fence import put_fence
    from airflow_provider_schemamig.core.upgrade.plan.live_tables import fence_of, table_store

    shard = shard_of(lake, "planes")
    put_fence(table_store(lake.env, lake.state, shard), fence_of(lake.state, shard, Epoch(7)), Tag(Generation(9), Epoch(7), "fence"))
    (found,) = verify_tables(LedgerReader(lake.env))
    assert (found.code, found.where, found.text) == (
        "fence_ahead",
        'leader "leader"',
        "epoch 1, and a table was fenced by epoch 7 already",
    )
    LedgerWriter(lake.env).transact(lambda state: [Put(Leader(Generation(1), Epoch(7), NOW))])
    assert codes(lake.env) == []


def test_a_seal_that_the_ledger_knows_nothing_of(lake: Lake, tmp_path: Path) -> None:
    """As after a restore to before a cut-over: nobody would lift it, and no other command says that it is there."""
    from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
    from airflow_provider_schemamig.core.delta.commit.seal import seal
    from airflow_provider_schemamig.core.delta.log.head import read_head
    from airflow_provider_schemamig.core.upgrade.plan.live_tables import fence_of, table_store

    shard = shard_of(lake, "planes")
    store = table_store(lake.env, lake.state, shard)
    tag = Tag(Generation(1), Epoch(1), "seal")
    head = read_head(store)
    seal(store, head, ShardId("g7-0123456789ab"), fence_of(lake.state, shard, Epoch(1)), tag, since=head.version)
    (found,) = verify_tables(LedgerReader(lake.env))
    assert (found.code, found.where) == ("seal_unknown", f'shards "{shard}"')
    assert "g7-0123456789ab" in found.text and "DROP CONSTRAINT" in found.next_action
    for told in (lambda: revert(lake.env, "planes"), lambda: accept(lake.env, lake.first, ["planes"])):
        with pytest.raises(SealedByLostHistory) as caught:
            told()
        assert found.next_action in caught.value.next_action


def test_folders_that_no_row_names(lake: Lake) -> None:
    shard = shard_of(lake, "planes")
    shutil.copytree(root(lake) / "planes" / shard, root(lake) / "planes" / "g7-0123456789ab")
    shutil.copytree(root(lake) / "planes" / shard, root(lake) / "planes" / "by_hand")
    (root(lake) / "planes" / "g8-0123456789ab").mkdir()
    shutil.copytree(root(lake) / "planes" / shard, root(lake) / "_schemamig" / "scratch" / "g7-0123456789ab")
    assert codes(lake.env) == [("orphan_folder", "planes/g7-0123456789ab")]


def test_a_table_that_was_given_back_is_no_orphan(lake: Lake) -> None:
    unmanage(lake.env, "planes")
    assert codes(lake.env) == []
    assert verify(LedgerReader(lake.env)) == ()
    assert (root(lake) / "planes").exists()


@pytest.mark.parametrize("state", [DeploymentState.CLAIMED, DeploymentState.PROMOTED])
def test_a_plan_that_is_gone(lake: Lake, state: DeploymentState) -> None:
    writer = LedgerWriter(lake.env)
    writer.transact(lambda _: [Put(replace(deployment(7), state=state))])
    assert codes(lake.env) == [("plan_missing", 'deploys "7"')]
    plan = write_plan(lake.env, canonical({"stages": []}))
    writer.transact(lambda _: [Put(replace(deployment(7), state=state, plan_digest=plan))])
    assert codes(lake.env) == []
    (root(lake) / "_schemamig" / "plans" / f"{plan}.json").write_text("{}")
    assert codes(lake.env) == [("plan_missing", 'deploys "7"')]


def test_a_plan_is_needed_until_the_hold_is_over(lake: Lake) -> None:
    committed = replace(deployment(7), state=DeploymentState.COMMITTED)
    hold = Hold(Generation(7), Version(1, 0, 0), Version(1, 1, 0), NOW, HoldState.OPEN)
    LedgerWriter(lake.env).transact(lambda _: [Put(committed), Put(hold)])
    assert codes(lake.env) == [("plan_missing", 'deploys "7"')]
    LedgerWriter(lake.env).transact(lambda _: [Put(replace(hold, state=HoldState.CLOSED))])
    assert codes(lake.env) == []


def test_verify_tables_what_changes_meanwhile_is_looked_at_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table deleted between reading the ledger and looking at the table, by somebody who then takes its row away."""
    shard = shard_of(lake, "flights")
    reader, pending = LedgerReader(lake.env), [True]
    read = reader.state

    def delete(at: int | None = None) -> object:
        state = read(at)
        if pending:
            pending.pop()
            shutil.rmtree(root(lake) / "flights")
            LedgerWriter(lake.env).transact(lambda now: [Put(replace(now.shards[shard], state=ShardState.RETIRED))])
        return state

    monkeypatch.setattr(reader, "state", delete)
    assert verify_tables(reader) == ()


def test_where_rows_cannot_be_read_the_rest_is_left_to_verify(lake: Lake) -> None:
    append_raw(lake.env, RawRow("shards", '"x"', "{", lake.state.version + 1, 1))
    assert codes(lake.env) == []
    assert [finding.code for finding in verify(LedgerReader(lake.env))] == ["unreadable_row"]
