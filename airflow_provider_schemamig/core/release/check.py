"""All that can be known of a release without an environment (DESIGN section 10: ``schemamig check``)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from airflow_provider_schemamig.core.release.folder import Release, Snapshot, read_release
from airflow_provider_schemamig.core.release.folder_errors import MissingModule, MissingSnapshot
from airflow_provider_schemamig.core.release.validate import validate_pair
from airflow_provider_schemamig.exceptions import Refusal, Refused, raise_refusals


def check(path: Path) -> tuple[Refusal, ...]:
    """Every refusal of the release folder at ``path``: files, lock, modules, snapshots, chain and queries. Writes nothing."""
    return tuple(_check(path)[1])


def load_checked(path: Path) -> Release:
    """The release at ``path``, if nothing at all is wrong with it. Raises every refusal of ``check`` at once."""
    release, refusals = _check(path)
    raise_refusals(refusals)
    assert release is not None  # no refusal means a release
    return release


def _check(path: Path) -> tuple[Release | None, list[Refusal]]:
    reading = read_release(path)
    release, refusals = reading.release, list(reading.refusals)
    snapshots = [*(release.snapshots.values() if release is not None else ()), *filter(None, [reading.unfrozen])]
    broken = {snapshot.version for snapshot in snapshots if not _parses(snapshot, refusals)}
    if release is not None:
        missing = {refusal.version for refusal in refusals if isinstance(refusal, MissingSnapshot | MissingModule)}
        for before, version in pairwise(release.versions):
            is_whole = version in release.modules and not any(before < gap <= version for gap in missing)
            if is_whole and not {before, version} & broken:
                refusals.extend(validate_pair(release, before, version))
    return release, refusals


def _parses(snapshot: Snapshot, refusals: list[Refusal]) -> bool:
    """Whether its SQL is right; if not, every reason is in ``refusals``."""
    try:
        return snapshot.declarations is not None
    except Refused as several:
        refusals.extend(found for found in several.refusals if isinstance(found, Refusal))
    except Refusal as refusal:
        refusals.append(refusal)
    return False
