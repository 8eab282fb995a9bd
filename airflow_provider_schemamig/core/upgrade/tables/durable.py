"""Whether commits that were acknowledged are still there: on a local disk a stopped JVM may overwrite one late."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_schemamig.core.delta.commit.commit import Committed
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.storage import confirm
from airflow_provider_schemamig.core.upgrade.errors import CommitLost


def require_durable(collection: CollectionName, committed: Sequence[Committed]) -> None:
    """Raise CommitLost if one of these commits was overwritten: it never happened."""
    lost = set(confirm([item.receipt for item in committed]))
    for item in committed:
        if item.receipt in lost:
            raise CommitLost(collection=collection, uri=item.head.location.uri, version=item.head.version)
