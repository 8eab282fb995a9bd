"""The button *Deployment*: on every task of the shipped DAGs, below wherever Airflow is mounted."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.dag_processing.dagbag import DagBag

from airflow_provider_schemamig.links.deployment import DeploymentLink
from airflow_provider_schemamig.operators.base import SchemamigOperator
from airflow_provider_schemamig.operators.gate import PlanApprovalOperator
from airflow_provider_schemamig.operators.rollback import RollbackOperator
from tests.support.airflow.home import DAGS


@pytest.mark.parametrize(("base", "path"), [("", ""), ("http://air.example/flow", "/flow"), ("http://air.example:8080/", "")])
def test_the_button_leads_to_the_tab_of_the_run(monkeypatch: pytest.MonkeyPatch, base: str, path: str) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    ti = SimpleNamespace(dag_id="schemamig_rollback", run_id="manual__2026-11-25T03:00:00+00:00")
    task = RollbackOperator(task_id="rollback", environment="/lake")
    found = DeploymentLink().get_link(task, ti_key=ti)
    assert found == f"{path}/dags/schemamig_rollback/runs/manual__2026-11-25T03%3A00%3A00%2B00%3A00/plugin/schemamig_run"


@pytest.mark.airflow
def test_every_task_of_ours_has_the_button() -> None:
    dags = DagBag(str(DAGS)).dags.values()
    ours = [task for dag in dags for task in dag.tasks if issubclass(_kind(task), SchemamigOperator | PlanApprovalOperator)]
    assert len(ours) > 20
    without = [task.task_id for task in ours if not any(isinstance(link, DeploymentLink) for link in task.operator_extra_links)]
    assert without == []


def _kind(task: object) -> type:
    found: type = getattr(task, "operator_class", type(task))
    return found
