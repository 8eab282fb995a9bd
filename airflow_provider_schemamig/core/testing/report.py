"""One run of the tests as a document, and its failures as errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_schemamig.core.testing.errors import PathFailed
from airflow_provider_schemamig.core.testing.rehearse import Rehearsal
from airflow_provider_schemamig.core.testing.results import PathVerdict, Result
from airflow_provider_schemamig.exceptions import SchemamigError


def failures(rehearsal: Rehearsal, results: Sequence[Result], command: str) -> tuple[SchemamigError, ...]:
    """Return every finding as an error with the command to take its path again. ``command``: as it was called, without ``--path``."""
    return tuple(error for result in results for error in errors_of(rehearsal, result, command))


def errors_of(rehearsal: Rehearsal, result: Result, command: str) -> tuple[SchemamigError, ...]:
    if result.path in rehearsal.missing:
        return (rehearsal.missing[result.path],)
    return tuple(
        PathFailed(
            collection=finding.collection,
            path=result.path.way,
            phase=finding.phase,
            cause=finding.cause,
            reason=finding.reason,
            remedy=finding.remedy,
            repeat=f"{command} --path {result.path.way}",
        )
        for finding in result.findings
    )


def document(rehearsal: Rehearsal, results: Sequence[Result], seconds: float) -> dict[str, Any]:
    """Return ``{"name", "version", "versions", "seed", "paths", "counts", "notes", "seconds"}``."""
    release = rehearsal.release
    return {
        "name": release.name,
        "version": str(release.version),
        "versions": [str(version) for version in release.versions],
        "seed": rehearsal.seed,
        "paths": [result.to_json() for result in results],
        "counts": {verdict.value: sum(result.verdict is verdict for result in results) for verdict in PathVerdict},
        "notes": list(rehearsal.released.notes) if rehearsal.released is not None else [],
        "seconds": round(seconds, 3),
    }
