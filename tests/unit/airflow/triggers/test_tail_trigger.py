"""Following a table from the triggerer: what wakes the task, and that nothing is held or started between two commits."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider_schemamig import concurrent_runs
from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.context import controls
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from airflow_provider_schemamig.operators.read_only import TailOperator
from airflow_provider_schemamig.task_groups.upgrade import upgrade_task_group
from airflow_provider_schemamig.triggers.ledger import TailTrigger
from tests.support.rows.rewritten import Rewritten, claimed, jobs, make_rewritten

PROMOTES = ("d", "r", "upgrade.promote", "upgrade.promote")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rewritten:
    monkeypatch.setattr(SchemamigHook, "_make_runner", lambda hook, conn_id: jobs())
    monkeypatch.setattr(concurrent_runs, "has_ended", lambda *task: None)
    return make_rewritten(tmp_path)


def trigger(lake: Rewritten, generation: Generation, *collections: str) -> TailTrigger:
    return TailTrigger(lake.env.location.uri, 5.0, 123.0, generation, collections or ("keyed", "plain"), PROMOTES)


def tail(lake: Rewritten, generation: Generation, **arguments: Any) -> TailOperator:
    usual = {"collections": ["keyed", "plain"], "ends_with": "upgrade.promote", "deferrable": True}
    return TailOperator(task_id="tail", environment=lake.env.location.uri, generation=generation, **{**usual, **arguments})


def context(promote: str | None = None) -> Any:
    states = {"r": {"upgrade.promote": promote}}
    return {"ti": SimpleNamespace(dag_id="d", run_id="r", get_task_states=lambda **_: states)}


def test_tail_trigger_wakes_for_a_commit_and_for_nothing_else(lake: Rewritten) -> None:
    generation = claimed(lake)
    commands.tail(lake.env, generation, jobs=jobs(), once=True)
    assert not trigger(lake, generation).look()
    lake.insert("keyed", [{"id": 900, "v": "5"}])
    assert trigger(lake, generation).look()
    assert not trigger(lake, generation, "plain").look()
    commands.tail(lake.env, generation, jobs=jobs(), once=True)
    assert not trigger(lake, generation).look(), "the round has brought it"


def test_tail_trigger_leaves_a_paused_copy_alone(lake: Rewritten) -> None:
    generation = claimed(lake)
    commands.tail(lake.env, generation, jobs=jobs(), once=True)
    lake.insert("keyed", [{"id": 900, "v": "5"}])
    controls.pause(lake.env, "keyed")
    assert not trigger(lake, generation).look()
    controls.resume(lake.env, "keyed")
    assert trigger(lake, generation).look()


def test_tail_trigger_wakes_where_the_copy_is_not_complete(lake: Rewritten) -> None:
    assert trigger(lake, claimed(lake, fill=False)).look()


def test_tail_trigger_wakes_when_the_generation_waits_no_longer(lake: Rewritten) -> None:
    generation = claimed(lake)
    commands.tail(lake.env, generation, jobs=jobs(), once=True)
    commands.cancel(lake.env, generation)
    assert trigger(lake, generation).look()


def test_tail_trigger_wakes_when_the_promoting_task_has_ended(lake: Rewritten, monkeypatch: pytest.MonkeyPatch) -> None:
    generation = claimed(lake)
    commands.tail(lake.env, generation, jobs=jobs(), once=True)
    asked: list[Any] = []

    def has_ended(*task: str) -> str:
        asked.append(task)
        return "skipped"

    monkeypatch.setattr(concurrent_runs, "has_ended", has_ended)
    assert trigger(lake, generation).look()
    assert asked == [PROMOTES]


def test_a_trigger_is_made_again_from_what_is_stored(lake: Rewritten) -> None:
    _, arguments = trigger(lake, Generation(2)).serialize()
    assert TailTrigger(**arguments).serialize() == trigger(lake, Generation(2)).serialize()


def test_a_round_then_it_is_deferred_until_there_is_more(lake: Rewritten) -> None:
    generation = claimed(lake)
    lake.insert("keyed", [{"id": 900, "v": "5"}])
    with pytest.raises(TaskDeferred) as deferred:
        tail(lake, generation).execute(context())
    found: Any = deferred.value.trigger
    assert (found.generation, found.collections, found.promotes) == (generation, ["keyed", "plain"], list(PROMOTES))
    assert deferred.value.method_name == "execute_again"
    assert not found.look()


def test_resumed_it_ends_with_the_promoting_task(lake: Rewritten) -> None:
    assert tail(lake, claimed(lake)).execute_again(context("success"), {"status": "look"}) is None


def test_in_one_process_it_is_rescheduled(lake: Rewritten, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trigger in line would hold up the task that it waits for."""
    from airflow.sdk.execution_time import task_runner

    class InProcessSupervisorComms: ...

    assert not concurrent_runs.runs_in_one_process()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", InProcessSupervisorComms(), raising=False)
    assert concurrent_runs.runs_in_one_process()


def test_the_name_of_the_supervisor_in_one_process_is_airflows() -> None:
    from airflow.sdk.execution_time import supervisor

    assert hasattr(supervisor, "InProcessSupervisorComms")


def test_the_shipped_group_follows_from_the_triggerer() -> None:
    from airflow.sdk import DAG

    with DAG("d", schedule=None) as dag:
        upgrade_task_group(environment="/lake", release="/release")
    followed: Any = dag.get_task("upgrade.tail")
    assert followed.partial_kwargs["deferrable"] is True
