"""Before promotion: preflight, fills, copies and their tails. Nothing here touches a live table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator, conf

from airflow_provider_schemamig import concurrent_runs, config, lineage, run_notes
from airflow_provider_schemamig.exceptions import Conflict, Refused, SchemamigError
from airflow_provider_schemamig.gates.task_of_run import TaskOfRun
from airflow_provider_schemamig.operators.arguments import as_chunk, as_flag, as_generation, as_hold, as_number, release_folder
from airflow_provider_schemamig.operators.base import DEFAULT_SEAL_SECONDS, EnvironmentOperator, VerbOperator
from airflow_provider_schemamig.operators.reports import PlanQuestion, chunks, plain, plan_markdown

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_schemamig.core.upgrade.context.context import Outcome
    from airflow_provider_schemamig.core.upgrade.prepare.preflight import PlanReport


#: Of the reasons to ask somebody: the report has all.
MOST_RISKS = 20


class ReadOnlyMigrationOperator(EnvironmentOperator):
    """Preflight: plan the upgrade, check it on the data, claim a generation and make its replacement shards.

    The result is pushed key by key, so that later tasks take ``preflight.output["generation"]``: ``generation``, ``plan_digest``,
    ``report_uri``, ``plan`` (markdown), ``risks`` (why somebody has to be asked, for the gate ``auto``), ``fills`` (the collections that
    have to be filled or copied; a copy also if it is complete, for it is followed). A retry finds the claim of its first try, because the
    claim is named after the run and the task. Skipped if the environment is at the release already; deferred while a run that claimed
    before has its upgrade of the environment open.

    :param release: (templated) the release folder; a relative path is looked for in the folder of the DAG file.
    :param hold: (templated) hours, or a timedelta, for which the way back stays open after the commit.
    :param create: (templated) whether an environment is made where none is; otherwise that fails (``no_environment``).
    :param end_hold: (templated) whether open holds are ended before their time; the plan lists what is deleted.
    :param ignore_nodes: (templated) whether that is done also if live nodes still need what they keep.
    :param seal_seconds: (templated) for how long the cut-over may lock writers out; rewrites that this Spark cannot follow in that time are
        refused here.
    :param added_columns_pass: for the gate ``auto``: whether nobody has to be asked about added columns, because nobody writes by position,
        nor with delta-rs without ``schema_mode``.
    """

    template_fields: Sequence[str] = (
        *EnvironmentOperator.template_fields,
        "release",
        "hold",
        "end_hold",
        "ignore_nodes",
        "create",
        "seal_seconds",
    )

    def __init__(
        self,
        *,
        release: str,
        hold: timedelta | float | str = 24,
        end_hold: bool | str = False,
        ignore_nodes: bool | str = False,
        create: bool | str = False,
        seal_seconds: int | str = DEFAULT_SEAL_SECONDS,
        added_columns_pass: bool = False,
        multiple_outputs: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=multiple_outputs, **kwargs)
        self.release = release
        self.hold = hold
        self.end_hold = end_hold
        self.ignore_nodes = ignore_nodes
        self.create = create
        self.seal_seconds = seal_seconds
        self.added_columns_pass = added_columns_pass
        self._report: PlanReport | None = None
        self._refusals: tuple[SchemamigError, ...] = ()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        folder, hold = release_folder(self.release, context), as_hold(self.hold)
        found = commands.preflight(
            self.hook.environment,
            folder,
            claim_id=claim_id(context),
            hold=hold,
            end_hold=as_flag("end_hold", self.end_hold),
            ignore_nodes=as_flag("ignore_nodes", self.ignore_nodes),
            create=as_flag("create", self.create),
            seal_seconds=as_number("seal_seconds", self.seal_seconds) or DEFAULT_SEAL_SECONDS,
            jobs=self.hook.job_runner,
            fill=False,
            listen=self.listener(),
        )
        self._report = found.report
        if found.generation is None or found.report_uri is None:
            run_notes.say(context, f"nothing to do: {self.environment} is at the release")
            self.skip_for("Nothing to do: the environment is at the release.")
        self.write_report(found.generation)
        self.wait_for_other_upgrades(context)  # who claimed first goes first; what is claimed here is found again
        document = found.report.to_json(explained=True)
        text = plan_markdown(document, PlanQuestion(self.typed_uri(), int(found.generation), found.report.reasons, hold, found.report_uri))
        copies = [str(stage["collection"]) for stage in document["stages"] if stage["kind"] == "copy"]
        self.log.info("The plan:\n%s", plain(text))
        return {
            "generation": int(found.generation),
            "plan_digest": found.plan_digest,
            "report_uri": found.report_uri,
            "plan": text,
            "risks": list(self._risks(found.report, hold))[:MOST_RISKS],
            "fills": list(dict.fromkeys([*map(str, found.fills), *copies])),
        }

    def _risks(self, report: PlanReport, hold: timedelta) -> tuple[str, ...]:
        from airflow_provider_schemamig.core.upgrade.plan.risk import reasons_to_ask

        is_new = report.plan.target.source is None
        return reasons_to_ask(report.explained, has_hold=is_new or bool(hold), added_columns_pass=self.added_columns_pass)

    def tell_refused(self, error: SchemamigError, text: str) -> None:
        self._refusals = tuple(error.refusals) if isinstance(error, Refused) else (error,)
        super().tell_refused(error, text)

    def get_openlineage_facets_on_start(self) -> Any:
        return lineage.lineage(self.environment, None, ())

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the tests that preflight made of the plan and of the rows, for OpenLineage."""
        asked = self._report.asked if self._report is not None else ()
        return lineage.tests_lineage(asked, self._refusals, was_checked=self._report is not None)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:
        return self.get_openlineage_facets_on_complete(task_instance)


def claim_id(context: Context) -> str:
    """Return the name of this run's claim, equal in every try.

    The task is part of it, for one run may upgrade to two releases in a row; and which one of a mapped task's, where there are several.
    """
    ti = context["ti"]
    mapped = "" if ti.map_index is None or ti.map_index < 0 else f"[{ti.map_index}]"
    return f"airflow:{ti.dag_id}/{ti.run_id}/{ti.task_id}{mapped}"


class FillChunksOperator(EnvironmentOperator):
    """Split what has to be filled into chunks to map a task over; nothing to fill gives an empty list and skips the mapped task.

    :param generation: (templated) the generation that preflight claimed.
    :param collections: (templated) what preflight found to fill. None: ask the ledger what there is to
        change by now.
    :param chunk_size: collections a chunk; default ``[schemamig] fill_chunk_size``. More, where Airflow would refuse to map over so many.
    """

    template_fields: Sequence[str] = (*EnvironmentOperator.template_fields, "generation", "collections")

    def __init__(
        self,
        *,
        generation: int | str,
        collections: Sequence[str] | None = None,
        chunk_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.generation = generation
        self.collections = collections
        self.chunk_size = chunk_size

    def execute(self, context: Context) -> list[list[str]]:
        from airflow_provider_schemamig.core import commands

        given = None if self.collections is None else as_chunk(self.collections)
        collections = commands.to_change(self.hook.environment, as_generation(self.generation)) if given is None else given
        return chunks(collections, self.chunk_size or config.fill_chunk_size(), config.most_mapped())


class FillOperator(VerbOperator):
    """Fill the replacement shards of some collections on Spark, or copy into them; map it over the chunks of ``FillChunksOperator``.

    :param generation: (templated) the generation that preflight claimed.
    :param collections: (templated) the collections of this task.
    """

    template_fields: Sequence[str] = (*VerbOperator.template_fields, "generation", "collections")

    def __init__(self, *, generation: int | str, collections: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.generation = generation
        self.collections = collections

    def run_verb(self) -> Outcome:
        from airflow_provider_schemamig.core import commands

        return commands.fill(
            self.hook.environment,
            as_generation(self.generation),
            as_chunk(self.collections),
            jobs=self.hook.job_runner,
            listen=self.listener(),
        )


class TailOperator(EnvironmentOperator, BaseSensorOperator):
    """Follow the live tables of some rewritten collections while the gate waits, until the generation is promoted or given up.

    Each look is one round (everything committed until then is brought into the copies) and holds a worker for no longer, so it never
    stands in the way of the task it waits for, not even where there is one slot. Between two rounds it is deferred until there is a commit
    to bring; or, where it is not ``deferrable``, and in ``airflow dags test``, rescheduled. Where it stands is in the copies' own logs:
    killed, it goes on from there. Where no collection of its is rewritten it ends at once.

    :param generation: (templated) the generation that preflight claimed.
    :param collections: (templated) the collections of this task; those that are not rewritten are left alone.
    :param ends_with: id of the task of this run that promotes. Once it has ended, however it did (skipped by a rejection, failed with the
        gate), there is nothing to wait for any more. Airflow's own answer is asked for, by the task's supervisor or the triggerer.
    :param deferrable: wait in the triggerer; default ``[operators] default_deferrable``.
    :param poke_interval: seconds between two looks; default ``[schemamig] poll_interval``.
    """

    template_fields: Sequence[str] = (*EnvironmentOperator.template_fields, "generation", "collections")

    def __init__(
        self,
        *,
        generation: int | str,
        collections: Sequence[str],
        ends_with: str | None = None,
        deferrable: bool | None = None,
        poke_interval: timedelta | float | None = None,
        timeout: timedelta | float = timedelta(days=365),  # the gate has a deadline, and takes the tail with it
        mode: str = "reschedule",
        **kwargs: Any,
    ) -> None:
        seconds = config.poll_interval() if poke_interval is None else poke_interval
        super().__init__(poke_interval=seconds, timeout=timeout, mode=mode, **kwargs)
        self.generation = generation
        self.collections = collections
        self.ends_with = ends_with
        self.deferrable = conf.getboolean("operators", "default_deferrable", fallback=False) if deferrable is None else deferrable

    def execute(self, context: Context) -> Any:
        if not self.deferrable or concurrent_runs.runs_in_one_process():
            return super().execute(context)
        if not self.poke(context):
            self._defer(context)
        return None

    def _defer(self, context: Context) -> NoReturn:
        from airflow_provider_schemamig.triggers.ledger import TailTrigger

        ti, deadline = context["ti"], time.time() + self.timeout
        promotes = [] if self.ends_with is None else [ti.dag_id, ti.run_id, self.ends_with, TaskOfRun(self, context, self.ends_with).key]
        trigger = TailTrigger(
            self.environment, self.poke_interval, deadline, as_generation(self.generation), as_chunk(self.collections), promotes
        )
        self.defer(trigger=trigger, method_name="execute_again")

    def poke(self, context: Context) -> bool:
        from airflow_provider_schemamig.core import commands

        env, generation, names = self.hook.environment, as_generation(self.generation), as_chunk(self.collections)
        left = commands.followed(env, generation, names)
        if not left:
            self.log.info("Nothing to follow: generation %s is over, or copies no rows of %s.", generation, ", ".join(names))
            return True
        ended = self._ended(context)
        if ended is not None:
            told = f"{ended}: the copy is not followed any more, `schemamig cancel --generation {generation}` deletes it"
            self.log.info("%s", self.typed(told))
            return True
        try:
            commands.tail(env, generation, left, jobs=self.hook.job_runner, once=True, listen=self.listener())
        except Conflict as conflict:  # no failure in a round of many: retries are counted over all of them
            self.log.info("Following again later: %s", self.typed(conflict))
        return False

    def _ended(self, context: Context) -> str | None:
        """Return how the promoting task ended, if it did."""
        if self.ends_with is None:
            return None
        state = TaskOfRun(self, context, self.ends_with).state
        return f"{self.ends_with} is {state}" if state in concurrent_runs.ENDED else None
