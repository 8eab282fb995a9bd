"""Paths that users can take, and how each one went."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.exceptions import Refused, SchemamigError


class PathKind(StrEnum):
    """``NEW``: a new environment at the head. ``STEP``: from one supported version to the next, also interrupted and rolled back.
    ``DIRECT``: from one to the head in one go, and back. ``RELEASED``: between two releases, with the later one's folder as it came out."""

    NEW = "new"
    STEP = "step"
    DIRECT = "direct"
    RELEASED = "released"


class PathVerdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NEEDS_SPARK = "needs_spark"


@dataclass(frozen=True, slots=True)
class UpgradePath:
    """``source`` None: a new environment."""

    kind: PathKind
    source: Version | None
    target: Version

    @property
    def way(self) -> str:
        """Return ``1.0.0..1.1.0`` or ``new..1.1.0``."""
        return f"{self.source or 'new'}..{self.target}"

    @property
    def id(self) -> str:
        """Return ``step[1.0.0..1.1.0]``."""
        return f"{self.kind.value}[{self.way}]"


@dataclass(frozen=True, slots=True)
class PathFinding:
    """One thing wrong: found while doing ``phase``; ``cause`` is an error's code."""

    phase: str
    cause: str
    reason: str
    remedy: str
    collection: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"phase": self.phase, "code": self.cause, "collection": self.collection, "message": self.reason, "next": self.remedy}


@dataclass(frozen=True, slots=True)
class Result:
    """``rows``: how many were carried along. ``via``: versions it has to stop at. ``fenced``: collections that readers of the source
    cannot read any more, and why; that is legal, and worth knowing."""

    path: UpgradePath
    verdict: PathVerdict
    findings: tuple[PathFinding, ...] = ()
    notes: tuple[str, ...] = ()
    rows: int = 0
    via: tuple[Version, ...] = ()
    fenced: tuple[str, ...] = ()
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.path.id,
            "kind": self.path.kind.value,
            "from": None if self.path.source is None else str(self.path.source),
            "to": str(self.path.target),
            "verdict": self.verdict.value,
            "rows": self.rows,
            "via": [str(version) for version in self.via],
            "fenced": list(self.fenced),
            "findings": [finding.to_json() for finding in self.findings],
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }


class PathEnded(Exception):
    """A phase failed: what comes after it on the path makes no sense. Control flow of ``Report``."""


@dataclass
class Report:
    """A result in the making."""

    findings: list[PathFinding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fenced: dict[str, None] = field(default_factory=dict)
    via: list[Version] = field(default_factory=list)
    rows: int = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Turn an error inside into findings, which end the path."""
        try:
            yield
        except SchemamigError as error:
            found = error.refusals if isinstance(error, Refused) else (error,)
            self.end([PathFinding(name, each.code, each.message, each.next_action, each.collection) for each in found])

    def end(self, findings: list[PathFinding]) -> None:
        """Raise PathEnded if there are any."""
        self.findings += findings
        if findings:
            raise PathEnded

    def result(self, path: UpgradePath, seconds: float) -> Result:
        verdict = PathVerdict.FAILED if self.findings else PathVerdict.PASSED
        notes = tuple(dict.fromkeys(self.notes))
        return Result(path, verdict, tuple(self.findings), notes, self.rows, tuple(self.via), tuple(self.fenced), seconds)
