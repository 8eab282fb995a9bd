"""An approval in Airflow: what it asks about, what its page shows, and for what its answer counts."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskAwaitingInput

from airflow_provider_schemamig.core.upgrade.errors import PlanRejected
from airflow_provider_schemamig.gates.asked_plans import ASKED
from airflow_provider_schemamig.operators import gate as gate_module
from airflow_provider_schemamig.operators.gate import PlanApprovalOperator
from airflow_provider_schemamig.operators.refused import TaskRefused
from tests.support.airflow.fake_verbs import FakeVerbs
from tests.unit.airflow.operators.conftest import LAKE


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
    plan = {"environment": LAKE, "generation": 7, "plan_digest": "d" * 64, "rejected_at": "2026-11-24T03:00:00+00:00"}
    assert pushed[ASKED] == {"upgrade.preflight": plan}
