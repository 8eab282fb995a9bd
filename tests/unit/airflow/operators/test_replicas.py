"""The tasks of replicated streams: when they wait, end, are skipped or fail. The core's runs are played by a script."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.sdk import RetryAction
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

from airflow_provider_schemamig import replica_metrics
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.replication import replicate, watch
from airflow_provider_schemamig.core.replication.cluster import registry
from airflow_provider_schemamig.core.replication.errors import GapError
from airflow_provider_schemamig.core.replication.model import EnvId, Pause, PauseReason, Stream, StreamSettings, StreamState
from airflow_provider_schemamig.core.replication.replicate import Replicated
from airflow_provider_schemamig.core.replication.restore import restore
from airflow_provider_schemamig.core.replication.restore.errors import RestoreNotNewer
from airflow_provider_schemamig.core.replication.watch import Mismatch, StreamDue
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from airflow_provider_schemamig.operators.arguments import BadArgument
from airflow_provider_schemamig.operators.replica_errors import StillPaused, StreamStopped
from airflow_provider_schemamig.operators.replicas import ReplicateCollectionOperator, RestoreCollectionOperator
from airflow_provider_schemamig.retry import SchemamigRetryPolicy
from airflow_provider_schemamig.sensors.replicas import SchemaMatchSensor
from airflow_provider_schemamig.triggers import base
from airflow_provider_schemamig.triggers.replicas import SchemaMatchTrigger, StreamWorkTrigger
from tests.support.airflow.final_refusals import fails_for_good

NOW = pendulum.datetime(2026, 11, 22, 12)
ENDS = ("opened us", "opened eu")
CONTEXT: Any = {}
RESTORING: Any = {"ti": SimpleNamespace(dag_id="replicas", run_id="monday", task_id="restore", map_index=-1)}


def stream(name: str = "flights", **found: Any) -> StreamState:
    return StreamState(Stream(EnvId("us"), EnvId("eu"), CollectionName(name)), ShardId("s"), 3, 3, NOW, 3, None, **found)


def paused(name: str = "flights", reason: PauseReason = PauseReason.SCHEMA_MISMATCH) -> StreamState:
    return stream(name, pause=Pause(reason, "gate is not in the target", NOW.subtract(minutes=1), 4, None, None, NOW))


def stopped(code: str, name: str = "flights") -> StreamState:
    return stream(name, error=code, detail=f"[{code}] too bad.")


@dataclass
class Core:
    """``runs``: what ``replicate_once`` answers, one after the other, then the last one. ``calls``: its arguments."""

    runs: list[Replicated] = field(default_factory=lambda: [Replicated((stream(),))])
    calls: list[dict[str, Any]] = field(default_factory=list)
    measured: list[str] = field(default_factory=list)

    def replicate_once(self, origin: object, target: object, collections: object, **options: Any) -> Replicated:
        assert (origin, target) == ENDS
        self.calls.append({"collections": collections, **options})
        return self.runs.pop(0) if len(self.runs) > 1 else self.runs[0]


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Core:
    played = Core()
    monkeypatch.setattr(SchemamigHook, "environment", property(lambda hook: f"opened {hook.schemamig_conn_id}"))
    monkeypatch.setattr(SchemamigHook, "_make_runner", lambda hook, conn_id: pytest.fail("nothing here asks for Spark"))
    monkeypatch.setattr(replicate, "replicate_once", played.replicate_once)
    monkeypatch.setattr(replica_metrics, "measure", lambda *found: played.measured.append(found[2][0].stream.collection))
    return played


def bring(**arguments: Any) -> ReplicateCollectionOperator:
    return ReplicateCollectionOperator(task_id="bring", origin="us", target="eu", **arguments)


def deferred(call: Callable[[], Any]) -> Any:
    """The trigger."""
    with pytest.raises(TaskDeferred) as caught:
        call()
    assert caught.value.method_name == "execute_complete"
    assert not caught.value.kwargs, "`airflow dags test` drops them"
    return caught.value.trigger


def counts(rows: int = 0, batches: int = 0, restores: int = 0) -> dict[str, int]:
    return {"applied_rows": rows, "applied_batches": batches, "restores": restores}


# --- bringing ------------------------------------------------------------------------------------------------------------------------


def test_replicas_what_is_there_is_brought_on_the_targets_spark(core: Core) -> None:
    core.runs = [Replicated((stream(),), applied_rows=5, applied_batches=2, restores=1)]
    operator = bring(collections=["flights"], depth=2, poll_interval=7, recompute=70)
    assert operator.execute(CONTEXT) == counts(5, 2, 1)
    (call,) = core.calls
    assert call["collections"] == ["flights"]
    assert call["jobs"] == operator.hooks[1].job_runner
    assert call["settings"] == StreamSettings(depth=2, retry=timedelta(seconds=7), recompute=timedelta(seconds=70))
    assert core.measured == ["flights"]


@pytest.mark.parametrize(
    ("given", "names"), [("", None), (None, None), ("flights, planes", ["flights", "planes"]), (["flights"], ["flights"])]
)
def test_collections_come_as_a_list_or_as_one_text(core: Core, given: Any, names: Any) -> None:
    bring(collections=given).execute(CONTEXT)
    assert core.calls[0]["collections"] == names


def test_the_numbers_are_seed_004s(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    bring().execute(CONTEXT)
    assert core.calls[0]["settings"] == StreamSettings()
    assert inspect.signature(SchemaMatchSensor).parameters["depth"].default == StreamSettings().depth
    monkeypatch.setenv("AIRFLOW__SCHEMAMIG__RECOMPUTE_INTERVAL", "9")
    bring().execute(CONTEXT)
    assert core.calls[1]["settings"].recompute == timedelta(seconds=9)


def test_a_pause_defers_and_the_task_goes_on_where_it_was(core: Core) -> None:
    others = Replicated((paused(), stream("planes")), applied_rows=5, applied_batches=1)
    core.runs = [others, Replicated((paused(), stream("planes"))), Replicated((stream(), stream("planes")), 3, 1)]
    operator = bring(timeout=50)
    first = deferred(lambda: operator.execute(CONTEXT))
    assert isinstance(first, StreamWorkTrigger)
    assert 49 < first.deadline - time.time() <= 50
    event = {"status": "look", **first.kept()}
    second = deferred(lambda: bring(timeout=50).execute_complete(CONTEXT, event))
    assert second.serialize() == first.serialize(), "seen and still paused: the same wait"
    assert bring().execute_complete(CONTEXT, event) == counts(8, 2)


def test_a_pause_is_waited_for_until_the_timeout(core: Core) -> None:
    core.runs = [Replicated((paused(),))]
    with pytest.raises(StillPaused, match=r"paused since 2026-11-22T11:59:00Z at version 4: gate is not in the target\."):
        bring().execute_complete(CONTEXT, {"status": "deadline", "deadline": 1.0, "brought": {}})


def test_a_task_that_follows_waits_for_commits_too(core: Core) -> None:
    core.runs = [Replicated((stream(),), 2, 1)]
    trigger = deferred(lambda: bring(follow="10").execute(CONTEXT))
    assert trigger.follow
    assert 599 < trigger.deadline - time.time() <= 600
    over = {"status": "deadline", **trigger.kept(), "deadline": 1.0}
    assert bring(follow="10").execute_complete(CONTEXT, over) == counts(4, 2), "what came last is brought"


def test_a_task_that_follows_is_skipped_if_it_is_paused_at_the_end(core: Core) -> None:
    core.runs = [Replicated((paused(), stream("planes")))]
    with pytest.raises(AirflowSkipException, match="Paused still: flights"):
        bring(follow=10).execute_complete(CONTEXT, {"status": "deadline", "deadline": 1.0, "brought": {}})


@pytest.mark.parametrize("code", sorted(kind.code for kind in GapError.__subclasses__()))
def test_a_gap_fails_without_a_retry(core: Core, code: str) -> None:
    core.runs = [Replicated((paused("planes"), stopped(code)))]
    with fails_for_good(GapError) as caught:
        bring(follow=10).execute(CONTEXT)
    assert str(caught.value) == f"[gap] flights: the stream from us stopped: [{code}] too bad. When that is done, clear the task."
    assert SchemamigRetryPolicy().evaluate(caught.value, 1, 3).action is RetryAction.FAIL
    assert core.measured, "what stopped is measured, too"


def test_replicas_what_spark_refused_is_no_gap(core: Core) -> None:
    core.runs = [Replicated((stopped("duplicate_keys"),))]
    with fails_for_good(StreamStopped) as caught:
        bring().execute(CONTEXT)
    assert not isinstance(caught.value, GapError)
    assert not caught.value.retryable


@pytest.mark.parametrize("arguments", [{"follow": "-1"}, {"follow": "soon"}, {"timeout": -1}])
def test_a_bad_time_is_named(core: Core, arguments: dict[str, Any]) -> None:
    with fails_for_good(BadArgument) as caught:
        bring(**arguments).execute(CONTEXT)
    assert caught.value.argument in arguments


def test_killing_it_stops_the_targets_job(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[str] = []
    monkeypatch.setattr(SchemamigHook, "cancel_jobs", lambda hook: killed.append(hook.schemamig_conn_id))
    bring().on_kill()
    assert killed == ["eu"]


# --- triggers ------------------------------------------------------------------------------------------------------------------------


def work(**arguments: Any) -> StreamWorkTrigger:
    usual = {"recompute": 300.0, "follow": False, "brought": counts(1), "collections": ["flights"]}
    return StreamWorkTrigger("us", "eu", 0.05, time.time() + 60, 1, **{**usual, **arguments})


@pytest.mark.parametrize("trigger", [work(), work(collections=None), SchemaMatchTrigger("us", "eu", 5.0, 9.0, 2, ["flights"])])
def test_a_trigger_is_made_again_from_what_airflow_stores(trigger: Any) -> None:
    path, arguments = trigger.serialize()
    module, _, name = path.rpartition(".")
    again = getattr(importlib.import_module(module), name)(**arguments)
    assert (type(again), again.serialize(), again.kept()) == (type(trigger), (path, arguments), trigger.kept())


@pytest.mark.parametrize(
    ("found", "follow", "fires"),
    [
        (StreamDue(due=True, waiting=True), False, True),
        (StreamDue(due=True, waiting=False), True, True),
        (StreamDue(due=False, waiting=True), False, False),
        (StreamDue(due=False, waiting=True), True, False),
        (StreamDue(due=False, waiting=False), False, True),
        (StreamDue(due=False, waiting=False), True, False),
    ],
)
def test_replicas_what_wakes_the_task(core: Core, monkeypatch: pytest.MonkeyPatch, found: StreamDue, follow: bool, fires: bool) -> None:
    asked: list[Any] = []

    def look(origin: object, target: object, *rest: Any) -> StreamDue:
        asked.append((origin, target, *rest[:2]))
        return found

    monkeypatch.setattr(watch, "look", look)
    assert work(follow=follow).look() is fires
    assert asked == [(*ENDS, ["flights"], StreamSettings(1, timedelta(seconds=0.05), timedelta(seconds=300)))]


def test_replicas_what_was_brought_so_far_comes_back_with_the_event(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    async def first() -> Any:
        return await anext(work().run())

    monkeypatch.setattr(base, "settling_seconds", lambda: 0.0)
    monkeypatch.setattr(watch, "look", lambda *_: StreamDue(due=True, waiting=True))
    payload = asyncio.run(first()).payload
    assert (payload["status"], payload["brought"]) == ("look", counts(1))


def test_while_it_waits_both_ends_are_heard_of(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(watch, "look", lambda *_: StreamDue(due=False, waiting=True))
    monkeypatch.setattr(registry, "exchange", lambda *ends: told.append(ends[:2]))
    trigger, start = work(), pendulum.now("UTC")
    for seconds in (0, 50, 70, 90, 150):
        monkeypatch.setattr(pendulum, "now", lambda zone, after=seconds: start.add(seconds=after))
        trigger.look()
    assert told == [ENDS, ENDS], "after 70 and 150 seconds"


# --- the sensor ----------------------------------------------------------------------------------------------------------------------


def test_the_gate_waits_for_the_targets_schemas(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[tuple[Mismatch, ...]] = [(Mismatch(CollectionName("flights"), "gate is not in the target"),), ()]
    asked: list[Any] = []

    def mismatches(*arguments: Any) -> tuple[Mismatch, ...]:
        asked.append(arguments)
        return answers.pop(0)

    monkeypatch.setattr(watch, "mismatches", mismatches)
    sensor = SchemaMatchSensor(task_id="match", origin="us", target="eu", collections="flights", depth=2, deferrable=True, timeout=50)
    trigger = deferred(lambda: sensor.execute(CONTEXT))
    assert isinstance(trigger, SchemaMatchTrigger)
    assert (trigger.poll_interval, trigger.collections) == (30, ["flights"])
    assert sensor.execute_complete(CONTEXT, {"status": "look", "deadline": trigger.deadline}) is None
    assert asked == [(*ENDS, ["flights"], 2)] * 2


# --- restoring -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, (None, False, False)),
        ({"version": "12", "allow_schema_change": "True", "allow_lossy": "true"}, (12, True, True)),
        ({"version": ""}, (None, False, False)),
    ],
)
def test_a_restore_gets_what_the_run_was_given(
    core: Core, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    calls: list[Any] = []

    def run(origin: object, target: object, collection: str, **options: Any) -> Any:
        calls.append((origin, target, collection, options["version"], options["allow_schema_change"], options["allow_lossy"]))
        assert options["claim_id"] == "airflow:replicas/monday/restore"
        return SimpleNamespace(version=12, table_version=7, rows=3)

    monkeypatch.setattr(restore, "restore", run)
    operator = RestoreCollectionOperator(task_id="restore", origin="us", target="eu", collection="flights", **arguments)
    assert operator.execute(RESTORING) == {"version": 12, "table_version": 7, "rows": 3}
    assert calls == [(*ENDS, "flights", *expected)]


@pytest.mark.parametrize("tried", [1, 2])
def test_a_restore_that_is_refused_fails_in_every_try(core: Core, monkeypatch: pytest.MonkeyPatch, tried: int) -> None:
    """Whether a try before it restored is for the target's log to say, not for the number of tries."""
    monkeypatch.setattr(restore, "restore", raising(RestoreNotNewer(collection="flights", version=12, at=12)))
    operator = RestoreCollectionOperator(task_id="restore", origin="us", target="eu", collection="flights")
    context: Any = {"ti": SimpleNamespace(**vars(RESTORING["ti"]), try_number=tried)}
    with fails_for_good(RestoreNotNewer):
        operator.execute(context)


def raising(error: Exception) -> Callable[..., Any]:
    def run(*arguments: Any, **options: Any) -> Any:
        raise error

    return run


# --- metrics -------------------------------------------------------------------------------------------------------------------------


def gauges(state: StreamState, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    found: dict[str, float] = {}

    def gauge(name: str, value: float, *, tags: dict[str, str]) -> None:
        assert tags == {"origin": "us", "target": "eu", "collection": "flights"}
        found[name.removeprefix("schemamig.replica.")] = value

    monkeypatch.setattr("airflow.sdk.observability.stats.gauge", gauge)
    replica_metrics.measure_stream(state, NOW)
    return found


def test_a_streams_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = {"mismatch_paused": 0, "paused_seconds": 0, "lag_versions": 0, "lag_seconds": 0, "gap": 0, "restores": 0, "applied_rows": 0}
    assert gauges(stream(), monkeypatch) == quiet
    assert gauges(paused(), monkeypatch) == {**quiet, "mismatch_paused": 1, "paused_seconds": 60}
    assert gauges(paused(reason=PauseReason.TARGET_BUSY), monkeypatch) == {**quiet, "paused_seconds": 60}
    assert gauges(stopped("log_cleaned"), monkeypatch) == {**quiet, "gap": 1}
    assert gauges(stream(restores=2, applied_rows=70), monkeypatch) == {**quiet, "restores": 2, "applied_rows": 70}
