"""How far apart the schemas of a cluster are, by what its nodes say of themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from airflow_provider_schemamig.core.names import CollectionName, Fingerprint
from airflow_provider_schemamig.core.replication.cluster.registry import Hashes, NodeState
from airflow_provider_schemamig.core.replication.model import EnvId
from airflow_provider_schemamig.core.replication.stream.lineage import ReleaseMark, are_alike

#: A hash, and what is known of the columns.
Schema = tuple[Fingerprint, tuple[ReleaseMark, ...]]


class ClusterVerdict(StrEnum):
    """Ordered: the worst of a cluster's collections is the cluster's."""

    CONSISTENT = "consistent"
    #: Some have the next schema already, and accept the others'.
    ROLLING_UPGRADE = "rolling_upgrade"
    #: Two schemas of which nobody who has one had the other, or too many schemas ago: between them, streams may pause.
    DIVERGED = "diverged"

    @property
    def rank(self) -> int:
        return list(ClusterVerdict).index(self)


@dataclass(frozen=True, slots=True)
class Group:
    """The environments with a schema now, and those that have another one but accept this one. By id. It is among the last they had. Two
    groups of one hash are of other columns."""

    hash: Fingerprint
    current: tuple[EnvId, ...]
    previous: tuple[EnvId, ...]


def groups_of(collection: CollectionName, nodes: Sequence[NodeState], depth: int) -> tuple[Group, ...]:
    """Return the schemas that a collection has anywhere, those of most nodes first. ``depth``: how many previous ones are accepted."""
    having = {node.env_id: node.collections[collection].schemas for node in nodes if collection in node.collections}
    members: list[list[EnvId]] = []
    for env_id, (own, *_) in sorted(having.items()):
        alike = next((found for found in members if _is_same(having[found[0]][0], own)), None)
        members += [[env_id]] if alike is None else []
        if alike is not None:
            alike.append(env_id)
    return _sorted(
        Group(
            having[found[0]][0][0],
            tuple(found),
            tuple(
                env_id
                for env_id, schemas in sorted(having.items())
                if env_id not in found and any(_is_same(having[found[0]][0], it) for it in schemas[1 : depth + 1])
            ),
        )
        for found in members
    )


def _is_same(one: Schema, other: Schema) -> bool:
    return one[0] == other[0] and are_alike(one[1], other[1])


def set_groups(nodes: Sequence[NodeState], depth: int) -> tuple[Group, ...]:
    """Return the same for all collections of a node together. A node that has more collections than another has another hash, too, and
    accepts the other's as soon as it accepts that of every collection that both have, and has passed at least one of them."""
    members: dict[Fingerprint, list[NodeState]] = {}
    for node in nodes:
        members.setdefault(node.set_hash, []).append(node)
    return _sorted(
        Group(
            hash_,
            tuple(sorted(node.env_id for node in having)),
            tuple(sorted(node.env_id for node in nodes if node.set_hash != hash_ and _has_passed(node, having[0], depth))),
        )
        for hash_, having in members.items()
    )


def verdict_of(groups: Sequence[Group]) -> ClusterVerdict:
    """Return the verdict on one collection: whether, of any two of its schemas, one is behind the other."""
    if len(groups) < 2:
        return ClusterVerdict.CONSISTENT
    related = all(
        not set(one.current).isdisjoint(other.previous) or not set(other.current).isdisjoint(one.previous)
        for one, other in combinations(groups, 2)
    )
    return ClusterVerdict.ROLLING_UPGRADE if related else ClusterVerdict.DIVERGED


def worst(verdicts: Sequence[ClusterVerdict]) -> ClusterVerdict:
    return max(verdicts, key=lambda verdict: verdict.rank, default=ClusterVerdict.CONSISTENT)


def differing(nodes: Sequence[NodeState], depth: int) -> Mapping[CollectionName, tuple[Group, ...]]:
    """Return the collections that do not have one schema everywhere, by name."""
    names = sorted({name for node in nodes for name in node.collections})
    found = {name: groups_of(name, nodes, depth) for name in names}
    return {name: groups for name, groups in found.items() if len(groups) > 1}


def _has_passed(node: NodeState, other: NodeState, depth: int) -> bool:
    passed = False
    for name, theirs in other.collections.items():
        own: Hashes | None = node.collections.get(name)
        if own is None or own.current == theirs.current:
            continue
        if theirs.current not in own.previous[:depth]:
            return False
        passed = True
    return passed


def _sorted(groups: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(sorted(groups, key=lambda group: (-len(group.current), group.hash)))
