"""Of one environment one upgrade at a time, of several environments each by itself."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

from airflow_provider_schemamig import concurrent_runs
from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from airflow_provider_schemamig.operators.read_only import ReadOnlyMigrationOperator
from airflow_provider_schemamig.sensors.fingerprint import FingerprintSensor
from airflow_provider_schemamig.task_groups.overlap import unless_running
from airflow_provider_schemamig.triggers.ledger import TurnTrigger
from tests.support.airflow.fake_verbs import FakeVerbs, install
from tests.support.lake import no_spark
from tests.support.upgrades import two_releases

BEFORE, OURS, AFTER = ((Generation(at), f"airflow:up/run_{at}/upgrade.preflight") for at in (3, 4, 5))
CONTEXT: Any = {
    "ti": SimpleNamespace(dag_id="up", run_id="run_4", task_id="upgrade.preflight", map_index=-1),
    "dag": SimpleNamespace(folder="/dags"),
}


@pytest.fixture
def active(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """The runs that Airflow knows and that have not ended."""
    found = {("up", f"run_{at}") for at in (3, 4, 5)}
    monkeypatch.setattr(concurrent_runs, "is_active", lambda *run: run in found)
    return found


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> FakeVerbs:
    monkeypatch.setattr(SchemamigHook, "environment", "the environment")
    monkeypatch.setattr(SchemamigHook, "_make_runner", lambda hook, conn_id: None)
    return install(monkeypatch, FakeVerbs())


@pytest.mark.parametrize(
    "claims, ahead",
    [
        ([], None),
        ([OURS], None),
        ([OURS, AFTER], None),  # who claimed later waits for us
        ([BEFORE, OURS], 3),
        ([BEFORE], 3),
        ([(Generation(2), "airflow:up/run_2/upgrade.preflight"), BEFORE], 3),  # run 2 has ended
        ([(Generation(2), "airflow:other/run_4/x"), OURS], None),
        ([(Generation(3), "0f54d4c6-6b1c-4a6e-a8f3-4a4d7d6ed6ab"), (Generation(3), "adopt-3"), OURS], None),
        ([(Generation(3), "airflow:up"), (Generation(3), "airflow:up/run_3"), OURS], None),
    ],
)
def test_concurrent_runs_it_is_the_turn_of_who_claimed_first_and_has_not_ended(
    active: set[tuple[str, str]], claims: list[tuple[Generation, str]], ahead: int | None
) -> None:
    found = concurrent_runs.open_run_before(claims, "up", "run_4", concurrent_runs.is_active)
    assert (found and (found.generation, found.dag_id, found.run_id)) == (ahead and (ahead, "up", f"run_{ahead}"))


@pytest.mark.parametrize(
    "make, claims",
    [
        (lambda: FingerprintSensor(task_id="fingerprint", environment="lake", release="/release"), [BEFORE]),
        (lambda: ReadOnlyMigrationOperator(task_id="preflight", environment="lake", release="/release"), [BEFORE, OURS]),
    ],
)
def test_a_run_is_deferred_behind_the_run_before_and_then_goes_on(
    verbs: FakeVerbs, active: set[tuple[str, str]], make: Any, claims: list[tuple[Generation, str]]
) -> None:
    verbs.claims = claims
    task = make()
    with pytest.raises(TaskDeferred) as caught:
        task.execute(CONTEXT)
    trigger: Any = caught.value.trigger
    assert isinstance(trigger, TurnTrigger)
    assert (trigger.environment, trigger.generation, trigger.dag_id, trigger.run_id) == ("lake", 3, "up", "run_3")
    active.remove(("up", "run_3"))
    assert getattr(task, caught.value.method_name)(CONTEXT, {"status": "look"})


def test_the_trigger_looks_for_the_generation_and_for_the_run(tmp_path: Path, active: set[tuple[str, str]]) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    generation = commands.preflight(lake.env, lake.second, jobs=no_spark, claim_id="airflow:up/run_3/upgrade.preflight").generation
    assert generation is not None
    assert commands.open_claims(lake.env) == ((generation, "airflow:up/run_3/upgrade.preflight"),)

    def over() -> bool:
        path, arguments = TurnTrigger(lake.env.location.uri, 5.0, 1.0, generation, "up", "run_3").serialize()
        assert path.endswith(".TurnTrigger")
        return TurnTrigger(**json.loads(json.dumps(arguments))).look()

    assert not over()
    active.clear()
    assert over(), "the run has ended"
    active.add(("up", "run_3"))
    commands.cancel(lake.env, generation)
    assert over(), "there is nothing to wait for"
    assert commands.open_claims(lake.env) == ()


@pytest.mark.parametrize(
    "before, skipped",
    [
        (None, False),
        ({"environment": "lake_a"}, True),
        ({"environment": "lake_b"}, False),
        ({}, True),  # the schedule's runs are of the default
    ],
)
def test_a_scheduled_run_is_skipped_while_the_one_before_is_at_work_on_the_same_environment(
    before: dict[str, Any] | None, skipped: bool
) -> None:
    run = None if before is None else SimpleNamespace(run_id="scheduled__1", conf=before)
    context: Any = {
        "ti": SimpleNamespace(get_previous_dagrun=lambda state: run),
        "dag": SimpleNamespace(params={"environment": "lake_a"}),
        "params": {"environment": "lake_a"},
    }
    found = None
    try:
        unless_running(context)
    except AirflowSkipException as skip:
        found = str(skip)
    assert found == ("Run scheduled__1 is still at work on lake_a." if skipped else None)
