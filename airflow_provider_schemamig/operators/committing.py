"""What the operators whose work ends in a commit, or in its rollback, have in common: who else is told which collections changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig import asset_events
from airflow_provider_schemamig.assets.schemamig import TABLES
from airflow_provider_schemamig.exceptions import listed
from airflow_provider_schemamig.operators.base import VerbOperator, as_generation

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_schemamig.core.upgrade.table_changes import DeploymentChanges

#: Names that the log spells out.
_NAMES = 20


class CommittingOperator(VerbOperator):
    """Base of those after which collections are not what they were: it makes an asset event for each that changed, and for no other.

    A try that finds the work done tells it again, because it cannot know what became of the try before it: an event's generation says
    whether it is a repetition.
    """

    def __init__(self, *, outlets: Sequence[Any] | None = None, **kwargs: Any) -> None:
        super().__init__(outlets=asset_events.outlets_with(outlets, TABLES), **kwargs)

    def tell_changed(self, context: Context, generation: int | str | None) -> DeploymentChanges | None:
        """Tell Airflow which collections the commit or rollback of the generation changed; None: there is no generation."""
        from airflow_provider_schemamig.core import commands

        if generation is None or "outlet_events" not in context:
            return None
        changes = commands.table_changes(self.hook.environment, as_generation(generation))
        told = asset_events.tell_tables(context, self.environment, changes, self.who)
        self.log.info("%d collection(s) changed; asset events: %s", len(changes.tables), listed(told, _NAMES) or "none")
        return changes
