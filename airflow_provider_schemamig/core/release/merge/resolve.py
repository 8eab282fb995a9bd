"""From what happened to each collection to one merged step for it, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge.evolutions import CannotMerge, compose_events
from airflow_provider_schemamig.core.release.merge.fills import fill_inputs, shown, with_source_names
from airflow_provider_schemamig.core.release.merge.lineage import CollectionLineage, CollectionTrace, LineageEvent
from airflow_provider_schemamig.core.release.merge.merged import Create, Evolve, MergedStep, Remove, Replace
from airflow_provider_schemamig.core.release.merge.references import Kept, moved_references
from airflow_provider_schemamig.core.release.merge.rewrites import derived, fold_rewrite
from airflow_provider_schemamig.core.release.queries.projection import NotProjectable
from airflow_provider_schemamig.core.release.steps import Replacement, Rewrite
from airflow_provider_schemamig.core.schema.changes import Cost
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.diff.phases import phases
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.exceptions import Refusal


@dataclass(frozen=True, slots=True)
class Unmergeable:
    collection: CollectionName
    reason: str


def resolve(release: Release, source: Version, trace: CollectionTrace) -> tuple[tuple[MergedStep, ...], tuple[Unmergeable, ...]]:
    """Return the merged steps from ``source`` to the trace's version, sorted by collection, and what cannot be merged."""
    resolver = _Resolver(release, source, trace)
    steps: list[MergedStep] = []
    problems: list[Unmergeable] = []
    for name, lineage in trace.alive.items():
        try:
            steps.extend(resolver.living(name, lineage))
        except CannotMerge as error:
            problems.append(Unmergeable(name, error.reason))
    for name, key, referred in moved_references(dict(_kept(trace, steps))):
        why = f"{key.references}.{referred}, to which its FOREIGN KEY ({', '.join(key.columns)}) refers, is another column by then"
        problems.append(Unmergeable(name, why))
    steps.extend(Remove(old.name, old) for old in resolver.ended.values() if old.name not in resolver.recreated)
    return tuple(sorted(steps, key=lambda step: step.collection)), tuple(sorted(problems, key=lambda problem: problem.collection))


def _kept(trace: CollectionTrace, steps: Sequence[MergedStep]) -> Iterator[tuple[CollectionName, Kept]]:
    """Yield the collections that keep their tables."""
    made = {step.collection: step for step in steps}
    for name, lineage in trace.alive.items():
        step = made.get(name)
        if lineage.source is not None and lineage.end is not None and isinstance(step, Evolve | None):
            yield name, Kept(lineage.source, lineage.end, {} if step is None else step.renames)


class _Resolver:
    def __init__(self, release: Release, source: Version, trace: CollectionTrace) -> None:
        self.release = release
        self.source = source
        self.trace = trace
        self.ended = {lineage.source.name: lineage.source for lineage in trace.ended if lineage.source is not None}
        #: Removed on the way and created again under the old name: replaced, all in all.
        self.recreated: set[CollectionName] = set()
        self.source_names = release.declarations(source).keys()

    def living(self, name: CollectionName, lineage: CollectionLineage) -> tuple[MergedStep, ...]:
        """Return the steps of a collection that the target has."""
        old, new = lineage.source, lineage.end
        if new is None:
            raise ValueError(f"{name} does not live at {self.trace.version}")
        if old is None:
            return (self._younger(name, lineage, new),)
        if old.name != name and name in self.source_names:
            raise CannotMerge(f"{old.name} takes the name {name}, which another collection had")
        if not lineage.events:
            return ()
        last = max((i for i, event in enumerate(lineage.events) if isinstance(event.step, Replacement)), default=None)
        if last is not None:
            return self._replaced(name, old, new, lineage.events[last:])
        if any(isinstance(event.step, Rewrite) for event in lineage.events):
            return (fold_rewrite(self.release, self.source, self.trace.version, lineage),)
        return self._evolved(name, old, new, lineage.events)

    def _younger(self, name: CollectionName, lineage: CollectionLineage, new: Declaration) -> MergedStep:
        if name in self.source_names and name not in self.ended:
            raise CannotMerge(f"the collection that was {name} has another name now, and a new one takes its name")
        old = self.ended.get(name)
        if old is not None:
            self.recreated.add(name)
        last = max((i for i, event in enumerate(lineage.events) if isinstance(event.step, Replacement)), default=None)
        if last is not None:
            replaced = self._replace(name, old or new, new, lineage.events[last:])
        else:
            replaced = Replace(name, old or new, new, None, False, None)
        return replaced if old is not None else _created(replaced)

    def _evolved(self, name: CollectionName, old: Declaration, new: Declaration, events: Sequence[LineageEvent]) -> tuple[MergedStep, ...]:
        composed = compose_events(old, new, events)
        renamed_from = None if old.name == name else old.name
        try:
            found = diff(old, new, composed.renames)
            phases(old, old, new, composed.renames)
        except Refusal as refusal:  # what cannot be one change of this declaration, such as a CHECK that a rename cannot follow
            raise CannotMerge(refusal.message.rstrip(".")) from refusal
        if found.outcome == Cost.REWRITE and len(events) > 1:
            raise CannotMerge("all in all it changes what only a rewrite can")
        if found.outcome == Cost.NONE and renamed_from is None:
            return ()
        return (Evolve(name, renamed_from, old, new, composed.renames, found.dropped, composed.passed_names),)

    def _replaced(self, name: CollectionName, old: Declaration, new: Declaration, events: Sequence[LineageEvent]) -> tuple[MergedStep, ...]:
        if old.name == name:
            return (self._replace(name, old, new, events),)
        step = events[0].step
        if isinstance(step, Replacement) and step.fill is not None:
            raise CannotMerge(f"{old.name} is renamed and later replaced by a query")
        # Renamed and then replaced by an empty table: nothing of the old one goes on.
        return Remove(old.name, old), Create(name, new)

    def _replace(self, name: CollectionName, old: Declaration, new: Declaration, events: Sequence[LineageEvent]) -> Replace:
        """Merge a replacement and what follows it; ``events`` begins with the replacement that counts, the last one."""
        event, after = events[0], events[1:]
        step = event.step
        if not isinstance(step, Replacement) or step.fill is None:
            return Replace(name, old, new, None, False, event.version)
        fill = with_source_names(self.release, self.source, event.version, step.fill)
        if event.new.fields != new.fields:
            fill = _projected(fill, event.new, new, after)
        elif any(isinstance(later.step, Rewrite) for later in after):
            raise CannotMerge(f"it is filled in {event.version} and rewritten later")
        replaced = Replace(name, old, new, fill, step.snapshot, event.version)
        fill_inputs(self.release, self.source, replaced)
        return replaced


def _created(step: Replace) -> Create:
    """Return the step of a table that takes nobody's place."""
    return Create(step.collection, step.new, step.fill, step.snapshot, step.fill_version if step.fill is not None else None)


def _projected(fill: str, shape: Declaration, new: Declaration, after: Sequence[LineageEvent]) -> str:
    """Turn a fill written for ``shape`` into one that gives ``new``."""
    if any(isinstance(event.step, Rewrite) for event in after):
        raise CannotMerge("it is filled by a query and rewritten later")
    try:
        columns = shown(shape, new, after)
    except NotProjectable as refusal:
        raise CannotMerge(f"it is filled by a query, and later {refusal.path} changes: {refusal.reason}") from refusal
    return fill if columns is None else derived(columns, fill)
