"""Are the live tables consistent with their schemas? A task that fails if one is not (docs/online-changes.md, "Verify")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig import asset_events
from airflow_provider_schemamig.assets.schemamig import DRIFTS
from airflow_provider_schemamig.operators.arguments import as_choice
from airflow_provider_schemamig.operators.base import EnvironmentOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class VerifyOperator(EnvironmentOperator):
    """Look for stray values, missing ones, and rows that break a rule. Fails with all that was found.

    Airflow makes no asset event for a task that failed: where a DAG waits for drift, let it succeed (``fails``), and each collection with a
    finding gets an event.

    :param collections: (templated) only these; all if not given.
    :param new_rows: only keys (UNIQUE, PRIMARY KEY, FOREIGN KEY), and of those the rows that came since the last such task. How far it got
        is written down in the environment; otherwise nothing is written.
    :param fails: whether a finding fails the task.
    """

    template_fields: Sequence[str] = (*EnvironmentOperator.template_fields, "collections")
    ui_color = "#d2dfe6"

    def __init__(
        self,
        *,
        collections: Sequence[str] | str = "",
        new_rows: bool = False,
        fails: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**asset_events.with_outlet(kwargs, DRIFTS))
        self.collections = collections
        self.new_rows = new_rows
        self.fails = fails

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.core.names import CollectionName
        from airflow_provider_schemamig.exceptions import raise_refusals

        names = [CollectionName(name) for name in as_choice(self.collections)] or None
        found = (commands.watch_keys if self.new_rows else commands.verify_environment)(self.hook.environment, self.hook.job_runner, names)
        for item in found.unasked:
            self.log.warning("not asked: %s %s: %s", item.collection, item.element or "", item.reason)
        for finding in found.findings:
            self.log.error("%s", finding.to_json())
        if self.fails:
            raise_refusals([broken.as_refusal() for broken in found.broken])
        drifted: dict[str, list[str]] = {}
        for broken in found.broken:
            drifted.setdefault(str(broken.collection), []).append(broken.as_refusal().message)
        asset_events.tell_drift(context, self.environment, drifted)
        counts = {"kept": len(found.kept), "unasked": len(found.unasked)}
        return counts if self.fails else {**counts, "findings": len(found.broken)}
