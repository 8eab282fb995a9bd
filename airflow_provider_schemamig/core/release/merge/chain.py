"""Merges the steps of several releases into one upgrade.

All modes of an upgrade use this one function, so that a read-only run and a leader never disagree about what there is to do.
"""

from __future__ import annotations

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge.errors import DowngradeRefused, SourceBelowMinimum, StopInBetween, UnknownSourceVersion
from airflow_provider_schemamig.core.release.merge.lineage import traces
from airflow_provider_schemamig.core.release.merge.merged import Chain, Create, Evolve, MergedStep, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.release.merge.resolve import Unmergeable, resolve
from airflow_provider_schemamig.core.release.merge.validate import validate_chain
from airflow_provider_schemamig.exceptions import raise_refusals

__all__ = ["Chain", "Create", "Evolve", "MergedStep", "Remove", "Replace", "RewriteStep", "merge", "validate_chain"]


def merge(release: Release, source: Version | None) -> Chain:
    """Merge the steps from ``source`` to the release's head into one step a collection.

    A ``source`` of None is a new environment, where all is created. Raises DowngradeRefused, SourceBelowMinimum, UnknownSourceVersion;
    StopInBetween for every collection that cannot be merged; and the release's own refusals if its adjacent versions do not fit
    (``validate_chain``).
    """
    head = release.version
    if source is None:
        declared = release.declarations(head)
        return Chain(None, head, tuple(Create(name, declared[name]) for name in sorted(declared)))
    _check_source(release, source)
    *_, trace = traces(release, source)
    steps, problems = resolve(release, source, trace)
    if problems:
        _refuse(release, source, problems)
    return Chain(source, head, steps)


def _check_source(release: Release, source: Version) -> None:
    if source > release.version:
        raise DowngradeRefused(source=source, target=release.version)
    if source < release.min_version:
        raise SourceBelowMinimum(source=source, minimum=release.min_version, target=release.version)
    if source not in release.snapshots:
        raise UnknownSourceVersion(source=source, target=release.version, known=[str(version) for version in release.versions])


def _refuse(release: Release, source: Version, problems: tuple[Unmergeable, ...]) -> None:
    """Raise StopInBetween with the last version up to which everything merges."""
    raise_refusals(validate_chain(release))
    good = [trace.version for trace in traces(release, source) if source < trace.version and not resolve(release, source, trace)[1]]
    if not good:  # a valid release can be reached from the one before it
        raise ValueError(f"release {release.version} passes its checks and cannot be reached from {source}")
    raise_refusals(
        [
            StopInBetween(collection=problem.collection, source=source, target=release.version, stop=good[-1], reason=problem.reason)
            for problem in problems
        ]
    )
