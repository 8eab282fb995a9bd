"""Takes single paths, for real: the product's own verbs on real Delta tables in a throw-away environment.

``CachedEnvironment`` is an environment that stands at a version, with rows of every version it came by; each path begins at a copy of one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge.chain import Chain, merge
from airflow_provider_schemamig.core.release.merge.errors import StopInBetween
from airflow_provider_schemamig.core.release.merge.merged import Replace
from airflow_provider_schemamig.core.testing.assertions import (
    EnvironmentView,
    Marks,
    check_previous_release,
    check_release,
    read_through_delta_rs,
    same_as_new,
    soundness,
    write_rows,
)
from airflow_provider_schemamig.core.testing.results import Report
from airflow_provider_schemamig.core.testing.rows.expected import Expected, Rows, Unknown, needs_spark, rows_after
from airflow_provider_schemamig.core.testing.rows.fixtures import Fixtures
from airflow_provider_schemamig.core.testing.rows.seeded_random import SeededRandom
from airflow_provider_schemamig.core.testing.workspace import copy_environment, cut, remove, throwaway, tidy
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.core.upgrade.tasks import leader
from airflow_provider_schemamig.core.upgrade.tasks import upgrade as tasks
from airflow_provider_schemamig.exceptions import Refused


class Crash(BaseException):
    """The process died here; only ``interrupted`` raises and catches it."""


@dataclass(frozen=True)
class CachedEnvironment:
    """An environment in ``folder`` at ``version``, contracted. ``rows`` are what its readers find. ``writes``: how many moments to die
    the upgrade to it had. ``origin``: the version it was made new at."""

    version: Version
    folder: Path
    rows: Rows
    origin: Version
    marks: Marks = field(default_factory=dict)
    writes: int = 0

    @property
    def count(self) -> int:
        return sum(map(len, self.rows.values()))


@dataclass(frozen=True)
class PathRunner:
    """What all paths of one release have in common. ``release`` is the folder under test; ``scratch``: where everything is made."""

    release: Release
    fixtures: Fixtures
    scratch: Path
    seed: int
    jobs: Jobs
    _chains: dict[tuple[Version, Version], Chain] = field(default_factory=dict, repr=False, compare=False)

    # -- environments ------------------------------------------------------------------------------------------------------------------

    def begin(self, version: Version, report: Report, folder: Path | None = None) -> CachedEnvironment:
        """Make a new environment at ``version``, with rows of every collection. ``folder``: the release folder, if it is not to be cut."""
        place = self._place("begin")
        env = throwaway(place)
        with report.phase("initialize"):
            tasks.upgrade(env, folder or self.folder([version]), create=True, jobs=self.jobs)
            declared = self.release.declarations(version)
            expected = self._with_rows(env, version, dict.fromkeys(declared, ()), report, everything=True)
            view = EnvironmentView(env)
            seen = check_release(view, version, declared, expected, "initialize")
            report.end(seen.findings)
        tidy(env)
        return CachedEnvironment(version, place, seen.found, version, view.marks)

    def step(self, cached: CachedEnvironment, version: Version, report: Report, folder: Path | None = None) -> CachedEnvironment:
        """Return the next environment: upgraded in one go, contracted, with rows of its own. (``interrupted`` looks while the way back is
        open.)"""
        chain = self.chain(cached.version, version)
        place = copy_environment(cached.folder, self._place("step"))
        env, writes = _counting(throwaway(place))
        with report.phase("upgrade"):
            tasks.upgrade(env, folder or self.folder([cached.version, version]), jobs=self.jobs)
        env = throwaway(place)
        with report.phase("contract"):
            leader.contract(env, at_once=True)
            declared = self.release.declarations(version)
            expected = self._with_rows(env, version, rows_after(chain, cached.rows, declared), report)
            view = EnvironmentView(env)
            seen = check_release(view, version, declared, expected, "contract", marks=cached.marks)
            report.end(seen.findings)
            self._look_through_delta_rs(env, chain, seen.found, report)
        report.rows = cached.count
        rows = seen.found
        tidy(env)
        return CachedEnvironment(version, place, rows, cached.origin, view.marks, len(writes))

    # -- paths ------------------------------------------------------------------------------------------------------------------------

    def interrupted(self, cached: CachedEnvironment, version: Version, writes: int, report: Report, folder: Path | None = None) -> None:
        """Kill an upgrade at one of its ``writes`` moments, run it again to the end, and then roll it back."""
        moment = SeededRandom(f"{self.seed}/{cached.version}..{version}").below(max(writes, 1))
        folder = folder or self.folder([cached.version, version])
        with self._copy(cached) as env:
            phase = f"interrupted at write {moment + 1} of {writes}"
            with report.phase(phase):
                with suppress(Crash):
                    tasks.upgrade(_crashing(env, moment), folder, jobs=self.jobs)
                tasks.upgrade(env, folder, jobs=self.jobs)
            self._look(env, self.chain(cached.version, version), cached, report, phase)
            self._roll_back(env, cached, report)

    def direct(self, cached: CachedEnvironment, version: Version, report: Report, folder: Path | None = None) -> None:
        """Upgrade from a cached environment to ``version`` in one go (or by way of the versions that the chain demands), and back."""
        report.rows = cached.count
        with self._copy(cached) as env:
            at, last = cached, None
            for target, is_own in self._legs(cached.version, version, report):
                chain = self.chain(at.version, target)
                with report.phase("upgrade"):
                    if last is not None:
                        leader.contract(env, at_once=True)
                    where = folder if is_own and folder is not None else self.folder(self._between(at.version, target))
                    tasks.upgrade(env, where, jobs=self.jobs)
                last = at
                at = CachedEnvironment(target, env_folder(env), self._look(env, chain, at, report, "upgrade"), cached.origin)
            assert last is not None  # a path has at least one leg
            self._roll_back(env, last, report)

    def fresh(self, cached: CachedEnvironment | None, report: Report, folder: Path | None = None) -> None:
        """Make a new environment at the head, and check that the upgraded one at ``cached`` is the same."""
        version = self.release.version
        place = self._place("fresh")
        env = throwaway(place)
        with report.phase("initialize"):
            tasks.upgrade(env, folder or self.release.path, create=True, jobs=self.jobs)
            declared = self.release.declarations(version)
            report.end(check_release(EnvironmentView(env), version, declared, dict.fromkeys(declared, ()), "initialize").findings)
            if cached is not None:
                report.end(soundness(EnvironmentView(throwaway(cached.folder)), "contract"))
                report.rows = cached.count
                report.notes.append(f"compared with an environment that began at {cached.origin}")
                report.end(same_as_new(throwaway(cached.folder), env, "compare with an upgraded environment"))
        remove(place)

    # -- parts ------------------------------------------------------------------------------------------------------------------------

    def chain(self, source: Version, target: Version) -> Chain:
        """Return the merged steps, by which rows are carried. Raises StopInBetween (or Refused of several) as the upgrade does."""
        known = self._chains.get((source, target))
        if known is None:
            known = self._chains[source, target] = merge(self._cut(source, target), source)
        return known

    def spark_for(self, source: Version, target: Version) -> tuple[CollectionName, ...]:
        """Return the collections of a path whose rows only Spark can migrate."""
        report, found, at = Report(), dict[CollectionName, None](), source
        for leg, _ in self._legs(source, target, report):
            found |= dict.fromkeys(needs_spark(self.chain(at, leg)))
            at = leg
        return tuple(found)

    def folder(self, versions: Sequence[Version]) -> Path:
        """Return the release folder cut to ``versions``."""
        releases = self.scratch / "releases"
        releases.mkdir(parents=True, exist_ok=True)
        return cut(self.release, versions, releases / f"{versions[0]}..{versions[-1]}")

    def _between(self, source: Version, target: Version) -> list[Version]:
        return [version for version in self.release.versions if source <= version <= target]

    def _cut(self, source: Version, target: Version) -> Release:
        kept = self._between(source, target)
        snapshots = {version: self.release.snapshots[version] for version in kept}
        modules = {version: self.release.modules[version] for version in kept[1:]}
        return replace(self.release, version=target, min_version=source, snapshots=snapshots, modules=modules)

    def _legs(self, source: Version, target: Version, report: Report) -> Iterator[tuple[Version, bool]]:
        """Yield (version, whether the folder under test leads there) of every upgrade that the path takes."""
        while True:
            try:
                self.chain(source, target)
            except (StopInBetween, Refused) as refusal:
                refusals = refusal.refusals if isinstance(refusal, Refused) else (refusal,)
                between = [each.stop for each in refusals if isinstance(each, StopInBetween)]
                if len(between) < len(refusals):
                    raise
                reasons = "; ".join(str(each.reason) for each in refusals if isinstance(each, StopInBetween))
                report.notes.append(f"has to stop at {min(between)}: {reasons}")
                report.via.append(min(between))
                yield min(between), False
                source = min(between)
            else:
                yield target, True
                return

    def _look(self, env: Environment, chain: Chain, cached: CachedEnvironment, report: Report, phase: str) -> Rows:
        """Check new and old readers after an upgrade whose way back is open; return the rows as they are now."""
        assert chain.source is not None
        declared = self.release.declarations(chain.target)
        expected = rows_after(chain, cached.rows, declared)
        with report.phase(phase):
            view = EnvironmentView(env)
            seen = check_release(view, chain.target, declared, expected, phase, marks=cached.marks)
            report.end(seen.findings)
            previous = check_previous_release(
                view, chain.source, cached.rows, frozenset(needs_spark(chain)) | _replaced(chain), phase, cached.marks
            )
            report.end(previous.findings)
            report.fenced |= dict.fromkeys(f"{name}: {reason}" for name, reason in previous.fenced.items())
        report.rows = max(report.rows, cached.count)
        return seen.found

    def _look_through_delta_rs(self, env: Environment, chain: Chain, rows: Rows, report: Report) -> None:
        """Read one collection a step, another one each time."""
        changed = [step.collection for step in chain.steps if step.collection in rows]
        if changed:
            name = SeededRandom(f"{self.seed}/{chain.target}").choice(changed)
            report.end(read_through_delta_rs(env, chain.target, name, rows[name], "contract"))

    def _roll_back(self, env: Environment, cached: CachedEnvironment, report: Report) -> None:
        with report.phase("roll back"):
            leader.rollback(env, jobs=self.jobs)
            declared = self.release.declarations(cached.version)
            view = EnvironmentView(env)
            seen = check_release(view, cached.version, declared, cached.rows, "roll back", marks=cached.marks, exact=False)
            report.end(seen.findings)
            report.fenced |= dict.fromkeys(f"{name}: after the rollback, {reason}" for name, reason in seen.fenced.items())
            report.end(soundness(view, "roll back"))

    def _with_rows(self, env: Environment, version: Version, rows: Expected, report: Report, *, everything: bool = False) -> Expected:
        """Write the rows of ``version``: of what it makes or changes, or of ``everything``."""
        found = dict(rows)
        for name, declaration in self.release.declarations(version).items():
            fixture = self.fixtures.newest_for(name, version) if everything else self.fixtures.found.get((version, name))
            if fixture is None:
                continue
            if fixture.beyond is not None and not fixture.rows:
                report.notes.append(f"{name}: no rows at {version}, the CHECK {fixture.beyond} is beyond the generator; write some by hand")
            kept_out = write_rows(env, version, name, declaration, fixture.rows)
            known = found[name]
            if kept_out is not None:
                report.notes.append(kept_out)
            elif not isinstance(known, Unknown):
                found[name] = tuple(sorted((*known, *fixture.rows)))
        return found

    @contextmanager
    def _copy(self, cached: CachedEnvironment) -> Iterator[Environment]:
        place = copy_environment(cached.folder, self._place("copy"))
        try:
            yield throwaway(place)
        finally:
            remove(place)

    def _place(self, what: str) -> Path:
        return self.scratch / "environments" / f"{what}-{uuid.uuid4().hex[:12]}"


def env_folder(env: Environment) -> Path:
    path = env.location.local_path
    assert path is not None  # throw-away environments are local
    return path


def _replaced(chain: Chain) -> frozenset[CollectionName]:
    return frozenset(step.old.name for step in chain.steps if isinstance(step, Replace))


def _counting(env: Environment) -> tuple[Environment, list[str]]:
    """Return an environment that notes every moment to die: just before and just after each durable write."""
    moments: list[str] = []
    return replace(env, on_write=lambda moment, what, key: moments.append(f"{moment} {what}")), moments


def _crashing(env: Environment, moment: int) -> Environment:
    """Return an environment for a process that dies at its ``moment``-th moment."""
    count = 0

    def hook(when: str, what: str, key: str) -> None:
        nonlocal count
        count += 1
        if count > moment:
            raise Crash(f"{when} {what} {key}")

    return replace(env, on_write=hook)
