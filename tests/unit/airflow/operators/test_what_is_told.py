"""What a person on call reads in the log of a task: why it was skipped, what was refused and what to type, what it waits for."""

from __future__ import annotations

import asyncio
import pickle
import re
import time
from collections.abc import Callable
from typing import Any

import pendulum
import pytest
import typer
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_provider_schemamig import run_notes, wait_log
from airflow_provider_schemamig.core.transfer.errors import Paused
from airflow_provider_schemamig.core.typed_commands import WITH_RELEASE, WITHOUT_ENV, complete
from airflow_provider_schemamig.core.upgrade.errors import DeploymentOpen, DriftFound, HoldInUse, NeverAgreed
from airflow_provider_schemamig.exceptions import Conflict, Refusal, Refused
from airflow_provider_schemamig.operators.base import DocumentOperator
from airflow_provider_schemamig.operators.compaction import CompactOperator
from airflow_provider_schemamig.operators.gate import PromotionGateOperator
from airflow_provider_schemamig.operators.leader import ContractOperator, CutoverOperator, ExpandOperator, PromoteLeaderOperator
from airflow_provider_schemamig.operators.read_only import TailOperator
from airflow_provider_schemamig.operators.refused import TaskRefused
from airflow_provider_schemamig.operators.rollback import RollbackOperator
from airflow_provider_schemamig.sensors.fingerprint import FingerprintSensor
from airflow_provider_schemamig.sensors.promotion import PromotionSensor
from airflow_provider_schemamig.triggers import base
from airflow_provider_schemamig.triggers.ledger import PromotionTrigger
from tests.support.airflow.fake_verbs import FakeVerbs

LAKE = "s3://lake/prod"


class Overtaken(Conflict):
    code = "overtaken"
    message = "somebody else was first."
    next_action = "Try again; `schemamig status` says who."


class Gone(Refusal):
    code = "gone"
    message = "the table is not there."
    next_action = "Bring it back, then `schemamig plan`."


def gate(**more: Any) -> FingerprintSensor:
    return FingerprintSensor(task_id="gate", environment=LAKE, release="flights_lake", deferrable=True, **more)


# --- refusals ------------------------------------------------------------------------------------------------------------------------


def test_each_refusal_is_a_line_with_code_what_and_what_to_type(verbs: FakeVerbs, context: Any, log: Callable[[], str]) -> None:
    drift = DriftFound(collection="flights", differences=("column gate was added",))
    verbs.refusals = [drift, Gone(collection="planes")]
    with pytest.raises(TaskRefused) as caught:
        gate().execute(context)
    lines = [line for line in log().splitlines() if "[error" in line]
    assert len(lines) == 2
    assert "[drift] flights: " in lines[0] and "column gate was added" in lines[0]
    assert "`schemamig accept --env s3://lake/prod --release /dags/flights_lake --collection flights`" in lines[0]
    assert "`schemamig revert --env s3://lake/prod --collection flights`" in lines[0]
    plan = "`schemamig plan --env s3://lake/prod --release /dags/flights_lake`"
    assert f"[gone] planes: the table is not there. Bring it back, then {plan}." in lines[1]
    assert isinstance(caught.value.error, Refused)
    assert caught.value.__suppress_context__, "one trace, not two"


def test_a_pause_is_told_with_what_ends_it(verbs: FakeVerbs, context: Any, log: Callable[[], str]) -> None:
    verbs.raises["expand"] = [Paused(stage="expand", why="paused by ann", scopes=("*",), hours=False)]
    with pytest.raises(TaskDeferred):
        ExpandOperator(task_id="t", environment=LAKE, generation=7).execute(context)
    assert "Deferred: [paused] expand waits: paused by ann. " in (told := log())
    assert "Run it again" not in told
    assert "The task goes on by itself when that is over; `schemamig resume --env s3://lake/prod` ends a pause" in told


def test_a_hold_that_is_not_over_is_told_with_its_end(verbs: FakeVerbs, context: Any, log: Callable[[], str]) -> None:
    verbs.pending = [{"from": "1.0.0", "to": "1.1.0", "generation": 7, "until": "2026-11-26T09:00:00+00:00", "state": "open"}]
    with pytest.raises(AirflowSkipException):
        ContractOperator(task_id="t", environment=LAKE).execute(context)
    assert "Skipped: No hold is over; the way back to 1.0.0 stays open until 2026-11-26 09:00 UTC." in log()


def test_what_a_verb_answers_is_told_without_what_it_does_not_say(verbs: FakeVerbs, context: Any, log: Callable[[], str]) -> None:
    class Answers(DocumentOperator):
        def run_verb(self, context: Any) -> dict[str, Any]:
            return {"collection": "flights", "paused": True, "window": None, "keeps": ["a"], "reason": "a\x1b[31mb"}

    Answers(task_id="t", environment=LAKE).execute(context)
    assert 's3://lake/prod: collection flights; paused true; keeps ["a"]; reason a' in (told := log())
    assert "window" not in told


def operators(error: Exception, verbs: FakeVerbs) -> list[Any]:
    for verb in ("plan", "expand", "promote", "cutover", "compact", "approved", "tail"):
        verbs.raises[verb] = [error]
    verbs.rewritten = ["planes"]
    tail = TailOperator(task_id="tail", environment=LAKE, generation=7, collections=["planes"], poke_interval=0.01)
    return [
        gate(),
        tail,
        ExpandOperator(task_id="t", environment=LAKE, generation=7),
        CutoverOperator(task_id="t", environment=LAKE, generation=7),
        PromoteLeaderOperator(task_id="t", environment=LAKE, generation=7),
        CompactOperator(task_id="t", environment=LAKE),
        PromotionSensor(task_id="t", environment=LAKE, generation=7, deferrable=True),
        PromotionGateOperator(task_id="t", gate="garden", paths={"none": "promote"}, plan_task_id="t"),
    ]


def test_a_refusal_is_final_whatever_retry_policy_a_task_has(verbs: FakeVerbs, context: Any) -> None:
    for operator in operators(Gone(), verbs):
        with pytest.raises(AirflowFailException):
            operator.execute(context)


def test_it_is_final_too_when_the_task_was_deferred(verbs: FakeVerbs, context: Any) -> None:
    verbs.raises["approved"] = [Gone()]
    sensor = PromotionSensor(task_id="t", environment=LAKE, generation=7, deferrable=True)
    with pytest.raises(TaskRefused):
        sensor.resume_execution("execute_complete", {"event": {"status": "look", "deadline": time.time() + 9}}, context)


def test_a_conflict_is_told_and_left_to_the_retry_policy(verbs: FakeVerbs, context: Any, log: Callable[[], str]) -> None:
    verbs.raises["expand"] = [Overtaken()]
    with pytest.raises(Overtaken):
        ExpandOperator(task_id="t", environment=LAKE, generation=7).execute(context)
    (line,) = [line for line in log().splitlines() if "[warning" in line and "overtaken" in line]
    assert "`schemamig status --env s3://lake/prod`" in line


def test_a_refusal_comes_through_pickling() -> None:
    again = pickle.loads(pickle.dumps(TaskRefused("[gone] t", Gone(collection="t"))))
    assert (str(again), again.error.collection) == ("[gone] t", "t")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("`schemamig status`", "`schemamig status --env '/a b'`"),
        ("`schemamig ledger restore`", "`schemamig ledger restore --env '/a b'`"),
        ("`schemamig check`", "`schemamig check --release /r`"),
        ("`schemamig alter --env URI 'DROP TABLE t'`", "`schemamig alter --env '/a b' 'DROP TABLE t'`"),
        ("`schemamig upgrade --create`", "`schemamig upgrade --env '/a b' --release /r --create`"),
        ("run schemamig status or `accept`", "run schemamig status or `accept`"),
    ],
)
def test_commands_are_completed(text: str, wanted: str) -> None:
    assert complete(text, "/a b", "/r") == wanted


def test_the_command_line_takes_these_options() -> None:
    from airflow_provider_schemamig.cli.main import app

    found: dict[str, set[str]] = {}

    def walk(command: Any, path: tuple[str, ...]) -> None:
        for name, below in getattr(command, "commands", {}).items():
            walk(below, (*path, name))
        if not hasattr(command, "commands"):
            found[" ".join(path)] = {option for parameter in command.params for option in parameter.opts}

    walk(typer.main.get_command(app), ())
    assert {name for name, options in found.items() if "--env" not in options} == WITHOUT_ENV
    assert {name for name, options in found.items() if "--release" in options} == WITH_RELEASE


# --- skips and outcomes --------------------------------------------------------------------------------------------------------------


def test_the_reason_of_a_skip_stands_before_it(verbs: FakeVerbs, context: Any, log: Callable[[], str], pushed: dict[str, Any]) -> None:
    verbs.due = False
    in_use, busy = HoldInUse(generation=2, nodes=("dash",), until=pendulum.now("UTC")), DeploymentOpen(generation=3)
    raised: dict[int, list[BaseException]] = {2: [in_use], 3: [busy]}
    cases: list[tuple[Any, str]] = [
        (gate(), "Nothing to do: the environment is at 1.1.0."),
        (ContractOperator(task_id="t", environment=LAKE), "No hold is over."),
        (ContractOperator(task_id="t", environment=LAKE), str(in_use)),
        (ContractOperator(task_id="t", environment=LAKE), complete(str(busy), LAKE, "/dags/flights_lake")),
        (CompactOperator(task_id="t", environment=LAKE), "No file has an older schema."),
    ]
    said = []
    for number, (operator, reason) in enumerate(cases):
        pushed.clear()
        verbs.raises["contract"] = raised.get(number, [])
        with pytest.raises(AirflowSkipException):
            operator.execute(context)
        assert f"Skipped: {reason}" in log(), reason
        said.append(pushed.get(run_notes.KEY))
    assert said == [f"schemamig: nothing to do: {LAKE} is at 1.1.0", None, f"schemamig: nothing is ended: {in_use}", None, None]


def test_a_refused_contract_is_no_failure_of_the_upgrade_that_it_follows(
    verbs: FakeVerbs, context: Any, log: Callable[[], str], pushed: dict[str, Any]
) -> None:
    drift = DriftFound(collection="t", differences=("x: expected nothing, found INT",))
    for error, after_commit, ends_as in (
        (drift, True, AirflowSkipException),
        (drift, False, TaskRefused),
        (NeverAgreed(), True, NeverAgreed),  # a conflict, which is tried again
    ):
        verbs.raises["contract"] = [error]
        with pytest.raises(ends_as):
            ContractOperator(task_id="t", environment=LAKE, generation=7, after_commit=after_commit).execute(context)
    assert "Skipped: The release is committed; only its contract was not done: [drift] t: the live table differs" in log()
    assert pushed[run_notes.KEY].startswith("schemamig: committed, but its contract was refused: [drift] t: ")


def test_an_upgrade_says_so_in_the_runs_note(verbs: FakeVerbs, context: Any, pushed: dict[str, Any]) -> None:
    CutoverOperator(task_id="t", environment=LAKE, generation=7).execute(context)
    assert pushed[run_notes.KEY] == f"schemamig: upgraded {LAKE} from 1.0.0 to 1.1.0, generation 7"


def test_what_is_done_is_in_the_log_with_its_release_and_until_when_it_can_be_undone(
    verbs: FakeVerbs, context: Any, log: Callable[[], str], pushed: dict[str, Any]
) -> None:
    """Who reads the log of a cut-over or a rollback learnt from `commit: 1 of 1` neither."""
    hold = {"generation": 7, "from": "1.0.0", "to": "1.1.0", "until": "2026-11-21T09:30:00+00:00", "state": "open", "over": False}
    verbs.pending = [hold, {**hold, "generation": 6}]
    CutoverOperator(task_id="t", environment=LAKE, generation=7).execute(context)
    assert f"{LAKE} is at 1.1.0, from 1.0.0." in (told := log())
    way = f"the way back to 1.0.0 is open until 2026-11-21 09:30 UTC: `schemamig rollback --env {LAKE}`, or the DAG schemamig_rollback."
    assert told.count("the way back to") == 1 and f"{LAKE}: {way}" in told
    RollbackOperator(task_id="t", environment=LAKE).execute(context)
    assert f"{LAKE} is back at " in log()


def test_promotion_that_nobody_is_asked_about_is_in_the_name_of_who_triggered_the_run(verbs: FakeVerbs, context: Any) -> None:
    PromoteLeaderOperator(task_id="t", environment=LAKE, generation=7).execute(context)
    (call,) = verbs.calls["promote"]
    assert (call["env"], call["approved_by"]) == (f"opened {LAKE} for bob", None)


# --- waiting -------------------------------------------------------------------------------------------------------------------------


def test_a_gate_that_waits_says_what_to_type_with_which_digest_until_when(
    verbs: FakeVerbs, context: Any, log: Callable[[], str], pushed: dict[str, Any]
) -> None:
    verbs.approvals = [False]
    sensor = PromotionSensor(task_id="t", environment=LAKE, generation="7", deferrable=True, timeout=3600, plan_task_id="upgrade.preflight")
    with pytest.raises(TaskDeferred):
        sensor.execute(context)
    told = log()
    assert re.search(r"Waiting until \d{4}-\d\d-\d\d \d\d:\d\d UTC for somebody to approve plan d{64} of generation 7", told)
    assert f"To approve it: schemamig approve --env {LAKE} --generation 7 --plan {'d' * 64}" in told
    assert f"schemamig_approve: generation 7, plan {'d' * 64}" in told
    page = "/dags/up/runs/manual__2026-11-24T03%3A00%3A00%2B00%3A00/tasks/upgrade.preflight"
    assert pushed == {"_link_PlanLink": page}, "the button is there while it waits"


def test_what_waits_says_now_and_then_that_it_looked(monkeypatch: pytest.MonkeyPatch, verbs: FakeVerbs, log: Callable[[], str]) -> None:
    now = [0.0]

    async def sleep(seconds: float) -> None:
        now[0] += 30.0

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(base, "settling_seconds", lambda: 0.0)
    monkeypatch.setattr(base, "WaitLog", lambda tell: wait_log.WaitLog(tell, lambda: now[0]))
    verbs.approvals = [False] * 100 + [True]
    trigger = PromotionTrigger(LAKE, 30.0, time.time() + 9999, generation=7)  # type: ignore[arg-type]

    async def first() -> Any:
        return await anext(trigger.run())

    asyncio.run(first())
    lines = [line for line in log().splitlines() if "Looked" in line]
    assert len(lines) == 5, "one of the first look, then one every ten minutes"
    assert "Looked 21 time(s) for an approval of generation 7 in the ledger: not yet. Looking every 30 s." in lines[1]
