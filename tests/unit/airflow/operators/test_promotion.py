"""Which generation is promoted, and with whose yes: the gates before it decide, whichever way their DAG is wired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pendulum
import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, task_group

from airflow_provider_schemamig.core.upgrade.errors import PlanRejected
from airflow_provider_schemamig.gates.task_of_run import TaskOfRun
from airflow_provider_schemamig.operators.arguments import BadArgument
from airflow_provider_schemamig.operators.leader import GateOutdated, PromoteLeaderOperator
from airflow_provider_schemamig.sensors.promotion import PromotionSensor
from tests.support.airflow.fake_run import FakeRun
from tests.support.airflow.fake_verbs import FakeVerbs
from tests.support.airflow.final_refusals import fails_for_good
from tests.support.airflow.gate_cases import CASES, NO_ONE_ASKED, GateCase
from tests.support.airflow.gated_dags import (
    EAST,
    REJECTED,
    WEST,
    after,
    approval,
    asked,
    gate,
    made,
    passed,
    promotes,
    sensor,
    shipped,
)
from tests.unit.airflow.operators.conftest import LAKE


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_promotion_takes_the_generation_that_its_gates_let_through_and_no_other(verbs: FakeVerbs, case: GateCase) -> None:
    task, context = made(case.dag, case.pushed, case.states, case.generation)
    if case.refused:
        with fails_for_good(GateOutdated, match=case.refused):
            task.execute(context)
        assert not verbs.calls["promote"]
    else:
        task.execute(context)
        assert verbs.calls["promote"]


def test_promotion_is_of_the_plan_that_was_asked_about_in_the_approvers_name(verbs: FakeVerbs) -> None:
    """Whatever was planned, or rejected, since the approval asked is for the ledger to refuse."""
    task, context = made(shipped, {"g.gate": gate(path="g.approval"), "g.approval": asked()}, {"g.ledger_approval": "skipped"})
    task.execute(context)
    (call,) = verbs.calls["promote"]
    told = (call["approved_by"], call["approved_plan"], call["rejected_at"])
    assert told == ("ann", "d" * 64, pendulum.datetime(2026, 11, 24, 3, 5))


def test_promotion_takes_no_answer_of_an_approval_that_was_skipped_this_time(verbs: FakeVerbs) -> None:
    """What it pushed is of an earlier try, about another plan: a skipped task keeps it."""
    task, context = made(shipped, {"g.gate": gate(), "g.approval": asked()}, NO_ONE_ASKED)
    task.execute(context)
    (call,) = verbs.calls["promote"]
    assert (call["approved_by"], call["approved_plan"]) == (None, None)


@pytest.mark.parametrize("dag", [shipped, after(approval), after(approval, sensor, trigger_rule="one_success")])
def test_promotion_fails_after_a_no_wherever_airflow_goes_on(verbs: FakeVerbs, dag: Callable[[], Any]) -> None:
    """In a mapped task group it does not skip what follows a rejected approval."""
    no = asked(answer=REJECTED)
    pushed = {"g.gate": gate(path="g.approval"), "g.approval": no, "approval": no, "ledger": passed(environment=EAST)}
    task, context = made(dag, pushed, {"g.ledger_approval": "skipped"})
    with fails_for_good(PlanRejected, match="rejected by ann at 2026-11-24 03:00 UTC"):
        task.execute(context)
    assert not verbs.calls["promote"]


def test_promotion_with_an_approval_has_to_say_whose_plan_that_asks_about() -> None:
    with pytest.raises(BadArgument, match="plan_task_id"):
        PromoteLeaderOperator(task_id="t", environment=LAKE, generation=7, approval_task_id="upgrade.approval")


def test_promotion_names_an_approval_that_is_in_its_dag(verbs: FakeVerbs) -> None:
    task, context = made(after(approval, approval_task_id="aproval", plan_task_id="g.preflight"), {"approval": asked()}, {})
    with fails_for_good(BadArgument, match="approval_task_id"):
        task.execute(context)


def test_one_environment_by_two_names_is_one(verbs: FakeVerbs) -> None:
    """A gate has the URI, and promotion the path: it is no gate of another environment."""
    task, context = made(after(sensor), {"ledger": passed(2, environment=f"file://{EAST}")}, {})
    with fails_for_good(GateOutdated, match="ledger let generation 2 through"):
        task.execute(context)


def mapped_group() -> DAG:
    with DAG("up", schedule=None) as dag:

        @task_group
        def upgrade(environment: str) -> None:
            gate = PromotionSensor(task_id="ledger", environment=environment, generation=7)
            promotes(task_id="promote", environment=environment) << gate

        EmptyOperator(task_id="outside") >> upgrade.expand(environment=[EAST, WEST])
    return dag


def test_in_a_mapped_task_group_a_task_asks_those_of_its_own_index(verbs: FakeVerbs) -> None:
    run = FakeRun({"upgrade.ledger_0": "running", "upgrade.ledger_1": "success", "outside": "failed"})
    run.pushed = {"upgrade.ledger_1": passed(7, environment=WEST), "outside": {"asked": "all"}}
    operator: Any = mapped_group().get_task("upgrade.promote")
    inside, outside = (TaskOfRun(operator, run.context(1), task_id) for task_id in ("upgrade.ledger", "outside"))
    assert (inside.state, outside.state, outside.pull("asked")) == ("success", "failed", "all")
    operator.environment = WEST  # as it is rendered for this index
    operator.execute(run.context(1))
    assert verbs.calls["promote"]
    with fails_for_good(GateOutdated, match="upgrade.ledger_0 is running"):
        operator.execute(run.context(0))
