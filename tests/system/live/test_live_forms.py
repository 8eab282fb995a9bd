"""Every shipped DAG in an Airflow of real processes: what a person opens and sends, what runs by itself, and where it listens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.names import Generation
from tests.support.airflow.forms import SAID
from tests.support.airflow.home import DAGS, SHIPPED
from tests.support.airflow.live import LiveAirflow, live_airflow
from tests.support.processes import in_group, listening, wait_until
from tests.support.product import Product

pytestmark = [pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(600)]

FILES = sorted(path.name for path in DAGS.glob("*.py"))


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveAirflow]:
    folder = tmp_path_factory.mktemp("live")
    lake = str(folder / "no_lake")
    with live_airflow(folder / "airflow", *FILES, AIRFLOW__SCHEMAMIG__DEFAULT_ENVIRONMENT=lake) as found:
        yield found


def _ended(airflow: LiveAirflow, dag_id: str) -> bool:
    return all(run["state"] in ("success", "failed") for run in airflow.runs(dag_id))


def test_a_form_is_sent_as_it_opens_and_unpausing_starts_nothing(airflow: LiveAirflow) -> None:
    for dag_id in SHIPPED:
        airflow.unpause(dag_id)
    sent: dict[str, Any] = {}
    for dag_id in SHIPPED:
        conf = {name: param["value"] for name, param in airflow.ask(f"dags/{dag_id}/details")["params"].items()}
        conf |= SAID.get(dag_id, {})
        sent[dag_id] = airflow.ask(f"dags/{dag_id}/dagRuns", "POST", {"logical_date": None, "conf": conf})["dag_run_id"]
        if dag_id != "schemamig_replicate":  # it lasts; and all at once are too many for Airflow on SQLite
            wait_until(partial(_ended, airflow, dag_id), 120)
    tasks = airflow.tasks("schemamig_control", sent["schemamig_control"])
    assert tasks["action", -1]["state"] == "success"
    assert {name for (name, _), task in tasks.items() if task["state"] == "skipped"} == {name for name, _ in tasks} - {"action", "pause"}
    assert {dag_id: [run["dag_run_id"] for run in airflow.runs(dag_id)] for dag_id in SHIPPED} == {k: [run] for k, run in sent.items()}


def test_a_waiting_gate_has_the_button_plan_and_says_what_to_type(airflow: LiveAirflow, tmp_path: Path) -> None:
    """The run's own words, from the API server: an upgrade of metadata alone, so without a JVM."""
    release, lake = Product(tmp_path / "product").release("1.0.0", "CREATE TABLE a (id BIGINT);"), str(tmp_path / "lake")
    conf = {"environment": lake, "release": str(release), "gate": "ledger", "create": True}
    run = airflow.ask("dags/schemamig_upgrade/dagRuns", "POST", {"logical_date": None, "conf": conf})["dag_run_id"]

    def waits() -> bool:
        gate = airflow.tasks("schemamig_upgrade", run).get(("upgrade.ledger_approval", -1))
        return gate is not None and gate["state"] == "deferred"

    wait_until(waits, 240)
    at = f"dags/schemamig_upgrade/dagRuns/{quote(run)}/taskInstances"
    of_run = f"/dags/schemamig_upgrade/runs/{quote(run)}"
    links = {"Plan": f"{of_run}/tasks/upgrade.preflight", "Deployment": f"{of_run}/plugin/schemamig_run"}
    assert airflow.ask(f"{at}/upgrade.ledger_approval/links")["extra_links"] == links
    assert airflow.ask(f"{at}/upgrade.preflight")["state"] == "success"
    told = json.dumps(airflow.ask(f"{at}/upgrade.ledger_approval/logs/1"))
    digest = airflow.ask(f"{at}/upgrade.preflight/xcomEntries/plan_digest")["value"].strip('"')
    assert f"schemamig approve --env {lake} --generation 1 --plan {digest}" in told
    commands.approve(Environment.open(lake), Generation(1), digest, "ann")
    wait_until(lambda: all(item["state"] in ("success", "failed") for item in airflow.runs("schemamig_upgrade")), 240)
    (found,) = [item for item in airflow.runs("schemamig_upgrade") if item["dag_run_id"] == run]
    assert (found["state"], found["note"]) == ("success", f"schemamig: upgraded {lake} from nothing to 1.0.0, generation 1")
    assert {entry.who for entry in read_history(Environment.open(lake)) if entry.what in ("promote", "expand", "cutover")} == {"ann"}


def test_live_forms_it_listens_on_this_machine_only(airflow: LiveAirflow) -> None:
    found = {address for group in airflow.groups() for pid in in_group(group) for address in listening(pid)}
    assert found == {f"127.0.0.1:{airflow.port}"}
