"""Before promotion: preflight and fills. Nothing here touches a live table (DESIGN section 5, read-only mode)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_schemamig import config
from airflow_provider_schemamig.links.report import ReportLink
from airflow_provider_schemamig.operators.base import (
    EnvironmentOperator,
    VerbOperator,
    as_flag,
    as_generation,
    as_hold,
    release_folder,
)
from airflow_provider_schemamig.operators.reports import chunks, plan_markdown

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_schemamig.core.upgrade.work import Outcome


class ReadOnlyMigrationOperator(EnvironmentOperator):
    """Preflight: plan the upgrade, check it on the data, claim a generation and make its replacement shards.

    The result is pushed key by key, so that later tasks take ``preflight.output["generation"]``: ``generation``, ``plan_digest``,
    ``report_uri``, ``plan`` (markdown), ``fills`` (the collections that have to be filled). A retry finds the claim of its first
    try, because the claim is named after the run and the task. Skipped if the environment is at the release already.

    :param release: (templated) the release folder; a relative path is looked for in the folder of the DAG file.
    :param hold: (templated) hours, or a timedelta, for which the way back stays open after the commit.
    :param end_hold: (templated) whether an open hold may be ended although live nodes still need it.
    """

    template_fields: Sequence[str] = (*EnvironmentOperator.template_fields, "release", "hold", "end_hold")
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        release: str,
        hold: timedelta | float | str = 24,
        end_hold: bool | str = False,
        multiple_outputs: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=multiple_outputs, **kwargs)
        self.release = release
        self.hold = hold
        self.end_hold = end_hold

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core.upgrade import verbs

        found = verbs.preflight(
            self.hook.environment,
            release_folder(self.release, context),
            claim_id=claim_id(context),
            hold=as_hold(self.hold),
            end_hold=as_flag("end_hold", self.end_hold),
            jobs=self.hook.job_runner,
            fill=False,
            listen=self.listener(),
        )
        if found.generation is None or found.report_uri is None:
            raise AirflowSkipException("Nothing to do: the environment is at the release.")
        text = plan_markdown(found.report.to_json(), found.report_uri)
        self.log.info("Generation %s\n%s", found.generation, text)
        return {
            "generation": int(found.generation),
            "plan_digest": found.plan_digest,
            "report_uri": found.report_uri,
            "plan": text,
            "fills": [str(name) for name in found.fills],
        }


def claim_id(context: Context) -> str:
    """The name of this run's claim, equal in every try. The task is part of it: one run may upgrade to two releases in a row."""
    ti = context["ti"]
    return f"airflow:{ti.dag_id}/{ti.run_id}/{ti.task_id}"


class FillChunksOperator(EnvironmentOperator):
    """Split what has to be filled into chunks to map a task over; nothing to fill gives an empty list and skips the mapped task.

    :param generation: (templated) the generation that preflight claimed.
    :param collections: (templated) what preflight found to fill. None: ask the ledger which fills are stale by now.
    :param chunk_size: collections a chunk; default ``[schemamig] fill_chunk_size``.
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
        from airflow_provider_schemamig.core.upgrade import verbs

        collections = self.collections
        if collections is None:
            collections = verbs.stale(self.hook.environment, as_generation(self.generation))
        return chunks(collections, self.chunk_size or config.fill_chunk_size())


class FillOperator(VerbOperator):
    """Fill the replacement shards of some collections on Spark; map it over the chunks of ``FillChunksOperator``.

    :param generation: (templated) the generation that preflight claimed.
    :param collections: (templated) the collections of this task.
    """

    template_fields: Sequence[str] = (*VerbOperator.template_fields, "generation", "collections")

    def __init__(self, *, generation: int | str, collections: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.generation = generation
        self.collections = collections

    def run_verb(self) -> Outcome:
        from airflow_provider_schemamig.core.upgrade import verbs

        return verbs.fill(
            self.hook.environment,
            as_generation(self.generation),
            self.collections,
            jobs=self.hook.job_runner,
            listen=self.listener(),
        )
