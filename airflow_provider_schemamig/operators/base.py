"""What all operators of schemamig have in common: the environment, the retry policy, progress in the log, and killing."""

from __future__ import annotations

import contextlib
import inspect
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseNotifier, BaseOperator, BaseOperatorLink
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_schemamig import concurrent_runs, config
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.typed_commands import complete
from airflow_provider_schemamig.credentials import blank_typed
from airflow_provider_schemamig.exceptions import Refused, SchemamigError
from airflow_provider_schemamig.lineage import spark_parent
from airflow_provider_schemamig.links.deployment import DeploymentLink
from airflow_provider_schemamig.metrics import metered
from airflow_provider_schemamig.notifications.schemamig import DRIFT, PAUSED, STREAM_STOPPED, Notice, tell
from airflow_provider_schemamig.operators.arguments import check_conf, check_rendered
from airflow_provider_schemamig.operators.refused import telling
from airflow_provider_schemamig.operators.reports import outcome_summary
from airflow_provider_schemamig.retry import DEFAULT_RETRIES, SchemamigRetryPolicy
from airflow_provider_schemamig.traces import PhaseSpans, phases, traced
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    from airflow.sdk import Context, RetryPolicy

    from airflow_provider_schemamig.core.progress import Event, Listener
    from airflow_provider_schemamig.core.upgrade.context.context import Outcome
    from airflow_provider_schemamig.hooks.schemamig import SchemamigHook


#: For how long a cut-over may lock writers out, unless it is told otherwise.
DEFAULT_SEAL_SECONDS = 60
#: Between two lines of the log that only say that something still runs.
_BEAT_SECONDS = 30.0
#: After so long a deferred task looks for itself.
_LONGEST_PAUSE = timedelta(days=365)
#: The codes of a stream that does not go on by itself (``replica_errors``).
STOPPED = frozenset({"stream_stopped", "gap"})


class SchemamigOperator(BaseOperator):
    """Base of all operators and sensors: when a task is tried again.

    :param retries: tries after the first; ``SchemamigRetryPolicy`` spends them on conflicts only.
    :param retry_policy: default ``SchemamigRetryPolicy()``.
    :param notifiers: ``SchemamigNotifier``, one or several: who is told what happens.
    :param only_params: whether a run is refused whose conf has a key that is no parameter of the DAG, as a misspelt one is; in
        ``default_args``, for all tasks.
    """

    ui_color = "#d7ecec"
    operator_extra_links: Collection[BaseOperatorLink] = (DeploymentLink(),)
    #: In whose name it works: the user who triggered the run, else the run.
    who: str | None = None
    _context: Context | None = None
    _phases: PhaseSpans | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        owner = next(kind for kind in cls.__mro__ if "execute" in vars(kind))
        if owner is not BaseOperator and not getattr(cls.execute, "tells", False):
            cls.execute = telling(cls.execute)  # type: ignore[method-assign]

    def __init__(
        self,
        *,
        retries: int = DEFAULT_RETRIES,
        retry_delay: timedelta | float = timedelta(seconds=30),
        retry_policy: RetryPolicy | None = None,
        notifiers: Sequence[BaseNotifier] | BaseNotifier = (),
        only_params: bool = False,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("doc_md", doc_of(type(self)))
        super().__init__(retries=retries, retry_delay=retry_delay, retry_policy=retry_policy or SchemamigRetryPolicy(), **kwargs)
        self.notifiers = [notifiers] if isinstance(notifiers, BaseNotifier) else list(notifiers)
        self.only_params = only_params

    @telling
    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        return super().resume_execution(next_method, next_kwargs, context)

    def begin(self, context: Context) -> None:
        """Take up the run that it is part of."""
        self.who = run_in_name_of(context)
        self._context = context

    def check_given(self, context: Context) -> None:
        """Raise BadArgument for what a template made of an empty parameter, UnknownParameter as ``only_params`` says."""
        check_rendered(self)
        if self.only_params:
            check_conf(context)

    def tell_event(self, event: str, subject: str, text: str = "", **facts: Any) -> None:
        """Tell the task's notifiers what happened."""
        if self.notifiers and self._context is not None:
            place = str(getattr(self, "environment", "") or getattr(self, "target", ""))
            tell(self.notifiers, self._context, Notice(event, place, subject, text, facts))

    def tell_refused(self, error: SchemamigError, text: str) -> None:
        """Tell the task's notifiers of a refusal, if it is something that they tell. ``text``: as the log has it."""
        codes = {reason.code for reason in (error.refusals if isinstance(error, Refused) else (error,))}
        if "drift" in codes:
            self.tell_event(DRIFT, f"{getattr(self, 'environment', '')} was changed by somebody else", text)
        if codes & STOPPED:
            self.tell_event(STREAM_STOPPED, f"A stream to {getattr(self, 'target', '')} stopped", text)

    def listener_of(self, environment: str) -> Listener:
        """Return what the work on an environment reports its progress to: this task's log, Airflow's metrics, and its traces."""
        self._phases = phases(environment)
        return traced(metered(log_progress(self.log.info), environment), self._phases)

    def end(self, error: BaseException | None = None) -> None:
        """End the work around this try: no Spark driver is asked any more, the last phase is over. ``error``: the try failed with it."""
        if self._phases is not None:
            self._phases.end(error)

    def whereabouts(self, context: Context) -> tuple[str, str]:
        """Return environment and release folder as a person would type them; where they are not known, what stands for them."""
        return "URI", _typed_release(self, context)

    def typed(self, text: object) -> str:
        """Return a text with its commands as they can be typed here."""
        where = self.whereabouts(self._context) if self._context is not None else ("URI", "DIR")
        return complete(str(text), *where)

    def skip_for(self, reason: str) -> NoReturn:
        """End the task as skipped, and say why in a line of its own: Airflow has it as a field of one that is folded away."""
        self.log.info("Skipped: %s", reason)
        raise AirflowSkipException(reason)


class EnvironmentOperator(SchemamigOperator):
    """Base of those that work on one environment.

    :param environment: (templated) connection id of type ``schemamig``, or the environment's URI or absolute path.
    """

    template_fields: Sequence[str] = ("environment",)

    def __init__(self, *, environment: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.environment = environment

    @cached_property
    def hook(self) -> SchemamigHook:
        from airflow_provider_schemamig.hooks.schemamig import SchemamigHook

        return SchemamigHook(self.environment, who=self.who, spark_conf=spark_parent(self._context), listen=log_progress(self.log.info))

    def end(self, error: BaseException | None = None) -> None:
        super().end(error)
        if "hook" in vars(self):  # it was asked for
            self.hook.stop_spark()

    def whereabouts(self, context: Context) -> tuple[str, str]:
        return self.typed_uri(), _typed_release(self, context)

    def typed_uri(self) -> str:
        """Return the environment as a command line takes it."""
        try:
            return blank_typed(self.hook.settings.environment_uri)
        except SchemamigError:  # the connection is what was refused
            return blank_typed(str(self.environment))

    def write_report(self, generation: Generation | int | None) -> None:
        """Write the deployment down as one HTML file, beside its report (``_schemamig/reports``): for mails and tickets."""
        from airflow_provider_schemamig.core import commands

        if generation is not None and (note := commands.write_report_file(self.hook.environment, Generation(generation))) is not None:
            self.log.warning("%s", note)

    def listener(self) -> Listener:
        """Return what the work reports its progress to."""
        return self.listener_of(self.environment)

    @contextlib.contextmanager
    def deferred_while_paused(self) -> Iterator[None]:
        """Defer the task if the work inside is paused: ``execute`` runs it again when the pause is over. No worker is held meanwhile."""
        from airflow_provider_schemamig.core.transfer.errors import Paused
        from airflow_provider_schemamig.triggers.ledger import PauseTrigger

        try:
            yield
        except Paused as paused:
            how_to_end = f"The task goes on by itself when that is over; {paused.how_to_end}."
            told = visible(blank_typed(self.typed(f"{paused.headline} {how_to_end}")))
            self.log.info("Deferred: %s", told)
            self.tell_event(PAUSED, f"{self.task_id} on {self.environment} is paused", told)
            trigger = PauseTrigger(
                self.environment,
                config.poll_interval(),
                time.time() + _LONGEST_PAUSE.total_seconds(),
                scopes=paused.scopes,
                hours=paused.hours,
                generation=self.awaited_generation(),
            )
            self.defer(trigger=trigger, method_name="execute_again")

    def awaited_generation(self) -> int | str | None:
        """Return the generation whose end ends the wait of a paused task, too; None: it has none of its own."""
        return getattr(self, "generation", None)

    def wait_for_other_upgrades(self, context: Context) -> None:
        """Defer while a run before this one has an upgrade of the environment open; then ``execute`` is run again. No worker is held."""
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.triggers.ledger import TurnTrigger

        claims = commands.open_claims(self.hook.environment)
        earlier = (
            concurrent_runs.open_run_before(claims, context["ti"].dag_id, context["ti"].run_id, concurrent_runs.is_active)
            if claims
            else None
        )
        if earlier is None:
            return
        waits = (
            "Deferred: run %s of %s has generation %s of %s open. This run goes on once that is committed or cancelled, or that run ends."
        )
        self.log.info(waits, earlier.run_id, earlier.dag_id, earlier.generation, self.environment)
        deadline = time.time() + _LONGEST_PAUSE.total_seconds()
        found = (earlier.generation, earlier.dag_id, earlier.run_id)
        self.defer(trigger=TurnTrigger(self.environment, config.poll_interval(), deadline, *found), method_name="execute_again")

    def execute_again(self, context: Context, event: Mapping[str, Any]) -> Any:
        """Resume the task: what was waited for is over, or the generation is; the work finds out which."""
        return self.execute(context)

    def on_kill(self) -> None:
        """Stop the Spark job this task waits for. What it had committed stays; a retry finds it and goes on."""
        self.hook.cancel_jobs()


class VerbOperator(EnvironmentOperator):
    """Base of the operators that run one verb of ``core.commands``: notes go to the log, the counted outcome to XCom."""

    def run_verb(self) -> Outcome:
        raise NotImplementedError

    def execute(self, context: Context) -> dict[str, Any]:
        with self.deferred_while_paused():
            outcome = self.run_verb()
        return self.answer(outcome)

    def tell_outcome(self, event: str, subject: str, found: Mapping[str, Any], text: str = "", **facts: Any) -> None:
        """Tell the log and the task's notifiers what is done; the notifiers with from, to and generation."""
        self.log.info("%s.", visible(subject))
        self.tell_event(event, subject, text, **facts, **{name: found[name] for name in ("from", "to", "generation")})

    def answer(self, outcome: Outcome) -> dict[str, Any]:
        """Return what goes to XCom, once the notes are in the log."""
        for note in outcome.notes:
            self.log.info("%s", visible(self.typed(note)))
        return outcome_summary(outcome.to_json())


class DocumentOperator(EnvironmentOperator):
    """Base of the operators that return a document: the same as the command of the same name prints on the command line."""

    def run_verb(self, context: Context) -> dict[str, Any]:
        raise NotImplementedError

    def execute(self, context: Context) -> dict[str, Any]:
        found = self.run_verb(context)
        self.log.info("%s: %s", self.environment, visible(self.sentence(found)))
        return found

    def sentence(self, found: Mapping[str, Any]) -> str:
        """Return what the log says of the document."""
        given = {name: value for name, value in found.items() if value is not None}
        return "; ".join(f"{name} {value if isinstance(value, str) else json.dumps(value)}" for name, value in given.items())


def doc_of(kind: type[BaseOperator]) -> str:
    """Return the text on Airflow's page of a task that has none of its own: its class's docstring, without the parameters."""
    return (inspect.getdoc(kind) or "").partition("\n:param")[0].strip()


def run_in_name_of(context: Context) -> str | None:
    """Return the user who triggered the run, else the name of the run; None outside of one.

    Its conf is not asked: anybody who triggers the run writes it.
    """
    run = context.get("dag_run")
    if run is None:
        return None
    return getattr(run, "triggering_user_name", None) or f"airflow:{run.dag_id}/{run.run_id}"


def bundle_of(context: Context) -> str | None:
    """Return the run's bundle of DAG files, as ``name@version`` if it has versions; None if the task does not know it."""
    bundle = getattr(context.get("ti"), "bundle_instance", None)
    if bundle is None:
        return None
    return f"{bundle.name}@{bundle.version}" if bundle.version else str(bundle.name)


def _typed_release(operator: BaseOperator, context: Context) -> str:
    """Return the release folder that the task, or its run, was given."""
    given = getattr(operator, "release", "") or (context.get("params") or {}).get("release", "")
    dag = context.get("dag")
    return str(Path(dag.folder) / given) if given and dag is not None else "DIR"


def log_progress(write: Callable[..., None], clock: Callable[[], float] = time.monotonic) -> Listener:
    """Return a listener that writes at most one line a stage a second. It always writes a stage's last one, and a note without a count.

    Of what only says that something still runs it writes the first and one every 30 seconds.
    """
    written: dict[tuple[str, str | None], float] = {}

    def listen(event: Event) -> None:
        now = clock()
        told = (event.stage, f"{event.collection} runs" if event.beat else None)
        since = now - written.get(told, float("-inf"))
        finished = event.total > 0 and event.done >= event.total
        is_note = bool(event.note) and not event.total  # "paused", "begins anew": told once, and nothing after it tells more
        is_due = (since >= _BEAT_SECONDS and not finished) if event.beat else (finished or is_note or since >= 1.0)
        if not is_due:
            return
        written[told] = now
        counted = f"{event.done} of {event.total}" if event.total else ""
        parts = [counted, event.collection or "", f"{event.seconds:.2f} s" if event.seconds else "", event.note]
        write("%s: %s", event.stage, visible(", ".join(part for part in parts if part)) or "begun")

    return listen
