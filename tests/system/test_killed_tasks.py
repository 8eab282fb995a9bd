"""``kill -9`` of a task's process in the middle of each task of the upgrade DAG; the task is cleared, and the DAG ends right.

One run carries a kill in every task, so that few runs show much; which moment of a task it dies at is chosen here for ``make test``, and
all moments are gone through by ``make soak``.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.spark.runners import ConnectRunner
from tests.support.airflow.killing import Kill, KillingRuns
from tests.support.lake import Lake, append, rows
from tests.support.product import Product
from tests.support.spark.connect import connect_server

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
#: The task with the most moments to die at has so many.
MOMENTS = 24
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
    shutil.copytree(root(lake), folder / "lake")
    return replace(lake, env=Environment.open(str(folder / "lake")))


def root(lake: Lake) -> Path:
    folder = lake.env.location.local_path
    assert folder is not None
    return folder


def check(lake: Lake, flights: int) -> None:
    """The environment as an undisturbed upgrade with hold 0 leaves it."""
    assert lake.version == "1.1.0"
    state, status = lake.state, commands.status(lake.env)
    assert status.drifted == ()
    assert list(state.intents) == []
    assert verify(LedgerReader(lake.env)) == ()
    assert status.document["holds"] == []
    filled = "stats" in state.objects
    assert sorted(state.objects) == ["airports", "flights", "planes"] + ["stats"] * filled
    for name, document in status.document["collections"].items():
        assert (document["physical"], document["hidden"], document["sealed"]) == (document["declared"], [], False), name
    assert rows(lake.path("flights")) == [
        {"id": n, "departure_delay": 5 * n, "origin": {"code": "JFK", "city": None}, "gate": None} for n in range(1, flights + 1)
    ]
    assert rows(lake.path("planes")) == [{"tailnum": "N1", "year": 1999, "seats": None}]
    assert rows(lake.path("airports")) == []
    if filled:
        assert rows(lake.path("stats")) == [{"hour": 9, "flights": flights}]
    assert tables(lake) == {lake.path(name) for name in state.objects}, "a table was left behind, or one is missing"


def tables(lake: Lake) -> set[Path]:
    return {log.parent for log in root(lake).glob("[!_]*/*/_delta_log")}


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the tasks' Spark work is done: a JVM for each of them would take longer than all they do."""
    with connect_server(tmp_path_factory.mktemp("connect")) as url:
        yield url


def connections(lake: Lake, url: str) -> dict[str, dict[str, Any]]:
    """The environment as Airflow's connection ``lake``, its Spark work done by the Connect server at ``url``."""
    found = urlsplit(url)
    return {
        "lake": {"conn_type": "schemamig", "extra": {"environment_uri": str(root(lake)), "spark_conn_id": "connect_here"}},
        "connect_here": {"conn_type": "spark_connect", "host": found.hostname, "port": found.port},
    }


def test_every_task_dies_once(airflow_runs: KillingRuns, lakes: dict[bool, Lake], connect: str, tmp_path: Path) -> None:
    """Also the two that fill on Spark: before promotion, and again because rows came in while the gate waited."""
    lake = copy_of(lakes[True], tmp_path)
    commands.preflight(lake.env, lake.second, claim_id="stale", jobs=lambda: ConnectRunner(connect), fill=False)  # for clean-up to remove
    kills = {
        "preflight": Kill("after", "put_if_absent"),
        "fill": Kill("before", "ledger"),  # Spark has committed the rows, and nobody wrote that down
        "promote": Kill("after", "ledger"),  # leader, and the answer is lost
        "expand": Kill("after", "put_if_absent"),  # one of two tables
        "change": Kill("before", "ledger"),
        "cutover_and_commit": Kill("after", "put_if_absent"),  # sealed
        "cleanup": Kill("after", "delete_tree"),  # files gone, rows not
        "contract": Kill("after", "put_if_absent"),  # columns dropped, retired tables not
    }
    arrivals = {"promote": [(lake.path("flights"), [flight(3)])]}
    found = airflow_runs.upgrade(lake.second, "lake", kills=kills, arrivals=arrivals, connections=connections(lake, connect), hold=0)
    assert found.killed.keys() == kills.keys()
    assert found.state == "success", found.states
    assert {item.task: item.number for item in found.tries if item.task in kills} == dict.fromkeys(kills, 2)
    check(lake, flights=3)


@pytest.mark.parametrize("task", ["expand", "cutover_and_commit"])
def test_another_run_takes_over(airflow_runs: KillingRuns, lakes: dict[bool, Lake], tmp_path: Path, task: str) -> None:
    """Nobody clears the task: the next run claims a generation of its own, and settles what the dead one left on the tables."""
    take_over(airflow_runs, copy_of(lakes[False], tmp_path), task, Kill("after", "put_if_absent"))


def take_over(runs: KillingRuns, lake: Lake, task: str, kill: Kill) -> bool:
    """False if the task ended before that moment."""
    died = runs.upgrade(lake.second, str(root(lake)), kills={task: kill}, clear=False, hold=0)
    if not died.killed:
        assert died.state == "success"
        check(lake, flights=2)
        return False
    assert died.states[task] == "failed"
    committed = lake.version == "1.1.0"
    found = runs.upgrade(lake.second, str(root(lake)), kills={}, hold=0)
    assert found.state == "success"
    if committed:  # there was nothing to do, and contract is maintenance's
        commands.contract(lake.env)
    check(lake, flights=2)
    return True


@pytest.mark.soak
@pytest.mark.parametrize("moment", range(1, MOMENTS + 2))
def test_every_task_dies_everywhere(airflow_runs: KillingRuns, lakes: dict[bool, Lake], connect: str, tmp_path: Path, moment: int) -> None:
    """Every task dies at its n-th moment, if it has as many."""
    lake = copy_of(lakes[True], tmp_path)
    kills = {task: Kill(count=moment) for task in (*SCHEMA_TASKS, "fill", "change")}
    arrivals = {"promote": [(lake.path("flights"), [flight(3)])]}
    found = airflow_runs.upgrade(lake.second, "lake", kills=kills, arrivals=arrivals, connections=connections(lake, connect), hold=0)
    assert found.state == "success", found
    assert bool(found.killed) is (moment <= MOMENTS), f"MOMENTS is not what it says: {found.killed}"
    check(lake, flights=3)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("task", SCHEMA_TASKS)
def test_another_run_takes_over_everywhere(airflow_runs: KillingRuns, lakes: dict[bool, Lake], tmp_path: Path, task: str) -> None:
    for moment in range(1, MOMENTS + 1):
        folder = tmp_path / str(moment)
        if not take_over(airflow_runs, copy_of(lakes[False], folder), task, Kill(count=moment)):
            break
        shutil.rmtree(folder)
    assert moment > 2
