"""The environments that paths begin at. Each is made when it is first asked for, by the upgrade that its users took."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.testing.path_runner import CachedEnvironment, PathRunner
from airflow_provider_schemamig.core.testing.results import PathEnded, PathFinding, PathKind, PathVerdict, Report, Result, UpgradePath


@dataclass(frozen=True)
class Arrival:
    """How a cached environment came about. ``cached`` None: none at the version can be made, and ``why``. ``step``: the clean run of the
    step to it; None where an environment is simply new. ``writes``: how many moments to die that step had."""

    cached: CachedEnvironment | None
    step: Result | None
    writes: int = 0
    why: tuple[PathFinding, ...] = ()


@dataclass
class EnvironmentCache:
    """``runner_to``: the runner whose release leads to a version; ``before``: the version it comes from, None to begin there."""

    runner_to: Callable[[Version], PathRunner]
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
        runner = self.runner_to(version)
        known = None if before is None else self._made[before].cached
        if known is None:
            cached, report = _tried(lambda report: runner.begin(version, report))
            why = tuple(report.findings)
            if before is None:
                return Arrival(cached, None, why=why)
            path = UpgradePath(PathKind.STEP, before, version)
            return Arrival(cached, Result(path, PathVerdict.FAILED, (no_start(before, self._made[before].why),)), why=why)
        path, started = UpgradePath(PathKind.STEP, known.version, version), time.monotonic()
        without = () if self.has_spark else runner.spark_for(known.version, version)
        if without:
            return Arrival(_tried(lambda report: runner.begin(version, report))[0], needs_spark(path, without))
        cached, report = _tried(lambda report: runner.step(known, version, report))
        result = report.result(path, time.monotonic() - started)
        if cached is None:
            return Arrival(_tried(lambda report: runner.begin(version, report))[0], result)
        return Arrival(replace(cached), result, cached.writes)


def needs_spark(path: UpgradePath, collections: tuple[str, ...]) -> Result:
    note = f"only Spark can take the rows of {', '.join(collections)} along; without it the path is not taken"
    return Result(path, PathVerdict.NEEDS_SPARK, notes=(note,))


def no_start(version: Version, why: tuple[PathFinding, ...]) -> PathFinding:
    """Return the finding of a path that has nothing to begin at. ``why``: what making that stopped at; empty: a path to it tells."""
    told = "".join(f" {each.phase}: [{each.cause}] {each.reason}" for each in why[:1])
    reason = f"no environment at {version} could be made, so nothing can begin there.{told}"
    return PathFinding("begin", "no_environment", reason, why[0].remedy if why else f"Look at what is wrong with {version} first.")


def _tried(run: Callable[[Report], CachedEnvironment]) -> tuple[CachedEnvironment | None, Report]:
    """Return None if the path ended on the way; the report says why."""
    report = Report()
    try:
        return run(report), report
    except PathEnded:
        return None, report
