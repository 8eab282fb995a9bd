"""``schemamig reject``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_schemamig.cli.options import EnvOption, GenerationOption, JsonOption, PlanOption, ReasonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.core.names import Generation

if TYPE_CHECKING:
    from rich.console import Console


@answered
def reject(
    env: EnvOption, generation: GenerationOption, plan: PlanOption, reason: ReasonOption = None, as_json: JsonOption = False
) -> Answer:
    """Record that you read the plan of a generation and do not want it: nobody promotes it."""
    from airflow_provider_schemamig.core import commands

    done = commands.reject(open_environment(env), Generation(generation), plan, reason=reason)
    no = done.rejection
    by, why = (None, None) if no is None else (no.by, no.why)
    document = {"generation": generation, "plan_digest": done.plan_digest, "rejected_by": by, "reason": why}

    def show(to: Console) -> None:
        if no is None:
            to.print(f"Generation {generation} is over: nobody promotes it.")
            return
        to.print(f"Generation {generation} is rejected by {by}, plan {done.plan_digest[:12]}.")
        to.print(f"next: `schemamig cancel --generation {generation}` deletes what it built; `schemamig preflight` makes another plan.")
        if done.note:
            to.print(done.note)

    return Answer(document, show)
