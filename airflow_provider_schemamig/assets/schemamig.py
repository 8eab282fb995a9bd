"""Collections as Airflow's assets, ``schemamig://<environment>/<collection>``: a DAG that is scheduled on one starts when it has changed.

A commit and a rollback make one event for each collection that is another one since, with what changed as its ``extra``. Drift has assets
of its own (``.../drift``): nothing has arrived then.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult, quote

from airflow.sdk import Asset, AssetAlias

from airflow_provider_schemamig.credentials import blank_typed

SCHEME = "schemamig"
#: The last part of the URI of a collection's drift.
DRIFT = "drift"
#: Under these aliases tasks make their events: a DAG that is scheduled on one starts for every collection of every environment.
TABLES = AssetAlias("schemamig_tables")
DRIFTS = AssetAlias("schemamig_drift")


def table_asset(environment: str, collection: str) -> Asset:
    """Return the asset of a collection, to schedule a DAG on.

    :param environment: as the upgrade's DAG names it: its connection id, or its URI or absolute path.
    :param collection: its name in the releases.
    """
    return Asset(f"{SCHEME}://{authority(environment)}/{quote(collection, safe='')}")


def drift_asset(environment: str, collection: str) -> Asset:
    """Return the asset for the drift of a collection. Each event of it says that somebody else changed the table."""
    return Asset(f"{SCHEME}://{authority(environment)}/{quote(collection, safe='')}/{DRIFT}")


def authority(environment: str) -> str:
    """Return an environment as the first part of its assets' URIs: a URI is escaped, so that it stays one part and can be told again."""
    return quote(blank_typed(environment.rstrip("/") or environment), safe="")


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Check the URI of an asset of ours; Airflow asks wherever one is made. Raises ValueError."""
    parts = uri.path.strip("/").split("/")
    if not uri.netloc:
        raise ValueError(f"{SCHEME}:// needs an environment: {SCHEME}://<connection id>/<collection>")
    if "@" in uri.netloc or uri.query or uri.fragment:
        raise ValueError(f"{SCHEME}://{uri.netloc.rpartition('@')[2]}{uri.path} has neither a user nor a query")
    if not parts[0] or parts[1:] not in ([], [DRIFT]):
        raise ValueError(f"{SCHEME}://{uri.netloc} needs one collection, and nothing after it but /{DRIFT}")
    return uri._replace(path=f"/{'/'.join(parts)}")


def to_openlineage(asset: Asset, lineage_context: Any) -> Any:
    """Return the asset as OpenLineage's dataset: by the name that the datasets of commits have beside the place of their tables."""
    from urllib.parse import urlsplit

    from airflow.providers.common.compat.openlineage.facet import Dataset

    uri = urlsplit(asset.uri)
    return Dataset(namespace=f"{SCHEME}://{uri.netloc}", name=uri.path.strip("/"))
