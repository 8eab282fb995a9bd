"""Somebody else at every write of a cut-over that swaps columns: a twin, another generation, who rolls back, who writes."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.commit.commit import commit_changes
from airflow_provider_schemamig.core.ledger.errors import LedgerConflict
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.context.context import LeaderWriter
from airflow_provider_schemamig.core.upgrade.execute import cutover, rename_swaps
from airflow_provider_schemamig.core.upgrade.rollback.errors import NothingToRollBack
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.lake import Lake
from tests.unit.upgrade.leaders.test_takeover import at_once
from tests.unit.upgrade.swaps.test_swaps import COLUMN, Writers, copied, jobs, lake_of, ready

Other = Callable[[Lake, Generation, Writers], object]


def cut_over(lake: Lake, generation: Generation) -> SchemamigError | None:
    """What it ended with."""
    try:
        commands.cutover(lake.env, generation, jobs=jobs())
    except SchemamigError as error:
        return error
    return None


def finish(lake: Lake, generation: Generation) -> None:
    """As Airflow would: what may be tried again is tried again."""
    for _ in range(6):
        error = cut_over(lake, generation)
        if error is None or lake.version == "1.1.0":
            return
        assert error.retryable, error
    raise AssertionError("it meets one conflict after the other")


def a_twin(lake: Lake, generation: Generation, writers: Writers) -> None:
    error = cut_over(lake, generation)
    assert error is None or error.retryable, error


def another_generation(lake: Lake, generation: Generation, writers: Writers) -> None:
    if lake.version == "1.0.0":
        commands.upgrade(lake.env, lake.second, jobs=jobs(), claim_id="another")


def a_rollback(lake: Lake, generation: Generation, writers: Writers) -> None:
    try:
        commands.rollback(lake.env, jobs=jobs())
    except NothingToRollBack:
        assert lake.version == "1.0.0"


def a_writer(lake: Lake, generation: Generation, writers: Writers) -> None:
    writers.write_all(70)


OTHERS: dict[str, Other] = {"twin": a_twin, "another generation": another_generation, "rollback": a_rollback, "writer": a_writer}


@pytest.mark.some(2)
@pytest.mark.parametrize("stride", [29, pytest.param(1, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
@pytest.mark.parametrize("who", OTHERS)
def test_others_at_every_write_of_the_cut_over(tmp_path: Path, who: str, stride: int) -> None:
    start = lake_of(tmp_path / "start")
    generation, before = ready(start), Writers(start)
    before.write_all(20)
    moment, acts = list(OTHERS).index(who) if stride > 1 else 0, True
    while acts:
        lake = copied(start, tmp_path / str(moment))
        writers = Writers(lake, {name: dict(values) for name, values in before.wanted.items()})
        count = 0

        def hook(at: str, what: str, key: str, lake: Lake = lake, writers: Writers = writers, moment: int = moment) -> None:
            nonlocal count
            count += 1
            if count == moment + 1:
                OTHERS[who](lake, generation, writers)

        error = cut_over(replace(lake, env=replace(lake.env, on_write=hook)), generation)
        acts = count > moment
        check(lake, generation, writers, who, error)
        shutil.rmtree(tmp_path / str(moment))
        moment += stride
    assert moment > 2 * stride


def check(lake: Lake, generation: Generation, writers: Writers, who: str, error: SchemamigError | None) -> None:
    assert error is None or error.retryable or error.code == "fenced", error
    if who == "rollback" and lake.version == "1.0.0":
        writers.check("1.0.0")
        commands.upgrade(lake.env, lake.second, jobs=jobs(), claim_id="once more")
    elif lake.version == "1.0.0":
        finish(lake, generation)
    writers.check("1.1.0")
    writers.write_all(80)
    commands.rollback(lake.env, jobs=jobs())
    assert all(set(writers.wanted[name]) >= {1, 2, 20} for name in COLUMN)
    writers.check("1.0.0")


def test_two_processes_at_once(tmp_path: Path) -> None:
    """They start together, and neither waits for the other."""
    lake = lake_of(tmp_path)
    generation, writers = ready(lake), Writers(lake)
    at_once(lambda: cut_over(lake, generation))
    finish(lake, generation)
    writers.check("1.1.0")


def test_a_twin_that_stalls_while_it_takes_its_swap_back_takes_nothing_from_a_release_that_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gave its swap up in the ledger, and its commit on the table lands when the other one has ended, who found the columns swapped."""
    lake = lake_of(tmp_path)
    generation, writers = ready(lake), Writers(lake)
    stalled, goes_on, slow = threading.Event(), threading.Event(), threading.Thread(target=lambda: cut_over(lake, generation))
    commit, look = cutover._commit, cutover._check_expanded

    def stall(*arguments: Any, **options: Any) -> Any:
        if threading.current_thread() is slow:
            stalled.set()
            goes_on.wait(60)
        return commit_changes(*arguments, **options)

    def fail(*arguments: Any) -> None:
        if threading.current_thread() is slow:
            raise LedgerConflict(expected=1)
        commit(*arguments)

    def look_first(leader: LeaderWriter) -> Any:
        found = look(leader)
        if threading.current_thread() is not slow and not slow.ident:
            slow.start()
            assert stalled.wait(60)
        return found

    monkeypatch.setattr(rename_swaps, "commit_changes", stall)
    monkeypatch.setattr(cutover, "_commit", fail)
    monkeypatch.setattr(cutover, "_check_expanded", look_first)
    error = cut_over(lake, generation)
    goes_on.set()
    slow.join()
    assert error is not None and error.code == "swap_taken_back"
    finish(lake, generation)
    writers.check("1.1.0")
