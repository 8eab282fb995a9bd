"""The shipped DAGs on a real, tiny environment: from nothing to a release, to the next, and back. Schema work only, so no JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pendulum
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from airflow_provider_schemamig.sensors.fingerprint import FingerprintSensor
from airflow_provider_schemamig.triggers.ledger import TurnTrigger
from tests.support.airflow.home import DAGS
from tests.support.airflow.runs import RunDag
from tests.support.lake import Lake, no_spark
from tests.support.product import Product
from tests.support.upgrades import make_holds_due

pytestmark = pytest.mark.airflow

OLD = "CREATE TABLE flights (id BIGINT NOT NULL, origin STRING);\nCREATE TABLE planes (tail STRING);\n"
NEW = "CREATE TABLE flights (id BIGINT NOT NULL, airport STRING, gate STRING);\nCREATE TABLE airlines (carrier STRING);\n"
STEPS = 'evolution("flights", rename={"origin": "airport"}), removal("planes")'


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def releases(tmp_path: Path) -> tuple[Path, Path]:
    product = Product(tmp_path / "releases")
    return product.release("1.0.0", OLD), product.release("1.1.0", NEW, STEPS)


@pytest.fixture
def upgrade(run_dag: RunDag, lake: Path) -> Callable[..., dict[str, tuple[str, int]]]:
    def run(release: Path, **params: Any) -> dict[str, tuple[str, int]]:
        return run_dag("schemamig_upgrade", **{"environment": str(lake), "release": str(release), "gate": "none", "create": True, **params})

    return run


def found(lake: Path) -> tuple[str | None, dict[str, list[str]]]:
    """The environment's release, and its collections' columns as they are on the tables."""
    status = commands.status(Environment.open(str(lake)))
    assert status.drifted == ()
    document = status.to_json()
    return document["version"], {name: [c["name"] for c in item["physical"]] for name, item in document["collections"].items()}


@pytest.mark.soak
def test_a_run_waits_for_the_run_before_it_and_not_for_those_of_another_environment(
    upgrade: Any, lake: Path, releases: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run before waits for a person, as it may for a day; Airflow itself is asked whether it still does."""
    monkeypatch.setenv("AIRFLOW__SCHEMAMIG__POLL_INTERVAL", "0.1")
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "0")
    upgrade(releases[0])
    before = "manual__before"
    _set_run(before, "running")
    claim = f"airflow:schemamig_upgrade/{before}/upgrade.preflight"
    commands.preflight(Environment.open(str(lake)), releases[1], jobs=no_spark, claim_id=claim)
    looks: list[bool] = []
    real = TurnTrigger.look

    def look(trigger: TurnTrigger) -> bool:
        looks.append(real(trigger))
        if len(looks) == 2:
            _set_run(before, "failed")
        return looks[-1]

    monkeypatch.setattr(TurnTrigger, "look", look)
    assert upgrade(releases[0], environment=str(tmp_path / "another"))[""][0] == "success"
    assert not looks
    states = upgrade(releases[1])
    assert looks == [False, False, True]
    assert (states["fingerprint"], states[""][0]) == (("success", 1), "success")
    assert found(lake)[0] == "1.1.0"


def _set_run(run_id: str, state: str) -> None:
    """As Airflow's database has it."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.run_id == run_id))
        if run is None:
            now = pendulum.now("UTC")
            run = DagRun(dag_id="schemamig_upgrade", run_id=run_id, run_type="manual", run_after=now, logical_date=None, start_date=now)
            session.add(run)
        run.state = state


@pytest.mark.some(1, of="flows of Airflow on a lake")
def test_real_lake_there_and_back(upgrade: Any, run_dag: RunDag, lake: Path, releases: tuple[Path, Path]) -> None:
    assert upgrade(releases[0])[""][0] == "success"
    assert found(lake) == ("1.0.0", {"flights": ["id", "origin"], "planes": ["tail"]})

    states = upgrade(releases[1])
    assert states[""][0] == "success"
    assert states["contract"][0] == "skipped"
    assert found(lake) == ("1.1.0", {"airlines": ["carrier"], "flights": ["id", "airport", "gate"]})

    again = upgrade(releases[1])
    assert (again["fingerprint"][0], again["cutover_and_commit"][0], again[""][0]) == ("skipped", "skipped", "success")

    back = run_dag("schemamig_rollback", environment=str(lake))
    assert back["rollback"] == ("success", 1)
    version, collections = found(lake)
    assert version == "1.0.0"
    assert set(collections) == {"flights", "planes"}
    assert {"id", "origin"} <= set(collections["flights"])


@pytest.mark.soak
def test_maintenance_contracts_when_the_hold_is_over(upgrade: Any, run_dag: RunDag, lake: Path, releases: tuple[Path, Path]) -> None:
    upgrade(releases[0])
    upgrade(releases[1])
    make_holds_due(Lake(Environment.open(str(lake)), *releases))
    assert run_dag("schemamig_maintenance", environment=str(lake))["contract"][0] == "success"
    assert commands.status(Environment.open(str(lake))).to_json()["holds"] == []
    assert run_dag("schemamig_maintenance", environment=str(lake))["contract"][0] == "skipped"


@pytest.mark.soak
def test_with_hold_zero_the_last_task_contracts(upgrade: Any, lake: Path, releases: tuple[Path, Path]) -> None:
    upgrade(releases[0], hold=0)
    assert upgrade(releases[1], hold=0)["contract"][0] == "success"
    assert commands.status(Environment.open(str(lake))).to_json()["holds"] == []


@pytest.mark.soak
def test_the_ledgers_approval_opens_the_gate(upgrade: Any, lake: Path, releases: tuple[Path, Path], monkeypatch: Any) -> None:
    monkeypatch.setenv("AIRFLOW__SCHEMAMIG__POLL_INTERVAL", "0.2")
    upgrade(releases[0])
    person = threading.Thread(target=_approve_when_asked, args=(lake,), daemon=True)
    person.start()
    states = upgrade(releases[1], gate="ledger")
    assert (states["ledger_approval"], states["approval"][0]) == (("success", 1), "skipped")
    assert found(lake)[0] == "1.1.0"


def _approve_when_asked(lake: Path) -> None:
    env = Environment.open(str(lake))
    for _ in range(300):
        waiting = [item for item in commands.status(env).to_json()["deployments"] if item["state"] == "claimed"]
        if waiting:
            commands.approve(env, waiting[0]["generation"], waiting[0]["plan_digest"], by="ann")
            return
        time.sleep(0.1)


@pytest.mark.some(1, of="flows of Airflow on a lake")
def test_a_table_changed_behind_our_back_fails_the_gate_at_once(upgrade: Any, lake: Path, releases: tuple[Path, Path]) -> None:
    upgrade(releases[0])
    _add_column_behind_our_back(lake)
    states = upgrade(releases[1])
    assert states["fingerprint"] == ("failed", 1)
    assert states["cutover_and_commit"][0] == "upstream_failed"
    FingerprintSensor(task_id="drift", environment=str(lake), looks_for="drift", deferrable=True).execute({})


def _add_column_behind_our_back(lake: Path) -> None:
    import deltalake

    table = commands.status(Environment.open(str(lake))).to_json()["collections"]["flights"]["uri"]
    field = deltalake.Field("intruder", deltalake.schema.PrimitiveType("string"), nullable=True)
    deltalake.DeltaTable(table).alter.add_columns([field])


@pytest.mark.some(1, of="flows of Airflow on a lake")
def test_a_broken_release_is_refused_before_anything_is_written(upgrade: Any, lake: Path, releases: tuple[Path, Path]) -> None:
    (releases[0] / "schema.sql").write_text("CREATE TABEL flights (id BIGINT);")
    assert upgrade(releases[0])["fingerprint"] == ("failed", 1)
    assert not lake.exists()


@pytest.mark.some(1, of="flows of Airflow on a lake")
def test_an_environment_that_is_not_there_is_not_made_unasked(upgrade: Any, lake: Path, releases: tuple[Path, Path]) -> None:
    states = upgrade(releases[0], create=False)
    assert (states["preflight"][0], states["cutover_and_commit"][0], states[""][0]) == ("failed", "upstream_failed", "failed")
    assert not lake.exists()


@pytest.mark.some(1, of="flows of Airflow on a lake")
def test_arrival_and_the_connection_test(upgrade: Any, lake: Path, releases: tuple[Path, Path]) -> None:
    hook = SchemamigHook(str(lake))
    assert hook.test_connection() == (True, f"{lake.as_uri()} can be read and has no ledger yet; an upgrade with `create` makes one.")
    upgrade(releases[1])
    assert hook.test_connection() == (True, f"{lake.as_uri()} is at release 1.1.0.")
    for version, here in (("1.0.0", True), ("1.1.0", True), ("1.2.0", False)):
        sensor = FingerprintSensor(task_id="arrival", environment=str(lake), looks_for="arrival", version=version)
        assert sensor.poke({}) is here


@pytest.mark.soak
def test_airflow_dags_test_of_the_shipped_dag(airflow_db: None, lake: Path, releases: tuple[Path, Path]) -> None:
    """The command a person types, in a process of its own; `make demo` types it, too."""
    connection = {"conn_type": "schemamig", "extra": {"environment_uri": str(lake)}}
    params = {"environment": "tiny_lake", "release": str(releases[0]), "gate": "none", "create": True}
    command = [sys.executable, "-m", "airflow", "dags", "test", "schemamig_upgrade", "2026-01-01", "--conf", json.dumps(params)]
    environment = {**os.environ, "AIRFLOW_CONN_TINY_LAKE": json.dumps(connection)}
    done = subprocess.run(command, env=environment, cwd=DAGS, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert found(lake)[0] == "1.0.0"


@pytest.mark.some(1, of="flows of Airflow on a lake")
def test_airflow_lists_the_provider() -> None:
    command = [sys.executable, "-m", "airflow", "providers", "list", "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    listed = json.loads(done.stdout[done.stdout.index("[") :])
    assert "airflow-provider-schemamig" in {item["package_name"] for item in listed}
