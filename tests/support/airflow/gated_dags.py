"""DAGs with gates before a promotion, wired in all ways, and what their tasks push."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskGroup

from airflow_provider_schemamig.operators.gate import PlanApprovalOperator, PromotionGateOperator
from airflow_provider_schemamig.operators.leader import PromoteLeaderOperator
from airflow_provider_schemamig.sensors.promotion import PromotionSensor
from airflow_provider_schemamig.task_groups.approval import approve_together
from airflow_provider_schemamig.task_groups.upgrade import upgrade_task_group
from tests.support.airflow.fake_run import FakeRun

EAST, WEST = "/lakes/east", "/lakes/west"
BY_ANN = {"chosen_options": ["Approve"], "responded_by_user": {"id": "7", "name": "ann"}}
REJECTED = {**BY_ANN, "chosen_options": ["Reject"], "responded_at": "2026-11-24T03:00:00"}


# --- what gates push -----------------------------------------------------------------------------------------------------------------


def asked(generation: int = 7, *, planned: str = "g.preflight", environment: str = EAST, answer: Any = BY_ANN) -> dict[str, Any]:
    """An approval that somebody answered."""
    plan = {"environment": environment, "generation": generation, "plan_digest": "d" * 64, "rejected_at": "2026-11-24T03:05:00+00:00"}
    return {"asked": {planned: plan}, "return_value": answer}


def passed(generation: int = 7, path: str = "", planned: str = "", environment: str = "") -> dict[str, Any]:
    """A gate or a sensor that let a generation through."""
    return {"let_through": {"generation": generation, "plan_task_id": planned, "environment": environment, "path": path}}


def gate(generation: int = 7, path: str = "g.promote", planned: str = "g.preflight") -> dict[str, Any]:
    return {**passed(generation, path, planned), "skipmixin_key": {"followed": [path]}}


# --- DAGs, each of which returns the tasks that promote -------------------------------------------------------------------------------


def shipped() -> Any:
    return upgrade_task_group("g", environment=EAST, release="r").children["g.promote"]


def together() -> Any:
    groups = [upgrade_task_group(name, environment=f"/lakes/{name}", release="r", gate="none") for name in ("east", "west")]
    approve_together(groups)
    return groups[0].children["east.promote"]


def sensor(task_id: str = "ledger", **more: Any) -> Any:
    return PromotionSensor(task_id=task_id, **{"environment": EAST, "generation": 7, **more})


def approval(task_id: str = "approval", **more: Any) -> Any:
    return PlanApprovalOperator(task_id=task_id, subject="?", body="?", **{"environment": EAST, "plan_task_id": "g.preflight", **more})


def promotes(**more: Any) -> Any:
    return PromoteLeaderOperator(**{"task_id": "g.promote", "environment": EAST, "generation": 7, **more})


def after(*gates: Callable[[], Any], **more: Any) -> Callable[[], Any]:
    """All gates, then the promotion, wired by hand."""

    def made() -> Any:
        return [each() for each in gates] >> promotes(**more)

    return made


def after_a_gate(**of: Any) -> Callable[[], Any]:
    def made() -> Any:
        paths = {"approval": "approval", "ledger": "ledger", "none": "g.promote"}
        ways = [approval(), sensor()]
        task = promotes(trigger_rule="none_failed_min_one_success", **of)
        PromotionGateOperator(task_id="g.gate", gate="auto", paths=paths, plan_task_id="g.preflight") >> [*ways, task]
        return ways >> task

    return made


def after_a_task_that_tells() -> Any:
    return sensor() >> EmptyOperator(task_id="tell") >> promotes()


def after_a_task_that_always_runs() -> Any:
    ask, task = approval(), promotes(plan_task_id="g.preflight")
    ask >> EmptyOperator(task_id="tell", trigger_rule="all_done") >> task
    return [ask, sensor()] >> task


def after_one_of_two() -> Any:
    join = EmptyOperator(task_id="join", trigger_rule="one_success")
    return [approval(), sensor()] >> join >> promotes(plan_task_id="g.preflight")


def after_a_gate_of_ones_own() -> Any:
    ask = approval()
    task = promotes(trigger_rule="none_failed_min_one_success", approval_task_id="approval", plan_task_id="g.preflight")
    EmptyOperator(task_id="branch") >> [ask, task]
    return ask >> task


def after_a_longer_way(*before: str, **of_the_approval: Any) -> Callable[[], Any]:
    """A gate that goes to a task before the approval, which has upstreams of its own: an argument that is another task's output is one."""

    def made() -> Any:
        tell, ask = EmptyOperator(task_id="tell"), approval(**of_the_approval)
        task = promotes(trigger_rule="none_failed_min_one_success", plan_task_id="g.preflight")
        paths = {"approval": "tell", "none": "g.promote"}
        PromotionGateOperator(task_id="g.gate", gate="auto", paths=paths, plan_task_id="g.preflight") >> [tell, task]
        for task_id in before:
            EmptyOperator(task_id=task_id) >> ask
        return tell >> ask >> task

    return made


def after_an_approval_for_both() -> Any:
    """A branch of one's own upgrades the east alone, and the approval is for the east and the west."""
    ask, paths = approval(), {"none": "g.promote"}
    task = promotes(trigger_rule="none_failed_min_one_success", plan_task_id="g.preflight")
    choice = PromotionGateOperator(task_id="g.gate", gate="auto", paths=paths, plan_task_id="g.preflight")
    branch = EmptyOperator(task_id="branch")
    branch >> [EmptyOperator(task_id="g.preflight"), EmptyOperator(task_id="west.preflight")] >> ask
    branch >> choice >> task
    return ask >> task


def after_a_gate_that_goes_to_a_group() -> Any:
    with TaskGroup("ask"):
        ask = sensor()
    with TaskGroup("go"):
        task = promotes(task_id="promote", trigger_rule="none_failed_min_one_success")
    paths = {"ledger": "ask", "none": "go"}
    PromotionGateOperator(task_id="g.gate", gate="auto", paths=paths, plan_task_id="g.preflight") >> [ask, task]
    return ask >> task


def after_a_mapped_sensor() -> Any:
    sensors = PromotionSensor.partial(task_id="ledger", environment=EAST).expand(generation=[7])
    return sensors >> promotes()


def after_sensors_of_several() -> Any:
    sensors = PromotionSensor.partial(task_id="ledger").expand_kwargs([{"environment": EAST, "generation": 7}])
    return sensors >> promotes()


def after_another_promotion() -> Any:
    first = sensor("before", generation=6) >> promotes(task_id="first", generation=6)
    return first >> EmptyOperator(task_id="between") >> promotes()


def made(dag: Callable[[], Any], pushed: Mapping[str, Mapping[str, Any]], states: Mapping[str, str | None], generation: int = 7) -> Any:
    """Make a DAG and a run of it: what is not said of a task is that it succeeded. Returns the task that promotes, and its context."""
    with DAG("up", schedule=None, max_active_runs=1) as up:
        task = dag()
        if "g.preflight" not in up.task_dict:
            EmptyOperator(task_id="g.preflight")  # what planned, as far as promotion has to know it
    task.generation = generation  # as it is rendered
    run = FakeRun(dict.fromkeys(up.task_dict, "success") | dict(states), {name: dict(found) for name, found in pushed.items()})
    for task_id in up.task_dict:
        if any(f"{task_id}_{index}" in run.states for index in range(3)):
            del run.states[task_id]
    return task, run.context()
