"""A new collection whose rows a query gives: built and filled before promotion, seen with the commit, sealed on the way back."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import ReaderFenced
from tests.support.lake import Lake, no_spark
from tests.support.rows.fake_jobs import FakeJobs
from tests.support.tables import foreign
from tests.support.upgrades import two_releases, whole

A = "CREATE TABLE a (id BIGINT);"
N = "CREATE TABLE n (total BIGINT);"
FILL = 'replacement("n", fill="SELECT count(*) AS total FROM {a}")'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """At 1.0.0 with a row in ``a``; 1.1.0 brings ``n``."""
    lake = two_releases(tmp_path, A, A + N, FILL)
    foreign.write(lake.path("a"), [{"id": 1}])
    return lake


def totals(lake: Lake) -> list[int]:
    found: list[int] = lake.env.reader("n").arrow()["total"].to_pylist()
    return found


def test_its_rows_are_there_with_the_commit(lake: Lake) -> None:
    plan = commands.plan(lake.env, lake.second).plan
    assert [(stage.kind, stage.collection) for stage in plan.stages] == [("build", "n"), ("commit", None)]
    jobs = FakeJobs({"total": 7})
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    assert (totals(lake), jobs.fills) == ([7], ["append"])
    whole(lake)


def test_nobody_sees_it_before(lake: Lake) -> None:
    commands.preflight(lake.env, lake.second, jobs=FakeJobs({"total": 7}))
    with pytest.raises(ReaderFenced, match="gets its table at the cut-over"):
        lake.env.reader("n", "1.1.0").arrow()


def test_it_is_filled_again_where_its_input_moved(lake: Lake) -> None:
    jobs = FakeJobs({"total": 7})
    generation = commands.preflight(lake.env, lake.second, jobs=jobs).generation
    assert generation is not None
    foreign.write(lake.path("a"), [{"id": 2}])
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    assert len(jobs.fills) == 2
    whole(lake)


def test_filled_new_there_and_back_and_there_again(lake: Lake) -> None:
    jobs = FakeJobs({"total": 7})
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    commands.rollback(lake.env)
    assert lake.version == "1.0.0" and "n" not in lake.state.objects
    whole(lake)
    commands.upgrade(lake.env, lake.second, jobs=jobs)
    assert totals(lake) == [7]
    whole(lake)


def test_given_up_before_promotion_it_leaves_nothing(lake: Lake) -> None:
    generation = commands.preflight(lake.env, lake.second, jobs=FakeJobs({"total": 7})).generation
    assert generation is not None
    commands.cancel(lake.env, generation, jobs=no_spark)
    assert not list((Path(lake.path("a")).parents[1] / "n").glob("*/_delta_log"))
    whole(lake)


def test_a_new_environment_gets_it_empty(lake: Lake, tmp_path: Path) -> None:
    other = Lake(type(lake.env).open(str(tmp_path / "other")), lake.first, lake.second)
    other.upgrade(lake.second)
    assert totals(other) == []
