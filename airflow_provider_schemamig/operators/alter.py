"""One change of one live table, outside of a release."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.operators.arguments import as_hold, as_text
from airflow_provider_schemamig.operators.committing import CommittingOperator
from airflow_provider_schemamig.operators.read_only import claim_id

if TYPE_CHECKING:
    from airflow.sdk import Context


class AlterOperator(CommittingOperator):
    """Make one ALTER, CREATE or DROP TABLE while others read and write; the next release has to contain the change.

    A retry goes on with what the try before it began, and finds what it finished. A run that fails for good leaves the deployment to be
    rolled back (``RollbackOperator``). Makes an asset event for the collection.

    :param statement: (templated) one ALTER, CREATE or DROP TABLE in Spark SQL.
    :param hold: (templated) hours, or a timedelta, for which it can be rolled back after its commit. 0: what it drops is gone at once.
    """

    template_fields: Sequence[str] = (*CommittingOperator.template_fields, "statement", "hold")
    ui_color = "#f3e3c7"

    def __init__(self, *, statement: str, hold: timedelta | float | str = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.statement = statement
        self.hold = hold

    def awaited_generation(self) -> int | None:
        from airflow_provider_schemamig.core import commands

        own = claim_id(self._context) if self._context is not None else ""
        return next((int(generation) for generation, claim in commands.open_claims(self.hook.environment) if claim == own), None)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        with self.deferred_while_paused():
            outcome = commands.alter(
                self.hook.environment,
                as_text("statement", self.statement, "one ALTER, CREATE or DROP TABLE"),
                hold=as_hold(self.hold),
                claim_id=claim_id(context),
                jobs=self.hook.job_runner,
                listen=self.listener(),
            )
        found = self.answer(outcome)
        self.tell_changed(context, outcome.generation)
        return found
