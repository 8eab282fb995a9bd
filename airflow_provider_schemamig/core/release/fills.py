"""What the query of a replacement or rewrite reads: live tables in the source release's shape, shown in the shape it was written for.

The query of version N sees the collections of the release before N. The environment is at the source release, which may be older, so
every input is projected through the instant changes in between, or the merge is refused (DESIGN section 3).
"""

from __future__ import annotations

from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.composition import CannotMerge, compose_events
from airflow_provider_schemamig.core.release.folder import Release
from airflow_provider_schemamig.core.release.lineage import Lineage, trace_to
from airflow_provider_schemamig.core.release.merged import Replace, RewriteStep
from airflow_provider_schemamig.core.release.projection import NotProjectable, project
from airflow_provider_schemamig.core.release.query import bind, placeholders
from airflow_provider_schemamig.core.release.steps import Replacement, Rewrite
from airflow_provider_schemamig.core.schema.model import Declaration


def fill_inputs(release: Release, source: Version | None, step: Replace | RewriteStep) -> tuple[tuple[CollectionName, str], ...]:
    """Each collection that the step's query reads, by its name at ``source`` (which is also its placeholder), with its SELECT list.

    ``step`` comes from ``merge(release, source)``, which has already refused what cannot be shown.
    """
    query, version = (step.up, step.version) if isinstance(step, RewriteStep) else (step.fill, step.fill_version)
    if query is None or version is None or source is None:
        return ()
    trace = trace_to(release, source, version_before(release, version))
    return tuple((name, _projection(name, trace.of_source(name))) for name in placeholders(query))


def with_source_names(release: Release, source: Version, version: Version, query: str) -> str:
    """The query of ``version`` with its placeholders (names of the release before) as names at ``source``. Raises CannotMerge."""
    trace = trace_to(release, source, version_before(release, version))
    names: dict[CollectionName, str] = {}
    for name in placeholders(query):
        lineage = trace.alive.get(name)
        if lineage is None or lineage.source is None:
            raise CannotMerge(f"the query of {version} reads {name}, which is younger than {source}")
        names[name] = f"{{{lineage.source.name}}}"
    return bind(query, names)


def version_before(release: Release, version: Version) -> Version:
    """The release that the migration to ``version`` starts from."""
    return release.versions[release.versions.index(version) - 1]


def _projection(name: CollectionName, lineage: Lineage | None) -> str:
    old, new = (None, None) if lineage is None else (lineage.source, lineage.end)
    if lineage is None or old is None or new is None:
        raise CannotMerge(f"the query reads {name}, which is removed before it runs")
    if any(isinstance(event.step, Replacement | Rewrite) for event in lineage.events):
        raise CannotMerge(f"the query reads {name}, whose rows another step makes anew before")
    return _shown(old, new, lineage)


def _shown(old: Declaration, new: Declaration, lineage: Lineage) -> str:
    composed = compose_events(old, new, lineage.events)
    try:
        return project(old, new, composed.renames)
    except NotProjectable as refusal:
        raise CannotMerge(f"the query reads {old.name}, where {refusal.path} changes before: {refusal.reason}") from refusal
