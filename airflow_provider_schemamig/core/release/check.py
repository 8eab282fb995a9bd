"""All that can be known of a release without an environment (``schemamig check``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.folder.conflicts import MergeConflict
from airflow_provider_schemamig.core.release.folder.errors import MissingModule, MissingSnapshot
from airflow_provider_schemamig.core.release.folder.lock import version_of
from airflow_provider_schemamig.core.release.folder.read import Reading, Release, ReleaseSnapshot, read_release
from airflow_provider_schemamig.core.release.merge.validate import validate_pair
from airflow_provider_schemamig.core.schema.delta_rules.property_values import unsupported_in
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.unusable import newly_unusable
from airflow_provider_schemamig.exceptions import Refusal, Refused, raise_refusals


def check(path: Path) -> tuple[Refusal, ...]:
    """Return every refusal of the release folder at ``path``: files, lock, modules, snapshots, chain and queries. Writes nothing."""
    return tuple(check_reading(path)[1])


def load_checked(path: Path) -> Release:
    """Return the release at ``path``, if nothing at all is wrong with it. Raises every refusal of ``check`` at once."""
    reading, refusals = check_reading(path)
    raise_refusals(refusals)
    assert reading.release is not None  # no refusal means a release
    return reading.release


def check_reading(path: Path) -> tuple[Reading, list[Refusal]]:
    """Return the folder's reading, and every refusal that ``check`` has for it."""
    reading = read_release(path)
    release, refusals = reading.release, list(reading.refusals)
    snapshots = [*(release.snapshots.values() if release is not None else ()), *filter(None, [reading.unfrozen])]
    broken = {snapshot.version for snapshot in snapshots if not _parses(snapshot, refusals)}
    if release is not None:
        missing = set(_versions_with_gaps(refusals))
        if list(release.snapshots) == [release.version] and not broken:
            refusals.extend(_unusable(release, None))
        for before, version in pairwise(release.versions):
            is_complete = version in release.modules and not any(before < gap <= version for gap in missing)
            if is_complete and not {before, version} & broken:
                refusals.extend(validate_pair(release, before, version))
                if version == release.version:
                    refusals.extend(_unusable(release, before))
    return reading, refusals


def _unusable(release: Release, before: Version | None) -> Iterator[Refusal]:
    """Yield what is unusable in the head and new in it. Versions that are released cannot be changed any more."""
    old = {} if before is None else release.declarations(before)
    for name, new in release.declarations(release.version).items():
        yield from unusable_declaration(old.get(name), new)


def unusable_declaration(old: Declaration | None, new: Declaration) -> Iterator[Refusal]:
    """Yield CHECKs, DEFAULTs and properties, new in a declaration, that no engine can evaluate or parse."""
    yield from newly_unusable(old, new)
    yield from unsupported_in(old, new)


def _versions_with_gaps(refusals: Iterable[Refusal]) -> Iterator[Version]:
    """Yield versions whose snapshot or module is missing or means nothing: steps around them cannot be judged."""
    for refusal in refusals:
        if isinstance(refusal, MissingSnapshot | MissingModule):
            yield refusal.version
        elif isinstance(refusal, MergeConflict):
            version = version_of(refusal.file)
            if version is not None:
                yield version


def _parses(snapshot: ReleaseSnapshot, refusals: list[Refusal]) -> bool:
    """Return whether its SQL is right; if not, every reason is in ``refusals``."""
    try:
        return snapshot.declarations is not None
    except Refused as several:
        refusals.extend(found for found in several.refusals if isinstance(found, Refusal))
    except Refusal as refusal:
        refusals.append(refusal)
    return False
