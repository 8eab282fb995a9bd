"""A replacement filled by a query, through the shipped DAG: Spark inside the task, and spark-submit by an Airflow connection."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.operators.read_only import FillOperator
from tests.support.airflow.runs import RunDag
from tests.support.product import Product

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

FLIGHTS = "CREATE TABLE flights (id BIGINT, origin STRING);\n"
OLD = FLIGHTS + "CREATE TABLE route_stats (origin STRING);\n"
NEW = FLIGHTS + "CREATE TABLE route_stats (origin STRING, flights BIGINT);\n"
STEPS = 'replacement("route_stats", fill="SELECT origin, count(*) AS flights FROM {flights} GROUP BY origin")'


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def releases(tmp_path: Path) -> tuple[Path, Path]:
    product = Product(tmp_path / "releases")
    return product.release("1.0.0", OLD), product.release("1.1.0", NEW, STEPS)


@pytest.mark.soak  # the demo does it, too
def test_a_fill_in_the_task_s_own_process(run_dag: RunDag, lake: Path, releases: tuple[Path, Path]) -> None:
    assert run_dag("schemamig_upgrade", environment=str(lake), release=str(releases[0]), gate="none", create=True)[""][0] == "success"
    write_flights(lake, ["EWR", "EWR", "JFK"])
    states = run_dag("schemamig_upgrade", environment=str(lake), release=str(releases[1]), gate="none")
    assert (states["fill"], states["change"][0], states[""][0]) == (("success", 1), "skipped", "success")
    assert rows(uri(lake, "route_stats")) == {("EWR", 2), ("JFK", 1)}


@pytest.mark.soak
def test_a_fill_by_a_spark_connection(lake: Path, releases: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The fill task alone: a driver is slow to start, and the tasks around it are the same everywhere."""
    extra = {"environment_uri": str(lake), "spark_conn_id": "submit_here"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_BY_SUBMIT", json.dumps({"conn_type": "schemamig", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SUBMIT_HERE", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    env = Environment.open(str(lake))
    commands.upgrade(env, releases[0], jobs=EmbeddedRunner, create=True)
    write_flights(lake, ["EWR", "EWR", "JFK"])
    claimed = commands.preflight(env, releases[1], jobs=EmbeddedRunner, fill=False)
    fill = FillOperator(task_id="fill", environment="lake_by_submit", generation=claimed.generation or 0, collections=claimed.fills)
    assert fill.execute({})["stages"]["fill"]["count"] == 1
    shard = next(shard for shard in LedgerReader(env).state().shards.values() if shard.generation == claimed.generation)
    assert rows(env.table_location(shard.uri).uri) == {("EWR", 2), ("JFK", 1)}


def uri(lake: Path, collection: str) -> str:
    document = commands.status(Environment.open(str(lake))).to_json()
    return str(document["collections"][collection]["uri"])


def write_flights(lake: Path, origins: list[str]) -> None:
    import deltalake
    import pyarrow as pa

    ids = pa.array(range(len(origins)), pa.int64())
    deltalake.write_deltalake(uri(lake, "flights"), pa.table({"id": ids, "origin": pa.array(origins)}), mode="append")


def rows(table_uri: str) -> set[tuple[str, int]]:
    import deltalake

    table = deltalake.DeltaTable(table_uri).to_pyarrow_table()
    return set(zip(table["origin"].to_pylist(), table["flights"].to_pylist(), strict=True))
