"""Lengths of time that no table or calendar can take are refused before anything is written, whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.times import OutOfRange
from tests.support.bytes import unwritten
from tests.support.lake import Lake, make_lake, no_spark

CENTURY = timedelta(days=36_500)
Ask = Callable[[Environment, Path], object]
ASKED: dict[str, Ask] = {
    "a hold of a century": lambda env, release: commands.upgrade(env, release, hold=CENTURY, jobs=no_spark),
    "a hold below zero": lambda env, release: commands.preflight(env, release, hold=timedelta(-1), jobs=no_spark),
    "a hold of an alter": lambda env, release: commands.alter(env, "ALTER TABLE flights ADD COLUMN n INT", hold=CENTURY, jobs=no_spark),
    "a seal of a million days": lambda env, release: commands.upgrade(env, release, seal_seconds=86_400 * 10**6, jobs=no_spark),
    "a seal of no time": lambda env, release: commands.cutover(env, Generation(1), seal_seconds=0),
    "a pin of a million years": lambda env, release: commands.pin(env, "flights", "me", 24 * 365 * 10**6),
    "a pin of no time": lambda env, release: commands.pin(env, "flights", "me", 0),
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = make_lake(tmp_path)
    lake.upgrade(lake.first)
    return lake


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_a_time_out_of_range_is_refused_and_writes_nothing(lake: Lake, ask: Ask) -> None:
    with unwritten(lake.env), pytest.raises(OutOfRange) as refused:
        ask(lake.env, lake.second)
    assert refused.value.code == "out_of_range"
