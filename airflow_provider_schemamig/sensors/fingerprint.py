"""Is the environment what the release and the ledger say it is?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig import asset_events, run_notes
from airflow_provider_schemamig.assets.schemamig import DRIFTS
from airflow_provider_schemamig.exceptions import listed, raise_refusals
from airflow_provider_schemamig.notifications.schemamig import DRIFT as DRIFT_EVENT
from airflow_provider_schemamig.operators.arguments import BadArgument, as_flag, as_text, release_folder
from airflow_provider_schemamig.sensors.base import EnvironmentSensor

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_schemamig.triggers.ledger import EnvironmentTrigger

UPGRADE, ARRIVAL, DRIFT = "upgrade", "arrival", "drift"


class FingerprintSensor(EnvironmentSensor):
    """Compares fingerprints: of a release with the ledger's, or of the ledger with the live tables.

    ``looks_for="upgrade"`` is the gate of an upgrade DAG and answers at once: success if the environment is not at ``release``
    yet, skip if there is nothing to do, failure if a live table was changed behind our back or the release is refused. It is deferred
    while a run before has an upgrade of the environment open.
    ``"arrival"`` waits until the environment is at ``version`` or later, ``"drift"`` until a live table differs from the ledger; it makes
    an asset event for each such collection.

    :param looks_for: ``upgrade``, ``arrival`` or ``drift``.
    :param release: (templated) for ``upgrade``: the release folder; a relative path is looked for in the folder of the DAG file.
    :param end_hold: (templated) for ``upgrade``: as in ``ReadOnlyMigrationOperator``.
    :param ignore_nodes: (templated) for ``upgrade``: as in ``ReadOnlyMigrationOperator``.
    :param version: (templated) for ``arrival``: the release's version, such as ``1.1.0``.
    """

    template_fields: Sequence[str] = (*EnvironmentSensor.template_fields, "release", "end_hold", "ignore_nodes", "version")

    def __init__(
        self,
        *,
        looks_for: str = UPGRADE,
        release: str = "",
        end_hold: bool | str = False,
        ignore_nodes: bool | str = False,
        version: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**asset_events.with_outlet(kwargs, DRIFTS))
        self.looks_for = looks_for
        self.release = release
        self.end_hold = end_hold
        self.ignore_nodes = ignore_nodes
        self.version = version

    def execute(self, context: Context) -> Any:
        if self.looks_for == UPGRADE:
            self.wait_for_other_upgrades(context)
            return self._gate(context)
        return super().execute(context)

    def _gate(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        folder = release_folder(self.release, context)
        end_hold, ignore_nodes = as_flag("end_hold", self.end_hold), as_flag("ignore_nodes", self.ignore_nodes)
        report = commands.plan(self.hook.environment, folder, end_hold=end_hold, ignore_nodes=ignore_nodes)
        raise_refusals(report.refusals)
        found = report.to_json()
        if report.plan.is_empty:
            run_notes.say(context, f"nothing to do: {self.environment} is at {found['to']}")
            self.skip_for(f"Nothing to do: the environment is at {found['to']}. Holds that are over end in maintenance.")
        self.log.info("Upgrade due: %s -> %s, %d stages", found["from"] or "new environment", found["to"], len(found["stages"]))
        return {"from": found["from"], "to": found["to"]}

    def result(self) -> Any:
        if self.looks_for == DRIFT:
            self.tell_event(DRIFT_EVENT, f"{self.environment} was changed by somebody else")
            self._make_events()
        return super().result()

    def _make_events(self) -> None:
        from airflow_provider_schemamig.core import commands

        if self._context is None or "outlet_events" not in self._context:
            return
        status = commands.status(self.hook.environment)
        tables = status.to_json()["collections"]
        drifted = {name: tables[name]["drift"] if name in tables else () for name in status.drifted}
        asset_events.tell_drift(self._context, self.environment, drifted)
        self.log.info("Drift: %s", listed(status.drifted, 20))

    def trigger(self, deadline: float) -> EnvironmentTrigger:
        from airflow_provider_schemamig.triggers.ledger import ArrivalTrigger, DriftTrigger

        if self.looks_for == ARRIVAL:
            version = as_text("version", self.version, "the version that is waited for, such as 1.1.0")
            return ArrivalTrigger(self.environment, self.poke_interval, deadline, version=version)
        if self.looks_for == DRIFT:
            return DriftTrigger(self.environment, self.poke_interval, deadline)
        raise BadArgument.of("looks_for", self.looks_for, f"one of {UPGRADE}, {ARRIVAL}, {DRIFT}")
