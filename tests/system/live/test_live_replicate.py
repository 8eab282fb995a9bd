"""The shipped DAG that replicates, in an Airflow of real processes that are killed, over two environments whose rows Spark brings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pendulum
import pytest

from airflow_provider_schemamig.core.replication.model import PauseReason, StreamState
from airflow_provider_schemamig.core.replication.stream.stored_state import read_states
from tests.support.airflow.live import LiveAirflow, live_airflow
from tests.support.airflow.otlp import Metrics, collector, told_to
from tests.support.processes import wait_until
from tests.support.replicas import EVOLVE, FIRST, SECOND, Replicas, make_replicas
from tests.support.spark.connect import connect_server

pytestmark = [pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(1800)]

DAG = "schemamig_replicate"
#: Until the target's schema is worked out again: long enough to kill what nobody works in.
RECOMPUTE = 60
MINUTES = 6


@pytest.fixture
def two(tmp_path: Path) -> Replicas:
    return make_replicas(tmp_path, (FIRST, ""), (SECOND, EVOLVE))


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    with collector() as found:
        yield found


@pytest.fixture
def airflow(two: Replicas, metrics: Metrics, tmp_path: Path) -> Iterator[LiveAirflow]:
    """The shipped DAG takes its parameters from the configuration: nobody gives a continuous run any."""
    (tmp_path / "connect").mkdir()
    with connect_server(tmp_path / "connect") as url:
        options = {
            "AIRFLOW__SCHEMAMIG__DEFAULT_ORIGIN": "lake_a",
            "AIRFLOW__SCHEMAMIG__DEFAULT_ENVIRONMENT": "lake_b",
            "AIRFLOW__SCHEMAMIG__REPLICATE_SCHEDULE": "@continuous",
            "AIRFLOW__SCHEMAMIG__REPLICATE_MINUTES": str(MINUTES),
            "AIRFLOW__SCHEMAMIG__POLL_INTERVAL": "1",
            "AIRFLOW__SCHEMAMIG__RECOMPUTE_INTERVAL": str(RECOMPUTE),
        }
        with live_airflow(tmp_path / "airflow", f"{DAG}.py", **options, **connections(two, url), **told_to(metrics)) as found:
            yield found


def connections(two: Replicas, url: str) -> dict[str, str]:
    server = urlsplit(url)
    found: dict[str, Any] = {"CONNECT_HERE": {"conn_type": "spark_connect", "host": server.hostname, "port": server.port}}
    for name in "ab":
        extra = {"environment_uri": two.env(name).location.uri, "spark_conn_id": "connect_here"}
        found[f"LAKE_{name.upper()}"] = {"conn_type": "schemamig", "extra": extra}
    return {f"AIRFLOW_CONN_{name}": json.dumps(connection) for name, connection in found.items()}


def test_killed_and_upgraded_it_goes_on_by_itself(airflow: LiveAirflow, two: Replicas, metrics: Metrics) -> None:
    airflow.unpause(DAG)
    two.insert("a", {"id": 1, "v": "x"})
    two.insert("a", {"line": "8", "n": 8}, collection="lines")
    arrives(two, "trips", "lines")
    two.change("a", lambda row: {**row, "v": "y"})
    two.insert("a", {"line": "9", "n": 9}, collection="lines")
    arrives(two, "trips", "lines")

    upgrade(two, "a")
    two.insert("a", {"id": 2, "v": "x", "w": "w"})
    wait_until(lambda: is_paused(two), 120)
    run = airflow.runs(DAG)[-1]["dag_run_id"]
    for part in ("triggerer", "scheduler"):
        wait_until(lambda: rests(airflow, run) and is_paused(two, looked_at_within=RECOMPUTE / 2), 120)
        airflow.kill(part)
        two.insert("a", {"line": part, "n": 10}, collection="lines")
        airflow.start(part)
        arrives(two, "lines")
        assert is_paused(two)
        assert rows(two, "b") != rows(two, "a")
        wait_until(lambda: not unhealthy(airflow), 60)  # to wait is no illness; a busy machine's heartbeats may be late

    wait_until(lambda: rests(airflow, run), 120)
    upgrade(two, "b")
    arrives(two, "trips", "lines")
    wait_until(lambda: ended(airflow, run), 60 * MINUTES)
    assert {task["state"] for task in airflow.tasks(DAG, run).values()} == {"success"}
    assert {task["try_number"] for task in airflow.tasks(DAG, run).values()} == {1}, "neither to wait nor to be killed is a failed try"
    wait_until(lambda: airflow.runs(DAG)[-1]["dag_run_id"] != run, 60)
    two.change("a", lambda row: {**row, "w": "later"})
    two.insert("a", {"line": "10", "n": None}, collection="lines")
    arrives(two, "trips", "lines")
    assert [found["state"] for found in airflow.runs(DAG)[-2:]] == ["success", "running"]
    check(metrics)


def upgrade(two: Replicas, name: str) -> None:
    """A person does, in a process of its own."""
    command = [sys.executable, "-m", "airflow_provider_schemamig.cli.main", "upgrade"]
    command += ["--env", two.env(name).location.uri, "--release", str(two.folders[1])]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def arrives(two: Replicas, *collections: str) -> None:
    for collection in collections:
        wait_until(lambda: rows(two, "b", collection) == rows(two, "a", collection), 180)  # noqa: B023 - called right here


def rows(two: Replicas, name: str, collection: str = "trips") -> list[Any]:
    return two.declared_rows(name, collection)


def state(two: Replicas) -> StreamState | None:
    return next((found for found in read_states(two.env("b")) if found.stream.collection == "trips"), None)


def is_paused(two: Replicas, looked_at_within: float = float("inf")) -> bool:
    found = state(two)
    if found is None or found.pause is None:
        return False
    age = (pendulum.now("UTC") - found.pause.recomputed_at).total_seconds()
    return found.pause.reason is PauseReason.SCHEMA_MISMATCH and age < looked_at_within


def rests(airflow: LiveAirflow, run: str) -> bool:
    """Nobody works: every task is deferred, or has ended."""
    found = airflow.tasks(DAG, run)
    brings = [task["state"] for (name, _), task in found.items() if name == "replicate.bring"]
    return brings == ["deferred"] * 2 and found["replicate.run_time", -1]["state"] == "deferred"


def unhealthy(airflow: LiveAirflow) -> list[str]:
    return [part for part, found in airflow.ask("monitor/health").items() if found["status"] != "healthy"]


def ended(airflow: LiveAirflow, run: str) -> bool:
    states = {found["dag_run_id"]: found["state"] for found in airflow.runs(DAG)}
    assert states[run] in ("running", "success"), states
    return bool(states[run] == "success")


def check(metrics: Metrics) -> None:
    """They came from the tasks' own processes."""
    named = "airflow.schemamig.replica"
    assert set(metrics.values(f"{named}.mismatch_paused", collection="trips")) == {0, 1}
    assert set(metrics.values(f"{named}.mismatch_paused", collection="lines")) == {0}
    assert max(metrics.values(f"{named}.lag_versions", collection="trips")) >= 1
    assert max(metrics.values(f"{named}.lag_seconds", collection="trips")) > 0
    assert metrics.values(f"{named}.lag_versions", collection="trips")[-1] == 0
    assert max(metrics.values(f"{named}.applied_rows", collection="lines")) >= 5
    assert set(metrics.values("airflow.schemamig.schema_hash_info", collection="trips")) == {0, 1}
