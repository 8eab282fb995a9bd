"""docker-compose.yml, every command of it run by hand on this machine, service by service, with Postgres from Debian.

``tests.support.by_hand`` says what stands for containers. What Postgres' own image does before its command is done here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.folder.read import load_release
from airflow_provider_schemamig.core.testing.rows.fixtures import read_fixtures
from airflow_provider_schemamig.core.testing.rows.row_codec import row_of
from airflow_provider_schemamig.core.testing.workspace import cut
from tests.support.airflow.home import ROOT
from tests.support.airflow.live import LiveAirflow
from tests.support.by_hand import COMPOSE, ByHand
from tests.support.lake import Lake, append, rows
from tests.support.processes import wait_until

pytestmark = [pytest.mark.system, pytest.mark.soak, pytest.mark.spark, pytest.mark.timeout(1800)]

RELEASE = ROOT / "example/flights_lake"
BEFORE = Version(1, 0, 0)
DAG = "schemamig_upgrade"
#: Where Debian has its programs; the newest.
POSTGRES = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), default=None)
#: It does not run as root.
OTHER_USER: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


@pytest.fixture
def by_hand(tmp_path: Path) -> Iterator[ByHand]:
    """All services, started in the file's order and healthy; gone afterwards, whatever happens."""
    if POSTGRES is None:
        pytest.skip("there is no Postgres; Debian: apt-get install postgresql")
    # Not below pytest's folder, which no other user may enter; and the path of a socket has to be short.
    with tempfile.TemporaryDirectory(prefix="schemamig-") as folder:
        image = {"PATH": f"{POSTGRES}:$PATH", "PGHOST": folder}
        found = ByHand(tmp_path, {"postgres-data": Path(folder, "data")}, {"postgres": image})
        image["PGPORT"] = str(found.port("postgres", "5432"))
        try:
            for service in found.order():
                found.wait_for_needs(service)
                if service == "postgres":
                    start_postgres(found, Path(folder))
                else:
                    found.start(service)
            for service in long_running(found):
                found.wait_until_healthy(service)
            yield found
        finally:
            found.down()


def start_postgres(by_hand: ByHand, folder: Path) -> None:
    """As its image on an empty volume: what makes the database is a server without TCP, which is not to be taken for the real one."""
    environment, data = by_hand.environment("postgres"), folder / "data"
    name, database = environment["POSTGRES_USER"], environment["POSTGRES_DB"]
    (folder / "password").write_text(environment["POSTGRES_PASSWORD"])
    for path in (folder, data, folder / "password"):
        if OTHER_USER:
            shutil.chown(path, "postgres", "postgres")

    def run(*command: str | Path) -> bool:
        return subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=False, **OTHER_USER).returncode == 0

    def serve(addresses: str) -> None:
        command = ("postgres", "-D", data, "-k", folder, "-c", f"listen_addresses={addresses}")
        by_hand.start("postgres", command, cwd=folder, **OTHER_USER)

    assert run("initdb", "-D", data, "--username", name, "--pwfile", folder / "password", "--auth-local=trust", "--auth-host=scram-sha-256")
    serve("")
    wait_until(lambda: run("pg_isready", "--username", name), 60)
    assert run("createdb", "--username", name, database)
    assert not by_hand.healthy("postgres"), "airflow-init would begin, and find nobody"
    by_hand.stop("postgres", signal.SIGINT)
    serve("127.0.0.1")


def long_running(by_hand: ByHand) -> list[str]:
    return [name for name, service in by_hand.services.items() if service["restart"] != "no"]


def make_lake(by_hand: ByHand, folder: Path) -> Lake:
    """The example at its first release, with a few rows in each table, where the connection says that the lake is."""
    connection = json.loads(by_hand.environment("scheduler")["AIRFLOW_CONN_SCHEMAMIG_DEFAULT"])
    release = load_release(RELEASE)
    lake = Lake(Environment.open(connection["extra"]["environment_uri"]), cut(release, [BEFORE], folder / "first"), RELEASE)
    lake.upgrade(lake.first)
    for fixture in read_fixtures(release).of(BEFORE):
        fields = release.declarations(BEFORE)[fixture.collection].fields
        append(lake.path(fixture.collection), [row_of(text, fields) for text in fixture.rows])
    return lake


def log_in(by_hand: ByHand) -> LiveAirflow:
    """With the password that is where the head of the file says."""
    (path,) = re.findall(r"exec api-server cat (\S+)", COMPOSE.read_text())
    password = json.loads(Path(by_hand.here("api-server", path)).read_text())["admin"]
    return LiveAirflow(by_hand.folder, by_hand.port("api-server", "8080"), {}, password)


def upgrade(airflow: LiveAirflow) -> None:
    """By Airflow's API, with the connection and the release that the file gives it."""
    airflow.unpause(DAG)
    conf = {"environment": "schemamig_default", "gate": "none"}
    run = airflow.ask(f"dags/{DAG}/dagRuns", "POST", {"logical_date": None, "conf": conf})["dag_run_id"]
    wait_until(lambda: airflow.runs(DAG)[0]["state"] in ("success", "failed"), 900, pause_seconds=2)
    failed = {key: task["try_number"] for key, task in airflow.tasks(DAG, run).items() if task["state"] == "failed"}
    at = f"dags/{DAG}/dagRuns/{quote(run)}/taskInstances"
    told = [airflow.ask(f"{at}/{task}/logs/{tried}?map_index={index}") for (task, index), tried in failed.items()]
    assert (airflow.runs(DAG)[0]["state"], told) == ("success", [])


def cluster_of(by_hand: ByHand) -> dict[str, Any]:
    """What Spark's master says of itself."""
    with urlopen(f"http://127.0.0.1:{by_hand.port('spark-master', '8080')}/json/", timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_the_services_come_up_and_upgrade_the_example_on_the_cluster(by_hand: ByHand, tmp_path: Path) -> None:
    lake = make_lake(by_hand, tmp_path)
    weather, flights = rows(lake.path("weather"), "wind_speed"), rows(lake.path("flights"), "dep_delay")
    wait_until(lambda: cluster_of(by_hand)["aliveworkers"] == 2, 60)
    upgrade(log_in(by_hand))

    status = commands.status(lake.env)
    assert (status.document["version"], status.drifted) == ("1.1.0", ())
    assert verify(LedgerReader(lake.env)) == ()
    assert rows(lake.path("weather"), "wind_speed") == weather
    assert [row["departure_delay"] for row in rows(lake.path("flights"), "departure_delay")] == [row["dep_delay"] for row in flights]
    assert sum(row["flights"] for row in rows(lake.path("route_stats"))) == len(flights) == 4
    used = {app["memoryperexecutor"] for app in cluster_of(by_hand)["completedapps"]}
    assert used == {512}, "the cluster worked on rows, with what ops/spark lets a task take"
    for service in long_running(by_hand):
        assert by_hand.is_alive(service), by_hand.told(service)
        by_hand.wait_until_healthy(service)
