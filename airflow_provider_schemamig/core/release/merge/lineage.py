"""Follows each collection from one release to a later one: what happened to it, under which names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.steps import Evolution, Removal, Replacement, Rewrite, Step
from airflow_provider_schemamig.core.schema.model import Declaration


@dataclass(frozen=True, slots=True)
class LineageEvent:
    """One collection changed, or had a step, in the migration to ``version``. ``old`` bears the name of the release before; where that
    has no such collection it is ``new``."""

    version: Version
    step: Step | None
    old: Declaration
    new: Declaration


@dataclass(slots=True)
class CollectionLineage:
    """One collection over the releases looked at. ``source`` is None if it was created on the way, ``end`` None if it was removed."""

    source: Declaration | None
    end: Declaration | None
    events: list[LineageEvent] = field(default_factory=list)

    @property
    def is_made_anew(self) -> bool:
        """Return whether its rows at the end are not those of the source, shown in another shape."""
        return any(isinstance(event.step, Replacement | Rewrite) for event in self.events)


@dataclass(slots=True)
class CollectionTrace:
    """All collections at one version: those that live, by their name there, and those that ended on the way."""

    version: Version
    alive: dict[CollectionName, CollectionLineage]
    ended: list[CollectionLineage] = field(default_factory=list)

    def of_source(self, name: CollectionName) -> CollectionLineage | None:
        """Return the lineage of the collection that had ``name`` at the source."""
        lineages = (*self.alive.values(), *self.ended)
        return next((lineage for lineage in lineages if lineage.source is not None and lineage.source.name == name), None)


def traces(release: Release, source: Version) -> Iterator[CollectionTrace]:
    """Yield the trace at ``source`` and at every version after it, up to the head.

    It is one object that changes: read it before taking the next.
    """
    declared = release.declarations(source)
    trace = CollectionTrace(source, {name: CollectionLineage(declaration, declaration) for name, declaration in declared.items()})
    yield trace
    for version in release.versions:
        if version > source:
            _advance(trace, release, version)
            yield trace


def trace_to(release: Release, source: Version, target: Version) -> CollectionTrace:
    """Return the trace from ``source`` at ``target``, both supported versions, ``target`` not before ``source``."""
    return next(trace for trace in traces(release, source) if trace.version == target)


def _advance(trace: CollectionTrace, release: Release, version: Version) -> None:
    before, after = release.declarations(trace.version), release.declarations(version)
    steps = {step.collection: step for step in release.steps(version)}
    renamed = {step.renamed_from: step.collection for step in steps.values() if isinstance(step, Evolution) and step.renamed_from}
    alive: dict[CollectionName, CollectionLineage] = {}
    for old_name, lineage in trace.alive.items():
        name = renamed.get(old_name, old_name)
        step, old, new = steps.get(name), before[old_name], after.get(name)
        if new is None or isinstance(step, Removal):
            lineage.end = None
            trace.ended.append(lineage)
            continue
        if step is not None or (old is not new and old != new):
            lineage.events.append(LineageEvent(version, step, old, new))
        lineage.end = new
        alive[name] = lineage
    for name, new in after.items():
        if name not in alive:
            step = steps.get(name)
            alive[name] = CollectionLineage(None, new, [] if step is None else [LineageEvent(version, step, new, new)])
    trace.version, trace.alive = version, alive
