"""Maintenance of files: those of older schemas are written anew (docs/compaction.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.operators.arguments import as_choice
from airflow_provider_schemamig.operators.base import EnvironmentOperator
from airflow_provider_schemamig.operators.reports import outcome_summary
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    from airflow.sdk import Context


class CompactOperator(EnvironmentOperator):
    """Rewrite the files that were written under an older schema; readers and writers go on and see no difference.

    Skipped if no file is old (no JVM is started to find that out), and if a deployment is open, can
    be rolled back still, or takes over: the next run goes on.

    :param collections: (templated) only these; all if not given.
    :param max_files: files of one batch at most, which is one Spark statement and one commit.
    :param max_bytes: bytes of one batch at most; a larger file is a batch of its own.
    """

    template_fields: Sequence[str] = (*EnvironmentOperator.template_fields, "collections")
    ui_color = "#dfe6d2"

    def __init__(self, *, collections: Sequence[str] | str = "", max_files: int = 256, max_bytes: int = 16 * 2**30, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.collections = collections
        self.max_files = max_files
        self.max_bytes = max_bytes

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.core.delta.commit.fence import Fenced
        from airflow_provider_schemamig.core.upgrade.compact import Limits
        from airflow_provider_schemamig.core.upgrade.errors import DeploymentOpen, HoldOpen

        try:
            with self.deferred_while_paused():
                done = commands.compact(
                    self.hook.environment,
                    as_choice(self.collections),
                    limits=Limits(self.max_files, self.max_bytes),
                    jobs=self.hook.job_runner,
                    listen=self.listener(),
                )
        except (DeploymentOpen, HoldOpen, Fenced) as busy:
            self.skip_for(self.typed(busy))
        for note in done.outcome.notes:
            self.log.info("%s", visible(self.typed(note)))
        if not any(item.batches for item in done.collections):
            self.skip_for("No file has an older schema.")
        summary = outcome_summary(done.outcome.to_json())
        return {**summary, "files": sum(batch.files for item in done.collections for batch in item.batches)}
