"""Gates before a promotion: what they pushed, in which state they are, and what is said where it does not go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.airflow.gated_dags import (
    EAST,
    WEST,
    after,
    after_a_gate,
    after_a_gate_of_ones_own,
    after_a_gate_that_goes_to_a_group,
    after_a_longer_way,
    after_a_mapped_sensor,
    after_a_task_that_always_runs,
    after_a_task_that_tells,
    after_an_approval_for_both,
    after_another_promotion,
    after_one_of_two,
    after_sensors_of_several,
    approval,
    asked,
    gate,
    passed,
    sensor,
    shipped,
    together,
)


@dataclass(frozen=True)
class GateCase:
    """Tasks that are not in ``states`` succeeded. ``refused``: the error's text; empty: it is promoted."""

    name: str
    dag: Callable[[], Any]
    pushed: Mapping[str, Mapping[str, Any]]
    states: Mapping[str, str | None] = field(default_factory=dict)
    refused: str = ""
    generation: int = 7


NO_ONE_ASKED = {"g.approval": "skipped", "g.ledger_approval": "skipped"}
CASES = [
    # As shipped.
    GateCase("the gate asks nobody", shipped, {"g.gate": gate()}, NO_ONE_ASKED),
    GateCase("somebody approved", shipped, {"g.gate": gate(path="g.approval"), "g.approval": asked()}, {"g.ledger_approval": "skipped"}),
    GateCase(
        "preflight alone ran again after the gate",
        shipped,
        {"g.gate": gate()},
        NO_ONE_ASKED,
        "g.gate let generation 7 through.* is generation 8",
        8,
    ),
    GateCase(
        "the gate alone ran again, and somebody is asked now",
        shipped,
        {"g.gate": gate(path="g.approval")},
        NO_ONE_ASKED,
        "g.gate chose g.approval, which was skipped",
    ),
    GateCase(
        "preflight and the gate ran again, and the answer is of before",
        shipped,
        {"g.gate": gate(8, "g.approval"), "g.approval": asked()},
        {"g.ledger_approval": "skipped"},
        "g.approval let generation 7 through.* is generation 8",
        8,
    ),
    *(
        GateCase(
            f"the gate is {state}", shipped, {"g.gate": pushed}, {**NO_ONE_ASKED, "g.gate": state}, f"g.gate {how}, and has let nothing"
        )
        for state, how in ((None, "has not begun again"), ("running", "is running"), ("failed", "failed"), ("upstream_failed", "failed"))
        for pushed in ({}, gate())
    ),
    GateCase(
        "the approval was cleared",
        shipped,
        {"g.gate": gate(path="g.approval"), "g.approval": asked()},
        {"g.approval": "deferred", "g.ledger_approval": "skipped"},
        "g.approval is deferred, and has let nothing through",
    ),
    GateCase(
        "a yes of an earlier try is left where nobody is asked this time",
        shipped,
        {"g.gate": gate(), "g.approval": asked(6)},
        NO_ONE_ASKED,
    ),
    GateCase("nothing was planned when the gate looked", shipped, {}, NO_ONE_ASKED, "g.gate has let nothing through"),
    # Several environments, one answer.
    GateCase(
        "an answer for both",
        together,
        {"east.gate": gate(path="east.promote", planned="east.preflight"), "approval": asked(planned="east.preflight")},
        {"east.approval": "skipped", "east.ledger_approval": "skipped"},
    ),
    GateCase(
        "this one had nothing to do when it was asked",
        together,
        {
            "east.gate": gate(path="east.promote", planned="east.preflight"),
            "approval": asked(planned="west.preflight", environment=WEST),
        },
        {"east.approval": "skipped", "east.ledger_approval": "skipped"},
        "approval did not ask about this environment",
    ),
    GateCase(
        "none had anything to do, so nobody was asked",
        together,
        {"east.gate": gate(path="east.promote", planned="east.preflight")},
        {"approval": "skipped", "west.preflight": "skipped", "east.approval": "skipped", "east.ledger_approval": "skipped"},
        "approval was skipped, though no other gate was chosen",
    ),
    # Wired by hand, and promotion does not say whose plan it takes.
    GateCase("a sensor let it through", after(sensor), {"ledger": passed(environment=EAST)}),
    GateCase(
        "a sensor let another one through", after(sensor), {"ledger": passed(2, environment=EAST)}, {}, "ledger let generation 2 through"
    ),
    GateCase("a sensor asks again", after(sensor), {"ledger": passed(environment=EAST)}, {"ledger": "running"}, "ledger is running"),
    GateCase("a sensor asks again, and has pushed nothing", after(sensor), {}, {"ledger": "deferred"}, "ledger is deferred"),
    GateCase("a sensor gave up quietly", after(sensor, trigger_rule="none_failed"), {}, {"ledger": "skipped"}, "ledger was skipped"),
    GateCase("a yes", after(approval), {"approval": asked()}),
    GateCase("a yes to another generation", after(approval), {"approval": asked(2)}, {}, "approval let generation 2 through"),
    GateCase("a gate", after_a_gate(), {"g.gate": gate()}, {"approval": "skipped", "ledger": "skipped"}),
    GateCase(
        "a gate that let another one through",
        after_a_gate(),
        {"g.gate": gate(2)},
        {"approval": "skipped", "ledger": "skipped"},
        "g.gate let generation 2 through",
    ),
    GateCase(
        "a gate of this generation, and a sensor of another one",
        after_a_gate(),
        {"g.gate": gate(path="ledger"), "ledger": passed(2, environment=EAST)},
        {"approval": "skipped"},
        "g.gate chose ledger, which let generation 2 through",
    ),
    GateCase(
        "a gate that says that somebody is asked",
        after_a_gate(plan_task_id="g.preflight"),
        {"g.gate": gate(path="approval")},
        {"approval": "skipped", "ledger": "skipped"},
        "g.gate chose approval, which was skipped",
    ),
    GateCase("a task between", after_a_task_that_tells, {"ledger": passed(2, environment=EAST)}, {}, "ledger let generation 2 through"),
    GateCase(
        "a gate that goes to a task before the approval",
        after_a_longer_way(),
        {"g.gate": gate()},
        {"tell": "skipped", "approval": "skipped"},
    ),
    GateCase(
        "a gate that goes past the approval, which preflight leads to as well",
        after_a_longer_way("g.preflight"),
        {"g.gate": gate()},
        {"tell": "skipped", "approval": "skipped"},
    ),
    GateCase(
        "an approval that one task skipped before it does not skip",
        after_a_longer_way("g.preflight", trigger_rule="none_failed_min_one_success"),
        {"g.gate": gate()},
        {"tell": "skipped", "approval": "skipped"},
        "approval was skipped, though no other gate was chosen",
    ),
    GateCase(
        "a branch that chose one of the environments which the approval is for",
        after_an_approval_for_both,
        {"g.gate": gate(), "branch": {"skipmixin_key": {"followed": ["g.preflight", "g.gate"]}}},
        {"west.preflight": "skipped", "approval": "skipped"},
        "approval was skipped, though no other gate was chosen",
    ),
    GateCase(
        "the gate of a promotion before",
        after_another_promotion,
        {"before": passed(6, environment=EAST)},
    ),
    GateCase(
        "a gate that goes to a group",
        after_a_gate_that_goes_to_a_group,
        {"g.gate": {**gate(path="go"), "skipmixin_key": {"followed": ["go.promote"]}}},
        {"ask.ledger": "skipped"},
    ),
    GateCase(
        "a gate that goes to a group which asks",
        after_a_gate_that_goes_to_a_group,
        {"g.gate": gate(path="ask")},
        {"ask.ledger": "running"},
        "ask.ledger is running",
    ),
    GateCase(
        "a gate that goes to a task which the DAG has no more",
        shipped,
        {"g.gate": gate(path="g.asked_once")},
        NO_ONE_ASKED,
        "g.gate chose g.asked_once, which the DAG has no more",
    ),
    # Marked as a success by somebody.
    GateCase("an approval", after(approval), {"approval": asked(answer=None)}, {}, "approval has no answer"),
    GateCase("a sensor's task", after(sensor), {}, {}, "ledger has let nothing through"),
    # Of other environments.
    GateCase("a sensor of another one", after(sensor), {"ledger": passed(3, environment=WEST)}),
    GateCase("a sensor that waits for another one", after(lambda: sensor(environment=WEST)), {}, {"ledger": "running"}),
    GateCase("an approval of another one", after(approval), {"approval": asked(3, environment=WEST)}),
    GateCase(
        "a sensor of another plan",
        after(lambda: sensor(plan_task_id="west.preflight"), plan_task_id="g.preflight"),
        {"ledger": passed(3, planned="west.preflight", environment=EAST)},
    ),
    GateCase(
        "one of each", after(sensor, lambda: sensor("other")), {"ledger": passed(3, environment=WEST), "other": passed(environment=EAST)}
    ),
    # One gate of several is enough.
    GateCase(
        "a yes, and nobody answered in the ledger",
        after(approval, sensor, trigger_rule="one_success"),
        {"approval": asked()},
        {"ledger": "failed"},
    ),
    GateCase(
        "the ledger's yes, and nobody answered in the page",
        after(approval, sensor, trigger_rule="one_success", approval_task_id="approval", plan_task_id="g.preflight"),
        {"ledger": passed(environment=EAST)},
        {"approval": "deferred"},
    ),
    GateCase(
        "neither",
        after(approval, sensor, trigger_rule="all_done"),
        {},
        {"approval": "failed", "ledger": "failed"},
        "approval failed, and has let nothing through",
    ),
    GateCase("a yes is enough for the task between", after_one_of_two, {"approval": asked()}, {"ledger": "running"}),
    GateCase(
        "a yes to another generation is not enough",
        after(approval, sensor, trigger_rule="one_success"),
        {"approval": asked(6)},
        {"ledger": "running"},
        "approval let generation 6 through",
    ),
    GateCase("both are needed", after(approval, sensor), {"approval": asked()}, {"ledger": "running"}, "ledger is running"),
    GateCase(
        "both are needed, whatever else the promotion waits for",
        after(approval, sensor, trigger_rule="all_done"),
        {"approval": asked()},
        {"ledger": "failed"},
        "ledger failed",
    ),
    GateCase(
        "a task beside one of them that always runs excuses no other",
        after_a_task_that_always_runs,
        {"approval": asked()},
        {"ledger": "running"},
        "ledger is running",
    ),
    GateCase(
        "a yes that was asked for after the no of the other one",
        after(approval, lambda: approval("owners"), trigger_rule="one_success"),
        {"approval": asked(), "owners": {"asked": {"g.preflight": {**asked()["asked"]["g.preflight"], "rejected_at": None}}}},
        {"owners": "failed"},
        "owners failed, and has let nothing through",
    ),
    GateCase(
        "a yes, and an approval that was asked as late and timed out",
        after(approval, lambda: approval("owners"), trigger_rule="one_success"),
        {"approval": asked(), "owners": {"asked": asked()["asked"]}},
        {"owners": "failed"},
    ),
    # A branch of one's own.
    GateCase(
        "it did not ask",
        after_a_gate_of_ones_own,
        {"branch": {"skipmixin_key": {"followed": ["g.promote"]}}},
        {"approval": "skipped"},
    ),
    GateCase(
        "it asks anew",
        after_a_gate_of_ones_own,
        {"branch": {"skipmixin_key": {"followed": ["g.promote"]}}},
        {"approval": "skipped", "branch": "running"},
        "approval was skipped, though no other gate was chosen",
    ),
    GateCase(
        "it chose the approval",
        after_a_gate_of_ones_own,
        {"branch": {"skipmixin_key": {"followed": ["approval"]}}},
        {"approval": "skipped"},
        "approval was skipped, though no other gate was chosen",
    ),
    GateCase(
        "a rejection before it", after_a_gate_of_ones_own, {"branch": {"skipmixin_key": {"skipped": []}}}, {"approval": "skipped"}, "was sk"
    ),
    # Mapped by themselves.
    GateCase("one that is mapped", after_a_mapped_sensor, {"ledger_0": passed(environment=EAST)}, {"ledger_0": "success"}),
    GateCase("of another generation", after_a_mapped_sensor, {"ledger_0": passed(2)}, {"ledger_0": "success"}, "ledger_0 let generation 2"),
    GateCase("an empty map", after_a_mapped_sensor, {}, {"ledger": "skipped"}, "ledger was skipped"),
    GateCase(
        "a map that was longer once",
        after_a_mapped_sensor,
        {"ledger_0": passed(environment=EAST), "ledger_1": passed(2)},
        {"ledger_0": "success", "ledger_1": "removed"},
    ),
    GateCase(
        "each for an environment",
        after_sensors_of_several,
        {"ledger_0": passed(3, environment=WEST), "ledger_1": passed(environment=EAST)},
        {"ledger_0": "success", "ledger_1": "success"},
    ),
    GateCase(
        "each for an environment, and ours asks again",
        after_sensors_of_several,
        {"ledger_0": passed(3, environment=WEST)},
        {"ledger_0": "success", "ledger_1": "running"},
        "ledger_1 is running",
    ),
]
