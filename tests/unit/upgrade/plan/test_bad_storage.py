"""Storage that fails in the middle: full, read-only, unreachable, at any write of an upgrade or a rollback.

Whoever is told "no" gets one clear error of ours; when the storage is well again, the environment goes on or back as if nothing had been.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger import table
from airflow_provider_schemamig.core.storage.errors import StorageFull, StorageReadOnly, StorageUnreachable
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.rollback.errors import NothingToRollBack
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.lake import Lake, append, copy_of, make_lake, no_spark
from tests.unit.upgrade.leaders.test_crashes import FLIGHT, at_source, at_target, moments

FAILURES: dict[str, Callable[[str], SchemamigError]] = {
    "full": lambda key: StorageFull(uri=key),
    "read-only": lambda key: StorageReadOnly(uri=key),
    "unreachable": lambda key: StorageUnreachable(uri=key, reason="no answer"),
}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """At 1.0.0 with a row in each table."""
    lake = make_lake(tmp_path_factory.mktemp("deployed"))
    lake.upgrade(lake.first)
    append(lake.path("flights"), [FLIGHT])
    append(lake.path("planes"), [{"tailnum": "N1", "year": 1999}])
    append(lake.path("legacy"), [{"id": 7}])
    append(lake.path("stats"), [{"origin": "JFK", "flights": 3}])
    return lake


@pytest.fixture(params=[pytest.param(15, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)])
def stride(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def failing_from(lake: Lake, at: int, failure: Callable[[str], SchemamigError], monkeypatch: pytest.MonkeyPatch) -> Environment:
    """From its ``at``-th moment on the storage takes no write any more; what comes after a write has happened."""
    count = 0
    monkeypatch.setattr(table, "probe_put_if_absent", lambda store, prefix: _raise(failure(prefix)))

    def hook(moment: str, what: str, key: str) -> None:
        nonlocal count
        count += 1
        if count > at and moment == "before":
            # delta-rs says it in words of its own: the ledger finds out with a small write, see above
            raise OSError(errno.ENOSPC, "No space left on device") if what in ("ledger", "history") else failure(key)

    return replace(lake.env, on_write=hook)


def _raise(error: Exception) -> None:
    raise error


def code_of(work: Callable[[], object]) -> str | None:
    """The code of the error it ends with: one of ours, or None if all was well."""
    try:
        work()
    except SchemamigError as error:
        return error.code
    return None


def upgrade(lake: Lake) -> Callable[[Environment], object]:
    return lambda env: commands.upgrade(env, lake.second, jobs=no_spark)


def rollback(env: Environment) -> object:
    return commands.rollback(env)


@pytest.mark.parametrize("failure", ["full", *(pytest.param(name, marks=pytest.mark.soak) for name in ("read-only", "unreachable"))])
def test_an_upgrade_that_may_not_write_any_more(
    deployed: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str, stride: int
) -> None:
    count = moments(copy_of(deployed, tmp_path / "count"), upgrade(deployed))
    for at in range(0, count, stride):
        for way in ("on", "back"):
            lake = copy_of(deployed, tmp_path / f"{at}-{way}")
            with monkeypatch.context() as patch:
                env = failing_from(lake, at, FAILURES[failure], patch)
                assert code_of(lambda env=env: upgrade(deployed)(env)) in (None, FAILURES[failure]("").code), at  # type: ignore[misc]
            if way == "on":
                lake.upgrade(lake.second)
                at_target(lake)
                continue
            try:
                rollback(lake.env)
            except NothingToRollBack:
                assert lake.version == "1.0.0"
            at_source(lake)


def test_a_rollback_that_may_not_write_any_more(deployed: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int) -> None:
    upgraded = copy_of(deployed, tmp_path / "upgraded")
    upgraded.upgrade(upgraded.second)
    count = moments(copy_of(upgraded, tmp_path / "count"), rollback)
    for at in range(0, count, stride):
        lake = copy_of(upgraded, tmp_path / str(at))
        with monkeypatch.context() as patch:
            env = failing_from(lake, at, FAILURES["full"], patch)
            assert code_of(lambda env=env: rollback(env)) in (None, "storage_full"), at  # type: ignore[misc]
        if lake.version == "1.1.0":
            rollback(lake.env)
        at_source(lake)


def test_a_cutover_that_fails_leaves_no_table_sealed(deployed: Lake, tmp_path: Path) -> None:
    """One write fails, after the seals: writers must not be locked out until somebody looks."""
    lake = copy_of(deployed, tmp_path)
    failed: list[str] = []

    def hook(moment: str, what: str, key: str) -> None:
        if not failed and moment == "before" and what == "put_if_absent" and _sealed(lake):
            failed.append(key)
            raise StorageFull(uri=key)

    with pytest.raises(StorageFull):
        upgrade(lake)(replace(lake.env, on_write=hook))
    assert failed
    assert not _sealed(lake)
    append(lake.path("stats"), [{"origin": "LGA", "flights": 1}])
    lake.upgrade(lake.second)
    at_target(lake)


def _sealed(lake: Lake) -> list[str]:
    state = lake.state
    live = {item.shard for item in state.objects.values()}
    return [shard for shard in live if read_head(table_store(lake.env, state, shard)).sealed_for is not None]
