"""A ledger that was brought back gives out no generation and no epoch that the lost history may have given out: one leads, not two."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

import pendulum
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import EPOCH_STRIDE, Fence, Fenced, put_fence, read_fence
from airflow_provider_schemamig.core.ledger.admin.backup import RestoredLedger, backup, restore
from airflow_provider_schemamig.core.ledger.admin.maintenance import compact
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.admin.verify_tables import verify_tables
from airflow_provider_schemamig.core.ledger.errors import LedgerConflict, LedgerDamaged, NumbersExhausted
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.leadership import Leadership
from airflow_provider_schemamig.core.ledger.numbers import HIGHEST_EPOCH, MARGIN, next_epoch, next_generation
from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put
from airflow_provider_schemamig.core.ledger.table import LedgerTable
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.core.upgrade.errors import WrongState
from tests.support.bytes import tree
from tests.support.lake import Lake, no_spark
from tests.support.upgrades import promoted, releases, two_releases
from tests.unit.ledger.samples import elsewhere

ONE = "CREATE TABLE t (id BIGINT); CREATE TABLE u (id BIGINT);"
WITH_X = "CREATE TABLE t (id BIGINT, x INT); CREATE TABLE u (id BIGINT);"
WITH_Y = "CREATE TABLE t (id BIGINT); CREATE TABLE u (id BIGINT, y STRING);"
T = CollectionName("t")


@dataclass(frozen=True)
class Scene:
    """A lake at 1.0.0 with a backup; ``other``: another release 1.1.0 than the lake's second."""

    lake: Lake
    other: Path
    folder: Path

    def lose(self) -> None:
        shutil.move(self.folder / "lake" / "_schemamig" / "ledger", self.folder / "lost")

    def restore(self) -> RestoredLedger:
        return restore(elsewhere(self.lake.env), str(self.folder / "backup"))

    def table(self) -> Store:
        return self.lake.env.table_store(self.lake.state.shard_of(T).uri)

    def fence(self) -> Fence:
        state = self.lake.state
        return Fence(state.config.env_id, state.shard_of(T).shard, Epoch(1))

    def columns(self) -> list[str]:
        (found,) = (item for name, item in commands.status(elsewhere(self.lake.env)).to_json()["collections"].items() if name == T)
        return [column["name"] for column in found["physical"]]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    lake = two_releases(tmp_path, ONE, WITH_X, 'evolution("t")')
    other = releases(tmp_path / "other", (ONE, ""), (WITH_Y, 'evolution("u")'))[1]
    backup(lake.env, str(tmp_path / "backup"))
    return Scene(lake, other, tmp_path)


def test_a_leader_of_the_lost_history_leads_no_more(scene: Scene) -> None:
    """It promoted after the backup, and lives on; the next leader has another plan."""
    lake = scene.lake
    lost = promoted(lake, lake.second, claim_id="A")
    state = lake.state
    scene.lose()
    done = scene.restore()
    again = elsewhere(lake.env)
    checked = commands.preflight(again, scene.other, jobs=no_spark, claim_id="B")
    assert checked.generation is not None
    assert checked.generation > lost + MARGIN
    commands.promote(again, checked.generation)
    commands.expand(again, checked.generation)
    assert state.leader is not None
    with pytest.raises(Fenced):
        LedgerWriter(lake.env).transact(lambda _: [], Leadership(state.leader.generation, state.leader.epoch))
    commands.cutover(again, checked.generation)
    assert scene.columns() == ["id"], "what the lost leader planned is on no table"
    found = LedgerReader(again).state()
    assert found.leader is not None
    assert found.leader.epoch > done.epoch
    assert verify(LedgerReader(again)) == verify_tables(LedgerReader(again)) == ()
    assert commands.status(again).drifted == ()


@pytest.mark.some(6)
@pytest.mark.parametrize("one_thread", [True, False])
@pytest.mark.parametrize("since", [0, 1, 3])
@pytest.mark.parametrize("lost", [1, 2, 3, 4])
def test_a_process_that_knows_the_lost_history_appends_nothing_to_the_restored_one(
    scene: Scene, lost: int, since: int, one_thread: bool
) -> None:
    """However long the lost history was, and the new one is: also where the ledger has just the version that the process knows."""
    lake = scene.lake
    for number in range(lost):
        LedgerWriter(lake.env).transact(lambda state, number=number: [Put(Control(f"c{number}", paused=True))])  # type: ignore[misc]
    state = lake.state
    assert state.leader is not None
    authority = Leadership(state.leader.generation, state.leader.epoch)

    def bring_back() -> None:
        scene.lose()
        scene.restore()
        for number in range(since):
            LedgerWriter(elsewhere(lake.env)).transact(lambda state: [Put(Control(f"n{number}", paused=True))])  # noqa: B023 - called right here

    # As another process would, or where this one has looked at the new ledger since: readers of one environment share what it has open.
    thread = threading.Thread(target=bring_back)
    if one_thread:
        bring_back()
    else:
        thread.start()
        thread.join()
    restored = tree(scene.folder / "lake" / "_schemamig" / "ledger")
    with pytest.raises((LedgerConflict, LedgerDamaged)):
        LedgerWriter(lake.env).compare_and_append(state, [Put(Control("late"))], authority)
    with pytest.raises(Fenced):
        LedgerWriter(lake.env).transact(lambda state: [Put(Control("late"))], authority)
    assert tree(scene.folder / "lake" / "_schemamig" / "ledger") == restored


@pytest.mark.parametrize("since", [0, 8])
def test_a_checkpoint_of_the_lost_history_is_not_put_into_the_restored_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, since: int
) -> None:
    """A process stood still between the rewrite of the ledger and its checkpoint, which would stand for a history that is gone."""
    for number in range(3):
        LedgerWriter(scene.lake.env).transact(lambda state, number=number: [Put(Control(f"c{number}", paused=True))])  # type: ignore[misc]
    checkpoint = LedgerTable.checkpoint

    def stood_still(table: LedgerTable) -> None:
        scene.lose()
        scene.restore()
        for number in range(since):
            LedgerWriter(elsewhere(scene.lake.env)).transact(lambda state: [Put(Control(f"n{number}"))])  # noqa: B023 - called right here
        checkpoint(table)

    monkeypatch.setattr(LedgerTable, "checkpoint", stood_still)
    with pytest.raises(LedgerDamaged):
        compact(LedgerWriter(scene.lake.env))
    restored = elsewhere(scene.lake.env)
    assert "c0" not in LedgerReader(restored).state().controls
    assert verify(LedgerReader(restored)) == ()


def test_the_next_leader_fences_every_table_before_any_work(scene: Scene) -> None:
    """A Spark statement of the lost history carries a transaction number of its epoch, and the restored ledger knows no intent of it."""
    scene.lose()
    done = scene.restore()
    generation = promoted(scene.lake, scene.other)  # it changes u, not t
    commands.expand(scene.lake.env, generation)
    found = read_fence(scene.table(), scene.fence().app_id)
    assert found is not None
    assert found >= done.epoch * EPOCH_STRIDE


def test_the_numbers_are_above_all_that_is_left_of_what_was(scene: Scene) -> None:
    put_fence(scene.table(), Fence(scene.fence().env_id, scene.fence().shard, Epoch(500)), Tag(Generation(3), Epoch(500), "fence"))
    scene.lake.env.store().put("_schemamig/reports/700.json", b"{}")
    append_history(scene.lake.env, HistoryEntry.ended("promote", pendulum.now("UTC"), generation=600))
    (scene.folder / "lake" / "t" / "g800-0123456789ab" / "_delta_log").mkdir(parents=True)
    scene.lose()
    done = scene.restore()
    assert (done.generation, done.epoch) == (800 + MARGIN, 500 + MARGIN)
    state = scene.lake.state
    assert (next_generation(state), next_epoch(state)) == (801 + MARGIN, 501 + MARGIN)
    assert "fence_ahead" not in {finding.code for finding in verify_tables(LedgerReader(scene.lake.env))}
    scene.lake.upgrade(scene.lake.second)
    assert scene.columns() == ["id", "x"]


def test_restored_twice_they_are_raised_twice(scene: Scene) -> None:
    scene.lose()
    first = scene.restore()
    backup(scene.lake.env, str(scene.folder / "second"))
    shutil.rmtree(scene.folder / "lake" / "_schemamig" / "ledger")
    second = restore(elsewhere(scene.lake.env), str(scene.folder / "second"))
    assert (second.generation, second.epoch) == (first.generation + MARGIN, first.epoch + MARGIN)


def test_restored_numbers_there_has_to_be_room_above(scene: Scene) -> None:
    """A transaction version is a signed 64-bit number."""
    assert HIGHEST_EPOCH * EPOCH_STRIDE < 2**63
    high = Epoch(HIGHEST_EPOCH - MARGIN)
    put_fence(scene.table(), Fence(scene.fence().env_id, scene.fence().shard, high), Tag(Generation(3), high, "fence"))
    scene.lose()
    before = tree(scene.folder)
    with pytest.raises(NumbersExhausted, match=str(high)):
        scene.restore()
    assert tree(scene.folder) == before


def test_what_a_restored_deployment_began_goes_on(scene: Scene, tmp_path: Path) -> None:
    """The backup is of the middle of an upgrade: whoever leads it takes the new epoch from the ledger."""
    lake = scene.lake
    generation = promoted(lake, lake.second)
    commands.expand(lake.env, generation)
    backup(lake.env, str(tmp_path / "middle"))
    scene.lose()
    restore(elsewhere(lake.env), str(tmp_path / "middle"))
    again = elsewhere(lake.env)
    with pytest.raises(WrongState, match="is not expanded"):
        commands.cutover(again, generation)
    commands.expand(again, generation)
    commands.cutover(again, generation)
    assert scene.columns() == ["id", "x"]
    commands.rollback(again)
    assert commands.status(again).drifted == ()
    assert verify(LedgerReader(again)) == ()
