"""How long an upgrade would take: at the speed of the largest copy that the ledger knows of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pendulum
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.codec import RawRow, encode
from airflow_provider_schemamig.core.ledger.rows import FORMAT_VERSION, EnvironmentConfig, Progress
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.upgrade.plan.estimate import timing_of
from tests.support.upgrades import deployed, releases

BEGAN = pendulum.datetime(2026, 3, 1)


def copied(rows: int, seconds: int, *, before: int = 0, name: str = "flights", stage: str = "copy") -> Progress:
    ended = BEGAN.add(seconds=seconds)
    return Progress(CollectionName(name), Generation(1), stage, "files", 1, 1, rows, BEGAN, ended, 0, before)


def state_of(*rows: Progress) -> State:
    config = EnvironmentConfig("e-1", FORMAT_VERSION, BEGAN)
    return State.of(0, [RawRow(*encode(row), ts=0, diff=1) for row in (config, *rows)], "file:///lake")


CASES: dict[str, tuple[State | None, list[int], dict[str, Any]]] = {
    "a new environment": (None, [], {"rows": 0, "rows_per_second": None, "seconds": 0.0}),
    "no row is read": (state_of(copied(900, 10)), [], {"rows": 0, "rows_per_second": 90, "seconds": 0.0}),
    "nothing was copied before": (state_of(), [1_000], {"rows": 1_000, "rows_per_second": None, "seconds": None}),
    "all inputs": (state_of(copied(900, 10)), [900, 900], {"rows": 1_800, "rows_per_second": 90, "seconds": 20.0}),
    "the largest copy, not the fastest": (
        state_of(copied(900, 10), copied(100, 1, name="planes")),
        [90],
        {"rows": 90, "rows_per_second": 90, "seconds": 1.0},
    ),
    "without what a process before did": (state_of(copied(900, 10, before=800)), [10], {"rows": 10, "rows_per_second": 10, "seconds": 1.0}),
    "tails tell nothing": (state_of(copied(900, 10, stage="tail")), [10], {"rows": 10, "rows_per_second": None, "seconds": None}),
    "no time has passed": (state_of(copied(900, 0)), [10], {"rows": 10, "rows_per_second": None, "seconds": None}),
    "slower than a row a second": (state_of(copied(1, 10)), [10], {"rows": 10, "rows_per_second": 1, "seconds": 10.0}),
}


@pytest.mark.parametrize(("state", "inputs", "expected"), CASES.values(), ids=CASES.keys())
def test_how_long_it_would_take(state: State | None, inputs: list[int], expected: dict[str, Any]) -> None:
    timing = timing_of(state, [{"rows": rows} for rows in inputs], 1.23456, 0.25)
    assert timing.to_json() == {"checked_seconds": 1.235, "statement_seconds": 0.25, **expected}


@pytest.mark.parametrize("seconds", [60, 300])
def test_a_plan_says_for_how_long_a_swap_may_lock_writers_out(tmp_path: Path, seconds: int) -> None:
    """It said 60 whatever was asked for."""
    folders = releases(tmp_path, ("CREATE TABLE a (id BIGINT, x STRING);", ""), ("CREATE TABLE a (id BIGINT, x INT);", 'evolution("a")'))
    lake = deployed(tmp_path, *folders)
    report = commands.plan(lake.env, folders[1], seal_seconds=seconds).to_json(explained=True)
    assert report["blocked_seconds"][1] == seconds
    assert f"at most {seconds} (--seal-seconds)" in str(report["explanations"])
