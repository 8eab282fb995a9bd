"""Several collections restored by one command: nothing of any is changed before all that stands against one of them is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.progress import Event, Listener, silent
from airflow_provider_schemamig.core.replication.model import RestoredRows
from airflow_provider_schemamig.core.replication.replicate import known_streams
from airflow_provider_schemamig.core.replication.restore.errors import RestoreNotNewer
from airflow_provider_schemamig.core.replication.restore.restore import Wish, look_at, restore
from airflow_provider_schemamig.core.replication.restore.since_restore import last_restore
from airflow_provider_schemamig.core.replication.stream.position import StreamEnds
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.exceptions import SchemamigError, raise_refusals


def restore_all(
    origin: EnvironmentRoot,
    target: EnvironmentRoot,
    collections: Sequence[CollectionName],
    *,
    version: int | None = None,
    allow_schema_change: bool = False,
    allow_lossy: bool = False,
    jobs: Jobs,
    listen: Listener = silent,
) -> list[RestoredRows]:
    """Restore the collections one after the other, each as ``restore`` does.

    The same command can be given again after it failed half-way: one that was restored at this very version is left alone, where others
    are still to be restored.
    Raises all refusals together, UnknownCollection among them, before anything is written.
    """
    ends = StreamEnds.of(origin, target)
    names = list(dict.fromkeys(known_streams(ends, collections)))
    wish = Wish(version, allow_schema_change, allow_lossy)
    refusals: list[SchemamigError] = []
    done: list[RestoreNotNewer] = []
    left: list[CollectionName] = []
    for name in names:
        try:
            look_at(ends, name, wish)
        except RestoreNotNewer as refusal:
            (done if _is_done(ends, name, refusal) else refusals).append(refusal)
        except SchemamigError as error:
            error.collection = error.collection or name
            refusals.append(error)
        else:
            left.append(name)
    raise_refusals(refusals if left else [*refusals, *done])
    for known in done:
        listen(Event("restore", known.collection, note=f"left alone: it was restored at version {known.version} of the origin already"))
    words: dict[str, Any] = {"version": version, "allow_schema_change": allow_schema_change, "allow_lossy": allow_lossy}
    return [restore(origin, target, name, **words, jobs=jobs, listen=listen) for name in left]


def _is_done(ends: StreamEnds, collection: CollectionName, refusal: RestoreNotNewer) -> bool:
    last = last_restore(ends, collection)
    return last is not None and last.version == refusal.version == refusal.at and last.shard == ends.origin.state.shard_of(collection).shard
