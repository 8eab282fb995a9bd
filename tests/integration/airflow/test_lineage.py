"""What a real Airflow with OpenLineage's provider writes of a run of the shipped DAG, to a file; held to the JSON schemas."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow.home import DAGS
from tests.support.airflow.openlineage import checked
from tests.support.upgrades import two_releases

pytestmark = pytest.mark.airflow

pytest.importorskip("airflow.providers.openlineage")

OLD = "CREATE TABLE flights (id BIGINT NOT NULL, origin STRING); CREATE TABLE planes (tail STRING);"
NEW = "CREATE TABLE flights (id BIGINT NOT NULL, airport STRING, gate STRING); CREATE TABLE planes (tail STRING);"


def events_of(folder: Path, dag_id: str, **conf: Any) -> list[dict[str, Any]]:
    """All that is told of one run, in a process of its own: Airflow loads the provider's listener when it starts."""
    told = folder / "events.json"
    transport = {"type": "file", "log_file_path": str(told), "append": True}
    environment = {**os.environ, "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport)}
    command = [sys.executable, "-m", "airflow", "dags", "test", dag_id, "2026-01-01", "--conf", json.dumps(conf)]
    done = subprocess.run(command, env=environment, cwd=DAGS, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return [checked(json.loads(line)) for line in told.read_text().splitlines()]


@pytest.mark.soak
def test_a_run_of_the_upgrade_is_told_to_openlineage(airflow_db: None, tmp_path: Path) -> None:
    lake = two_releases(tmp_path, OLD, NEW, 'evolution("flights", rename={"origin": "airport"})')
    conf = {"environment": str(lake.env.location.local_path), "release": str(lake.second), "gate": "none"}
    events = events_of(tmp_path, "schemamig_upgrade", **conf)
    ended = {event["job"]["name"].removeprefix("schemamig_upgrade."): event for event in events if event["eventType"] == "COMPLETE"}

    (flights,) = ended["upgrade.cutover_and_commit"]["outputs"]
    facets = flights["facets"]
    assert (flights["namespace"], flights["name"]) == ("file", str(lake.path("flights")))
    assert [item["name"] for item in facets["schema"]["fields"]] == ["id", "airport", "gate"]
    assert facets["lifecycleStateChange"]["lifecycleStateChange"] == "ALTER"
    assert [item["field"] for item in facets["columnLineage"]["fields"]["airport"]["inputFields"]] == ["origin"]
    assert ended["upgrade.cutover_and_commit"]["run"]["facets"]["schemamig_deployment"]["toRelease"] == "1.1.0"
    assert ended["upgrade.preflight"]["run"]["facets"]["test"]["tests"][0]["status"] == "pass"
    assert not ended["upgrade.expand"]["outputs"]
