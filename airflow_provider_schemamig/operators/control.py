"""Operators by which a person controls an upgrade without a shell: wait, slow down, keep the history, go on, give up.

Empty texts mean "not given", for a rendered template is a text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.operators.arguments import BadArgument, as_generation, as_number, as_text, as_window
from airflow_provider_schemamig.operators.base import DocumentOperator, VerbOperator, run_in_name_of
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_schemamig.core.ledger.rows import Control
    from airflow_provider_schemamig.core.upgrade.context.context import Outcome

#: The holder of pins that name no generation.
HOLDER = "airflow"


class ControlledOperator(DocumentOperator):
    """Base of the controls of one collection, or of all, in the name of the user who triggered the run.

    :param collection: (templated) the collection; empty: all of them.
    """

    template_fields: Sequence[str] = (*DocumentOperator.template_fields, "collection")

    def __init__(self, *, collection: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.collection = collection

    def tell(self, verb: Callable[..., Control], context: Context, /, **words: Any) -> dict[str, Any]:
        """Run the verb for the collection, and return the control that is in force then."""
        from airflow_provider_schemamig.core.upgrade.status import control_json

        return control_json(self._written(verb, context, words))

    def tell_with_others(self, verb: Callable[..., Control], context: Context, /, **words: Any) -> dict[str, Any]:
        """Do the same as ``tell``, and log the other pauses and postponements that hold, each with the way to take it back."""
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.core.upgrade.context.controls import still_words
        from airflow_provider_schemamig.core.upgrade.status import control_json

        written = self._written(verb, context, words)
        for held in commands.still_paused(self.hook.environment, written):
            self.log.warning("%s", visible(still_words(held)))
        return control_json(written)

    def _written(self, verb: Callable[..., Control], context: Context, words: Mapping[str, Any]) -> Control:
        return verb(self.hook.environment, as_text("collection", self.collection) or None, **words, by=run_in_name_of(context))

    def sentence(self, found: Mapping[str, Any]) -> str:
        from airflow_provider_schemamig.core.upgrade.status import control_words

        if "paused" not in found:  # a pin's
            return super().sentence(found)
        name, state, rest = control_words(found)
        return f"{name}: {state}{rest}"


class ReasonedOperator(ControlledOperator):
    """Base of what makes work wait.

    :param reason: (templated) why. It is shown wherever something waits, with the user who triggered the run.
    """

    template_fields: Sequence[str] = (*ControlledOperator.template_fields, "reason")

    def __init__(self, *, reason: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason


class PauseOperator(ReasonedOperator):
    """Let no upgrade go further: no batch of rows, no promotion, no seal, no commit. What is in flight ends."""

    def run_verb(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        return self.tell(commands.pause, context, reason=as_text("reason", self.reason) or None)


class PostponeOperator(ReasonedOperator):
    """Let work on rows go on, but the last step of online changes wait for ``ResumeOperator``."""

    def run_verb(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        return self.tell_with_others(commands.postpone, context, reason=as_text("reason", self.reason) or None)


class ResumeOperator(ControlledOperator):
    """Take a pause, a postponement or a force back; limits stay."""

    def run_verb(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        return self.tell_with_others(commands.resume, context)


class ForceOperator(ControlledOperator):
    """Let busy writers wait for the last step of an online change after one lost race, not two, and for a fill that they outrun.

    :param collection: (templated) the collection whose writers may have to wait.
    """

    def run_verb(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        as_text("collection", self.collection, "the collection whose writers may have to wait")
        return self.tell_with_others(commands.force, context)


class ThrottleOperator(ControlledOperator):
    """Set the limits of work on rows to exactly these; those that are not given are taken back.

    :param rows_per_second: (templated) on average.
    :param max_files: (templated) files a batch.
    :param commits_per_minute: (templated) each batch is one.
    :param window: (templated) the hours UTC in which batches begin, ``22-6``.
    """

    template_fields: Sequence[str] = (*ControlledOperator.template_fields, "rows_per_second", "max_files", "commits_per_minute", "window")

    def __init__(
        self,
        *,
        rows_per_second: int | str | None = None,
        max_files: int | str | None = None,
        commits_per_minute: int | str | None = None,
        window: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rows_per_second = rows_per_second
        self.max_files = max_files
        self.commits_per_minute = commits_per_minute
        self.window = window

    def run_verb(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        limits = {name: as_number(name, getattr(self, name)) for name in ("rows_per_second", "max_files", "commits_per_minute")}
        return self.tell(commands.throttle, context, **limits, window=as_window(self.window))


class PinOperator(ControlledOperator):
    """Keep a live table's history longer, for a copy that takes longer than it is kept. Commits to the table.

    :param collection: (templated) the collection whose history is kept.
    :param hours: (templated) the hours of history that the copy needs.
    :param holder: (templated) whose pin it is; empty: ``airflow``.
    """

    template_fields: Sequence[str] = (*ControlledOperator.template_fields, "hours", "holder")

    def __init__(self, *, hours: int | str, holder: int | str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hours = hours
        self.holder = holder

    def run_verb(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.core.upgrade.status import pin_json

        hours, name = as_number("hours", self.hours), as_text("collection", self.collection, "the collection whose history is kept")
        if hours is None:
            raise BadArgument.of("hours", None, "the hours of history that the copy needs")
        return pin_json(commands.pin(self.hook.environment, name, as_text("holder", self.holder) or HOLDER, hours), name)


class UnpinOperator(ControlledOperator):
    """Take a pin back. The table's own settings come back with the last one.

    :param collection: (templated) the collection whose history was kept.
    :param holder: (templated) whose pin it is; empty: ``airflow``.
    """

    template_fields: Sequence[str] = (*ControlledOperator.template_fields, "holder")

    def __init__(self, *, holder: int | str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.holder = holder

    def run_verb(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        name = as_text("collection", self.collection, "the collection whose history was kept")
        holder = as_text("holder", self.holder) or HOLDER
        return {"collection": name, "holder": holder, "unpinned": commands.unpin(self.hook.environment, name, holder)}


class ApproveOperator(DocumentOperator):
    """Record a yes to the plan of a generation, by the user who triggered the run and has read it. The gate ``ledger`` waits for that.

    :param generation: (templated) the generation that preflight claimed.
    :param plan: (templated) the digest of the plan that was read.
    """

    template_fields: Sequence[str] = (*DocumentOperator.template_fields, "generation", "plan")

    def __init__(self, *, generation: int | str, plan: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.generation = generation
        self.plan = plan

    def run_verb(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        generation = as_generation(self.generation)
        approval = commands.approve(
            self.hook.environment, generation, as_text("plan", self.plan, "the digest of the plan that was read"), run_in_name_of(context)
        )
        return {"generation": generation, "plan_digest": approval.plan_digest, "approved_by": approval.approved_by}


class CancelOperator(VerbOperator):
    """Give a generation up: what it built is deleted. Promoted already: it is rolled back. Committed: refused.

    :param generation: (templated) the generation that preflight claimed.
    """

    template_fields: Sequence[str] = (*VerbOperator.template_fields, "generation")
    ui_color = "#f2cfcf"

    def __init__(self, *, generation: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.generation = generation

    def run_verb(self) -> Outcome:
        from airflow_provider_schemamig.core import commands

        return commands.cancel(self.hook.environment, as_generation(self.generation), jobs=self.hook.job_runner, listen=self.listener())
