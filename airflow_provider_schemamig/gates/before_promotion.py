"""What the gates before a promotion say: whether each has let this very generation through, or why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, TriggerRule
from airflow.sdk.bases.skipmixin import XCOM_SKIPMIXIN_FOLLOWED, XCOM_SKIPMIXIN_KEY

from airflow_provider_schemamig.exceptions import SchemamigError
from airflow_provider_schemamig.gates.asked_plans import ASKED, AskedPlan, AskedPlans, asked_from
from airflow_provider_schemamig.gates.let_through import LET_THROUGH, Gate, LetThrough, let_through_from
from airflow_provider_schemamig.gates.task_of_run import TaskOfRun

if TYPE_CHECKING:
    from airflow.sdk import Context

#: By these Airflow starts a task as soon as one before it is done.
_ONE_IS_ENOUGH = frozenset({TriggerRule.ONE_SUCCESS, TriggerRule.ONE_DONE})
#: By these it skips a task as soon as one before it is skipped.
_ONE_SKIPS = frozenset({TriggerRule.ALL_SUCCESS, TriggerRule.NONE_SKIPPED})
_FAILED = frozenset({"failed", "upstream_failed"})


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """What one gate says of a generation. ``problem``: why it has not let it through, in words; empty: it has, or another gate was chosen.

    ``asked``, ``answered``: what an approval asked about, and what a person answered, as Airflow pushes it.
    """

    gate: TaskOfRun
    state: str | None
    problem: str = ""
    let_through: bool = False
    asked: AskedPlan | None = None
    answered: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _GateTask:
    """The state of a gate's task, the generation that it let through, and the plans asked about. Airflow is asked for them once."""

    gate: TaskOfRun
    state: str | None
    let_through: LetThrough | None
    asked: AskedPlans


@dataclass(frozen=True, slots=True)
class GatesBefore:
    """The gates before ``promotes``, for ``generation`` of ``environment``, which ``plan_task_id`` planned (empty: nobody knows which)."""

    promotes: BaseOperator
    context: Context
    generation: int
    environment: str
    plan_task_id: str

    def answers(self, approval_task_id: str) -> Sequence[GateVerdict]:
        """Return what the gates say: the nearest ones of each way that leads to the promotion, and the approval that it names.

        A gate counts unless it is known to be for another plan or environment.
        """
        gates = dict.fromkeys([approval_task_id] if approval_task_id else [])
        gates |= dict.fromkeys(task_id for task_id in self._walk() if self._is_gate(task_id))
        tasks = [task for task_id in gates for task in self._look(task_id)]
        return [self._answer(task) for task in tasks if task.gate.task_id == approval_task_id or not self._is_for_another(task)]

    def problem(self, answers: Sequence[GateVerdict]) -> GateVerdict | None:
        """Return the gate that stands in the way: none, if all that count let it through, but those beside which another one is enough."""
        yes = [answer for answer in answers if answer.let_through]
        problems = [each for each in answers if each.problem and not any(self._is_enough(one, each) for one in yes)]
        return min(problems, key=lambda answer: answer.state == "skipped", default=None)  # why it is skipped another one says better

    def _is_enough(self, yes: GateVerdict, beside: GateVerdict) -> bool:
        """Return whether Airflow comes to the promotion by one gate without the other: where both meet, one is enough.

        Not where a no came after the other one had asked, and before the yes was asked for: it may be the other one's.
        """
        one, other = yes.gate.task_id, beside.gate.task_id
        if yes.asked and beside.asked and yes.asked.rejected_at not in (None, beside.asked.rejected_at):
            return False
        joins: list[Any] = [self.promotes, *(self._tasks[task_id] for task_id in self._walk() if not self._is_gate(task_id))]
        return any(
            join.trigger_rule in _ONE_IS_ENOUGH
            and {one, other} <= join.get_flat_relative_ids(upstream=True)
            and (join is self.promotes or other not in self.promotes.upstream_task_ids)
            for join in joins
        )

    def _walk(self) -> Iterator[str]:
        """Yield the tasks before the promotion, going back. Each way ends at its first gate, or before another promotion."""
        seen: set[str] = set()
        to_see = sorted(self.promotes.upstream_task_ids, reverse=True)
        while to_see:
            task_id = to_see.pop()
            if task_id in seen or self._class_of(task_id) is type(self.promotes):
                continue
            seen.add(task_id)
            yield task_id
            if not self._is_gate(task_id):
                to_see += sorted(self._tasks[task_id].upstream_task_ids, reverse=True)

    @property
    def _tasks(self) -> Mapping[str, Any]:
        return self.promotes.dag.task_dict

    def _class_of(self, task_id: str) -> type:
        task = self._tasks[task_id]
        return getattr(task, "operator_class", type(task))

    def _is_gate(self, task_id: str) -> bool:
        return issubclass(self._class_of(task_id), Gate)

    # --- whose gate it is ----------------------------------------------------------------------------------------------------------

    def _is_for_another(self, task: _GateTask) -> bool:
        """Return whether the gate is known to be for something else: by what it was made with, and what it pushed."""
        claims, known = self._made_for(task.gate.task_id), task.let_through
        if known is not None:
            claims = {known.plan_task_id: known.environment or claims.get(known.plan_task_id, "")}
        claims |= {planned: plan.environment for planned, plan in task.asked.items()}
        return all(self._is_another(*claim) for claim in claims.items())

    def _is_another(self, plan_task_id: str, environment: str) -> bool:
        if plan_task_id and self.plan_task_id and plan_task_id != self.plan_task_id:
            return True
        return bool(environment) and not _is_same(environment, self.environment)

    def _made_for(self, task_id: str) -> dict[str, str]:
        """Return the environment of each plan of the gate, by the task that planned. It is empty where only a run knows it."""
        task = self._tasks[task_id]
        given: Mapping[str, Any] = getattr(task, "partial_kwargs", vars(task))
        plans = given.get("plans") or {given.get("plan_task_id") or "": given.get("environment")}
        return {planned: name if isinstance(name, str) and "{" not in name else "" for planned, name in plans.items()}

    # --- what it says --------------------------------------------------------------------------------------------------------------

    def _look(self, task_id: str) -> Iterator[_GateTask]:
        """Yield the instances of a task: one, if it is not mapped."""
        for gate in TaskOfRun(self.promotes, self.context, task_id).instances():
            pushed = gate.pull(LET_THROUGH)
            let_through = None if pushed is None else let_through_from(pushed)
            yield _GateTask(gate, gate.state, let_through, asked_from(gate.pull(ASKED) or {}))

    def _answer(self, task: _GateTask) -> GateVerdict:
        gate, state = task.gate, task.state
        if state == "skipped":
            is_over = self._is_passed_over(gate.task_id)
            return GateVerdict(gate, state, "" if is_over else "was skipped, though no other gate was chosen")
        if state != "success":
            how = "failed" if state in _FAILED else f"is {state}" if state else "has not begun again"
            about = next((plan for plan in task.asked.values() if plan.generation == self.generation), None)
            return GateVerdict(gate, state, f"{how}, and has let nothing through", asked=about)
        if task.asked:
            return self._answered(task)
        problem = "has let nothing through" if task.let_through is None else self._problem(task.let_through)
        return GateVerdict(gate, state, problem, let_through=not problem)

    def _problem(self, known: LetThrough) -> str:
        if known.generation != self.generation:
            return f"let generation {known.generation} through"
        for task_id in self._tasks_of(known.path):
            if task_id not in self._tasks:
                return f"chose {task_id}, which the DAG has no more"
            for path in map(self._answer, self._look(task_id)):
                if not (path.let_through if self._is_gate(task_id) else path.state == "success"):
                    return f"chose {path.gate.key}, which {path.problem or 'has let nothing through'}"
        return ""

    def _tasks_of(self, path: str) -> Sequence[str]:
        """Return the tasks that a gate followed: none where that is the promotion. Of a task group Airflow follows the first ones."""
        group = self.promotes.dag.task_group_dict.get(path)
        ids = [path] if group is None or path in self._tasks else [task.task_id for task in group.roots]
        return [] if not path or self.promotes.task_id in ids else ids

    def _answered(self, task: _GateTask) -> GateVerdict:
        """Return the verdict of an answered approval. Only the plans that it asked about for this environment count."""
        about = [plan for planned, plan in task.asked.items() if not self._is_another(planned, plan.environment)]
        if not about:
            return GateVerdict(task.gate, task.state, "did not ask about this environment")
        plan = next((plan for plan in about if plan.generation == self.generation), about[0])
        answered = task.gate.pull()
        problem = "" if plan.generation == self.generation else f"let generation {plan.generation} through"
        if not answered:  # somebody marked the task as a success
            problem = "has no answer"
        return GateVerdict(task.gate, task.state, problem, let_through=not problem, asked=plan, answered=answered)

    def _is_passed_over(self, gate: str, task_id: str = "") -> bool:
        """Return whether a gate is skipped as a branch before it went another way; it is not where a task before it was skipped alone.

        ``task_id``: the skipped task before it that is asked about; empty: the gate itself.
        """
        task = self._tasks[task_id or gate]
        before = [one for each in sorted(task.upstream_task_ids) for one in TaskOfRun(self.promotes, self.context, each).instances()]
        if any(self._chose_another(one, gate) for one in before):
            return True
        skipped = [one for one in before if one.state == "skipped"]
        if not skipped or (len(skipped) < len(before) and task.trigger_rule not in _ONE_SKIPS):
            return False
        return all(self._is_passed_over(gate, one.task_id) for one in skipped)

    def _chose_another(self, branch: TaskOfRun, gate: str) -> bool:
        """Return whether a branch of Airflow's followed other tasks, and none that leads to the gate: a rejection follows none."""
        followed = (branch.pull(XCOM_SKIPMIXIN_KEY) or {}).get(XCOM_SKIPMIXIN_FOLLOWED) or ()
        followed = [each for each in followed if each in self._tasks]  # the DAG may be another one by now
        reached = (gate == each or gate in self._tasks[each].get_flat_relative_ids(upstream=False) for each in followed)
        return branch.state == "success" and bool(followed) and not any(reached)


def _is_same(one: str, other: str) -> bool:
    """Return whether both name one environment, each by a connection or a URI; also where that cannot be found out."""
    from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

    if one == other:
        return True
    try:
        first, second = (SchemamigHook(name).environment.location.uri for name in (one, other))
    except SchemamigError:
        return True
    return bool(first == second)
