"""Somebody else acts at every single write of ours: a twin, a rollback, another generation, a contract, a foreign writer.

The one who was held up goes on with what it had read before. Whatever it does then, what the other was promised must stand: a commit stays
committed, a sealed shard stays sealed, and a rollback gives back every row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import ShardState
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.rollback.errors import NothingToRollBack
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.lake import Crash, Lake, append, copy_of, make_lake, no_spark, rows
from tests.unit.upgrade.leaders.test_crashes import at_source, at_target, moments

pytestmark = pytest.mark.some(3, of="interleavings")

GENERATION = Generation(2)
PLANES = CollectionName("planes")
Work = Callable[[Environment], object]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """At 1.0.0 with a row in each table."""
    lake = make_lake(tmp_path_factory.mktemp("deployed"))
    lake.upgrade(lake.first)
    append(lake.path("flights"), [{"id": 1, "dep_delay": 5, "hour": 9, "origin": {"code": "JFK", "name": "Kennedy"}}])
    append(lake.path("planes"), [{"tailnum": "N1", "year": 1999}])
    append(lake.path("legacy"), [{"id": 7}])
    append(lake.path("stats"), [{"origin": "JFK", "flights": 3}])
    return lake


@pytest.fixture(params=[pytest.param(9, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)])
def stride(request: pytest.FixtureRequest) -> int:
    """Every how manyth moment is tried; all of them in ``make soak``."""
    return int(request.param)


@dataclass
class Ours:
    """How the one that was held up ended: ``error`` None if well."""

    error: SchemamigError | None = None


def held_up(lake: Lake, at: int, ours: Work, other: Work) -> Ours:
    """Run ``ours``, and the whole of ``other`` at its moment ``at``."""
    count = 0

    def hook(moment: str, what: str, key: str) -> None:
        nonlocal count
        count += 1
        if count == at + 1:
            other(lake.env)

    ended = Ours()
    try:
        ours(replace(lake.env, on_write=hook))
    except SchemamigError as error:
        ended.error = error
    assert ended.error is None or ended.error.code != "drift", f"held up at moment {at}: {ended.error}"
    return ended


def sweep(lake: Lake, folder: Path, ours: Work, other: Work, check: Callable[[Lake, Ours], None], stride: int) -> None:
    count = moments(copy_of(lake, folder / "count"), ours)
    assert count
    for at in range(0, count, stride):
        found = copy_of(lake, folder / str(at))
        result = held_up(found, at, ours, other)
        try:
            check(found, result)
        except Exception as error:
            raise AssertionError(f"held up at moment {at}, ours: {result.error}") from error


def promoted(lake: Lake, folder: Path) -> Lake:
    found = copy_of(lake, folder / "promoted")
    checked = commands.preflight(found.env, found.second, jobs=no_spark)
    assert checked.generation == GENERATION
    commands.promote(found.env, GENERATION)
    return found


def expanded(lake: Lake, folder: Path) -> Lake:
    found = promoted(lake, folder)
    commands.expand(found.env, GENERATION)
    return found


def expand(env: Environment) -> object:
    return commands.expand(env, GENERATION)


def cutover(env: Environment) -> object:
    return commands.cutover(env, GENERATION)


def finish(env: Environment) -> None:
    expand(env)
    cutover(env)


def rollback(env: Environment) -> object:
    return commands.rollback(env)


def takeover(lake: Lake) -> Work:
    return lambda env: commands.upgrade(env, lake.second, claim_id="another", jobs=no_spark)


def retired_are_sealed(lake: Lake) -> None:
    state = lake.state
    retired = [shard for shard in state.shards.values() if shard.state is ShardState.RETIRED]
    assert retired
    for shard in retired:
        assert read_head(table_store(lake.env, state, shard.shard)).sealed_for is not None, shard


def committed(lake: Lake, ours: Ours) -> None:
    at_target(lake)
    retired_are_sealed(lake)
    rollback(lake.env)
    at_source(lake)


def rolled_back(lake: Lake, ours: Ours) -> None:
    at_source(lake)
    lake.upgrade(lake.second)
    at_target(lake)
    retired_are_sealed(lake)


def test_twin_commits_while_expand_is_held_up(deployed: Lake, tmp_path: Path, stride: int) -> None:
    sweep(promoted(deployed, tmp_path), tmp_path, expand, finish, committed, stride)


def test_twin_commits_while_cutover_is_held_up(deployed: Lake, tmp_path: Path, stride: int) -> None:
    sweep(expanded(deployed, tmp_path), tmp_path, cutover, cutover, committed, stride)


def test_rollback_while_expand_is_held_up(deployed: Lake, tmp_path: Path, stride: int) -> None:
    sweep(promoted(deployed, tmp_path), tmp_path, expand, rollback, rolled_back, stride)


def test_rollback_while_cutover_is_held_up(deployed: Lake, tmp_path: Path, stride: int) -> None:
    sweep(expanded(deployed, tmp_path), tmp_path, cutover, rollback, rolled_back, stride)


def test_takeover_while_expand_is_held_up(deployed: Lake, tmp_path: Path, stride: int) -> None:
    sweep(promoted(deployed, tmp_path), tmp_path, expand, takeover(deployed), committed, stride)


def test_takeover_while_cutover_is_held_up(deployed: Lake, tmp_path: Path, stride: int) -> None:
    sweep(expanded(deployed, tmp_path), tmp_path, cutover, takeover(deployed), committed, stride)


def test_rollback_twice_at_once(deployed: Lake, tmp_path: Path, stride: int) -> None:
    lake = copy_of(deployed, tmp_path / "done")
    lake.upgrade(lake.second)
    sweep(lake, tmp_path, rollback, rollback, rolled_back, stride)


def test_takeover_while_rollback_is_held_up(deployed: Lake, tmp_path: Path, stride: int) -> None:
    """Rolled back and upgraded again while the first rollback sleeps."""
    lake = copy_of(deployed, tmp_path / "done")
    lake.upgrade(lake.second)

    def again(env: Environment) -> None:
        with contextlib.suppress(NothingToRollBack):  # the one held up had flipped the ledger already
            rollback(env)
        commands.upgrade(env, lake.second, jobs=no_spark)

    sweep(lake, tmp_path, rollback, again, committed, stride)


def test_rollback_while_contract_is_held_up(deployed: Lake, tmp_path: Path, stride: int) -> None:
    lake = copy_of(deployed, tmp_path / "done")
    lake.upgrade(lake.second, hold=timedelta(seconds=1))

    def try_back(env: Environment) -> None:
        with contextlib.suppress(SchemamigError):
            rollback(env)

    def check(found: Lake, ours: Ours) -> None:
        if found.version == "1.0.0":
            at_source(found)
        else:
            with contextlib.suppress(SchemamigError):
                commands.contract(found.env, at_once=True)
            at_target(found)

    sweep(lake, tmp_path, lambda env: commands.contract(env, at_once=True), try_back, check, stride)


def test_contract_while_rollback_is_held_up(deployed: Lake, tmp_path: Path, stride: int) -> None:
    lake = copy_of(deployed, tmp_path / "done")
    lake.upgrade(lake.second, hold=timedelta(seconds=1))

    def try_contract(env: Environment) -> None:
        with contextlib.suppress(SchemamigError):
            commands.contract(env, at_once=True)

    def check(found: Lake, ours: Ours) -> None:
        if found.version == "1.1.0":
            with contextlib.suppress(SchemamigError):
                rollback(found.env)
        at_source(found) if found.version == "1.0.0" else at_target(found)

    sweep(lake, tmp_path, rollback, try_contract, check, stride)


def test_values_written_before_a_killed_expand_is_repeated_survive_the_rollback(deployed: Lake, tmp_path: Path, stride: int) -> None:
    """Killed between its commit and the ledger; then a foreign writer uses the new column. The rerun must not take that for its own."""
    lake = promoted(deployed, tmp_path)
    count = moments(copy_of(lake, tmp_path / "count"), expand)
    written = 0
    for at in range(0, count, stride):
        found = copy_of(lake, tmp_path / str(at))
        with contextlib.suppress(Crash):
            expand(found.crashing_at(at))
        if "seats" not in read_head(table_store(found.env, found.state, found.state.shard_of(PLANES).shard)).metadata["schemaString"]:
            continue
        append(found.path("planes"), [{"tailnum": "N2", "year": None, "seats": 7}])
        finish(found.env)
        rollback(found.env)
        assert not commands.status(found.env).drifted
        assert {"tailnum": "N2", "seats": 7} in rows(found.path("planes"), "tailnum", "seats"), at
        written += 1
    assert written
