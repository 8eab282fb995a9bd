"""What a person says to work on rows that is under way, without a shell: wait, slow down, keep the history, give up."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.operators.base import BadArgument, EnvironmentOperator, as_generation, as_number
from airflow_provider_schemamig.operators.reports import outcome_summary

if TYPE_CHECKING:
    from airflow.sdk import Context

#: The holder of pins that name no generation.
HOLDER = "airflow"


class ControlOperator(EnvironmentOperator):
    """Pause, resume or throttle work on rows, postpone the last step of online changes or force them past busy writers, pin or unpin a
    table's history, or cancel a generation. Empty texts mean "not given".

    Returns what the command line's command of the same name prints.

    :param action: (templated) ``pause``, ``postpone``, ``resume``, ``throttle``, ``force``, ``cancel``, ``pin`` or ``unpin``.
    :param collection: (templated) the collection; for the first four empty: all of them.
    :param rows_per_second: (templated) for ``throttle``. Limits that are not given are taken back.
    :param max_files: (templated) for ``throttle``: files a batch.
    :param commits_per_minute: (templated) for ``throttle``; each batch is one.
    :param window: (templated) for ``throttle``: the hours UTC in which batches begin, ``22-6``.
    :param generation: (templated) for ``cancel``; for ``pin`` and ``unpin`` the holder (empty: ``airflow``).
    :param hours: (templated) for ``pin``.
    :param reason: (templated) for ``pause`` and ``postpone``: why. It is shown wherever something waits, with the user who triggered the
        run (where Airflow does not know one, the run).
    """

    template_fields: Sequence[str] = (
        *EnvironmentOperator.template_fields,
        "action",
        "collection",
        "rows_per_second",
        "max_files",
        "commits_per_minute",
        "window",
        "generation",
        "hours",
        "reason",
    )

    def __init__(
        self,
        *,
        action: str,
        collection: str = "",
        rows_per_second: int | str | None = None,
        max_files: int | str | None = None,
        commits_per_minute: int | str | None = None,
        window: str = "",
        generation: int | str | None = None,
        hours: int | str | None = None,
        reason: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.action = action
        self.collection = collection
        self.rows_per_second = rows_per_second
        self.max_files = max_files
        self.commits_per_minute = commits_per_minute
        self.window = window
        self.generation = generation
        self.hours = hours
        self.reason = reason

    def execute(self, context: Context) -> dict[str, Any]:
        control = functools.partial(self._control, triggered_by(context))
        actions: dict[str, Callable[[], dict[str, Any]]] = {
            "pause": control,
            "postpone": control,
            "resume": control,
            "throttle": control,
            "force": control,
            "cancel": self._cancel,
            "pin": self._pin,
            "unpin": self._unpin,
        }
        if self.action not in actions:
            raise BadArgument(argument="action", value=self.action, wanted=f"one of {', '.join(actions)}")
        done = actions[self.action]()
        self.log.info("%s: %s", self.action, done)
        return done

    def _control(self, by: str | None) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.core.upgrade.status import control_json

        env, scope = self.hook.environment, self.collection or None
        if self.action == "pause":
            return control_json(commands.pause(env, scope, by=by, reason=self.reason))
        if self.action == "postpone":
            return control_json(commands.postpone(env, scope, by=by, reason=self.reason))
        if self.action == "resume":
            return control_json(commands.resume(env, scope, by=by))
        if self.action == "force":
            return control_json(commands.force(env, self._name("the collection whose writers may have to wait"), by=by))
        limits = {name: as_number(name, getattr(self, name)) for name in ("rows_per_second", "max_files", "commits_per_minute")}
        return control_json(commands.throttle(env, scope, **limits, window=as_window(self.window), by=by))

    def _cancel(self) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        env, generation = self.hook.environment, as_generation(self.generation)
        return outcome_summary(commands.cancel(env, generation, jobs=self.hook.job_runner, listen=self.listener()).to_json())

    def _pin(self) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.core.upgrade.status import pin_json

        hours = as_number("hours", self.hours)
        if hours is None:
            raise BadArgument(argument="hours", value="", wanted="the hours of history that the copy needs")
        name = self._name("the collection whose history is kept")
        return pin_json(commands.pin(self.hook.environment, name, self._holder(), hours), name)

    def _unpin(self) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        name, holder = self._name("the collection whose history was kept"), self._holder()
        return {"collection": name, "holder": holder, "unpinned": commands.unpin(self.hook.environment, name, holder)}

    def _name(self, wanted: str) -> str:
        if not self.collection:
            raise BadArgument(argument="collection", value="", wanted=wanted)
        return self.collection

    def _holder(self) -> str:
        return str(as_generation(self.generation)) if self.generation else HOLDER


def triggered_by(context: Context) -> str | None:
    """Who triggered the run, or which run it is; None outside of one. Not from its conf, which anybody who triggers it writes."""
    run = context.get("dag_run")
    if run is None:
        return None
    return getattr(run, "triggering_user_name", None) or f"airflow:{run.dag_id}/{run.run_id}"


def as_window(value: str) -> tuple[int, int] | None:
    """``22-6`` as it comes from a literal or a rendered template; '' is none."""
    if not value:
        return None
    first, _, last = value.partition("-")
    if not (first.isdecimal() and last.isdecimal()):
        raise BadArgument(argument="window", value=value, wanted="hours UTC such as 22-6")
    return int(first), int(last)
