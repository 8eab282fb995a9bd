"""The asset events that tasks make (docs/lineage.md): which collections a commit or a rollback changed, and which have drifted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from airflow_provider_schemamig.assets.schemamig import DRIFT, DRIFTS, TABLES, drift_asset, table_asset
from airflow_provider_schemamig.credentials import blank_typed

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import OutletEventAccessorProtocol

    from airflow_provider_schemamig.core.upgrade.table_changes import DeploymentChanges

#: Airflow writes a task's events while the end of the task waits for it, for 5 s ([workers] execution_api_timeout), at some 5 ms each.
MOST = 200
#: What an event's ``extra`` says under ``event``.
COMMITTED, ROLLED_BACK = "committed", "rolled_back"


def tell_tables(context: Context, environment: str, changes: DeploymentChanges, by: str | None) -> list[str]:
    """Make an event for each collection that a deployment changed; returns their names. A name that is no more gets one, too.

    Where there are more than ``MOST``, only for those that Airflow knows, because some DAG names them.
    """
    events: list[tuple[str, dict[str, Any]]] = []
    for change in changes.tables:
        extra = {
            "event": ROLLED_BACK if changes.is_rolled_back else COMMITTED,
            "change": change.kind,
            "environment": blank_typed(environment),
            "collection": change.collection,
            "from": None if changes.source is None else str(changes.source),
            "to": None if changes.target is None else str(changes.target),
            "fingerprint": change.fingerprint,
            "table_version": change.table_version,
            "generation": int(changes.generation),
            "approver": changes.approved_by,
            "by": by,
        }
        names = {declaration.name for declaration in (change.old, change.new) if declaration is not None}
        events += [(name, {**extra, "is_gone": change.new is None or change.new.name != name}) for name in sorted(names)]
    accessor = context["outlet_events"][TABLES]
    few = len(events) <= MOST
    return [name for name, extra in events if _add(accessor, table_asset(environment, name), extra, make=few)]


def tell_drift(context: Context, environment: str, drifted: Mapping[str, Sequence[str]]) -> None:
    """Make a drift event for each collection in ``drifted``, with its differences."""
    if "outlet_events" not in context:
        return
    accessor, few = context["outlet_events"][DRIFTS], len(drifted) <= MOST
    for name, differences in drifted.items():
        extra = {"event": DRIFT, "environment": blank_typed(environment), "collection": name, "differences": list(differences)}
        _add(accessor, drift_asset(environment, name), extra, make=few)


def _add(accessor: OutletEventAccessorProtocol, asset: Asset, extra: dict[str, Any], *, make: bool) -> bool:
    """Make an event for the asset as Airflow knows it, which may be under another name; with ``make`` also if it does not."""
    known: Any = Asset.ref(uri=asset.uri)
    try:
        accessor.add(known, extra=extra)
    except ImportError:  # no supervisor is there to be asked: a task that a test runs
        pass
    except AirflowRuntimeError as error:
        if error.error.error is not ErrorType.ASSET_NOT_FOUND:
            raise
    else:
        return True
    if make:
        accessor.add(asset, extra=extra)
    return make


def with_outlet(arguments: Mapping[str, Any], alias: AssetAlias) -> dict[str, Any]:
    """Return a task's arguments with our outlet beside its own ones: Airflow drops events of what is not among them.

    An operator names no argument ``outlets``: Airflow would take its default for what a mapped task was given, and add lists to None.
    """
    return {**arguments, "outlets": [*(arguments.get("outlets") or ()), alias]}
