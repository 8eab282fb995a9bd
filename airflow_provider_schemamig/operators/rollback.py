"""The way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.notifications.schemamig import ROLLED_BACK
from airflow_provider_schemamig.operators.arguments import as_flag, as_number
from airflow_provider_schemamig.operators.committing import CommittingOperator
from airflow_provider_schemamig.operators.read_only import claim_id

if TYPE_CHECKING:
    from airflow.sdk import Context


class RollbackOperator(CommittingOperator):
    """Take the environment back to the release before: an upgrade under way, or one whose hold is open.

    One run's task goes one release back, in however many tries. Makes an asset event for each collection that went back.

    Starts Spark only if rows written since into a rewritten collection have to go back through ``down``.

    :param allow_lossy: (templated) whether to go on if rows written since (into a replaced collection, or into one that was rewritten
        without ``down``) would be left behind.
    :param generation: (templated) only this deployment, refused for another; empty: the newest.
    """

    template_fields: Sequence[str] = (*CommittingOperator.template_fields, "allow_lossy", "generation")
    ui_color = "#f2cfcf"

    def __init__(self, *, allow_lossy: bool | str = False, generation: int | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.allow_lossy = allow_lossy
        self.generation = generation

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.core.names import Generation

        number = as_number("generation", self.generation)
        with self.deferred_while_paused():
            outcome = commands.rollback(
                self.hook.environment,
                jobs=self.hook.job_runner,
                allow_lossy=as_flag("allow_lossy", self.allow_lossy),
                claim_id=claim_id(context),
                generation=None if number is None else Generation(number),
                listen=self.listener(),
            )
        found = self.answer(outcome)
        self.write_report(found["generation"])
        self.tell_changed(context, outcome.generation)
        self.tell_outcome(ROLLED_BACK, f"{self.environment} is back at {found['to'] or 'nothing'}, from {found['from']}", found)
        return found
