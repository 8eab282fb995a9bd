"""For how long writers may be locked out by a rewrite: what is timed, what is refused and when, and that Spark is there before."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.progress import Event, silent
from airflow_provider_schemamig.core.spark.errors import SparkUnavailable
from airflow_provider_schemamig.core.spark.runners import Job
from airflow_provider_schemamig.core.transfer.errors import NeverSettles
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter
from airflow_provider_schemamig.core.upgrade.errors import SealTooShort
from airflow_provider_schemamig.core.upgrade.execute import cutover as cutovers
from airflow_provider_schemamig.core.upgrade.execute import rewrites
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.plan.stages import Copy
from airflow_provider_schemamig.core.upgrade.tables.seals import announce_seals, unseal_left
from tests.support.lake import Crash
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import Rewritten, expanded, jobs, make_rewritten
from tests.support.upgrades import refused

KEYED = CollectionName("keyed")
SECOND = Generation(2)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Rewritten:
    return make_rewritten(tmp_path_factory.mktemp("deployed"))


@pytest.fixture
def found(deployed: Rewritten, tmp_path: Path) -> Rewritten:
    return deployed.copy(tmp_path)


def is_sealed(lake: Rewritten) -> bool:
    state = lake.state
    return read_head(table_store(lake.env, state, state.objects[KEYED].shard)).sealed_for is not None


@dataclass
class Cluster(RowJobs):
    """Its driver takes a minute and a half to start, and is gone again after each job; a tail's round takes ``round_seconds``."""

    lake: Rewritten | None = None
    round_seconds: float = 0.0
    now: float = 0.0
    is_up: bool = False
    #: At each start, whether writers of the source were locked out.
    starts: list[bool] = field(default_factory=list)

    def start(self, options: Mapping[str, str]) -> None:
        if self.is_up:
            return
        assert self.lake is not None
        self.now += 90.0
        self.is_up = True
        self.starts.append(self.sealed)

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        if not self.is_up:
            self.start({})
        self.now += self.round_seconds if job == "apply" else 0.0
        # Once writers wait it stays: nobody leaves it idle then.
        self.is_up = self.sealed
        return super().run(job, request)

    @property
    def sealed(self) -> bool:
        assert self.lake is not None
        return is_sealed(self.lake)

    def monotonic(self) -> float:
        return self.now


def cut_over(found: Rewritten, monkeypatch: pytest.MonkeyPatch, *, round_seconds: float = 0.0, seal_seconds: int = 60) -> Cluster:
    """With commits that came since the copy."""
    expanded(found)
    found.write_all(1)
    cluster = Cluster(jobs().queries, lake=found, round_seconds=round_seconds)
    monkeypatch.setattr(rewrites, "time", cluster)
    commands.cutover(found.env, SECOND, seal_seconds=seal_seconds, jobs=cluster)
    return cluster


def test_a_driver_s_start_is_no_part_of_a_round_and_nobody_waits_for_it(found: Rewritten, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cut_over(found, monkeypatch)
    found.check("1.1.0")
    assert cluster.starts
    assert not any(cluster.starts), "a driver was started while writers waited"


def test_rounds_that_take_too_long_are_refused_before_the_seal_with_the_figures(found: Rewritten, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NeverSettles, match=r"after each round 40 s of changes remain, .* for 60 s at most") as caught:
        cut_over(found, monkeypatch, round_seconds=40.0)
    assert caught.value.retryable
    assert found.version == "1.0.0"


def test_rewrite_deadlines_who_lets_writers_wait_longer_gets_through(found: Rewritten, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_over(found, monkeypatch, round_seconds=40.0, seal_seconds=600)
    found.check("1.1.0")


def test_rounds_of_tables_that_are_sealed_together_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("a", "b", "c")
    monkeypatch.setattr(rewrites, "_follow", lambda work, name, jobs: SimpleNamespace(seconds=12.0, stage=SimpleNamespace(collection=name)))
    work: Any = SimpleNamespace(plan=SimpleNamespace(of_kind=lambda kind: names if kind is Copy else ()), seal_seconds=60)
    with pytest.raises(NeverSettles, match="the writers of 3 tables are too fast: after each round 36 s"):
        rewrites.follow_all(work, jobs)


def test_a_seal_past_its_deadline_is_lifted(found: Rewritten, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_no_time(work: LeaderWriter, *rest: Any) -> Any:
        work.seal_seconds = -1
        return announce_seals(work, *rest)

    expanded(found)
    found.write_all(1)
    with monkeypatch.context() as patch:
        patch.setattr(cutovers, "announce_seals", in_no_time)
        with refused("seal_expired"):
            commands.cutover(found.env, SECOND, jobs=jobs())
    assert found.version == "1.0.0"
    found.write_all(2)
    commands.cutover(found.env, SECOND, jobs=jobs())
    found.check("1.1.0")
    found.write_all(3)
    commands.rollback(found.env, jobs=jobs())
    found.check("1.0.0")


@dataclass
class Hanging(RowJobs):
    """From the seal on it answers nothing until ``wakes``; then it does what it was asked to."""

    lake: Rewritten | None = None
    wakes: threading.Event = field(default_factory=threading.Event)
    cancelled: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self.lake is not None
        if not is_sealed(self.lake):
            return super().run(job, request)
        self.wakes.wait(60)
        try:
            return super().run(job, request)
        finally:
            self.ended.set()

    def cancel(self) -> None:
        self.cancelled += 1
        self.wakes.wait(60)  # as a server that hangs: this answers nothing either


@pytest.mark.parametrize("wakes", ["at once", "after the next try"])
def test_a_spark_that_hangs_after_the_seal_keeps_writers_out_no_longer_than_it_may(
    found: Rewritten, wakes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_the_last_moment(work: LeaderWriter, *rest: Any) -> Any:
        found.write_all(1)
        return announce_seals(work, *rest)

    expanded(found)
    hanging = Hanging(jobs().queries, lake=found)
    with monkeypatch.context() as patch, refused("seal_expired"):
        patch.setattr(cutovers, "announce_seals", at_the_last_moment)
        commands.cutover(found.env, SECOND, seal_seconds=2, jobs=lambda: hanging)
    assert hanging.cancelled > 0
    assert (found.version, is_sealed(found)) == ("1.0.0", False)
    found.write_all(2)
    if wakes == "at once":
        hanging.wakes.set()
        assert hanging.ended.wait(60)
    commands.cutover(found.env, SECOND, jobs=jobs())
    hanging.wakes.set()
    assert hanging.ended.wait(60)
    found.check("1.1.0")


@dataclass
class Gone(RowJobs):
    """Nobody is there; ``dies``: from the seal on, and the process that asks dies with it."""

    lake: Rewritten | None = None
    dies: threading.Event | None = None

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self.lake is not None
        if self.dies is None:
            raise SparkUnavailable(where="sc://gone:15002", reason="nobody listens there")
        if not is_sealed(self.lake):
            return super().run(job, request)
        self.dies.set()
        raise Crash("behind the seal")


def leave_sealed(found: Rewritten, monkeypatch: pytest.MonkeyPatch, seal_seconds: int = 60) -> None:
    """Kill a process together with its Spark, behind the seal."""
    dies = threading.Event()

    def hook(moment: str, what: str, key: str) -> None:
        if dies.is_set():
            raise Crash(f"{moment} {what} {key}")

    def at_the_last_moment(work: LeaderWriter, *rest: Any) -> Any:
        found.write_all(1)
        return announce_seals(work, *rest)

    expanded(found)
    with monkeypatch.context() as patch, contextlib.suppress(Crash):
        patch.setattr(cutovers, "announce_seals", at_the_last_moment)
        dying = Gone(jobs().queries, lake=found, dies=dies)
        commands.cutover(replace(found.env, on_write=hook), SECOND, seal_seconds=seal_seconds, jobs=lambda: dying)
    assert is_sealed(found)


@pytest.mark.parametrize("verb", ["upgrade", "cutover"])
def test_seals_that_a_dead_run_left_are_opened_without_a_spark(found: Rewritten, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_sealed(found, monkeypatch)
    gone = Gone(jobs().queries, lake=found)
    with refused("spark_unavailable"):
        if verb == "upgrade":
            commands.upgrade(found.env, found.lake.second, jobs=lambda: gone)
        else:
            commands.cutover(found.env, SECOND, jobs=lambda: gone)
    assert not is_sealed(found)
    found.write_all(2)
    commands.upgrade(found.env, found.lake.second, jobs=jobs)
    found.check("1.1.0")


def test_an_upgrade_opens_what_is_past_its_time_before_it_looks_at_rows(found: Rewritten, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not may be a living run's."""
    leave_sealed(found, monkeypatch, seal_seconds=2)
    seen = list[bool]()

    def listen(event: Event) -> None:
        if event.stage == "plan":
            seen.append(is_sealed(found))

    unseal_left(found.env, silent, only_expired=True)
    assert is_sealed(found)
    time.sleep(2)
    commands.upgrade(found.env, found.lake.second, jobs=jobs, listen=listen)
    assert seen == [False]
    found.check("1.1.0")


@dataclass
class Slow(RowJobs):
    """Its smallest statement takes ``seconds``."""

    seconds: float = 0.0

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        found = super().run(job, request)
        return {**found, "statement_seconds": self.seconds} if request.get("timed") else found


def test_rewrite_deadlines_what_this_spark_cannot_catch_up_with_is_refused_before_anything_is_claimed(found: Rewritten) -> None:
    slow = Slow(jobs().queries, seconds=15.0)
    before = found.state.version
    with refused("seal_too_short") as caught:
        commands.preflight(found.env, found.lake.second, jobs=slow)
    (refusal,) = caught
    assert isinstance(refusal, SealTooShort)
    assert f"{15.0 * refusal.statements:.0f} s, and the limit is 60 s" in refusal.message
    assert found.state.version == before
    done = commands.preflight(found.env, found.lake.second, seal_seconds=3600, jobs=slow)
    assert done.report.to_json()["timing"]["statement_seconds"] == 15.0
