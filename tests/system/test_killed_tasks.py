"""``kill -9`` of a task's process in the middle of each task of the upgrade DAG; the task is cleared, and the DAG ends right (promise 4).

One run carries a kill in every task, so that few runs show much; which moment of a task it dies at is chosen here for ``make test``, and
all moments are gone through by ``make soak``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.ledger.verify import verify
from airflow_provider_schemamig.core.upgrade import verbs
from tests.support.killing import Kill, KilledRun, KillingRuns
from tests.support.lake import Lake, append, make_lake, no_spark, rows
from tests.support.product import Product

pytestmark = [pytest.mark.system, pytest.mark.airflow]

OLD = """
CREATE TABLE flights (id BIGINT NOT NULL, dep_delay INT, hour INT NOT NULL, origin STRUCT<code: STRING>);
CREATE TABLE planes (tailnum STRING NOT NULL, year INT);
CREATE TABLE legacy (id BIGINT);
"""
NEW = """
CREATE TABLE flights (id BIGINT NOT NULL, departure_delay BIGINT, origin STRUCT<code: STRING, city: STRING>, gate STRING);
CREATE TABLE planes (tailnum STRING, year INT, seats INT);
CREATE TABLE airports (code STRING NOT NULL);
"""
STATS_OLD = "CREATE TABLE stats (origin STRING, flights BIGINT);\n"
STATS_NEW = "CREATE TABLE stats (hour INT NOT NULL, flights BIGINT NOT NULL);\n"
STEPS = 'evolution("flights", rename={"dep_delay": "departure_delay"}, drop=["hour"]), evolution("planes"), removal("legacy")'
FILL = ', replacement("stats", fill="SELECT hour, count(*) AS flights FROM {flights} GROUP BY hour")'
SCHEMA_TASKS = ("preflight", "promote", "expand", "cutover_and_commit", "cleanup", "contract")


def flight(number: int) -> dict[str, Any]:
    return {"id": number, "dep_delay": 5 * number, "hour": 9, "origin": {"code": "JFK"}}


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Lake]:
    """At 1.0.0 with rows; by whether the next release has a fill."""
    return {fills: _lake(tmp_path_factory.mktemp("lake"), fills=fills) for fills in (False, True)}


def _lake(folder: Path, *, fills: bool) -> Lake:
    product = Product(folder / "product")
    first = product.release("1.0.0", OLD + STATS_OLD * fills)
    second = product.release("1.1.0", NEW + STATS_NEW * fills, STEPS + FILL * fills)
    lake = Lake(Environment.open(str(folder / "lake")), first, second)
    lake.upgrade(first)
    append(lake.path("flights"), [flight(1), flight(2)])
    append(lake.path("planes"), [{"tailnum": "N1", "year": 1999}])
    append(lake.path("legacy"), [{"id": 7}])
    return lake


def copy_of(lake: Lake, folder: Path) -> Lake:
    shutil.copytree(lake.env.location.local_path or Path(), folder / "lake")
    return replace(lake, env=Environment.open(str(folder / "lake")))


def run(runs: KillingRuns, lake: Lake, kills: Mapping[str, Kill], **options: Any) -> KilledRun:
    folder = lake.env.location.local_path
    assert folder is not None
    return runs.upgrade(lake.second, folder, kills=kills, **options)


def check(lake: Lake, flights: int) -> None:
    """The environment as an undisturbed upgrade with hold 0 leaves it."""
    assert lake.version == "1.1.0"
    state, status = lake.state, verbs.status(lake.env)
    assert status.drifted == ()
    assert list(state.intents) == []
    assert verify(LedgerReader(lake.env)) == ()
    assert status.document["holds"] == []
    filled = "stats" in state.objects
    assert sorted(state.objects) == ["airports", "flights", "planes"] + ["stats"] * filled
    for name, document in status.document["collections"].items():
        assert (document["physical"], document["hidden"], document["sealed"]) == (document["declared"], [], False), name
    assert rows(lake.path("flights")) == [
        {"id": n, "departure_delay": 5 * n, "origin": {"code": "JFK"}, "gate": None} for n in range(1, flights + 1)
    ]
    assert rows(lake.path("planes")) == [{"tailnum": "N1", "year": 1999, "seats": None}]
    assert rows(lake.path("airports")) == []
    if filled:
        assert rows(lake.path("stats")) == [{"hour": 9, "flights": flights}]
    assert tables(lake) == {lake.path(name) for name in state.objects}, "a table was left behind, or one is missing"


def tables(lake: Lake) -> set[Path]:
    folder = lake.env.location.local_path
    assert folder is not None
    return {log.parent for log in folder.glob("*/*/_delta_log")}


@pytest.mark.spark
def test_every_task_dies_once(airflow_runs: KillingRuns, lakes: dict[bool, Lake], tmp_path: Path) -> None:
    """Also the two that work on Spark: fill before promotion, and again because rows came in while the gate waited."""
    lake = copy_of(lakes[True], tmp_path)
    verbs.preflight(lake.env, lake.second, claim_id="stale", jobs=no_spark, fill=False)  # what clean-up has to remove
    kills = {
        "preflight": Kill("after", "put_if_absent"),  # the replacement's table is there, its report is not
        "fill": Kill("before", "ledger"),  # Spark has committed the rows, and nobody wrote that down
        "promote": Kill("after", "ledger"),  # leader, and the answer is lost
        "expand": Kill("after", "put_if_absent"),  # one of two tables
        "change": Kill("before", "ledger"),
        "cutover_and_commit": Kill("after", "put_if_absent"),  # sealed
        "cleanup": Kill("after", "delete_tree"),  # files gone, rows not
        "contract": Kill("after", "put_if_absent"),  # columns dropped, retired tables not
    }
    arrivals = {"promote": [(lake.path("flights"), [flight(3)])]}
    found = run(airflow_runs, lake, kills, arrivals=arrivals, hold=0)
    assert found.killed.keys() == kills.keys()
    assert found.state == "success"
    assert {item.task: item.number for item in found.tries if item.task in kills} == dict.fromkeys(kills, 2)
    check(lake, flights=3)
