"""``schemamig approve``."""

from __future__ import annotations

from airflow_provider_schemamig.cli.options import (
    EnvOption,
    GenerationOption,
    JsonOption,
    PlanOption,
    open_environment,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.core.names import Generation


@answered
def approve(
    env: EnvOption,
    generation: GenerationOption,
    plan: PlanOption,
    as_json: JsonOption = False,
) -> Answer:
    """Record that you read the plan of a generation and want it."""
    from airflow_provider_schemamig.core import commands

    approval = commands.approve(open_environment(env), Generation(generation), plan)
    document = {"generation": generation, "plan_digest": approval.plan_digest, "approved_by": approval.approved_by}
    return Answer(document, lambda to: to.print(f"Generation {generation} is approved by {approval.approved_by}, plan {plan[:12]}."))
