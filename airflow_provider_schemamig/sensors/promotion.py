"""The promotion gate for those who approve in the ledger (``schemamig approve``), not in Airflow's page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.gates.let_through import Gate, LetThrough, push_let_through
from airflow_provider_schemamig.links.deployment import DeploymentLink
from airflow_provider_schemamig.links.plan import PlanLink, offer_plan
from airflow_provider_schemamig.notifications.schemamig import GATE_WAITS
from airflow_provider_schemamig.operators.arguments import as_generation
from airflow_provider_schemamig.sensors.base import EnvironmentSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_schemamig.triggers.ledger import EnvironmentTrigger


class PromotionSensor(Gate, EnvironmentSensor):
    """Waits until the plan of a generation is approved in the ledger. Its log says what to type for that.

    :param generation: (templated) the generation that preflight claimed.
    :param plan_task_id: the task that planned; its page is the button *Plan*.
    """

    template_fields: Sequence[str] = (*EnvironmentSensor.template_fields, "generation")

    operator_extra_links = (PlanLink(), DeploymentLink())

    def __init__(self, *, generation: int | str, plan_task_id: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.generation = generation
        self.plan_task_id = plan_task_id

    def execute(self, context: Context) -> Any:
        offer_plan(self, context)
        return self._let_through(context, super().execute(context))

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> Any:
        return self._let_through(context, super().execute_complete(context, event))

    def _let_through(self, context: Context, result: Any) -> Any:
        push_let_through(context, LetThrough(as_generation(self.generation), self.plan_task_id, self.environment))
        return result

    def tell_how(self, deadline: float) -> None:
        from airflow_provider_schemamig.core import commands

        generation = as_generation(self.generation)
        digest = commands.plan_digest(self.hook.environment, generation)
        until = datetime.fromtimestamp(deadline, UTC).strftime("%Y-%m-%d %H:%M UTC")
        self.log.info("Waiting until %s for somebody to approve plan %s of generation %s in the ledger.", until, digest, generation)
        self.log.info(
            "To approve it: schemamig approve --env %s --generation %s --plan %s", shlex.quote(self.typed_uri()), generation, digest
        )
        if self.deferrable or self.mode == "poke":  # in mode reschedule each look would tell it again
            typed = f"schemamig approve --env {shlex.quote(self.typed_uri())} --generation {generation} --plan {digest}"
            subject = f"Generation {generation} of {self.environment} waits for an approval in the ledger"
            text = f"{subject} until {until}\nTo approve it: {typed}"
            self.tell_event(GATE_WAITS, subject, text, generation=generation, plan_digest=digest)
        self.log.info("Or trigger the DAG schemamig_approve: generation %s, plan %s.", generation, digest)

    def trigger(self, deadline: float) -> EnvironmentTrigger:
        from airflow_provider_schemamig.triggers.ledger import PromotionTrigger

        return PromotionTrigger(self.environment, self.poke_interval, deadline, generation=as_generation(self.generation))
