"""Bases of the operators whose work ends in commits on tables. They tell others which collections changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig import asset_events, lineage
from airflow_provider_schemamig.assets.schemamig import TABLES
from airflow_provider_schemamig.exceptions import listed
from airflow_provider_schemamig.operators.arguments import as_generation
from airflow_provider_schemamig.operators.base import VerbOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_schemamig.core.upgrade.table_changes import DeploymentChanges, TableChange

#: Names that the log spells out.
_NAMES = 20


class LineageOperator(VerbOperator):
    """Base of the operators that tell OpenLineage their changed tables.

    OpenLineage's provider calls the methods, in each process that runs a task.
    """

    _changes: DeploymentChanges | None = None
    _tables: Sequence[TableChange] = ()

    def tell_lineage(self, tables: Sequence[TableChange], changes: DeploymentChanges | None = None) -> None:
        """Keep the tables for the event at the task's end, and send those that are too many for one."""
        self._tables, self._changes = tables, changes
        lineage.tell_rest(self.environment, tables)

    def get_openlineage_facets_on_start(self) -> Any:
        return lineage.lineage(self.environment, None, ())

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        return lineage.lineage(self.environment, self._changes, next(lineage.chunks(self._tables)))

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:
        return self.get_openlineage_facets_on_complete(task_instance)


class CommittingOperator(LineageOperator):
    """Base of the operators that change collections. It makes an asset event for each changed one, and for no other.

    A try that finds the work done tells it again, because it cannot know what became of the try before it: an event's generation says
    whether it is a repetition.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**asset_events.with_outlet(kwargs, TABLES))

    def tell_changed(self, context: Context, generation: int | str | None) -> None:
        """Tell Airflow and OpenLineage which collections the commit or rollback of the generation changed."""
        from airflow_provider_schemamig.core import commands

        if generation is None or "outlet_events" not in context:
            return
        changes = commands.table_changes(self.hook.environment, as_generation(generation))
        told = asset_events.tell_tables(context, self.environment, changes, self.who)
        self.log.info("%d collection(s) changed; asset events: %s", len(changes.tables), listed(told, _NAMES) or "none")
        self.tell_lineage(changes.tables, changes)
