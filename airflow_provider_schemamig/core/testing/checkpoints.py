"""The environments that paths begin at, made when they are first asked for, each by the upgrade that its users took."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.testing.path_runner import Stop, Track
from airflow_provider_schemamig.core.testing.results import PathEnded, PathFinding, PathKind, PathVerdict, Report, Result, UpgradePath


@dataclass(frozen=True)
class Arrival:
    """How a stop came about. ``stop`` None: no environment at the version can be made at all. ``step``: the clean run of the step to it;
    None where an environment is simply new. ``writes``: how many moments to die that step had."""

    stop: Stop | None
    step: Result | None
    writes: int = 0


@dataclass
class Stops:
    """``track_to``: the track whose release leads to a version; ``before``: the version it comes from, None to begin there."""

    track_to: Callable[[Version], Track]
    before: Callable[[Version], Version | None]
    has_spark: bool
    _made: dict[Version, Arrival] = field(default_factory=dict)

    def at(self, version: Version) -> Arrival:
        """Return the arrival at ``version``; all before it are made first."""
        todo = [version]
        while (before := self.before(todo[-1])) is not None and before not in self._made:
            todo.append(before)
        for each in reversed(todo):
            if each not in self._made:
                self._made[each] = self._make(self.before(each), each)
        return self._made[version]

    def _make(self, before: Version | None, version: Version) -> Arrival:
        """Reach ``version``; where the way is blocked, later versions go on from a new environment."""
        track = self.track_to(version)
        known = None if before is None else self._made[before].stop
        if known is None:
            stop, report = _tried(lambda report: track.begin(version, report))
            if before is None:
                return Arrival(stop, None)
            path = UpgradePath(PathKind.STEP, before, version)
            return Arrival(stop, Result(path, PathVerdict.FAILED, (no_start(before),)))
        path, started = UpgradePath(PathKind.STEP, known.version, version), time.monotonic()
        without = () if self.has_spark else track.spark_for(known.version, version)
        if without:
            return Arrival(_tried(lambda report: track.begin(version, report))[0], needs_spark(path, without))
        stop, report = _tried(lambda report: track.step(known, version, report))
        result = report.result(path, time.monotonic() - started)
        if stop is None:
            return Arrival(_tried(lambda report: track.begin(version, report))[0], result)
        return Arrival(replace(stop), result, stop.writes)


def needs_spark(path: UpgradePath, collections: tuple[str, ...]) -> Result:
    note = f"only Spark can take the rows of {', '.join(collections)} along; without it the path is not taken"
    return Result(path, PathVerdict.NEEDS_SPARK, notes=(note,))


def no_start(version: Version) -> PathFinding:
    reason = f"no environment at {version} could be made, so nothing can begin there."
    return PathFinding("begin", "no_environment", reason, f"Look at what is wrong with {version} first.")


def _tried(run: Callable[[Report], Stop]) -> tuple[Stop | None, Report]:
    """Return None if the path ended on the way; the report says why."""
    report = Report()
    try:
        return run(report), report
    except PathEnded:
        return None, report
