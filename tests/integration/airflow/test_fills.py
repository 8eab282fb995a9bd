"""A replacement filled by a query, through the shipped DAG: Spark inside the task, and spark-submit by an Airflow connection."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.upgrade import verbs
from tests.support.airflow_runs import RunDag
from tests.support.product import Product

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

FLIGHTS = "CREATE TABLE flights (id BIGINT, origin STRING);\n"
OLD = FLIGHTS + "CREATE TABLE route_stats (origin STRING);\n"
NEW = FLIGHTS + "CREATE TABLE route_stats (origin STRING, flights BIGINT);\n"
STEPS = 'replacement("route_stats", fill="SELECT origin, count(*) AS flights FROM {flights} GROUP BY origin")'


@pytest.mark.parametrize("spark_conn_id", ["local", "submit_here"])
def test_a_fill_runs_where_the_connection_says(
    run_dag: RunDag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_conn_id: str
) -> None:
    lake, product = tmp_path / "lake", Product(tmp_path / "releases")
    old, new = product.release("1.0.0", OLD), product.release("1.1.0", NEW, STEPS)
    extra = {"environment_uri": str(lake), "spark_conn_id": spark_conn_id}
    conn_id = f"lake_{spark_conn_id}"
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "schemamig", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SUBMIT_HERE", json.dumps({"conn_type": "spark", "host": "local[1]"}))

    assert run_dag("schemamig_upgrade", environment=conn_id, release=str(old), gate="none")[""][0] == "success"
    write_flights(lake, ["EWR", "EWR", "JFK"])
    states = run_dag("schemamig_upgrade", environment=conn_id, release=str(new), gate="none")
    assert (states["fill"], states["change"][0], states[""][0]) == (("success", 1), "skipped", "success")
    assert rows(lake, "route_stats") == {("EWR", 2), ("JFK", 1)}


def uri(lake: Path, collection: str) -> str:
    document = verbs.status(Environment.open(str(lake))).to_json()
    return str(document["collections"][collection]["uri"])


def write_flights(lake: Path, origins: list[str]) -> None:
    import deltalake
    import pyarrow as pa

    ids = pa.array(range(len(origins)), pa.int64())
    deltalake.write_deltalake(uri(lake, "flights"), pa.table({"id": ids, "origin": pa.array(origins)}), mode="append")


def rows(lake: Path, collection: str) -> set[tuple[str, int]]:
    import deltalake

    table = deltalake.DeltaTable(uri(lake, collection)).to_pyarrow_table()
    return set(zip(table["origin"].to_pylist(), table["flights"].to_pylist(), strict=True))
