"""Following a table beside the gate, and what a person says to work on rows: what the operators make of their arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pendulum
import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider_schemamig.core import commands as core_verbs
from airflow_provider_schemamig.core.ledger.rows import Control, Pin
from airflow_provider_schemamig.core.names import ShardId
from airflow_provider_schemamig.core.transfer.errors import Paused
from airflow_provider_schemamig.core.upgrade.context import controls
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from airflow_provider_schemamig.core.upgrade.tables import pins
from airflow_provider_schemamig.exceptions import Conflict, Refusal
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from airflow_provider_schemamig.operators import control as operators
from airflow_provider_schemamig.operators import drift
from airflow_provider_schemamig.operators.arguments import BadArgument
from airflow_provider_schemamig.operators.base import run_in_name_of
from airflow_provider_schemamig.operators.control import PauseOperator
from airflow_provider_schemamig.operators.leader import ChangeOperator, CutoverOperator, ExpandOperator, PromoteLeaderOperator
from airflow_provider_schemamig.operators.read_only import FillOperator, TailOperator
from airflow_provider_schemamig.operators.rollback import RollbackOperator
from airflow_provider_schemamig.triggers.ledger import PauseTrigger
from tests.support.airflow.fake_verbs import FakeVerbs, install
from tests.support.airflow.final_refusals import fails_for_good
from tests.support.upgrades import two_releases


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> FakeVerbs:
    monkeypatch.setattr(SchemamigHook, "environment", "the environment")
    monkeypatch.setattr(SchemamigHook, "_make_runner", lambda hook, conn_id: pytest.fail("nothing here asks for Spark"))
    return install(monkeypatch, FakeVerbs(rewritten=["planes", "flights"]))


# --- the tail ------------------------------------------------------------------------------------------------------------------------


def tail(**arguments: Any) -> TailOperator:
    usual = {"generation": "7", "collections": ["stats", "planes"], "ends_with": "upgrade.promote"}
    return TailOperator(task_id="tail", environment="/lake", **{**usual, **arguments})


def context(promote: str | None = None) -> Any:
    """What Airflow says of the task that promotes."""

    def get_task_states(*, dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, dict[str, str | None]]:
        assert (dag_id, task_ids, run_ids) == ("d", ["upgrade.promote"], ["r"])
        return {"r": {"upgrade.promote": promote}}

    return {"ti": SimpleNamespace(dag_id="d", run_id="r", get_task_states=get_task_states)}


def test_a_look_is_one_round_over_what_is_rewritten(verbs: FakeVerbs) -> None:
    assert tail().poke(context()) is False
    (call,) = verbs.calls["tail"]
    assert (call["env"], call["generation"], call["collections"], call["once"]) == ("the environment", 7, ("planes",), True)


def test_tail_and_control_gives_its_worker_back_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tail().reschedule
    assert tail().poke_interval == 30
    monkeypatch.setenv("AIRFLOW__SCHEMAMIG__POLL_INTERVAL", "2.5")
    assert tail().poke_interval == 2.5
    assert tail().timeout > timedelta(days=100).total_seconds(), "the gate has the deadline"


@pytest.mark.parametrize("state", ["success", "failed", "skipped", "upstream_failed", "removed"])
def test_tail_and_control_ends_with_the_promoting_task_however_that_ended(verbs: FakeVerbs, state: str) -> None:
    assert tail().poke(context(promote=state)) is True
    assert not verbs.calls["tail"]


@pytest.mark.parametrize("state", [None, "scheduled", "queued", "running", "up_for_retry", "deferred", "awaiting_input"])
def test_tail_and_control_goes_on_while_the_promoting_task_may_still_run(verbs: FakeVerbs, state: str | None) -> None:
    assert tail().poke(context(promote=state)) is False


def test_tail_and_control_ends_when_there_is_nothing_to_follow(verbs: FakeVerbs) -> None:
    assert tail(collections=["stats"]).poke({}) is True, "without asking Airflow"
    verbs.rounds = 0
    assert tail().poke({}) is True
    assert not verbs.calls["tail"]


def test_without_a_promoting_task_the_ledger_alone_decides(verbs: FakeVerbs) -> None:
    verbs.rounds = 1
    operator = tail(ends_with=None)
    assert [operator.poke({}), operator.poke({})] == [False, True]


def test_a_conflict_is_for_the_next_look_and_a_refusal_is_not(verbs: FakeVerbs) -> None:
    verbs.raises["tail"] = [Overtaken(), Altered(collection="planes")]
    assert tail().poke(context()) is False
    with pytest.raises(Altered):
        tail().poke(context())


class Overtaken(Conflict):
    code = "overtaken"
    message = "somebody else was first"
    next_action = "Try again."


class Altered(Refusal):
    code = "altered"
    message = "it is not what it was"
    next_action = "Look at it."


def test_killing_it_stops_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []
    monkeypatch.setattr(SchemamigHook, "_make_runner", lambda hook, conn_id: SimpleNamespace(cancel=lambda: stopped.append("job")))
    operator = tail()
    operator.on_kill()
    assert not stopped
    operator.hook.job_runner()
    operator.on_kill()
    assert stopped == ["job"]


# --- Spark at the cut-over and on the way back ---------------------------------------------------------------------------------------


_RUN = {"dag_id": "schemamig_rollback", "run_id": "manual"}
TRIED: Any = {"ti": SimpleNamespace(**_RUN, task_id="rollback", map_index=-1, xcom_push=lambda *_: None)}


@pytest.mark.parametrize(
    ("verb", "make"),
    [
        ("cutover", lambda: CutoverOperator(task_id="t", environment="/lake", generation=7)),
        ("rollback", lambda: RollbackOperator(task_id="t", environment="/lake", allow_lossy="True")),
    ],
)
def test_spark_is_offered_and_not_started(verbs: FakeVerbs, verb: str, make: Callable[[], Any]) -> None:
    operator = make()
    assert operator.execute(TRIED)["notes"] == ["a note"]
    (call,) = verbs.calls[verb]
    assert call["jobs"] == operator.hook.job_runner
    assert call.get("allow_lossy") is (True if verb == "rollback" else None)
    assert call.get("claim_id") == ("airflow:schemamig_rollback/manual/rollback" if verb == "rollback" else None)


# --- control -------------------------------------------------------------------------------------------------------------------------


def control(action: str, **arguments: Any) -> dict[str, Any]:
    """What the operator of ``action`` returns."""
    module = drift if action in {"accept", "revert", "unmanage", "adopt"} else operators
    kind = getattr(module, f"{action.capitalize()}Operator")
    found: dict[str, Any] = kind(task_id=action, environment="/lake", **arguments).execute(CONTROLLED)
    return found


#: What Airflow says of the run.
CONTROLLED: Any = {"dag_run": SimpleNamespace(dag_id="schemamig_control", run_id="manual__1", triggering_user_name="ann")}


@pytest.fixture
def said(verbs: FakeVerbs, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the core was told."""
    calls: list[tuple[Any, ...]] = []

    def told(name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def tell(env: object, *arguments: Any, **options: Any) -> Any:
            assert env == "the environment"
            calls.append((name, *arguments, *options.values()))
            return answer(*arguments)

        return tell

    for name in ("pause", "postpone", "resume", "throttle", "force"):
        monkeypatch.setattr(controls, name, told(name, lambda collection: Control(collection or "*", paused=True)))
    monkeypatch.setattr(controls, "still_paused", lambda env, written: ())
    pinned = Pin(ShardId("s1"), "7", 400, (), (400,), "ann", pendulum.datetime(2026, 11, 21), given_up=False)
    monkeypatch.setattr(pins, "pin", told("pin", lambda collection, holder, hours: pinned))
    monkeypatch.setattr(pins, "unpin", told("unpin", lambda collection, holder: True))
    return calls


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        ({"action": "pause"}, ("pause", None, None, "ann")),
        ({"action": "pause", "reason": "the disk is full"}, ("pause", None, "the disk is full", "ann")),
        ({"action": "postpone", "collection": "flights"}, ("postpone", "flights", None, "ann")),
        ({"action": "resume", "collection": "flights"}, ("resume", "flights", "ann")),
        ({"action": "force", "collection": "flights"}, ("force", "flights", "ann")),
        ({"action": "throttle", "rows_per_second": "", "max_files": "", "window": ""}, ("throttle", None, None, None, None, None, "ann")),
        (
            {"action": "throttle", "rows_per_second": "500", "max_files": 8, "commits_per_minute": "4", "window": "22-6"},
            ("throttle", None, 500, 8, 4, (22, 6), "ann"),
        ),
        ({"action": "pin", "collection": "flights", "hours": "400", "holder": "7"}, ("pin", "flights", "7", 400)),
        ({"action": "unpin", "collection": "flights", "holder": "7"}, ("unpin", "flights", "7")),
        ({"action": "unpin", "collection": "flights", "holder": ""}, ("unpin", "flights", "airflow")),
    ],
)
def test_tail_and_control_what_is_said_arrives(said: list[tuple[Any, ...]], arguments: dict[str, Any], call: tuple[Any, ...]) -> None:
    control(**arguments)
    assert said == [call]


def test_a_control_answers_with_the_command_lines_document(said: list[tuple[Any, ...]]) -> None:
    limits = dict.fromkeys(("rows_per_second", "max_files", "commits_per_minute", "window", "paused_by", "paused_at", "reason"))
    assert control(action="pause", collection="flights") == {"collection": "flights", "last_step": False, "paused": True, **limits}


def test_tail_and_control_who_says_it_is_who_triggered_the_run_or_the_run() -> None:
    run = CONTROLLED["dag_run"]
    assert run_in_name_of(CONTROLLED) == "ann"
    nobody: Any = {"dag_run": SimpleNamespace(**{**vars(run), "triggering_user_name": None})}
    assert run_in_name_of(nobody) == "airflow:schemamig_control/manual__1"
    assert run_in_name_of(cast(Any, {})) is None


# --- a pause -------------------------------------------------------------------------------------------------------------------------

PAUSED = Paused(stage="cutover", why="paused by ann", scopes=("*", "flights"), hours=False)


def deferred(call: Callable[[], Any]) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    ("verb", "make"),
    [
        ("promote", lambda: PromoteLeaderOperator(task_id="t", environment="/lake", generation="7")),
        ("expand", lambda: ExpandOperator(task_id="t", environment="/lake", generation="7")),
        ("change", lambda: ChangeOperator(task_id="t", environment="/lake", generation="7", collections=["flights"])),
        ("cutover", lambda: CutoverOperator(task_id="t", environment="/lake", generation="7")),
        ("fill", lambda: FillOperator(task_id="t", environment="/lake", generation="7", collections=["flights"])),
    ],
)
def test_a_paused_task_gives_its_worker_back_and_goes_on(verbs: FakeVerbs, verb: str, make: Callable[[], Any]) -> None:
    verbs.raises[verb] = [PAUSED, PAUSED]
    operator = make()
    first = deferred(lambda: operator.execute({}))
    trigger = first.trigger
    assert isinstance(trigger, PauseTrigger)
    assert (trigger.environment, trigger.scopes, trigger.hours, trigger.generation) == ("/lake", ["*", "flights"], False, 7)
    assert trigger.poll_interval == 30
    event = {"status": "look", **trigger.kept()}
    resume = getattr(operator, first.method_name)
    deferred(lambda: resume({}, event))
    assert resume({}, event)["notes"] == ["a note"]
    assert len(verbs.calls[verb]) == 3


def test_the_trigger_of_a_pause_looks_at_the_ledger(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    generation = core_verbs.preflight(lake.env, lake.second, jobs=without_spark).generation
    assert generation is not None
    uri = lake.env.location.uri

    def over(scopes: Sequence[str] = ("*", "a"), hours: bool = False) -> bool:
        path, arguments = PauseTrigger(uri, 5.0, 1.0, scopes, hours, str(generation)).serialize()
        assert path.endswith(".PauseTrigger")
        return PauseTrigger(**json.loads(json.dumps(arguments))).look()

    assert over()
    controls.pause(lake.env, "a")
    assert not over()
    assert over(["*"])
    hour = pendulum.now("UTC").hour
    controls.throttle(lake.env, None, window=((hour + 2) % 24, (hour + 3) % 24))
    controls.resume(lake.env, "a")
    assert over()
    assert not over(hours=True)
    controls.pause(lake.env, "a")
    with pytest.raises(Paused):
        core_verbs.promote(SchemamigHook(uri).environment, generation)
    core_verbs.cancel(lake.env, generation)
    assert over(), "there is nothing to wait for"


def test_resume_says_what_it_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pause of one collection is not taken back with that of all, and the other way round."""
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, v INT);", 'evolution("a")')
    controls.pause(lake.env, "a", by="ann", reason="month end")

    def resumed(collection: str) -> str:
        operators.ResumeOperator(task_id="resume", environment=lake.env.location.uri, collection=collection).execute(context())
        return capsys.readouterr().out

    said = "paused by ann: month end"
    assert f"a is still {said}. Resume with the collection a takes that back." in resumed("")
    controls.pause(lake.env, None, by="ann", reason="month end")
    assert f"everything is still {said}. Resume with an empty collection takes that back." in resumed("a")
    assert "is still" not in resumed("")


def test_cancel_gives_the_generation_up(verbs: FakeVerbs) -> None:
    assert control(action="cancel", generation="7")["stages"] == {"cancel": {"count": 1, "seconds": 0.5}}
    assert verbs.calls["cancel"][0]["generation"] == 7


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"action": "cancel", "generation": ""}, "generation"),
        ({"action": "pin", "collection": "", "hours": "5"}, "collection"),
        ({"action": "pin", "collection": "flights", "hours": ""}, "hours"),
        ({"action": "unpin"}, "collection"),
        ({"action": "force"}, "collection"),
        ({"action": "revert", "collection": ""}, "collection"),
        ({"action": "revert", "collection": "flights", "allow_lossy": "perhaps"}, "allow_lossy"),
        ({"action": "unmanage", "collection": ""}, "collection"),
        ({"action": "approve", "generation": "", "plan": "d"}, "generation"),
        ({"action": "throttle", "window": "night"}, "window"),
        ({"action": "throttle", "window": "22"}, "window"),
        ({"action": "throttle", "max_files": "0"}, "max_files"),
        ({"action": "throttle", "commits_per_minute": "often"}, "commits_per_minute"),
        ({"action": "throttle", "rows_per_second": "-5"}, "rows_per_second"),
    ],
)
def test_a_bad_argument_is_named(said: list[tuple[Any, ...]], arguments: dict[str, Any], argument: str) -> None:
    with fails_for_good(BadArgument) as caught:
        control(**arguments)
    assert caught.value.argument == argument
    assert said == []


def test_the_log_of_a_pause_is_a_sentence_as_on_the_command_line() -> None:
    control = {"collection": None, "last_step": False, "paused": True, "paused_by": "ann", "reason": "lunch", "window": None}
    control |= {"paused_at": "2026-11-25T14:37:12+00:00", "rows_per_second": None, "max_files": None, "commits_per_minute": None}
    operator = PauseOperator(task_id="pause", environment="/lake")
    assert operator.sentence(control) == "all collections: paused by ann since 2026-11-25 14:37 UTC (lunch), no limits"
