from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException, TaskDeferred

from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.exceptions import Conflict, Refusal
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from airflow_provider_schemamig.operators.arguments import BadArgument
from airflow_provider_schemamig.sensors.fingerprint import FingerprintSensor
from airflow_provider_schemamig.sensors.promotion import PromotionSensor
from airflow_provider_schemamig.triggers import base
from airflow_provider_schemamig.triggers.ledger import ArrivalTrigger, DriftTrigger, EnvironmentTrigger, PromotionTrigger
from tests.support.airflow.fake_verbs import FakeVerbs, install
from tests.support.airflow.final_refusals import fails_for_good

CONTEXT: Any = {"ti": SimpleNamespace(xcom_push=lambda key, value: None)}


class Overtaken(Conflict):
    code = "overtaken"


class Gone(Refusal):
    code = "gone"


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> FakeVerbs:
    monkeypatch.setattr(SchemamigHook, "environment", property(lambda hook: f"opened {hook.schemamig_conn_id}"))
    return install(monkeypatch, FakeVerbs())


def event_of(trigger: EnvironmentTrigger) -> dict[str, Any]:
    async def first() -> Any:
        return await asyncio.wait_for(anext(trigger.run()), 10)

    payload: dict[str, Any] = asyncio.run(first()).payload
    return payload


TRIGGERS = [
    ArrivalTrigger("lake", 5.0, 123.0, version="1.1.0"),
    DriftTrigger("lake", 5.0, 123.0),
    PromotionTrigger("lake", 5.0, 123.0, generation=Generation(7)),
]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: type(trigger).__name__)
def test_a_trigger_is_made_again_from_what_airflow_stores(trigger: EnvironmentTrigger) -> None:
    path, arguments = trigger.serialize()
    module, _, name = path.rpartition(".")
    again = getattr(importlib.import_module(module), name)(**arguments)
    assert type(again) is type(trigger)
    assert again.serialize() == (path, arguments)
    assert all(isinstance(value, str | int | float) for value in arguments.values())


def looking(answers: list[Any], deadline: float) -> EnvironmentTrigger:
    class Looking(EnvironmentTrigger):
        awaited = "better weather"

        def look(self) -> bool:
            answer = answers.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return bool(answer)

    return Looking("lake", 0.01, deadline)


@pytest.mark.parametrize(
    "answers, left",
    [([True], 0), ([False, False, True], 0), ([False, Overtaken(), True, "never seen"], 1), ([False, Gone(), "never seen"], 1)],
    ids=["at once", "later", "a conflict is no answer", "an error is the task's to raise"],
)
def test_a_trigger_looks_until_the_task_should(monkeypatch: pytest.MonkeyPatch, answers: list[Any], left: int) -> None:
    monkeypatch.setattr(base, "settling_seconds", lambda: 0.0)
    deadline = time.time() + 60
    assert event_of(looking(answers, deadline)) == {"status": "look", "deadline": deadline}
    assert len(answers) == left


@pytest.mark.parametrize(("poll_interval", "heartbeat", "rest"), [(30.0, "5", 30.0), (1.0, "5", 10.0), (1.0, "0", 1.0)])
def test_a_task_that_has_just_looked_is_not_woken_at_once(
    monkeypatch: pytest.MonkeyPatch, poll_interval: float, heartbeat: str, rest: float
) -> None:
    """Nor before the scheduler knows that the process is gone which deferred it: it would take the one that resumes for that one."""
    rests: list[float] = []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", heartbeat)
    trigger = looking([True], time.time() + 60)
    trigger.poll_interval = poll_interval
    assert event_of(trigger)["status"] == "look"
    assert rests == [rest]


def test_a_trigger_ends_at_its_own_deadline() -> None:
    started = time.time()
    assert event_of(looking([False] * 1000, started + 0.2)) == {"status": "deadline", "deadline": started + 0.2}
    assert 0.2 <= time.time() - started < 5


def test_a_trigger_whose_deadline_has_passed_still_looks_once() -> None:
    assert event_of(looking([True], deadline=0))["status"] == "look"
    assert event_of(looking([False], deadline=0))["status"] == "deadline"


# --- sensors -------------------------------------------------------------------------------------------------------------------------


def deferred(call: Callable[[], Any]) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        call()
    return caught.value


def test_a_sensor_looks_before_it_defers(verbs: FakeVerbs) -> None:
    verbs.approvals = [True]
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))
    PromotionSensor(task_id="wait", environment="lake", generation="7", deferrable=True).execute({"ti": ti})  # type: ignore[typeddict-item]
    assert verbs.calls["approved"] == [{"env": "opened lake", "generation": 7}]
    assert pushed == {"let_through": {"generation": 7, "plan_task_id": "", "environment": "lake", "path": ""}}


def test_the_deadline_outlives_seen_and_gone_again(verbs: FakeVerbs) -> None:
    verbs.approvals = [False]
    sensor = PromotionSensor(task_id="wait", environment="lake", generation=7, deferrable=True, timeout=50, poke_interval=3)
    first = deferred(lambda: sensor.execute(CONTEXT))
    assert isinstance(first.trigger, PromotionTrigger)
    assert first.trigger.poll_interval == 3
    assert 49 < first.trigger.deadline - time.time() <= 50
    assert first.method_name == "execute_complete"
    event = {"status": "look", "deadline": first.trigger.deadline}
    second = deferred(lambda: sensor.execute_complete(CONTEXT, event))
    assert second.trigger.serialize() == first.trigger.serialize()


def test_after_the_deadline_the_sensor_has_timed_out(verbs: FakeVerbs) -> None:
    sensor = PromotionSensor(task_id="wait", environment="lake", generation=7, deferrable=True, timeout=3600)
    with pytest.raises(AirflowSensorTimeout, match="waited 1:00:00 in vain"):
        sensor.execute_complete(CONTEXT, {"status": "deadline", "deadline": 1.0})
    assert not verbs.calls


def test_a_typed_error_comes_from_the_task(verbs: FakeVerbs) -> None:
    verbs.raises["approved"] = [Gone(collection="flights")]
    sensor = PromotionSensor(task_id="wait", environment="lake", generation=7, deferrable=True)
    with fails_for_good(Gone):
        sensor.resume_execution("execute_complete", {"event": {"status": "look", "deadline": time.time() + 9}}, CONTEXT)


def test_not_deferrable_is_airflows_own_poking(verbs: FakeVerbs) -> None:
    verbs.approvals, verbs.raises["approved"] = [False, False, False, True], [Overtaken()]
    sensor = PromotionSensor(task_id="wait", environment="lake", generation=7, deferrable=False, poke_interval=0.01, timeout=60)
    sensor.execute(CONTEXT)
    assert len(verbs.calls["approved"]) == 4
    verbs.approvals = [False]
    with pytest.raises(AirflowSensorTimeout):
        PromotionSensor(task_id="w", environment="l", generation=7, deferrable=False, poke_interval=0.01, timeout=0.05).execute(CONTEXT)


def test_drift_is_waited_for(verbs: FakeVerbs) -> None:
    sensor = FingerprintSensor(task_id="drift", environment="lake", looks_for="drift", deferrable=True)
    assert isinstance(deferred(lambda: sensor.execute(CONTEXT)).trigger, DriftTrigger)
    verbs.drifted = ("flights",)
    sensor.execute(CONTEXT)


def gate(**arguments: Any) -> FingerprintSensor:
    return FingerprintSensor(task_id="gate", environment="lake", release="/release", deferrable=True, **arguments)


def test_the_gate_answers_at_once(verbs: FakeVerbs) -> None:
    context: Any = {"dag": type("Dag", (), {"folder": "/dags"})}
    assert gate().execute(context) == {"from": "1.0.0", "to": "1.1.0"}
    verbs.due = False
    with pytest.raises(AirflowSkipException, match="Nothing to do"):
        gate().execute(context)
    verbs.refusals = [Gone(collection="flights")]
    with fails_for_good(Gone):
        gate().execute(context)


def test_what_a_sensor_looks_for_is_a_closed_list(verbs: FakeVerbs) -> None:
    with fails_for_good(BadArgument, match="one of upgrade, arrival, drift"):
        FingerprintSensor(task_id="x", environment="lake", looks_for="rain", deferrable=True).execute(CONTEXT)
