"""What the query of a replacement or rewrite reads: live tables in one release's shape, shown in the shape it was written for.

The query of version N sees the collections of the release before N. The environment is at the source release, which may be older, so
every input is projected through the instant changes in between, or the merge is refused. The way back of a rewrite is
written for a release that may be older than the target, where it runs: its inputs are projected backwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Version, quote
from airflow_provider_schemamig.core.release.columns import match, renames_of
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge.evolutions import CannotMerge, compose_events
from airflow_provider_schemamig.core.release.merge.lineage import CollectionLineage, LineageEvent, trace_to
from airflow_provider_schemamig.core.release.merge.merged import Create, Replace, RewriteStep
from airflow_provider_schemamig.core.release.queries.projection import NotProjectable, project
from airflow_provider_schemamig.core.release.queries.query import bind, body, placeholders
from airflow_provider_schemamig.core.schema.model import Declaration, walk

#: A collection's name and the SELECT list that shows it.
Input = tuple[CollectionName, str]


def fill_inputs(release: Release, source: Version | None, step: Create | Replace | RewriteStep) -> tuple[Input, ...]:
    """Return each collection that the step's query reads, by its name at ``source`` (also its placeholder), with its SELECT list.

    ``step`` comes from ``merge(release, source)``, which has already refused what cannot be shown.
    """
    query, version = (step.up, step.version) if isinstance(step, RewriteStep) else (step.fill, step.fill_version)
    if query is None or version is None or source is None:
        return ()
    trace = trace_to(release, source, version_before(release, version))
    return tuple((name, _projection(name, trace.of_source(name))) for name in placeholders(query))


def rewrite_inputs(release: Release, source: Version | None, step: RewriteStep) -> tuple[str, tuple[Input, ...]]:
    """Return ``fill_inputs`` of a rewrite: the SELECT list of its own table (``step.old.name``), and those of its lookups."""
    inputs = dict(fill_inputs(release, source, step))
    return inputs.pop(step.old.name), tuple(inputs.items())


def columns_of(declaration: Declaration) -> str:
    """Return the SELECT list of a table as it is declared."""
    return ", ".join(quote(column.name) for column in declaration.fields)


def with_source_names(release: Release, source: Version, version: Version, query: str) -> str:
    """Return the query of ``version`` with its placeholders (names of the release before) as names at ``source``. Raises CannotMerge."""
    trace = trace_to(release, source, version_before(release, version))
    names: dict[CollectionName, str] = {}
    for name in placeholders(query):
        lineage = trace.alive.get(name)
        if lineage is None or lineage.source is None:
            raise CannotMerge(f"the query of {version} reads {name}, which is younger than {source}")
        names[name] = f"{{{lineage.source.name}}}"
    return bind(body(query), names)


def version_before(release: Release, version: Version) -> Version:
    """Return the release that the migration to ``version`` starts from."""
    return release.versions[release.versions.index(version) - 1]


def shown(old: Declaration, new: Declaration, events: Sequence[LineageEvent]) -> str | None:
    """Return the SELECT list that shows ``old`` as ``new``; None if that is the same table. Raises CannotMerge, NotProjectable."""
    renames = compose_events(old, new, events).renames
    columns = project(old, new, renames)
    return None if not renames and _is_same(old, new) else columns


def shown_as_before(old: Declaration, new: Declaration, events: Sequence[LineageEvent]) -> tuple[str | None, tuple[ColumnPath, ...]]:
    """Show ``new`` as ``old``: return the SELECT list, and the columns of ``old`` that are NULL then. Raises CannotMerge,
    NotProjectable."""
    origins = match(old, new, compose_events(old, new, events).renames)
    backwards = {before: after for after, before in origins.items()}
    renames = renames_of(new, old, backwards)
    fields = dict(walk(old.fields))
    lost = [path for path in fields if path not in backwards]
    outermost = tuple(path for path in lost if not any(path.startswith(f"{other}.") for other in lost))
    for path in outermost:
        if not fields[path].nullable:
            raise CannotMerge(f"{path} is dropped on the way, and rows without it cannot be, it was NOT NULL")
    # A default would be a value that the row never had.
    columns = project(new, replace(old, fields=tuple(replace(f, default=None) for f in old.fields)), renames)
    return (None if not renames and _is_same(old, new) else columns), outermost


def _is_same(old: Declaration, new: Declaration) -> bool:
    """Return whether each is read from the other by its own column names."""
    return old.name == new.name and {f.name: f.type for f in old.fields} == {f.name: f.type for f in new.fields}


def _projection(name: CollectionName, lineage: CollectionLineage | None) -> str:
    old, new = (None, None) if lineage is None else (lineage.source, lineage.end)
    if lineage is None or old is None or new is None:
        raise CannotMerge(f"the query reads {name}, which is removed before it runs")
    if lineage.is_made_anew:
        raise CannotMerge(f"the query reads {name}, whose rows an earlier step replaces")
    try:
        return shown(old, new, lineage.events) or columns_of(new)
    except NotProjectable as refusal:
        raise CannotMerge(f"the query reads {old.name}, where {refusal.path} changes before: {refusal.reason}") from refusal
