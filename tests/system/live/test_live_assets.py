"""What an Airflow of real processes tells others of an upgrade: DAGs that wait for their table, and a collector of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow.live import LiveAirflow, live_airflow
from tests.support.airflow.otlp import Metrics, collector, told_to
from tests.support.processes import wait_until
from tests.support.upgrades import releases

pytestmark = [pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(900)]

#: Whoever loads a table waits for it alone.
CONSUMERS = """
import pendulum
from airflow.sdk import DAG, task
from airflow_provider_schemamig.assets.schemamig import table_asset

def consumer(collection):
    begin = pendulum.datetime(2025, 1, 1)
    with DAG(f"loads_{collection}", schedule=[table_asset("lake", collection)], start_date=begin) as dag:
        @task
        def seen(triggering_asset_events=None):
            events = triggering_asset_events[table_asset("lake", collection)]
            return [{name: event.extra[name] for name in ("event", "from", "to", "approver", "generation")} for event in events]
        seen()
    return dag

flights, planes = consumer("flights"), consumer("planes")
"""


@pytest.fixture
def heard() -> Iterator[Metrics]:
    with collector() as found:
        yield found


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    old, new = "CREATE TABLE flights (id BIGINT); CREATE TABLE planes (id BIGINT);", "CREATE TABLE flights (id BIGINT, gate STRING);"
    return releases(tmp_path, (old, ""), (f"{new} CREATE TABLE planes (id BIGINT);", 'evolution("flights")'))


@pytest.fixture
def airflow(tmp_path: Path, heard: Metrics) -> Iterator[LiveAirflow]:
    (tmp_path / "lake").mkdir()
    connection = f'{{"conn_type": "schemamig", "extra": {{"environment_uri": "{tmp_path / "lake"}"}}}}'
    with live_airflow(
        tmp_path / "airflow", "schemamig_upgrade.py", "schemamig_rollback.py", AIRFLOW_CONN_LAKE=connection, **told_to(heard)
    ) as found:
        (found.home / "dags" / "consumers.py").write_text(CONSUMERS)
        yield found


def run(airflow: LiveAirflow, dag_id: str, **conf: Any) -> None:
    airflow.unpause(dag_id)
    body = {"conf": {"environment": "lake", **conf}, "logical_date": None}
    run_id = airflow.ask(f"dags/{dag_id}/dagRuns", "POST", body)["dag_run_id"]
    wait_until(lambda: state(airflow, dag_id, run_id) in ("success", "failed"), 240)
    assert state(airflow, dag_id, run_id) == "success"


def state(airflow: LiveAirflow, dag_id: str, run_id: str) -> str:
    return next(str(found["state"]) for found in airflow.runs(dag_id) if found["dag_run_id"] == run_id)


def seen(airflow: LiveAirflow, collection: str, count: int) -> list[Any]:
    """What the runs of the DAG that loads the collection were started by, once there are so many."""
    dag_id = f"loads_{collection}"
    wait_until(lambda: [found["state"] for found in airflow.runs(dag_id)] == ["success"] * count, 120)
    ids = [found["dag_run_id"] for found in airflow.runs(dag_id)]
    return [airflow.ask(f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/seen/xcomEntries/return_value")["value"] for run_id in ids]


def test_a_dag_starts_when_its_table_has_arrived_and_the_collector_hears_of_it(
    airflow: LiveAirflow, folders: list[Path], heard: Metrics
) -> None:
    for name in ("flights", "planes"):
        airflow.unpause(f"loads_{name}")
    run(airflow, "schemamig_upgrade", release=str(folders[0]), gate="none", create=True)
    arrived = {"event": "committed", "from": None, "to": "1.0.0", "approver": "admin", "generation": 1}
    assert [str(seen(airflow, name, 1)) for name in ("flights", "planes")] == [str([[arrived]])] * 2

    run(airflow, "schemamig_upgrade", release=str(folders[1]), gate="none")
    changed = {"event": "committed", "from": "1.0.0", "to": "1.1.0", "approver": "admin", "generation": 2}
    assert str(seen(airflow, "flights", 2)[-1]) == str([changed])

    run(airflow, "schemamig_rollback")
    back = {"event": "rolled_back", "from": "1.1.0", "to": "1.0.0", "approver": "admin", "generation": 2}
    assert str(seen(airflow, "flights", 3)[-1]) == str([back])
    assert len(seen(airflow, "planes", 1)) == 1, "nothing happened to planes"

    spans = {(name, tags.get("schemamig.environment")) for name, tags in heard.spans}
    assert {
        ("schemamig.promote", "lake"),
        ("schemamig.expand", "lake"),
        ("schemamig.commit", "lake"),
        ("schemamig.rollback", "lake"),
    } <= spans
    assert heard.values("airflow.schemamig.commits", environment="lake", collection="flights", stage="expand")
