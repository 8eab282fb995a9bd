"""Every shipped DAG in an Airflow of real processes: what a person opens and sends, what runs by itself, and where it listens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.airflow_home import DAGS
from tests.support.live_airflow import LiveAirflow, live_airflow
from tests.support.processes import in_group, listening, wait_until

pytestmark = [pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(600)]

SHIPPED = sorted(path.stem for path in DAGS.glob("*.py"))


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveAirflow]:
    folder = tmp_path_factory.mktemp("live")
    lake = str(folder / "no_lake")
    files = [f"{name}.py" for name in SHIPPED]
    with live_airflow(folder / "airflow", *files, AIRFLOW__SCHEMAMIG__DEFAULT_ENVIRONMENT=lake) as found:
        yield found


def test_a_form_is_sent_as_it_opens_and_unpausing_starts_nothing(airflow: LiveAirflow) -> None:
    for dag_id in SHIPPED:
        airflow.unpause(dag_id)
    sent: dict[str, Any] = {}
    for dag_id in SHIPPED:
        conf = {name: param["value"] for name, param in airflow.ask(f"dags/{dag_id}/details")["params"].items()}
        if dag_id == "schemamig_alter":  # the one field that has no default
            conf["statement"] = "ALTER TABLE flights ADD COLUMN gate STRING"
        sent[dag_id] = airflow.ask(f"dags/{dag_id}/dagRuns", "POST", {"logical_date": None, "conf": conf})["dag_run_id"]
    wait_until(lambda: all(run["state"] in ("success", "failed") for run in airflow.runs("schemamig_control")), 120)
    tasks = airflow.tasks("schemamig_control", sent["schemamig_control"])
    assert tasks["action", -1]["state"] == "success"
    assert {name for (name, _), task in tasks.items() if task["state"] == "skipped"} == {name for name, _ in tasks} - {"action", "pause"}
    assert {dag_id: [run["dag_run_id"] for run in airflow.runs(dag_id)] for dag_id in SHIPPED} == {k: [run] for k, run in sent.items()}


def test_it_listens_on_this_machine_only(airflow: LiveAirflow) -> None:
    found = {address for group in airflow.groups() for pid in in_group(group) for address in listening(pid)}
    assert found == {f"127.0.0.1:{airflow.port}"}
