"""All rewrites and evolutions of one collection over several releases as one rewrite, forwards and backwards.

A release's query becomes a derived table in the next one's, and an evolution in between becomes the SELECT list that shows it. Row-local
queries nested in each other are row-local; so what is true of each is true of all in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Version
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge.evolutions import CannotMerge
from airflow_provider_schemamig.core.release.merge.fills import (
    columns_of,
    fill_inputs,
    shown,
    shown_as_before,
    version_before,
    with_source_names,
)
from airflow_provider_schemamig.core.release.merge.lineage import CollectionLineage, LineageEvent, trace_to
from airflow_provider_schemamig.core.release.merge.merged import RewriteStep
from airflow_provider_schemamig.core.release.queries.projection import NotProjectable
from airflow_provider_schemamig.core.release.queries.query import bind_tables, body, placeholders
from airflow_provider_schemamig.core.release.steps import Rewrite
from airflow_provider_schemamig.core.schema.model import Declaration


def fold_rewrite(release: Release, source: Version, target: Version, lineage: CollectionLineage) -> RewriteStep:
    """Return the one step of a collection that is rewritten at least once, and neither replaced nor removed. Raises CannotMerge."""
    old, new = lineage.source, lineage.end
    assert old is not None and new is not None  # a collection that lives on both sides
    parts = _parts(lineage.events)
    first = parts[1]
    up = with_source_names(release, source, first.version, _up(release, parts, new))
    down = _inverse(release, target, parts, old, new)
    steps = [part.step for part in parts[1:] if part.step is not None]
    folded = RewriteStep(
        collection=new.name,
        old=old,
        new=new,
        up=up,
        down=down.query,
        version=first.version,
        cardinality="any" if any(step.cardinality == "any" for step in steps) else "same",
        lookups=tuple(sorted(name for name in placeholders(up) if name != old.name)),
        renamed_from=None if old.name == new.name else old.name,
        no_way_back=down.reason,
        lost_on_way_back=down.lost,
    )
    fill_inputs(release, source, folded)  # refuses what cannot be shown
    return folded


def derived(columns: str, query: str) -> str:
    """Wrap a query in a SELECT list."""
    return f"SELECT {columns} FROM (\n{body(query)}\n) AS shown"


@dataclass(slots=True)
class _Part:
    """A rewrite and the evolutions after it, up to the next; the first part of all has only evolutions."""

    rewrite: LineageEvent | None
    evolutions: list[LineageEvent] = field(default_factory=list)

    @property
    def step(self) -> Rewrite | None:
        return self.rewrite.step if self.rewrite is not None and isinstance(self.rewrite.step, Rewrite) else None

    @property
    def version(self) -> Version:
        assert self.rewrite is not None
        return self.rewrite.version


def _parts(events: Sequence[LineageEvent]) -> list[_Part]:
    parts = [_Part(None)]
    for event in events:
        if isinstance(event.step, Rewrite):
            parts.append(_Part(event))
        else:
            parts[-1].evolutions.append(event)
    return parts


def _up(release: Release, parts: Sequence[_Part], new: Declaration) -> str:
    """Return all ``up`` as one, written for the release before the first."""
    base = version_before(release, parts[1].version)
    query = ""
    for part, following in zip(parts[1:], [*parts[2:], None], strict=True):
        event, step = part.rewrite, part.step
        assert event is not None and step is not None
        if query:
            lookups = _earlier_lookups(release, base, part.version, step.up, event.old.name)
            query = bind_tables(body(step.up), {**lookups, event.old.name: query})
        else:
            query = body(step.up)
        end = new if following is None or following.rewrite is None else following.rewrite.old
        try:
            columns = shown(event.new, end, part.evolutions)
        except NotProjectable as refusal:
            raise CannotMerge(f"it is rewritten in {event.version}, and later {refusal.path} changes: {refusal.reason}") from refusal
        query = query if columns is None else derived(columns, query)
    return query


def _earlier_lookups(release: Release, base: Version, version: Version, up: str, own: CollectionName) -> dict[CollectionName, str]:
    """Return the lookups of the rewrite of ``version`` from the tables as the first rewrite finds them, where they differ."""
    trace = trace_to(release, base, version_before(release, version))
    found: dict[CollectionName, str] = {}
    for name in placeholders(up):
        lineage = trace.alive.get(name)
        if name == own or lineage is None:
            continue
        before, after = lineage.source, lineage.end
        if before is None or after is None:
            raise CannotMerge(f"the query of {version} reads {name}, which is younger than {base}")
        if lineage.is_made_anew:
            raise CannotMerge(f"the query of {version} reads {name}, whose rows an earlier step replaces")
        try:
            columns = shown(before, after, lineage.events)
        except NotProjectable as refusal:
            raise CannotMerge(f"the query of {version} reads {name}, where {refusal.path} changes before: {refusal.reason}") from refusal
        if columns is not None:
            found[name] = f"SELECT {columns} FROM {{{before.name}}}"
    return found


@dataclass(frozen=True, slots=True)
class _InverseQueries:
    query: str | None
    reason: str | None
    lost: tuple[ColumnPath, ...] = ()


def _inverse(release: Release, target: Version, parts: Sequence[_Part], old: Declaration, new: Declaration) -> _InverseQueries:
    """Return all ``down`` as one, written for ``target``; or the first reason, going backwards, why there is none."""
    query: str | None = None  # None: {name} of the target, as it is
    lost: list[ColumnPath] = []
    end = new
    for part in reversed(parts):
        begin = old if part.rewrite is None else part.rewrite.new
        try:
            columns, gone = shown_as_before(begin, end, part.evolutions)
            lost.extend(gone)
            if columns is not None:
                query = f"SELECT {columns} FROM {{{new.name}}}" if query is None else derived(columns, query)
            if part.rewrite is None or part.step is None:
                break
            end = part.rewrite.old
            query = _down_query(release, target, part.version, part.step, query)
        except NotProjectable as refusal:
            return _InverseQueries(None, f"{refusal.path} cannot be had back: {refusal.reason}")
        except CannotMerge as refusal:
            return _InverseQueries(None, refusal.reason)
    return _InverseQueries(query or f"SELECT {columns_of(new)} FROM {{{new.name}}}", None, tuple(lost))


def _down_query(release: Release, target: Version, version: Version, step: Rewrite, query: str | None) -> str:
    """Return the ``down`` of one rewrite over ``query``, its own collection as ``version`` has it. Raises CannotMerge, NotProjectable."""
    if step.down is None:
        raise CannotMerge(f"the rewrite of {version} has no down")
    sources = {} if query is None else {step.collection: query}
    trace = trace_to(release, version, target)
    for name in placeholders(step.down):
        if name == step.collection:
            continue
        lineage = trace.of_source(name)
        if lineage is None or lineage.source is None or lineage.end is None:
            raise CannotMerge(f"the way back of {version} reads {name}, which is removed later")
        if lineage.is_made_anew:
            raise CannotMerge(f"`down` of {version} reads {name}, whose rows a later step replaces")
        columns, gone = shown_as_before(lineage.source, lineage.end, lineage.events)
        if gone:
            raise CannotMerge(f"the way back of {version} reads {name}, which loses {', '.join(gone)} later")
        if columns is not None:
            sources[name] = f"SELECT {columns} FROM {{{lineage.end.name}}}"
    return bind_tables(body(step.down), sources) if sources else body(step.down)
