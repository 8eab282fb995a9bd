"""All upgrade paths of a release folder, or some: which there are, what each begins at, and taking them.

The environment that goes step by step from the oldest version to the head is made once; every other path begins at a copy of one of its
stops. So a hundred versions cost hundreds of upgrades and not thousands.
"""

from __future__ import annotations

import functools
import itertools
import time
from dataclasses import dataclass, replace
from pathlib import Path

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.check import load_checked
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.testing.environment_cache import Arrival, EnvironmentCache, needs_spark, no_start
from airflow_provider_schemamig.core.testing.errors import UnknownPath
from airflow_provider_schemamig.core.testing.path_runner import PathRunner
from airflow_provider_schemamig.core.testing.released import Released, from_list, from_tags, known_paths, missing_paths
from airflow_provider_schemamig.core.testing.results import PathEnded, PathFinding, PathKind, PathVerdict, Report, Result, UpgradePath
from airflow_provider_schemamig.core.testing.rows.fixtures import Fixtures, completed, read_fixtures
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs, without_spark
from airflow_provider_schemamig.exceptions import Refusal, raise_refusals

DEFAULT_SEED = 0


@dataclass(frozen=True)
class Rehearsal:
    """What is to be tested, below ``scratch``. ``jobs`` None: there is no Spark, and what needs it is not taken."""

    release: Release
    fixtures: Fixtures
    scratch: Path
    jobs: Jobs | None = None
    seed: int = DEFAULT_SEED
    released: Released | None = None

    @functools.cached_property
    def paths(self) -> tuple[UpgradePath, ...]:
        """Return every path that users can take, or should be able to."""
        *older, head = self.release.versions
        steps = itertools.pairwise(self.release.versions)
        found = [UpgradePath(PathKind.NEW, None, head), *(UpgradePath(PathKind.STEP, one, two) for one, two in steps)]
        found += [UpgradePath(PathKind.DIRECT, version, head) for version in older]
        if self.released is not None:
            found += [*known_paths(self.released), *self.missing]
        return tuple(found)

    @functools.cached_property
    def missing(self) -> dict[UpgradePath, Refusal]:
        """Return the paths that no folder leads along, and why."""
        return dict(missing_paths(self.released)) if self.released is not None else {}

    @functools.cached_property
    def cache(self) -> EnvironmentCache:
        """Make one environment that goes through every supported version."""
        versions = self.release.versions
        before = dict(zip(versions[1:], versions, strict=False))
        return EnvironmentCache(lambda version: self.runner, before.get, self.jobs is not None)

    @functools.cached_property
    def released_cache(self) -> EnvironmentCache:
        """Make environments as users have them: each release by its own folder, as it came out."""
        assert self.released is not None
        return EnvironmentCache(self.runner_of, self.released.before, self.jobs is not None)

    @functools.cached_property
    def runner(self) -> PathRunner:
        return self._runner(self.release, self.fixtures)

    def runner_of(self, version: Version) -> PathRunner:
        """Return the runner of a release as it came out. Rows of versions that the folder under test does not have are generated."""
        assert self.released is not None
        release = self.released.of(version).release
        assert release is not None  # paths lead only where a folder is
        return self._runner(release, completed(self.fixtures, release))

    def _runner(self, release: Release, fixtures: Fixtures) -> PathRunner:
        return PathRunner(release, fixtures, self.scratch, self.seed, self.jobs or without_spark)

    def find(self, text: str) -> tuple[UpgradePath, ...]:
        """Return the paths written ``1.0.0..1.3.0``, ``new..1.3.0``, or as an id. Raises UnknownPath."""
        found = tuple(path for path in self.paths if text in (path.way, path.id))
        if not found:
            raise UnknownPath(text=text, known=tuple(dict.fromkeys(path.way for path in self.paths)))
        return found

    def arrival(self, path: UpgradePath) -> Arrival:
        """Return what a path begins at: made now, if it is not there yet. For a new environment, what it is compared with."""
        if path in self.missing:
            return Arrival(None, None)
        if path.kind is PathKind.RELEASED:
            assert path.source is not None
            return self.released_cache.at(path.source)
        found = self.cache.at(path.source or path.target)
        if path.kind is not PathKind.STEP:
            return found
        done = self.cache.at(path.target)
        return Arrival(found.cached, done.step, done.writes, found.why)

    def run(self, path: UpgradePath) -> Result:
        """Take one path, with all it needs before."""
        return self.take(path, self.arrival(path))

    def take(self, path: UpgradePath, arrival: Arrival) -> Result:
        """Take a path from what it begins at. Needs nothing else, so another process may do it."""
        started = time.monotonic()
        if path in self.missing:
            refusal = self.missing[path]
            return Result(path, PathVerdict.FAILED, (PathFinding("plan", refusal.code, refusal.message, refusal.next_action),))
        if path.kind is PathKind.STEP and arrival.step is not None and arrival.step.verdict is not PathVerdict.PASSED:
            return arrival.step
        report = Report()
        try:
            skipped = self._take(path, arrival, report)
        except PathEnded:
            skipped = None
        return skipped or _joined(report.result(path, time.monotonic() - started), arrival.step if path.kind is PathKind.STEP else None)

    def _take(self, path: UpgradePath, arrival: Arrival, report: Report) -> Result | None:
        if path.source is None:
            self.runner.fresh(arrival.cached, report)
            return None
        if arrival.cached is None:
            report.end([no_start(path.source, arrival.why)])
        assert arrival.cached is not None
        if path.kind is PathKind.STEP:
            self.runner.interrupted(arrival.cached, path.target, arrival.writes, report)
            return None
        runner = self.runner if path.kind is PathKind.DIRECT else self.runner_of(path.target)
        with report.phase("plan"):
            without = runner.spark_for(path.source, path.target) if self.jobs is None else ()
        if without:
            return needs_spark(path, without)
        runner.direct(arrival.cached, path.target, report, runner.release.path)
        return None


def _joined(result: Result, step: Result | None) -> Result:
    """Join a step's clean run and its interrupted one to one result."""
    if step is None:
        return result
    notes = tuple(dict.fromkeys((*step.notes, *result.notes)))
    fenced = tuple(dict.fromkeys((*step.fenced, *result.fenced)))
    return replace(result, notes=notes, fenced=fenced, rows=max(step.rows, result.rows), seconds=step.seconds + result.seconds)


def rehearsal(
    folder: Path, scratch: Path, *, jobs: Jobs | None = None, seed: int = DEFAULT_SEED, released: str | None = None, tags: str | None = None
) -> Rehearsal:
    """Read a release folder, its fixtures, and what was released (a list or file; or a pattern of tags).

    Raises everything that ``check`` refuses, else everything wrong with the fixtures and the tags.
    """
    release = load_checked(folder)
    fixtures = read_fixtures(release)
    raise_refusals(fixtures.refusals)
    out = from_tags(tags, release, scratch) if tags is not None else from_list(released, release, scratch) if released is not None else None
    return Rehearsal(release, fixtures, scratch, jobs, seed, out)
