"""Delta compacts a table by itself after a statement, under its settings: whose commit is whose, and how many rows it made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.replication.replicate import replicate_once
from airflow_provider_schemamig.core.upgrade.context import controls
from tests.support.rows.rewrites import OnSession, Rewrite
from tests.support.spark.lake import SparkLake
from tests.support.upgrades import releases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_ON, _FILES = "spark.databricks.delta.autoCompact.enabled", "spark.databricks.delta.autoCompact.minNumFiles"


@dataclass(frozen=True)
class Compacting:
    """``declared``: what tables say, or nothing. ``session``: compacts as soon as there are two files."""

    declared: str
    session: SparkSession

    def __call__(self) -> OnSession:
        return OnSession(self.session)


@pytest.fixture(params=["declared", "of the session"])
def compacting(spark: SparkSession, request: pytest.FixtureRequest) -> Compacting:
    session, is_declared = spark.newSession(), request.param == "declared"
    for key, value in {_FILES: "2", **({} if is_declared else {_ON: "true"})}.items():
        session.conf.set(key, value)
    return Compacting("TBLPROPERTIES ('delta.autoOptimize.autoCompact' = 'true')" if is_declared else "", session)


def operations(rewrite: Rewrite, name: str) -> list[tuple[str, bool]]:
    """Of each commit but the first: its operation, and whether it has a transaction id."""
    return [(str(commit.info["operation"]), bool(commit.txns)) for commit in commits(rewrite.store(name), 0)]


@pytest.mark.soak
def test_a_copy_and_a_tail_find_their_own_commits(spark: SparkSession, tmp_path: Path, compacting: Compacting) -> None:
    rewrite = Rewrite(spark, tmp_path, compacting())
    rewrite.make_source("")
    rewrite.make_target("b", compacting.declared)
    lo = rewrite.version()
    rows = sum(rewrite.expected(lo).values())
    for number in range(2):
        done, again = (rewrite.fill("b", {"uri": rewrite.uri("the source"), "version": lo}, f"copy:{number}") for _ in range(2))
        assert (done["rows"], done["skipped"]) == (rows, False)
        assert (again["rows"], again["table_version"], again["skipped"]) == (rows, done["table_version"], True)
    rewrite.sql("INSERT INTO {s} SELECT 7, 'seven', NULL, NULL, NULL, NULL, NULL")
    hi = rewrite.version()
    changes = rewrite.changes("files", lo, hi)
    done, again = (rewrite.apply("b", changes, lo, hi) for _ in range(2))
    assert (done["inserted"], done["deleted"], done["skipped"]) == (1, 0, False)
    assert again | {"seconds": 0} == done | {"seconds": 0, "skipped": True}
    found = operations(rewrite, "b")
    assert ("OPTIMIZE", False) in found, "else nothing was tested"
    assert set(found) == {("OPTIMIZE", False), ("WRITE", True)}


SOURCE = "CREATE TABLE t (id {}, v STRING) {};\n"
STEP = 'rewrite("t", up="SELECT CAST(id AS BIGINT) AS id, v FROM {t}", down="SELECT CAST(id AS INT) AS id, v FROM {t}")'


@pytest.mark.soak
def test_a_rewrite_there_and_back_and_a_replica(tmp_path: Path, compacting: Compacting) -> None:
    """Others compact, and have rows rewritten, before every task."""
    first, second = releases(
        tmp_path, (SOURCE.format("INT", compacting.declared), ""), (SOURCE.format("BIGINT", compacting.declared), STEP)
    )
    lake, replica = (SparkLake(compacting.session, Environment.open(str(tmp_path / name))) for name in ("lake", "replica"))
    for each in (lake, replica):
        each.upgrade(first)
    wanted: list[tuple[int, str]] = []

    def others(number: int) -> None:
        for step in range(3):
            wanted.append((10 * number + step, "a"))
            lake.sql(f"INSERT INTO {{t}} VALUES ({10 * number + step}, 'a')")
        for statement in ("OPTIMIZE {t}", "OPTIMIZE {t} ZORDER BY (v)", "REORG TABLE {t} APPLY (PURGE)"):
            lake.sql(statement)

    def check(of: SparkLake) -> None:
        assert sorted(map(tuple, of.sql("SELECT id, v FROM {t}"))) == sorted(wanted)

    others(1)
    others(2)
    controls.throttle(lake.env, None, max_files=1)
    generation = commands.preflight(lake.env, second, jobs=compacting).generation
    assert generation is not None
    others(3)
    commands.tail(lake.env, generation, jobs=compacting, once=True)
    others(4)
    for verb in (commands.promote, commands.expand):
        verb(lake.env, generation)
    commands.cutover(lake.env, generation, jobs=compacting)
    check(lake)
    others(5)
    commands.rollback(lake.env, jobs=compacting)
    check(lake)
    for number in (6, 7):
        (state,) = replicate_once(lake.env, replica.env, None, jobs=compacting).states
        assert (state.pause, state.error) == (None, None)
        check(replica)
        others(number)
