"""Leader mode: what a promoted generation does to the environment, one operator a task of the protocol.

All of them can be killed and run again: they find what is done and go on. A generation that lost the leadership fails with ``Fenced``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig import lineage, run_notes
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.times import minute_of
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError
from airflow_provider_schemamig.gates.asked_plans import AskedPlan, answered_by
from airflow_provider_schemamig.gates.before_promotion import GatesBefore
from airflow_provider_schemamig.links.deployment import DeploymentLink
from airflow_provider_schemamig.links.plan import PlanLink
from airflow_provider_schemamig.notifications.schemamig import COMMITTED, HOLD_ENDS_SOON, PROMOTED
from airflow_provider_schemamig.operators.arguments import BadArgument, as_chunk, as_flag, as_generation, as_number, check_task_id
from airflow_provider_schemamig.operators.base import DEFAULT_SEAL_SECONDS, VerbOperator, bundle_of
from airflow_provider_schemamig.operators.committing import CommittingOperator, LineageOperator
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_schemamig.core.upgrade.context.context import Outcome


class GateOutdated(Refusal):
    """Preflight ran again after the gate, and planned something that it never saw. ``did``: what the gate did, in words."""

    code = "gate_outdated"
    message = "the task {task} {did}, and what would be promoted is generation {generation}."
    next_action = "Clear the gate and all after it; where a person is asked in Airflow, trigger the DAG again. Nothing was promoted."
    task: str
    did: str
    generation: int


class LeaderOperator(VerbOperator):
    """Base of the leader's operators.

    :param generation: (templated) the generation that preflight claimed.
    """

    template_fields: Sequence[str] = (*VerbOperator.template_fields, "generation")
    ui_color = "#f3e3c7"

    def __init__(self, *, generation: int | str | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.generation = generation


class PromoteLeaderOperator(LeaderOperator):
    """Take the leadership for a generation, if the plan is still the one that preflight checked and the gate let through.

    Fails for good with ``PlanChanged``, ``GateOutdated`` or ``Fenced``; does nothing if the generation leads already. Who approved it is
    recorded in the ledger, and is who did the tasks after it in ``schemamig history``.

    :param approval_task_id: the task (``PlanApprovalOperator``) whose answer names the approver; empty, or skipped: the ledger's approval,
        else the user who triggered the run.
    :param plan_task_id: the task that planned: what a gate said of another one's plan does not count. Its page is the button *Plan*.
    """

    operator_extra_links = (PlanLink(), DeploymentLink())

    def __init__(self, *, approval_task_id: str = "", plan_task_id: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if approval_task_id and not plan_task_id:
            raise BadArgument.of("plan_task_id", None, "the task whose plan the approval asks about")
        self.approval_task_id = approval_task_id
        self.plan_task_id = plan_task_id

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        approver, plan = self._let_through(context)
        with self.deferred_while_paused():
            outcome = commands.promote(
                self.hook.environment,
                as_generation(self.generation),
                approved_by=approver or None,
                approved_plan=None if plan is None else plan.plan_digest,
                rejected_at=None if plan is None else plan.rejected_at,
                bundle=bundle_of(context),
                listen=self.listener(),
            )
        found = self.answer(outcome)
        if found["epoch"] is None:
            return found  # a later generation leads: its tasks told where the environment is
        subject = f"Generation {self.generation} of {self.environment} is promoted: from {found['from'] or 'nothing'} to {found['to']}"
        self.tell_outcome(PROMOTED, subject, found, f"{subject}\nApproved by: {approver or '-'}", approver=approver)
        return found

    def _let_through(self, context: Context) -> tuple[str, AskedPlan | None]:
        """Return the person who said yes in Airflow, and the plan. Both are empty where no approval was asked.

        Raises PlanRejected for a no, after which Airflow skips nothing of a mapped task group, and GateOutdated unless all gates have let
        this very generation through; one of them where Airflow, too, waits for one alone.
        """
        from airflow_provider_schemamig.core.upgrade.errors import PlanRejected
        from airflow_provider_schemamig.operators.gate import PlanApprovalOperator

        generation = as_generation(self.generation)
        for argument in ("approval_task_id", "plan_task_id"):
            check_task_id(self, argument, getattr(self, argument))
        gates = GatesBefore(self, context, generation, self.environment, self.plan_task_id)
        answers = gates.answers(self.approval_task_id)
        for asked, answered in ((answer.asked, answer.answered) for answer in answers):
            if asked and answered and PlanApprovalOperator.REJECT in (answered.get("chosen_options") or ()):
                by, at = answered_by(answered) or "nobody (the default answer)", minute_of(str(answered["responded_at"]))
                raise PlanRejected(generation=asked.generation, plan=asked.plan_digest, by=by, at=at)
        if (not_yet := gates.problem(answers)) is not None:
            raise GateOutdated(task=not_yet.gate.key, did=not_yet.problem, generation=generation)
        yes = ((answered_by(answer.answered) or "", answer.asked) for answer in answers if answer.let_through and answer.asked)
        return next(yes, ("", None))


class ExpandOperator(LeaderOperator):
    """Settle what an earlier leader left, then make all instant changes of all collections, in this one task."""

    def run_verb(self) -> Outcome:
        from airflow_provider_schemamig.core import commands

        return commands.expand(self.hook.environment, as_generation(self.generation), jobs=self.hook.job_runner, listen=self.listener())


class ChangeOperator(LeaderOperator):
    """Make the online changes of some collections, and repeat fills whose inputs moved since. Map it over ``FillChunksOperator``.

    Its log tells each element's way to PUBLIC. Killed, the next try goes on from there. Rows that break a rule fail it for good, and the
    table is as it was before: fix them, and clear the task.

    :param collections: (templated) the collections of this task.
    """

    template_fields: Sequence[str] = (*LeaderOperator.template_fields, "collections")

    def __init__(self, *, collections: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.collections = collections

    def run_verb(self) -> Outcome:
        from airflow_provider_schemamig.core import commands

        return commands.change(
            self.hook.environment,
            as_generation(self.generation),
            jobs=self.hook.job_runner,
            collections=as_chunk(self.collections),
            listen=self.listener(),
        )


class CutoverOperator(LeaderOperator, CommittingOperator):
    """Follow and check what is rewritten, seal, catch up, rename, and flip the version in one append: the environment is at the release.

    Starts Spark only if the plan has a rewrite, or a fill that reads what is replaced or got rows. Its log and its outcome say for how long
    writers were blocked; the note of the run says which environment is at which release. Makes an asset event for each collection that
    changed.

    :param plan_task_id: the task that planned; its page is the button *Plan*.
    :param seal_seconds: (templated) for how long writers may be locked out; after that the tables are unsealed, and a next try begins anew.
    """

    template_fields: Sequence[str] = (*LeaderOperator.template_fields, "seal_seconds")
    operator_extra_links = (PlanLink(), DeploymentLink())

    def __init__(self, *, plan_task_id: str = "", seal_seconds: int | str = DEFAULT_SEAL_SECONDS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan_task_id = plan_task_id
        self.seal_seconds = seal_seconds

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core.html.moments import back_to

        found: dict[str, Any] = super().execute(context)
        self.write_report(found["generation"])
        if found["epoch"] is None:
            return found  # a later generation leads: its tasks told where the environment is
        run_notes.say(
            context, f"upgraded {self.environment} from {found['from'] or 'nothing'} to {found['to']}, generation {self.generation}"
        )
        self.tell_changed(context, self.generation)
        self.tell_outcome(COMMITTED, f"{self.environment} is at {found['to']}, from {found['from'] or 'nothing'}", found)
        for hold in found["pending"]:
            if hold["generation"] == found["generation"] and hold["state"] == "open":
                until = _moment(hold["until"])
                way = self.typed(
                    f"the way back to {back_to(hold)} is open until {until}: `schemamig rollback`, or the DAG schemamig_rollback."
                )
                self.log.info("%s: %s", self.environment, visible(way))
        return found

    def run_verb(self) -> Outcome:
        from airflow_provider_schemamig.core import commands

        return commands.cutover(
            self.hook.environment,
            as_generation(self.generation),
            seal_seconds=as_number("seal_seconds", self.seal_seconds) or DEFAULT_SEAL_SECONDS,
            jobs=self.hook.job_runner,
            listen=self.listener(),
        )


class CleanupOperator(LeaderOperator):
    """Delete shards and rows of earlier generations that nothing refers to. If it fails, the next one does it."""

    def run_verb(self) -> Outcome:
        from airflow_provider_schemamig.core import commands

        return commands.cleanup(self.hook.environment, as_generation(self.generation), listen=self.listener())


class ContractOperator(LeaderOperator, LineageOperator):
    """When the hold is over and no live node needs it, take away what only the release before needed. Skipped until then.

    Of no generation in particular it is skipped while a deployment is open, too: the next run ends the hold.

    :param generation: (templated) look at this generation's hold only; None: at all of them, the oldest first, as maintenance does.
    :param ignore_nodes: (templated) whether a hold is ended also if live nodes still need what it keeps.
    :param at_once: (templated) whether a hold is ended before its time: the way back is gone then.
    :param after_commit: whether the run has just committed the release: then a refusal is no failure of it, and the task is skipped.
    :param ends_soon: each run within this time before the end of a hold tells the notifiers of it.
    """

    template_fields: Sequence[str] = (*LeaderOperator.template_fields, "ignore_nodes", "at_once")

    def __init__(
        self,
        *,
        generation: int | str | None = None,
        ignore_nodes: bool | str = False,
        at_once: bool | str = False,
        after_commit: bool = False,
        ends_soon: timedelta = timedelta(hours=2),
        **kwargs: Any,
    ) -> None:
        super().__init__(generation=generation, **kwargs)
        self.after_commit = after_commit
        self.ignore_nodes = ignore_nodes
        self.at_once = at_once
        self.ends_soon = ends_soon

    def run_verb(self) -> Outcome:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.core.html.moments import back_to
        from airflow_provider_schemamig.core.upgrade.errors import DeploymentOpen, HoldInUse

        how = {"ignore_nodes": as_flag("ignore_nodes", self.ignore_nodes), "at_once": as_flag("at_once", self.at_once)}
        number = self._number(at_once=how["at_once"])
        try:
            outcome = commands.contract(self.hook.environment, number, **how, listen=self.listener())
        except HoldInUse as in_use:
            run_notes.say(self._context or {}, f"nothing is ended: {self.typed(in_use)}")
            self.skip_for(self.typed(in_use))
        except DeploymentOpen as busy:
            if number is not None:
                raise
            self.skip_for(self.typed(busy))
        except SchemamigError as error:
            if error.retryable or not self.after_commit:
                raise
            run_notes.say(self._context or {}, f"committed, but its contract was refused: {self.typed(error)}")
            self.skip_for(f"The release is committed; only its contract was not done: {self.typed(error)}")
        self._tell_of_ends(outcome.pending)
        if outcome.generation is None:
            open_until = (f"the way back to {back_to(hold)} stays open until {_moment(hold['until'])}" for hold in outcome.pending)
            self.skip_for("; ".join(["No hold is over", *open_until]) + ".")
        if lineage.is_on():
            touched = [stage.collection for stage in outcome.stages if stage.collection is not None and stage.table_version is not None]
            self.tell_lineage(commands.tables_now(self.hook.environment, touched))
        return outcome

    def _number(self, *, at_once: bool) -> Generation | None:
        """Return the generation, None for all. An empty text is none, but never all that are to end before their time: a form that was
        left empty would take every way back."""
        if self.generation is None:
            return None
        given = as_generation(self.generation) if at_once else as_number("generation", self.generation)
        return None if given is None else Generation(given)

    def awaited_generation(self) -> None:
        """Return none: a hold is ended after its generation, which leads no more."""

    def _tell_of_ends(self, pending: Sequence[Mapping[str, Any]]) -> None:
        for hold in pending:
            until, now = datetime.fromisoformat(hold["until"]), datetime.now(UTC)
            if now < until <= now + self.ends_soon:
                subject = f"The way back of {self.environment} to {hold['from']} ends at {_moment(hold['until'])}"
                text = f"{subject}.\nUntil then `schemamig rollback` goes back; afterwards what only {hold['from']} needed is taken away."
                facts = {name: hold[name] for name in ("from", "to", "generation", "until")}
                self.tell_event(HOLD_ENDS_SOON, subject, text, **facts)


def _moment(text: str) -> str:
    """Return a document's time as people read it."""
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
