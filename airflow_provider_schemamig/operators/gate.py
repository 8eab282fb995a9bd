"""The gate between preflight and promotion: which one it is, and the person who answers in Airflow's page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseBranchOperator
from airflow.sdk.execution_time.hitl import HITLUser

from airflow_provider_schemamig import run_notes
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError
from airflow_provider_schemamig.gates.asked_plans import ASKED, AskedPlan, AskedPlans, answered_by, asked_from, plan_line, push_asked
from airflow_provider_schemamig.gates.let_through import Gate, LetThrough, push_let_through
from airflow_provider_schemamig.gates.task_of_run import TaskOfRun
from airflow_provider_schemamig.links.deployment import DeploymentLink
from airflow_provider_schemamig.links.plan import PlanLink, offer_plan, page_of
from airflow_provider_schemamig.notifications.schemamig import GATE_WAITS, KEY, Notice
from airflow_provider_schemamig.operators.arguments import BadArgument, as_generation, check_task_id
from airflow_provider_schemamig.operators.base import SchemamigOperator
from airflow_provider_schemamig.operators.refused import TaskRefused
from airflow_provider_schemamig.operators.reports import plain
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    from airflow.sdk import Context


#: The gate that is one of the others, by the plan's risk.
AUTO = "auto"


class ApprovalOutdated(Refusal):
    """Airflow keeps the text and the assigned users of the first time that a task of a run asks, also when it is cleared."""

    code = "approval_outdated"
    message = "the page of this approval shows what was asked at first in this run, and not what is asked by now: {plans}."
    next_action = "Trigger the DAG again: its run shows the plan of now. This run ends here, and has promoted nothing."
    plans: str


class PromotionGateOperator(Gate, SchemamigOperator, BaseBranchOperator):
    """Follow the gate that the run asks for; the others are skipped. All are, where nothing was planned.

    :param gate: (templated) ``approval`` (a person answers in Airflow), ``ledger`` (``schemamig approve``), ``none``, or ``auto``: ``none``
        where preflight found no reason to ask anybody, else ``approval``. The log has the reasons.
    :param paths: the task to follow for each gate but ``auto``.
    :param plan_task_id: the preflight that found the reasons, and whose generation is let through.
    """

    template_fields: Sequence[str] = ("gate",)

    def __init__(self, *, gate: str, paths: Mapping[str, str], plan_task_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gate = gate
        self.paths = paths
        self.plan_task_id = plan_task_id

    def choose_branch(self, context: Context) -> str | Iterable[str] | None:
        check_task_id(self, "plan_task_id", self.plan_task_id)
        gates = [*self.paths, *([AUTO] if {"none", "approval"} <= {*self.paths} else [])]
        if self.gate not in gates:
            raise BadArgument.of("gate", self.gate, f"one of {', '.join(gates)}")
        generation = TaskOfRun(self, context, self.plan_task_id).pull("generation")
        if generation is None:
            return ()  # an approval for several environments came, and there is nothing to do in this one
        gate = self._by_risk(context) if self.gate == AUTO else self.gate
        push_let_through(context, LetThrough(as_generation(generation), self.plan_task_id, path=self.paths[gate]))
        return self.paths[gate]

    def _by_risk(self, context: Context) -> str:
        """Return the gate for what preflight found; where nothing is known somebody is asked."""
        risks = TaskOfRun(self, context, self.plan_task_id).pull("risks")
        if risks == []:
            self.log.info("Nobody is asked: the plan is instant, breaks nobody and can be taken back.")
            return "none"
        self.log.info("Somebody is asked:\n%s", "\n".join(f"- {visible(risk)}" for risk in risks or ("the plan's risk is not known",)))
        return "approval"


class PlanApprovalOperator(Gate, ApprovalOperator):
    """Ask a person whether the plan shall run: Airflow's own approval, whose log says what is waited for, until when, and who answered.

    A rejection skips what follows; the note of the run says who rejected it.

    :param environment: (templated) whose plan is asked about.
    :param plan_task_id: the task that planned it: an answer is for that plan alone. Its page is the button *Plan*.
    :param plan_digest: (templated) of that plan, for the log and notifiers.
    """

    template_fields: Sequence[str] = (*ApprovalOperator.template_fields, "plan_digest", "environment")
    operator_extra_links = (PlanLink(), DeploymentLink())

    def __init__(self, *, environment: str, plan_task_id: str, plan_digest: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan_digest = plan_digest
        self.environment = environment
        self.plan_task_id = plan_task_id

    def execute(self, context: Context) -> Any:
        asked = self._asked_now(context)
        self._check_shown(context, [plan_line(plan.generation, plan.plan_digest) for plan in asked.values()] or self.plan_digest.split())
        push_asked(context, asked)
        until = "somebody answers"
        if self.response_timeout is not None:
            until = (datetime.now(UTC) + self.response_timeout).strftime("%Y-%m-%d %H:%M UTC")
        self.log.info("%s Waiting until %s for an answer about plan %s.", self.subject, until, self.plan_digest)
        self.log.info("To answer: the tab Required Actions of this task, %s/required_actions", page_of(context["ti"], self.task_id))
        offer_plan(self, context)
        page = f"{page_of(context['ti'], self.task_id)}/required_actions"
        text = f"{self.subject}\nWaiting until {until} for an answer: {page}\n\n{plain(self.body or '')}"
        notice = Notice(GATE_WAITS, self.environment, self.subject, text, {"plan_digest": self.plan_digest, "page": page})
        with_notice: Any = {**context, KEY: notice.to_context(context)}  # Airflow's own code gives it to ``notifiers``
        return super().execute(with_notice)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        if answers := event.get("chosen_options"):  # before Airflow's own, which leaves by an exception where something is skipped
            who = answered_by(event)
            self.log.info("%s %s, by %s", self.subject, answers[0], who or "nobody (its default)")
            if answers[0] == self.REJECT:
                run_notes.say(context, f"rejected by {who or 'nobody (the default)'}; the environment is as before. {self.subject}")
                self._record_rejection(context, who or "nobody (the default answer)")
        return super().execute_complete(context, event)

    def asked(self) -> Mapping[str, str]:
        """Return the environment of each plan to ask about, by the task that planned."""
        return {self.plan_task_id: self.environment}

    def _asked_now(self, context: Context) -> AskedPlans:
        """Return the plan of each environment, with the no that stands against it. Environments with nothing to do are left out.

        Where an environment cannot be read, none is known of: if there is one, a yes is refused, and the approval has to be cleared. Raises
        TaskRefused for a plan whose no has ended no gate yet: who clears this one then asks again.
        """
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

        found = {}
        for task_id, environment in self.asked().items():
            try:
                check_task_id(self, "plan_task_id", task_id)
            except BadArgument as error:
                self._refuse(error)
            generation, digest = map(TaskOfRun(self, context, task_id).pull, ("generation", "plan_digest"))
            if generation is None:
                continue
            rejected_at = None
            try:
                rejected_at = commands.meet_rejection(SchemamigHook(environment).environment, as_generation(generation))
            except Refusal as error:
                self._refuse(error)
            except SchemamigError as error:
                self.log.warning("Whether somebody rejected the plan for %s is not known: %s", environment, visible(str(error)))
            found[task_id] = AskedPlan(environment, int(generation), str(digest), rejected_at)
        return found

    def _check_shown(self, context: Context, plans: Sequence[str]) -> None:
        """Raise TaskRefused unless the page of the approval shows these plans, each of its generation, and to whom it is assigned.

        Of one generation all that the text says of a plan holds: its way back gets no shorter. A text of somebody's own that names no plan
        has to be the one of now.
        """
        shown, named = _request_shown(self, context), [plan for plan in plans if plan in (self.body or "")]
        of_now = all(plan in (shown.body or "") for plan in named) if named else shown.body == self.body
        assigned = {user["id"] for user in self.assigned_users or ()}
        if not (of_now and {user.id for user in shown.assigned_users or ()} == assigned):
            self._refuse(ApprovalOutdated(plans="; ".join(plans) or "the plan of now"))

    def _refuse(self, error: SchemamigError) -> NoReturn:
        self.log.error("%s", error)
        raise TaskRefused(str(error), error)

    def _record_rejection(self, context: Context, who: str) -> None:
        """Write into the environments' history who did not want the plans; the answer counts even if that cannot be written."""
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

        environments = self.asked()
        for task_id, plan in asked_from(TaskOfRun(self, context, self.task_id).pull(ASKED) or {}).items():
            environment, generation = environments[task_id], as_generation(plan.generation)
            try:
                env = SchemamigHook(environment, who=who).environment
                note = commands.reject(env, generation, plan.plan_digest, who, at_gate=True, rejected_at=plan.rejected_at).note
            except SchemamigError as error:
                note = str(error)
            if note:
                self.log.warning("The rejection is not in the history of %s: %s", environment, visible(note))


class PlansApprovalOperator(PlanApprovalOperator):
    """Ask a person once about the plans for several environments (``approve_together``).

    The page of one environment does not answer it: the answer is for all of them.

    :param plans: the environment (templated) of each preflight, by the id of its task.
    """

    operator_extra_links = ()  # type: ignore[assignment]  # both lead to one environment
    template_fields: Sequence[str] = (*PlanApprovalOperator.template_fields, "plans")

    def __init__(self, *, plans: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(plan_task_id="", **kwargs)
        self.plans = plans

    def asked(self) -> Mapping[str, str]:
        return self.plans


def _request_shown(approval: ApprovalOperator, context: Context) -> Any:
    """Make the request of Airflow's own ``execute`` ahead of it, and return what is shown. Airflow's own drops the answer."""
    from airflow.sdk.api.datamodels._generated import HITLUser as ShownUser
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import CreateHITLDetailPayload

    request = CreateHITLDetailPayload(
        ti_id=context["ti"].id,
        options=approval.options,
        subject=approval.subject,
        body=approval.body,
        defaults=approval.defaults,
        multiple=approval.multiple,
        params=approval.serialized_params,
        assigned_users=[ShownUser(id=user["id"], name=user["name"]) for user in approval.assigned_users or ()],
    )
    return task_runner.SUPERVISOR_COMMS.send(msg=request)


def users(ids: Sequence[str]) -> list[HITLUser] | None:
    """Return the users that an approval is assigned to, as Airflow takes them; None, if there are none, for whoever may run the DAG."""
    return [HITLUser(id=user, name=user) for user in ids] or None
