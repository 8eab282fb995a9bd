"""Every kind of stage that can be planned has a function that runs it, in one task."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter, plan_of
from airflow_provider_schemamig.core.upgrade.execute.executors import CHANGE, CUT_OVER, EXECUTORS, EXPAND
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.tasks import leader
from tests.support.lake import Crash, Lake
from tests.support.online import OnlineJobs
from tests.support.rows.tables import insert, newest
from tests.support.upgrades import two_releases

FIRST = "CREATE TABLE a (id BIGINT, v STRING);\nCREATE TABLE b (id BIGINT);\nCREATE TABLE c (id BIGINT, gone STRING, kept STRING);\n"
SECOND = "CREATE TABLE a (id BIGINT, v INT, w STRING);\nCREATE TABLE n (id BIGINT);\nCREATE TABLE c (id BIGINT, left STRING);\n"
STEPS = 'evolution("a"), removal("b"), evolution("c", drop=["gone"], rename={"kept": "left"})'


def test_every_kind_of_stage_is_run_by_one_task() -> None:
    found = Counter(kind for kinds in EXECUTORS.values() for kind in kinds)
    assert found == Counter(get_args(s.Stage))


def test_tasks_run_the_kinds_in_the_order_of_a_plan() -> None:
    """But for the ends of holds and what was left open, which come first in a plan and wait for the leader."""
    listed = [kind.kind for kinds in EXECUTORS.values() for kind in kinds]
    first = [s.Build.kind, s.Copy.kind]
    assert listed == [*first, *(kind for kind in s.PLAN_KINDS if kind not in first)]


# --- what the tasks run is the plan's list -------------------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, s.Stage]]:
    """All that the tasks' functions were given, by the task."""
    found: list[tuple[str, s.Stage]] = []

    def told(task: str, function: Callable[..., None]) -> Callable[..., None]:
        def call(work: LeaderWriter, stages: Sequence[s.Stage], *args: Any) -> None:
            found.extend((task, stage) for stage in stages)
            function(work, stages, *args)

        return call

    tasks: dict[str, Mapping[type[s.Stage], Callable[..., None]]] = {"EXPAND": EXPAND, "CHANGE": CHANGE, "CUT_OVER": CUT_OVER}
    for task, executors in tasks.items():
        wrapped = {function: told(task, function) for function in set(executors.values())}
        monkeypatch.setattr(leader, task, {kind: wrapped[function] for kind, function in executors.items()})
    return found


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = two_releases(tmp_path, FIRST, SECOND, STEPS)
    insert(found.path("a"), [{"id": 1, "v": "1"}])
    return found


def _claimed(lake: Lake) -> Generation:
    generation = commands.preflight(lake.env, lake.second, claim_id="one", jobs=OnlineJobs()).generation
    assert generation is not None
    return generation


def test_tasks_are_given_the_stages_that_preflight_showed(lake: Lake, run: list[tuple[str, s.Stage]]) -> None:
    run.clear()
    generation = _claimed(lake)
    planned = plan_of(lake.env, lake.state.deployments[generation])
    for task in (commands.promote, commands.expand):
        task(lake.env, generation)
    commands.change(lake.env, generation, jobs=OnlineJobs())
    commands.cutover(lake.env, generation, jobs=OnlineJobs())
    wanted = [stage for stage in planned.stages if not isinstance(stage, s.Contract | s.Retire)]
    assert [stage for _, stage in run if not isinstance(stage, s.Settle)] == wanted
    assert {type(stage) for stage in wanted} == {s.CreateShard, s.Expand, s.Online, s.Seal, s.CutOver, s.Commit}


def test_a_task_that_takes_over_is_given_what_was_left_open(lake: Lake, run: list[tuple[str, s.Stage]]) -> None:
    def dies(moment: str, what: str, key: str) -> None:
        if newest(lake.path("a")) > before:
            raise Crash

    before, generation = newest(lake.path("a")), _claimed(lake)
    commands.promote(lake.env, generation)
    with pytest.raises(Crash):
        commands.expand(replace(lake.env, on_write=dies), generation)
    run.clear()
    commands.upgrade(lake.env, lake.second, claim_id="another", jobs=OnlineJobs())
    (settled,) = [stage for _, stage in run if isinstance(stage, s.Settle) and stage.collections]
    assert "a" in settled.collections


def test_the_seconds_of_stages_that_are_made_side_by_side_add_up_to_what_they_took() -> None:
    writer = SimpleNamespace(results=[], listen=lambda event: None, _reported_at=0.0)
    started = time.monotonic() - 10
    for name in "abc":
        LeaderWriter.report(cast(LeaderWriter, writer), "expand", name, 1, started)
    assert 10 <= sum(stage.seconds for stage in writer.results) < 15
