"""A release gives a column's name to a new one; its rollback is killed, and an upgrade takes it forward, or goes on
to the next release: the ledger has each column by what the table calls it, wherever that was.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.lake import Crash, Lake, copy_of, no_spark
from tests.support.tables import foreign
from tests.support.upgrades import deployed, releases, whole

ONE = ("CREATE TABLE t (id BIGINT, a STRING);", "")
TWO = ("CREATE TABLE t (id BIGINT, b STRING, a STRING);", 'evolution("t", rename={"a": "b"})')
THREE = ("CREATE TABLE t (id BIGINT, b STRING, a STRING, e STRING);", 'evolution("t")')


@pytest.fixture(scope="module")
def at_two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, list[Path]]:
    folder = tmp_path_factory.mktemp("two")
    found = releases(folder, ONE, TWO, THREE)
    lake = deployed(folder, found[0], found[1])
    foreign.write(lake.path("t"), [{"id": 0, "a": "a of 1.0.0"}])
    lake.upgrade(found[1])
    return lake, found


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("target", [1, 2], ids=["the same release", "the next release"])
def test_names_changing_hands_in_a_rollback_that_died_are_recorded_as_they_are(
    at_two: tuple[Lake, list[Path]], target: int, tmp_path: Path
) -> None:
    base, found = at_two
    for moment in range(60):
        lake, is_killed = copy_of(base, tmp_path / str(moment)), False
        try:
            commands.rollback(lake.crashing_at(moment), jobs=no_spark)
        except Crash:
            is_killed = True
        with contextlib.suppress(Crash):
            commands.upgrade(lake.env, found[target], jobs=no_spark)
        assert commands.status(lake.env).drifted == (), moment
        foreign.write(lake.path("t"), [{"id": 1, "b": "b of 1.1.0", "a": "a of 1.1.0"}])
        seen = {row["id"]: (row["b"], row["a"]) for row in lake.env.reader("t").arrow().to_pylist()}
        assert seen == {0: ("a of 1.0.0", None), 1: ("b of 1.1.0", "a of 1.1.0")}, moment
        assert {row["a"] for row in lake.env.reader("t", "1.0.0").arrow().to_pylist()} == {"a of 1.0.0", "b of 1.1.0"}
        commands.rollback(lake.env, jobs=no_spark)
        whole(lake)
        if not is_killed:
            return
    raise AssertionError("it never ended")
