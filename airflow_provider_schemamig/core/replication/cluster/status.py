"""The schemas of an environment and of the others, and the streams that wait. Reads only.

Of itself an environment knows by its ledger, of others by what they published; no table is looked at. So it costs little, and the lag of
a stream is what its last run found: ``updated_at`` says when.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pendulum

from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Fingerprint
from airflow_provider_schemamig.core.replication.cluster.consistency import ClusterVerdict, Group, differing, set_groups, verdict_of, worst
from airflow_provider_schemamig.core.replication.cluster.registry import (
    Lineages,
    NodeState,
    heard_of,
    known_schema,
    lineages,
    node_state,
    published,
)
from airflow_provider_schemamig.core.replication.model import Pause, StreamSettings, StreamState
from airflow_provider_schemamig.core.replication.note_errors import NoteDamaged
from airflow_provider_schemamig.core.replication.stream.stored_state import states
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.schema.describe import change_json
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot


@dataclass(frozen=True)
class SchemaStatus:
    """One environment at ``node.updated_at``, which is now."""

    node: NodeState
    #: What it said of itself last, to others; None: nothing that can be read.
    told: NodeState | None
    streams: tuple[StreamState, ...]
    damaged: tuple[NoteDamaged, ...]
    settings: StreamSettings

    @property
    def waiting(self) -> bool:
        """Return whether a stream into it is paused or stopped."""
        return bool(self.node.waiting)

    def health(self) -> dict[str, Any]:
        """Return the schema's part of a health check; degraded while a stream waits."""
        paused = any(stream.pause is not None for stream in self.streams)
        stopped = any(stream.error is not None for stream in self.streams)
        schema = {"status": "warning" if self.waiting else "ok", "schema_hash": self.node.set_hash, "paused": paused, "stopped": stopped}
        return {"status": "degraded" if self.waiting else "ok", "checks": {"schema": schema}}

    def to_json(self) -> dict[str, Any]:
        node, told = self.node, self.told
        return {
            "env_id": node.env_id,
            "uri": node.uri,
            "release": _release(node),
            "hash": node.set_hash,
            "updated_at": None if told is None else told.updated_at.isoformat(),
            "published": told is not None and told.collections == node.collections and told.release == node.release,
            "software": node.software,
            "depth": self.settings.depth,
            "collections": {
                name: {"hash": hashes.current, "previous": list(hashes.previous), "table_version": hashes.table_version}
                for name, hashes in node.collections.items()
            },
            "streams": [stream_json(stream, node.updated_at) for stream in self.streams],
            "health": self.health(),
            "unreadable": [{"where": damage.where, "reason": damage.reason} for damage in self.damaged],
        }


@dataclass(frozen=True)
class ClusterStatus:
    """Every node that an environment has heard of, itself by its ledger; nodes by id."""

    local: SchemaStatus
    nodes: tuple[NodeState, ...]
    groups: tuple[Group, ...]
    #: The collections that do not have one hash everywhere; the first group has the hash that the others are compared with.
    differing: Mapping[CollectionName, tuple[Group, ...]]
    #: What would make the first group's schema the hash's; None where the content of either is not known here.
    changes: Mapping[tuple[CollectionName, Fingerprint], tuple[Change, ...] | None]

    @property
    def verdict(self) -> ClusterVerdict:
        return worst([verdict_of(groups) for groups in self.differing.values()])

    @property
    def waiting(self) -> tuple[StreamState, ...]:
        """Return the streams that are paused or stopped anywhere, as their targets said last; by target, origin and collection."""
        return tuple(stream for node in self.nodes for stream in node.waiting)

    def is_stale(self, node: NodeState) -> bool:
        """Return whether a node was not heard of for ``StreamSettings.stale``, or has a clock that is as far ahead.

        Never of the environment itself, which is looked at now."""
        return abs((self._now - node.updated_at).total_seconds()) > self.local.settings.stale.total_seconds()

    def to_json(self) -> dict[str, Any]:
        """Return the environment's own document, and ``cluster``."""
        return {
            **self.local.to_json(),
            "cluster": {
                "verdict": self.verdict.value,
                "nodes": [self._node_json(node) for node in self.nodes],
                "groups": [_group_json(group) for group in self.groups],
                "collections": {name: self._collection_json(name, groups) for name, groups in self.differing.items()},
                "waiting": [stream_json(stream, self._now) for stream in self.waiting],
            },
        }

    @property
    def _now(self) -> pendulum.DateTime:
        return self.local.node.updated_at

    def _node_json(self, node: NodeState) -> dict[str, Any]:
        return {
            "env_id": node.env_id,
            "uri": node.uri,
            "release": _release(node),
            "hash": node.set_hash,
            "updated_at": node.updated_at.isoformat(),
            "age_seconds": round((self._now - node.updated_at).total_seconds(), 3),
            "stale": self.is_stale(node),
            "software": node.software,
        }

    def _collection_json(self, name: CollectionName, groups: tuple[Group, ...]) -> dict[str, Any]:
        found = []
        for group in groups:
            changes = self.changes[name, group.hash]
            found.append({**_group_json(group), "changes": None if changes is None else [change_json(change) for change in changes]})
        return {"verdict": verdict_of(groups).value, "groups": found}


def schema_status(env: EnvironmentRoot, now: pendulum.DateTime) -> SchemaStatus:
    """Return the schemas of ``env``, and where the streams into it stand. Raises NoEnvironment where no environment is."""
    return _local(env, now, StreamSettings())[0]


def cluster_status(env: EnvironmentRoot, now: pendulum.DateTime, settings: StreamSettings | None = None) -> ClusterStatus:
    """Return the local status together with what ``env`` has heard of others.

    What cannot be read is reported and stops nothing. Raises NoEnvironment.
    """
    local, own = _local(env, now, settings or StreamSettings())
    found = [item for item in published(env) if not (isinstance(item, NodeState) and item.env_id == local.node.env_id)]
    others = [item for item in found if isinstance(item, NodeState)]
    known = {damage.where for damage in local.damaged}  # its own object, perhaps
    damaged = [item for item in found if isinstance(item, NoteDamaged) and item.where not in known]
    nodes = tuple(sorted([local.node, *others], key=lambda node: node.env_id))
    depth = local.settings.depth
    apart = {name: _ours_first(groups, local.node) for name, groups in differing(nodes, depth).items()}
    changes = {key: change for name, groups in apart.items() for key, change in _changes(env, own, name, groups)}
    return ClusterStatus(replace(local, damaged=(*local.damaged, *damaged)), nodes, set_groups(nodes, depth), apart, changes)


def stream_json(stream: StreamState, now: pendulum.DateTime) -> dict[str, Any]:
    """Return a stream as documents show it.

    ``state``: following, paused or stopped (then ``error`` says by what). Lags are as of ``updated_at``, but for ``lag_seconds``, which
    grow until what is behind is brought.
    """
    pause = stream.pause
    return {
        "origin": stream.stream.origin,
        "target": stream.stream.target,
        "collection": stream.stream.collection,
        "state": "stopped" if stream.error is not None else "paused" if pause is not None else "following",
        "lag_versions": stream.lag_versions,
        "lag_seconds": round(stream.lag_seconds(now), 3),
        "checkpoint": stream.checkpoint,
        "origin_version": stream.origin_version,
        "updated_at": stream.updated_at.isoformat(),
        "pause": None if pause is None else _pause_json(pause, now),
        "error": stream.error,
        "detail": stream.detail,
        "warning": stream.warning,
        "applied_rows": stream.applied_rows,
        "restores": stream.restores,
    }


def _pause_json(pause: Pause, now: pendulum.DateTime) -> dict[str, Any]:
    return {
        "reason": pause.reason.value,
        "detail": pause.detail,
        "since": pause.since.isoformat(),
        "seconds": round((now - pause.since).total_seconds(), 3),
        "event_version": pause.event_version,
        "event_hash": pause.event_hash,
        "local_hash": pause.local_hash,
    }


def _group_json(group: Group) -> dict[str, Any]:
    return {"hash": group.hash, "current": list(group.current), "previous": list(group.previous)}


def _release(node: NodeState) -> str | None:
    return str(node.release) if node.release is not None else None


def _local(env: EnvironmentRoot, now: pendulum.DateTime, settings: StreamSettings) -> tuple[SchemaStatus, Lineages]:
    state = LedgerReader(env).state()
    known = lineages(state)
    found = list(states(env))
    streams = tuple(item for item in found if isinstance(item, StreamState))
    damaged = [item for item in found if isinstance(item, NoteDamaged)]
    node = node_state(env, state, streams, now)
    told = heard_of(env, node.env_id)
    if isinstance(told, NoteDamaged):
        damaged.append(told)
    return SchemaStatus(node, told if isinstance(told, NodeState) else None, streams, tuple(damaged), settings), known


def _ours_first(groups: tuple[Group, ...], node: NodeState) -> tuple[Group, ...]:
    return tuple(sorted(groups, key=lambda group: node.env_id not in group.current))


def _changes(
    env: EnvironmentRoot, own: Lineages, name: CollectionName, groups: tuple[Group, ...]
) -> Iterator[tuple[tuple[CollectionName, Fingerprint], tuple[Change, ...] | None]]:
    def schema(hash_: Fingerprint) -> Declaration | None:
        return own.get(name, {}).get(hash_) or known_schema(env, hash_)

    first = schema(groups[0].hash)
    for group in groups:
        other = schema(group.hash)
        yield (name, group.hash), None if first is None or other is None else diff(first, other).changes
