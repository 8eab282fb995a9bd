"""The common columns of two environments' schemas, by the releases that both were at (docs/replicas.md). Pure values.

A schema's hash knows names and types. It comes again where names are exchanged, a column is dropped and added again, or a rewrite is
followed by its way back; so it does not tell which column is which. A release does: wherever it was made, its column of a name is that
column. From there each environment knows its own way, by the names in its data files. A table that was made anew has columns of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from airflow_provider_schemamig.core.access.field_ids import match_fields
from airflow_provider_schemamig.core.access.releases import shape_of
from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.ledger.rows import DeploymentState, SchemaEntry
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Fingerprint, ShardId, Version
from airflow_provider_schemamig.core.release.columns import Origins
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import walk


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    """The schemas that a collection has had in an environment, oldest first; and by release those it had there, of which a rollback to it
    may leave several. What was rolled back counts as long as no other release has its number.

    ``product``: whose releases these are. ``passed``: the release that the environment is at, and those that led there.
    """

    product: str
    entries: tuple[SchemaEntry, ...]
    at: Mapping[Version, tuple[SchemaEntry, ...]]
    passed: frozenset[Version]


class Doubt(Enum):
    """Why a column is not taken for the one of its name."""

    #: They are two.
    OTHER = "is another column in the target"
    #: Nothing that both environments know says so.
    UNKNOWN = "is younger than the last release that both environments were at, so it may be another column in the target"


def lineage_of(state: State, collection: CollectionName) -> ColumnLineage:
    """Return the lineage of a collection's columns, by the ledger alone. Raises LedgerDamaged."""
    own = [entry for (name, _), entry in state.schemas.items() if name == collection]
    return lineage_in(state, history_of(state, collection, own), releases_passed(state))


def history_of(state: State, collection: CollectionName, own: Sequence[SchemaEntry]) -> Sequence[SchemaEntry]:
    """Return the schemas that a collection has had, oldest first. ``own``: all those under its name.

    The others are those that its tables had under other names, and what led to them there. A table that went on under another name tells
    nothing: the name alone came to this collection.
    """
    found = sorted(own, key=lambda entry: entry.schema_id)
    shards = [shard for shard in dict.fromkeys(entry.shard for entry in found) if _last_name(state, shard) == collection]
    if all(entry.collection == collection for shard in shards for entry in state.schemas_of(shard)):
        return found
    named = by_name(state)
    for shard in shards:  # it grows
        for name, last in _other_names(state, collection, shard).items():
            led = (entry for entry in named[name] if entry.shard == shard or _last_name(state, entry.shard) == name)
            before = [entry for entry in led if entry.schema_id <= last.schema_id and entry not in found]
            at = next((n for n, item in enumerate(found) if item.shard == shard and last.may_precede(item)), len(found))
            found[at:at] = before
            shards += [entry.shard for entry in before if entry.shard not in shards]
    return found


def _last_name(state: State, shard: ShardId) -> CollectionName:
    """Return what the collection of a table was called at last; what was rolled back does not count."""
    entries = state.schemas_of(shard)
    return next((entry for entry in reversed(entries) if entry.rolled_back is None), entries[-1]).collection


def _other_names(state: State, collection: CollectionName, shard: ShardId) -> Mapping[CollectionName, SchemaEntry]:
    """Return the names but this one that the collection of a table had, with the last schema under each."""
    return {entry.collection: entry for entry in state.schemas_of(shard) if entry.collection != collection}


def by_name(state: State) -> Mapping[CollectionName, Sequence[SchemaEntry]]:
    """Return all schemas by the name that their collection had, oldest first."""
    found: dict[CollectionName, list[SchemaEntry]] = {}
    for entry in sorted(state.schemas.values(), key=lambda entry: entry.schema_id):
        found.setdefault(entry.collection, []).append(entry)
    return found


def lineage_in(state: State, entries: Sequence[SchemaEntry], passed: frozenset[Version]) -> ColumnLineage:
    """Return the same, for who has found out the collection's schemas, oldest first, and ``releases_passed`` for many."""
    at: dict[Version, tuple[SchemaEntry, ...]] = {}
    for entry in entries:
        if entry.release is not None and not (entry.rolled_back is not None and entry.release in passed):
            at[entry.release] = (*at.get(entry.release, ()), entry)
    for release in sorted(passed):
        before = [version for version in at if version <= release and version in passed]
        if before and release not in at:  # it left the collection as it was
            at[release] = (at[max(before)][-1],)
    return ColumnLineage("" if state.release is None else state.release.name, tuple(entries), at, passed)


def distinct(current: SchemaEntry, lineage: ColumnLineage) -> Iterator[tuple[SchemaEntry, Fingerprint]]:
    """Yield ``current``, then the other schemas that there were, each once with its hash, the newest first.

    Two of one hash may be of other columns.
    """
    known = set()
    for entry in (current, *(entry for entry in reversed(lineage.entries) if entry is not current)):
        shape = shape_of(entry)
        names = tuple(sorted((path, shape.name_in_files(path)) for path, _ in walk(shape.fields)))
        hash_ = fingerprint(entry.declared)
        found = (entry.shard, hash_, names)
        if found not in known:
            known.add(found)
            yield entry, hash_


def releases_passed(state: State) -> frozenset[Version]:
    """Return the environment's release and those that led there. Releases that were rolled back are left out."""
    found: set[Version] = set()
    done = sorted((d for d in state.deployments.values() if d.state is DeploymentState.COMMITTED), key=lambda d: d.generation)
    by_target = {deployment.target: deployment.source for deployment in done if deployment.source != deployment.target}
    release = None if state.release is None else state.release.version
    while release is not None and release not in found:
        found.add(release)
        release = by_target.get(release)
    return frozenset(found)


def came_from(before: SchemaEntry, entry: SchemaEntry) -> Origins:
    """Return path in ``entry`` -> path of the same column in ``before``, both of one environment.

    Empty if the table was made anew between.
    """
    return match_fields(shape_of(before), shape_of(entry)) if before.shard == entry.shard else {}


def doubts(event: SchemaEntry, origin: ColumnLineage, own: SchemaEntry, target: ColumnLineage) -> Mapping[ColumnPath, Doubt]:
    """Return, by path, why a field of ``event`` is not known to be the one of its name in ``own``, a schema of the target.

    Nothing if the two environments are of different products: there is nothing but names then, and will not be.
    """
    there = {path for path, _ in walk(own.declared.fields)}
    common = list(_common(event, origin, own, target))
    if not common and _are_strangers(origin, target):
        return {}
    found: dict[ColumnPath, Doubt] = {}
    for path, _ in walk(event.declared.fields):
        if path in there:
            doubt = _doubt([(one.get(path), other.get(path)) for one, other in common])
            if doubt is Doubt.UNKNOWN and (_is_from_outside(path, event, origin) or _is_from_outside(path, own, target)):
                continue
            if doubt is not None:
                found[path] = doubt
    return found


def _doubt(seen: Sequence[tuple[ColumnPath | None, ColumnPath | None]]) -> Doubt | None:
    """Return what speaks against two columns being one; None if nothing does.

    ``seen``: what the two were in each release that both environments were at, by its names; None: they were not there.
    """
    if any(None not in pair and pair[0] != pair[1] for pair in seen):
        return Doubt.OTHER
    if any(None not in pair for pair in seen):
        return None
    return Doubt.OTHER if any(pair != (None, None) for pair in seen) else Doubt.UNKNOWN


def _common(event: SchemaEntry, origin: ColumnLineage, own: SchemaEntry, target: ColumnLineage) -> Iterator[tuple[Origins, Origins]]:
    """Yield the origins of the columns of ``event`` and ``own`` in each release that both environments were at.

    Only schemas of a release that declare the same in both environments count.
    """
    looked_at = set()
    for release in origin.at.keys() & target.at.keys():
        for one in origin.at[release]:
            for other in target.at[release]:
                if (one.key, other.key) not in looked_at and fingerprint(one.declared) == fingerprint(other.declared):
                    looked_at.add((one.key, other.key))
                    yield came_from(one, event), came_from(other, own)


def _are_strangers(origin: ColumnLineage, target: ColumnLineage) -> bool:
    """Return whether two environments without a common release have nothing to do with each other.

    They are of different products, or a release of one number declares another thing in each. A release that both were at, and that does
    not have the collection, says neither.
    """
    return origin.product != target.product or not origin.at.keys().isdisjoint(target.at.keys())


def _is_from_outside(path: ColumnPath, entry: SchemaEntry, lineage: ColumnLineage) -> bool:
    """Return whether the column was first seen in a schema from outside of a release.

    No release knows such a column; its name is all there is.
    """
    first = next((before for before in lineage.entries if path in came_from(before, entry)), entry)
    return first.release is None


# --- for who knows one environment only ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReleaseMark:
    """What a schema has from the schemas of ``releases``.

    These declare the collection alike (``declares``, a piece of the hash). ``columns``: a digest of its columns and of what they were
    there. ``is_whole``: all were there, or are of no release.
    """

    declares: str
    releases: tuple[Version, ...]
    columns: str
    is_whole: bool


def marks_of(entry: SchemaEntry, lineage: ColumnLineage, limit: int) -> tuple[ReleaseMark, ...]:
    """Return the marks of the newest ``limit`` releases, by release."""
    found: dict[str, list[Version]] = {}
    for release in sorted(release for release, entries in lineage.at.items() if entries[-1].rolled_back is None)[-limit:]:
        found.setdefault(lineage.at[release][-1].key, []).append(release)
    marks = []
    for releases in found.values():
        before = lineage.at[releases[0]][-1]
        origins = came_from(before, entry)
        paths = sorted(path for path, _ in walk(entry.declared.fields))
        text = canonical([[path, origins.get(path)] for path in paths])
        is_whole = all(path in origins or _is_from_outside(path, entry, lineage) for path in paths)
        marks.append(
            ReleaseMark(short(fingerprint(before.declared)), tuple(releases), hashlib.sha256(text.encode()).hexdigest()[:16], is_whole)
        )
    return tuple(marks)


def short(hash_: Fingerprint) -> str:
    """Return as much of a hash as marks have."""
    return hash_.partition(":")[2][:16]


def are_alike(one: Sequence[ReleaseMark], other: Sequence[ReleaseMark]) -> bool:
    """Return whether two schemas of one hash are of the same columns, as ``doubts`` would say. True if either says nothing of itself."""
    if not one or not other or one == other:
        return True
    pairs = [(mark, its) for mark in one for its in other if not set(mark.releases).isdisjoint(its.releases)]
    known = [(mark, its) for mark, its in pairs if mark.declares == its.declares]
    if not known:
        return bool(pairs)
    if any(mark.is_whole and its.is_whole and mark.columns != its.columns for mark, its in known):
        return False
    return any((mark.is_whole or its.is_whole) and mark.columns == its.columns for mark, its in known)
