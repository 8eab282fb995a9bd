"""Twins, and leaders whose time is over: two processes of one generation at once, a second generation in the middle, zombies."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.commit.commit import commit_changes
from airflow_provider_schemamig.core.delta.commit.fence import Fenced
from airflow_provider_schemamig.core.delta.commit.seal import seal, unseal
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.ledger.rows import ShardState
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.progress import Event, silent
from airflow_provider_schemamig.core.storage import LocalStore, WriteReceipt
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter, lead, plan_of
from airflow_provider_schemamig.core.upgrade.context.pausing import always
from airflow_provider_schemamig.core.upgrade.errors import PlanChanged
from airflow_provider_schemamig.core.upgrade.execute.cleanup import clean_up
from airflow_provider_schemamig.core.upgrade.execute.contract import contract_hold, end_holds
from airflow_provider_schemamig.core.upgrade.execute.executors import CUT_OVER, EXPAND, run_stages
from airflow_provider_schemamig.core.upgrade.execute.expand import expand_transition
from airflow_provider_schemamig.core.upgrade.execute.recovery import settle
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import open_holds
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.plan.stages import Contract, CutOver, Expand, Seal
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from airflow_provider_schemamig.exceptions import Conflict, SchemamigError
from tests.support.bytes import unwritten
from tests.support.lake import Crash, Lake, append, make_lake, no_spark, rows
from tests.support.tables import foreign
from tests.support.upgrades import claimed, deployed, expanded, make_holds_due, promoted, refused, releases, same_as_new, whole

pytestmark = pytest.mark.some(4, of="take-overs")

SECOND = Generation(2)
FLIGHT = {"id": 1, "dep_delay": 5, "hour": 9, "origin": {"code": "JFK", "name": "Kennedy"}}
FLIGHTS = CollectionName("flights")
ONE, TWO, THREE = (f"CREATE TABLE t (id BIGINT{more});" for more in ("", ", x STRING", ", x STRING, y STRING"))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """At 1.0.0, with rows, of two releases that hold every kind of step."""
    found = make_lake(tmp_path)
    found.upgrade(found.first)
    append(found.path("flights"), [FLIGHT])
    append(found.path("stats"), [{"origin": "JFK", "flights": 3}])
    return found


def at_target(lake: Lake, folder: Path) -> None:
    assert lake.version == "1.1.0"
    assert rows(lake.path("flights"), "id", "departure_delay") == [{"id": 1, "departure_delay": 5}]
    for shard in lake.state.shards.values():
        sealed = read_head(table_store(lake.env, lake.state, shard.shard)).sealed_for
        assert (sealed is not None) == (shard.state is ShardState.RETIRED), shard
    same_as_new(lake, lake.second, folder / "fresh")
    whole(lake)


# --- twins ---------------------------------------------------------------------------------------------------------------------------


def at_once(work: Callable[[], object], times: int = 2) -> list[object]:
    """Run ``work`` in several threads that start together, each again while it meets a conflict, as Airflow would."""
    barrier = threading.Barrier(times)

    def one() -> object:
        barrier.wait()
        for _ in range(20):
            with contextlib.suppress(Conflict):
                return work()
        raise AssertionError("it meets one conflict after the other")

    with ThreadPoolExecutor(times) as pool:
        return [future.result() for future in [pool.submit(one) for _ in range(times)]]


def test_twins_run_every_verb_at_once(lake: Lake, tmp_path: Path) -> None:
    generations = at_once(lambda: claimed(lake, lake.second, claim_id="run-1"))
    assert generations == [SECOND, SECOND]
    assert len(lake.state.replacements) == 1
    for verb in (commands.promote, commands.expand, commands.cutover, commands.cleanup):
        at_once(lambda verb=verb: verb(lake.env, SECOND))  # type: ignore[misc]
    at_target(lake, tmp_path)
    assert len(list(lake.path("flights").glob("_delta_log/*.json"))) == 4, "created, written, expanded, cut over"
    at_once(lambda: commands.contract(lake.env, at_once=True))
    at_target(lake, tmp_path / "contracted")


def test_twins_of_a_whole_upgrade(lake: Lake, tmp_path: Path) -> None:
    at_once(lambda: lake.upgrade(lake.second, claim_id="run-1"), times=3)
    assert sorted(lake.state.deployments) == [1, 2]
    at_target(lake, tmp_path)


@pytest.mark.parametrize("claim_id", ["run-1", None])
def test_an_upgrade_that_is_overtaken_before_its_claim_has_nothing_to_do(lake: Lake, tmp_path: Path, claim_id: str | None) -> None:
    """The other one commits between the plan and the claim: it claimed a generation whose plan began where nobody was any more."""
    moments: list[str] = []

    def overtaken(moment: str, what: str, key: str) -> None:
        if "/plans/" in key and not moments:
            moments.append(moment)
            lake.upgrade(lake.second, claim_id=claim_id)

    outcome = commands.upgrade(replace(lake.env, on_write=overtaken), lake.second, jobs=no_spark, claim_id=claim_id)
    assert moments and outcome.generation is None
    assert sorted(lake.state.deployments) == [1, 2]
    at_target(lake, tmp_path)


def test_writers_do_not_wait_behind_a_dead_seal_for_another_table_that_drifted(lake: Lake) -> None:
    sealed, died = [lake.path("stats"), lake.path("legacy")], False

    def dies_once_both_are_sealed(moment: str, what: str, key: str) -> None:
        nonlocal died
        died = died or all(seal_of(path) is not None for path in sealed)
        if died:
            raise Crash(f"{moment} {what} {key}")

    generation = expanded(lake, lake.second)
    with pytest.raises(Crash):
        commands.cutover(replace(lake.env, on_write=dies_once_both_are_sealed), generation)
    foreign.add_column(lake.path("flights"), "surprise")
    with refused("drift", "flights"):
        commands.rollback(lake.env, jobs=no_spark)
    assert [seal_of(path) for path in sealed] == [None, None]
    foreign.drop_column(lake.path("flights"), "surprise")
    commands.rollback(lake.env, jobs=no_spark)
    assert lake.version == "1.0.0"
    whole(lake)


def test_no_seal_comes_after_the_failure_that_lifted_all(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are sealed side by side: what tells of the first one fails while another one is still under way."""
    generation, real = expanded(lake, lake.second), LocalStore.put_if_absent

    def slow_on_the_second(store: LocalStore, key: str, data: bytes) -> WriteReceipt:
        if store.location.uri == slow and b"movedTo" in data:
            time.sleep(0.5)
        return real(store, key, data)

    def broken(event: Event) -> None:
        if event.stage == "seal" and event.done:
            raise BrokenPipeError

    first, second = [stage.collection for stage in plan_of(lake.env, lake.state.deployments[generation]).of_kind(Seal)]
    slow = lake.env.table_location(lake.state.shard_of(second).uri).uri
    monkeypatch.setattr(LocalStore, "put_if_absent", slow_on_the_second)
    with pytest.raises(BrokenPipeError):
        commands.cutover(lake.env, generation, listen=broken)
    time.sleep(0.7)
    assert [seal_of(lake.path(name)) for name in (first, second)] == [None, None]


def test_seals_are_lifted_also_beside_a_table_that_somebody_dropped(lake: Lake) -> None:
    generation = expanded(lake, lake.second)
    first, second = [lake.path(stage.collection) for stage in plan_of(lake.env, lake.state.deployments[generation]).of_kind(Seal)]

    def dropped(event: Event) -> None:
        if event.stage == "seal" and event.done == 2:
            shutil.rmtree(first)
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        commands.cutover(lake.env, generation, listen=dropped)
    assert seal_of(second) is None


def seal_of(path: Path) -> str | None:
    return read_head(EnvironmentRoot.open(str(path)).store()).sealed_for


def test_two_initialise_one_environment(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)

    def initialise() -> None:
        with contextlib.suppress(Fenced, PlanChanged):  # two people, not twins: one of them overtakes the other, or is done first
            lake.upgrade(lake.first)

    at_once(initialise)
    if lake.version is None:  # both gave way
        lake.upgrade(lake.first)
    assert lake.version == "1.0.0"
    whole(lake)


def test_two_roll_back_at_once(lake: Lake, tmp_path: Path) -> None:
    lake.upgrade(lake.second)

    def back() -> str:
        try:
            commands.rollback(lake.env)
        except SchemamigError as error:
            return error.code
        return "done"

    assert set(at_once(back)) <= {"done", "fenced", "nothing_to_roll_back"}
    if lake.version == "1.1.0":
        commands.rollback(lake.env)
    assert lake.version == "1.0.0"
    assert rows(lake.path("flights"), "id", "dep_delay") == [{"id": 1, "dep_delay": 5}]
    whole(lake)


# --- a second generation in the middle -----------------------------------------------------------------------------------------------

MOMENTS: dict[str, Callable[[Lake, Path], Generation]] = {"claimed": claimed, "promoted": promoted, "expanded": expanded}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_second_generation_takes_over(lake: Lake, tmp_path: Path, moment: str) -> None:
    MOMENTS[moment](lake, lake.second)
    assert lake.upgrade(lake.second, claim_id="another").generation == 3
    at_target(lake, tmp_path)
    for verb in (commands.promote, commands.expand, commands.cutover, commands.cleanup):
        with unwritten_tables(lake), refused("fenced"):
            verb(lake.env, SECOND)
    commands.rollback(lake.env)
    assert rows(lake.path("flights"), "id", "dep_delay", "hour") == [{"id": 1, "dep_delay": 5, "hour": 9}]
    whole(lake)


def unwritten_tables(lake: Lake) -> contextlib.AbstractContextManager[None]:
    """No byte below the root but the audit, which remembers who tried what."""
    return unwritten(lake.env, but="_schemamig/history")


def test_a_second_generation_after_the_commit_does_nothing(lake: Lake) -> None:
    slow = claimed(lake, lake.second, claim_id="slow")
    fast = claimed(lake, lake.second, claim_id="fast")
    for verb in (commands.promote, commands.expand, commands.cutover):
        verb(lake.env, fast)
    with refused("fenced"):
        commands.promote(lake.env, slow)
    assert commands.preflight(lake.env, lake.second, claim_id="slow", jobs=no_spark).generation is None


def test_a_task_of_a_committed_generation_that_is_tried_again_after_the_next_one_leads_finds_it_done(tmp_path: Path) -> None:
    """Its worker died before it could say so, and the next run waited for no more than the commit."""
    first, second, third = releases(tmp_path, (ONE, ""), (TWO, 'evolution("t")'), (THREE, 'evolution("t")'))
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second, claim_id="first run")
    promoted(lake, third, claim_id="second run")
    for verb in (commands.promote, commands.expand, commands.cutover, commands.cleanup):
        with unwritten_tables(lake):
            done = verb(lake.env, SECOND)
        assert (str(done.target), done.stages) == ("1.1.0", ())
        assert "generation 2 is committed, and generation 3 leads by now" in done.notes[0]
    with unwritten_tables(lake), refused("fenced"):
        lead(lake.env, SECOND, silent, task="compact")
    commands.expand(lake.env, Generation(3))
    commands.cutover(lake.env, Generation(3))
    whole(lake)


def test_a_gate_waits_no_longer_for_a_generation_that_nobody_can_approve_any_more(lake: Lake) -> None:
    first = claimed(lake, lake.second, claim_id="first run")
    assert not commands.approved(lake.env, first)
    commands.cancel(lake.env, first)
    with refused("wrong_state"):
        commands.approved(lake.env, first)
    second = claimed(lake, lake.second, claim_id="second run")
    third = expanded(lake, lake.second, claim_id="third run")
    with refused("fenced"):
        commands.approved(lake.env, second)
    assert commands.approved(lake.env, third)  # who promoted it asked for no approval
    commands.cutover(lake.env, third)
    assert commands.approved(lake.env, third)


# --- zombies -------------------------------------------------------------------------------------------------------------------------

LEADER_WORK: dict[str, Callable[[LeaderWriter], None]] = {
    "expand": lambda work: run_stages(EXPAND, work, without_spark),
    "settle": lambda work: settle(work, lambda collection: None),
    "end holds": lambda work: end_holds(work, work.plan.ends, always),
    "cutover": lambda work: run_stages(CUT_OVER, work, without_spark),
    "cleanup": clean_up,
    "contract": lambda work: contract_hold(work, open_holds(work.ledger.state())[0]),
}


@pytest.mark.parametrize("name", LEADER_WORK)
def test_a_zombie_does_nothing(lake: Lake, name: str) -> None:
    """It looked at the ledger before another generation took over, and goes on only now that all is done."""
    expanded(lake, lake.second)
    zombie = lead(lake.env, SECOND, silent, task=name)
    lake.upgrade(lake.second, claim_id="another")
    with unwritten(lake.env):
        if name in ("settle", "end holds"):
            LEADER_WORK[name](zombie)  # it knew of nothing to settle or to end
        else:
            with pytest.raises(Fenced):
                LEADER_WORK[name](zombie)


@pytest.mark.parametrize("name", ["expand", "cutover"])
def test_a_rolled_back_zombie_does_nothing(lake: Lake, name: str) -> None:
    expanded(lake, lake.second)
    zombie = lead(lake.env, SECOND, silent, task=name)
    commands.rollback(lake.env)
    with unwritten(lake.env), pytest.raises(Fenced):
        LEADER_WORK[name](zombie)


def test_a_zombie_that_is_past_the_ledger_meets_the_fence_on_the_table(lake: Lake) -> None:
    """Its intents are written, its takeover happened in between, and now it is about to commit on the table itself."""
    expanded(lake, lake.second)
    zombie = lead(lake.env, SECOND, silent, task="cutover")
    shard = zombie.state.objects[FLIGHTS].shard
    (intent,) = zombie.state.intents_of(shard)
    (step,) = [step for step in zombie.evolutions() if step.collection == FLIGHTS]
    stage = zombie.evolution(step).stage(Expand)
    assert stage is not None
    move = expand_transition(zombie, stage)
    promoted(lake, lake.second, claim_id="another")
    commands.expand(lake.env, Generation(3))
    store = table_store(lake.env, zombie.state, shard)
    fence, tag = zombie.fence(shard), zombie.tag("late")
    cutover, contract = zombie.changes(CutOver, step), zombie.changes(Contract, step)
    attempts: dict[str, Callable[[], object]] = {
        "expand": lambda: commit_changes(store, read_head(store), move.changes, fence, tag, since=intent.base_version),
        "cutover": lambda: commit_changes(store, read_head(store), cutover, fence, tag, since=intent.base_version),
        "contract": lambda: commit_changes(store, read_head(store), contract, fence, tag, since=intent.base_version),
        "seal": lambda: seal(store, read_head(store), "elsewhere", fence, tag, since=intent.base_version),
        "unseal": lambda: unseal(store, read_head(store), fence, tag, since=intent.base_version),
    }
    for attempt in attempts.values():
        with unwritten(lake.env), pytest.raises(Fenced):
            attempt()
    for verb in (commands.cutover, commands.cleanup):
        verb(lake.env, Generation(3))
    whole(lake)


# --- half a rollback -----------------------------------------------------------------------------------------------------------------


def test_a_killed_rollback_then_the_same_release_again_and_back_for_good(lake: Lake, tmp_path: Path) -> None:
    """The upgrade in between has nothing to do but to settle; the way back must survive its clean-up."""
    lake.upgrade(lake.second)
    for write in (6, 12, 18):
        with contextlib.suppress(Crash):
            commands.rollback(lake.crashing_at(write))
        assert lake.version == "1.1.0"
        lake.upgrade(lake.second)
        at_target(lake, tmp_path / str(write))
    commands.rollback(lake.env)
    assert lake.version == "1.0.0"
    assert rows(lake.path("flights"), "id", "dep_delay", "hour") == [{"id": 1, "dep_delay": 5, "hour": 9}]
    assert rows(lake.path("stats")) == [{"origin": "JFK", "flights": 3}]
    whole(lake)


def test_no_contract_in_the_middle_of_a_rollback(lake: Lake) -> None:
    lake.upgrade(lake.second)
    with contextlib.suppress(Crash):
        commands.rollback(lake.crashing_at(6))
    with refused("rollback_open"):
        commands.contract(lake.env, at_once=True)
    commands.rollback(lake.env)
    assert lake.version == "1.0.0"
    whole(lake)


@pytest.mark.parametrize("moment", range(1, 20))
def test_an_upgrade_that_dies_while_it_settles_what_contract_left_is_taken_up(tmp_path: Path, moment: int) -> None:
    """It has nothing else to do: neither the release nor an ``alter`` is under way."""
    first, second = releases(
        tmp_path, ("CREATE TABLE e (id BIGINT, b STRING);", ""), ("CREATE TABLE e (id BIGINT);", 'evolution("e", drop=["b"])')
    )
    lake = deployed(tmp_path, first, second)
    lake.upgrade(second)
    make_holds_due(lake)
    with contextlib.suppress(Crash):
        commands.contract(lake.crashing_at(7))
    with contextlib.suppress(Crash):
        commands.upgrade(lake.crashing_at(moment), second, jobs=no_spark)
    commands.upgrade(lake.env, second, jobs=no_spark, claim_id="another" if moment % 2 else None)
    commands.contract(lake.env)
    assert not LedgerReader(lake.env).state().is_promoted
    whole(lake)
