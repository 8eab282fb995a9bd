"""An approval in Airflow: what it asks about, what its page shows, and for what its answer counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, task_group
from airflow.sdk.exceptions import TaskAwaitingInput

from airflow_provider_schemamig.core.upgrade.errors import PlanRejected
from airflow_provider_schemamig.links.asked_plans import ASKED
from airflow_provider_schemamig.operators import gate as gate_module
from airflow_provider_schemamig.operators.base import BadArgument
from airflow_provider_schemamig.operators.gate import PlanApprovalOperator, PromotionGateOperator
from airflow_provider_schemamig.operators.leader import GateOutdated, PromoteLeaderOperator
from airflow_provider_schemamig.operators.refused import TaskRefused
from airflow_provider_schemamig.operators.task_of_run import TaskOfRun
from tests.support.airflow.fake_verbs import FakeVerbs
from tests.support.airflow.final_refusals import fails_for_good
from tests.unit.airflow.operators.conftest import LAKE


def test_promotion_is_of_the_plan_that_was_asked_about(verbs: FakeVerbs, context: Any) -> None:
    """Whatever was planned, or rejected, since the approval asked is for the ledger to refuse."""
    PromoteLeaderOperator(
        task_id="t", environment=LAKE, generation=7, approval_task_id="upgrade.approval", plan_task_id="upgrade.preflight"
    ).execute(context)
    (call,) = verbs.calls["promote"]
    assert (call["approved_plan"], call["rejected_at"]) == ("d" * 64, pendulum.datetime(2026, 11, 24, 3, 5))


def test_promotion_takes_no_answer_of_an_approval_that_was_skipped_this_time(
    verbs: FakeVerbs, context: Any, pushed: dict[str, Any]
) -> None:
    """What it pushed is of an earlier try, about another plan: a skipped task keeps it."""
    pushed["state of the approval"] = "skipped"
    PromoteLeaderOperator(
        task_id="t", environment=LAKE, generation=7, approval_task_id="upgrade.approval", plan_task_id="upgrade.preflight"
    ).execute(context)
    (call,) = verbs.calls["promote"]
    assert (call["approved_by"], call["approved_plan"]) == (None, None)


def approval() -> PlanApprovalOperator:
    text = f"Generation 7, plan `{'d' * 64}`"
    return PlanApprovalOperator(task_id="upgrade.approval", subject="?", body=text, environment=LAKE, plan_task_id="upgrade.preflight")


@pytest.mark.parametrize(
    "shown, assigned",
    [
        (f"Generation 7, plan `{'e' * 64}`", []),
        (f"Generation 6, plan `{'d' * 64}`", []),
        (None, []),
        (f"Generation 7, plan `{'d' * 64}`", ["ben"]),
    ],
    ids=["another plan", "another generation, with another way back", "nothing", "assigned to another one"],
)
def test_an_approval_whose_page_shows_what_was_asked_at_first_fails_and_says_so(
    verbs: FakeVerbs,
    context: Any,
    pushed: dict[str, Any],
    log: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    shown: str | None,
    assigned: list[str],
) -> None:
    """Airflow keeps the text of a task's first time, also where it is cleared: nobody may say yes to a plan that is not shown."""
    there = SimpleNamespace(body=shown, assigned_users=[SimpleNamespace(id=user) for user in assigned])
    monkeypatch.setattr(gate_module, "_request_shown", lambda task, context: there)
    with pytest.raises(TaskRefused) as failed:
        approval().execute(context)
    assert failed.value.error.code == "approval_outdated"
    assert "Trigger the DAG again" in log() and ASKED not in pushed


def test_an_approval_of_a_plan_that_was_rejected_before_it_asks_for_the_first_time_asks_nobody(
    verbs: FakeVerbs, context: Any, pushed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs.raises["meet_rejection"] = [PlanRejected(generation=7, plan="d" * 64, by="bob", at="now", why="never")]
    with pytest.raises(TaskRefused) as failed:
        approval().execute(context)
    assert failed.value.error.code == "plan_rejected" and ASKED not in pushed


@pytest.mark.parametrize("body, fails", [("Shall the lake be upgraded?", False), ("Shall another one be?", True)])
def test_an_approval_with_a_text_of_somebodys_own_asks_while_that_is_shown(
    verbs: FakeVerbs, context: Any, monkeypatch: pytest.MonkeyPatch, body: str, fails: bool
) -> None:
    there = SimpleNamespace(body="Shall the lake be upgraded?", assigned_users=None)
    monkeypatch.setattr(gate_module, "_request_shown", lambda task, context: there)
    monkeypatch.setattr(gate_module, "offer_plan", lambda *_: None)
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **_: None)
    about = {"environment": LAKE, "plan_task_id": "upgrade.preflight"}
    task = PlanApprovalOperator(task_id="t", subject="?", body=body, plan_digest="d" * 64, **about)
    context["task_instance"] = context["ti"]
    with pytest.raises(TaskRefused if fails else TaskAwaitingInput):
        task.execute(context)


def test_an_approval_tells_promotion_what_it_asks_about(
    verbs: FakeVerbs, context: Any, pushed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = SimpleNamespace(body=f"Generation 7, plan `{'d' * 64}`", assigned_users=None)
    monkeypatch.setattr(gate_module, "_request_shown", lambda task, context: there)
    monkeypatch.setattr(gate_module, "offer_plan", lambda *_: None)
    monkeypatch.setattr("airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **_: None)
    context["task_instance"] = context["ti"]
    with pytest.raises(TaskAwaitingInput):
        approval().execute(context)
    assert pushed[ASKED] == {"upgrade.preflight": {"generation": 7, "plan_digest": "d" * 64, "rejected_at": "2026-11-24T03:00:00+00:00"}}


def promote(generation: int = 7, gates: Sequence[str] = ("upgrade.gate", "upgrade.approval"), **more: Any) -> PromoteLeaderOperator:
    about = {"approval_task_id": "upgrade.approval", "plan_task_id": "upgrade.preflight", **more}
    with DAG("up", schedule=None):
        found: list[Any] = [EmptyOperator(task_id=task_id) for task_id in gates if task_id != "upgrade.gate"]
        if "upgrade.gate" in gates:
            found.append(PromotionGateOperator(task_id="upgrade.gate", gate="auto", paths={}, plan_task_id="upgrade.preflight"))
        task = PromoteLeaderOperator(task_id="upgrade.promote", environment=LAKE, generation=generation, **about)
        found >> task
    return task


def let_through(generation: int, path: str = "", **of: str) -> dict[str, Any]:
    return {"generation": generation, "plan_task_id": "", "environment": "", "path": path, **of}


def test_a_generation_that_the_gate_never_saw_is_not_promoted(verbs: FakeVerbs, context: Any) -> None:
    """Preflight alone ran again after the gate: by its id the answer, the ledger's approval, or that nobody need be asked, is another's."""
    with fails_for_good(GateOutdated, match=r"upgrade\.gate let generation 7 through.* is generation 8"):
        promote(8).execute(context)
    assert not verbs.calls["promote"]
    promote().execute(context)
    assert verbs.calls["promote"]


@pytest.mark.parametrize("state", ["queued", "running", "None", "failed", "up_for_retry"])
def test_promotion_fails_while_its_gate_looks_again(verbs: FakeVerbs, context: Any, pushed: dict[str, Any], state: str) -> None:
    """A promotion that a pause held goes on while the gate, which was cleared, is about to begin: it has pushed nothing, or what it was."""
    pushed["state of the gate"] = state
    for found in (None, let_through(7, "upgrade.promote", plan_task_id="upgrade.preflight")):
        pushed["upgrade.gate: let_through"] = found
        with fails_for_good(GateOutdated, match=r"upgrade\.gate was cleared, and has not let it through again"):
            promote().execute(context)
    pushed["state of the gate"], pushed["state of the approval"] = "success", state
    pushed["upgrade.gate: let_through"] = let_through(7, "upgrade.promote", plan_task_id="upgrade.preflight")
    with fails_for_good(GateOutdated, match=r"upgrade\.approval was cleared, and has not been answered again"):
        promote().execute(context)
    assert not verbs.calls["promote"]


def test_a_gate_that_says_somebody_is_asked_promotes_nothing_by_itself(verbs: FakeVerbs, context: Any, pushed: dict[str, Any]) -> None:
    """It was cleared without what is after it: the approval is still skipped, as it was the first time."""
    pushed["state of the approval"] = "skipped"
    with fails_for_good(GateOutdated, match=r"upgrade\.approval was chosen by upgrade\.gate, and has not let it through"):
        promote().execute(context)
    assert not verbs.calls["promote"]
    pushed["upgrade.gate: let_through"] = let_through(7, "upgrade.promote", plan_task_id="upgrade.preflight")
    promote().execute(context)
    assert verbs.calls["promote"]


@pytest.mark.parametrize(
    ("of", "counts"),
    [
        ({"plan_task_id": "west.preflight", "environment": LAKE}, False),
        ({"environment": "s3://lake/west"}, False),
        ({"environment": LAKE}, True),
        ({}, False),
    ],
)
def test_promotion_does_not_ask_the_gate_of_another_environment(
    verbs: FakeVerbs, context: Any, pushed: dict[str, Any], of: dict[str, str], counts: bool
) -> None:
    pushed["sensor: let_through"], pushed["state of sensor"] = let_through(3, **of), "success"
    task = promote(gates=["sensor"])
    if counts:
        with fails_for_good(GateOutdated, match="sensor let generation 3 through"):
            task.execute(context)
    else:
        task.execute(context)
    assert bool(verbs.calls["promote"]) is not counts


def test_an_answer_that_was_given_for_another_generation_is_none_for_this_one(
    verbs: FakeVerbs, context: Any, pushed: dict[str, Any]
) -> None:
    """A way back of a day is part of what the page said, and no part of the plan's digest."""
    pushed["upgrade.gate: let_through"] = let_through(8, "upgrade.approval", plan_task_id="upgrade.preflight")
    with fails_for_good(GateOutdated, match=r"upgrade\.approval let generation 7 through"):
        promote(8).execute(context)
    assert not verbs.calls["promote"]


def test_an_answer_about_other_environments_alone_is_none_for_this_one(verbs: FakeVerbs, context: Any) -> None:
    """One approval for several: this one had nothing to do when it asked, and was left out."""
    with fails_for_good(GateOutdated, match=r"upgrade\.approval did not ask about this environment"):
        promote(plan_task_id="west.preflight").execute(context)
    assert not verbs.calls["promote"]


def test_an_approval_has_to_say_whose_plan_it_asks_about() -> None:
    with pytest.raises(BadArgument, match="plan_task_id"):
        PromoteLeaderOperator(task_id="t", environment=LAKE, generation=7, approval_task_id="upgrade.approval")


def test_promotion_fails_after_a_no_wherever_airflow_goes_on(verbs: FakeVerbs, context: Any, pushed: dict[str, Any]) -> None:
    """In a mapped task group it does not skip what follows a rejected approval."""
    ann = {"id": "7", "name": "ann"}
    pushed["upgrade.approval: return_value"] = {
        "chosen_options": ["Reject"],
        "responded_by_user": ann,
        "responded_at": "2026-11-24T03:00:00",
    }
    with fails_for_good(PlanRejected, match="rejected by ann at 2026-11-24 03:00 UTC"):
        promote().execute(context)
    assert not verbs.calls["promote"]


def test_in_a_mapped_task_group_a_task_asks_those_of_its_own_index(context: Any) -> None:
    asked: list[Any] = []
    with DAG("up", schedule=None) as dag:

        @task_group
        def upgrade(environment: str) -> None:
            PromoteLeaderOperator(task_id="promote", environment=environment, generation=7) << EmptyOperator(task_id="approval")

        EmptyOperator(task_id="outside") >> upgrade.expand(environment=["east", "west"])
    operator: Any = dag.get_task("upgrade.promote")
    context["ti"].map_index = 1
    context["ti"].xcom_pull = lambda **how: asked.append(how)
    context["ti"].get_task_states = lambda run_ids, **_: {run_ids[0]: {"upgrade.approval_1": "success", "outside": "failed"}}
    inside, outside = (TaskOfRun(operator, context, task_id) for task_id in ("upgrade.approval", "outside"))
    assert (inside.state, outside.state) == ("success", "failed")
    inside.pull("asked"), outside.pull("asked")
    assert asked == [{"task_ids": "upgrade.approval", "key": "asked", "map_indexes": 1}, {"task_ids": "outside", "key": "asked"}]
