"""Two environments whose upgrades wait for one answer. The verbs are played by a script; Airflow and the person are real."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from tests.support.airflow.fake_verbs import FakeVerbs, install
from tests.support.airflow.runs import Answer, RunDag

pytestmark = pytest.mark.airflow

DAG_FILE = """
import pendulum
from airflow.sdk import DAG
from airflow_provider_schemamig.task_groups.approval import approve_together
from airflow_provider_schemamig.task_groups.upgrade import upgrade_task_group

with DAG("together", schedule=None, max_active_runs=1, start_date=pendulum.datetime(2025, 1, 1)):
    groups = [upgrade_task_group(name, environment=f"/{name}", release="/release", gate="none") for name in ("east", "west")]
    approve_together(groups, assigned_users=["ann"])
"""


@pytest.fixture(scope="module")
def together(airflow_db: None, shipped_dags: dict[str, Any], defaults: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A DAG file of somebody's own, beside the shipped ones; returns the DAG's id."""
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    folder = tmp_path_factory.mktemp("dags")
    (folder / "together.py").write_text(DAG_FILE)
    with create_session() as session:
        session.merge(DagBundleModel(name="own"))
    bag = DagBag(str(folder), bundle_path=folder, bundle_name="own")
    sync_bag_to_db(bag, "own", None)
    shipped_dags.update(bag.dags)
    defaults["together"] = {}
    return "together"


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> FakeVerbs:
    monkeypatch.setattr(SchemamigHook, "environment", property(lambda hook: f"opened {hook.schemamig_conn_id}"))
    return install(monkeypatch, FakeVerbs())


def answered(run_dag: RunDag, dag_id: str, option: str) -> tuple[dict[str, Any], str]:
    person = Answer(option)
    person.start()
    return run_dag(dag_id), person.question or ""


@pytest.mark.soak
def test_one_answer_lets_both_go_and_names_who_gave_it(run_dag: RunDag, together: str, verbs: FakeVerbs) -> None:
    found, question = answered(run_dag, together, "Approve")
    assert [found[f"{name}.cutover_and_commit"][0] for name in ("east", "west")] == ["success"] * 2
    assert [call["approved_by"] for call in verbs.calls["promote"]] == ["ann"] * 2
    assert question.startswith("Upgrade /east, /west?")
    assert [question.count(f"** on `/{name}`") for name in ("east", "west")] == [1, 1], question


@pytest.mark.soak
def test_one_rejection_leaves_both(run_dag: RunDag, together: str, verbs: FakeVerbs) -> None:
    found, _ = answered(run_dag, together, "Reject")
    assert [found[f"{name}.promote"][0] for name in ("east", "west")] == ["skipped"] * 2
    assert not verbs.calls["promote"]
    assert [(call["env"], call["by"]) for call in verbs.calls["reject"]] == [("opened /east", "ann"), ("opened /west", "ann")]


@pytest.mark.some(1, of="flows of Airflow on a lake")
def test_one_that_is_at_the_release_already_is_left_out(
    run_dag: RunDag, together: str, verbs: FakeVerbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_provider_schemamig.core import commands

    is_due = commands.plan

    def plan(env: object, *arguments: Any, **options: Any) -> Any:
        verbs.due = env != "opened /east"
        return is_due(env, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(commands, "plan", plan)
    found, question = answered(run_dag, together, "Approve")
    assert [found[f"{name}.promote"][0] for name in ("east", "west")] == ["skipped", "success"]
    assert "on `/east`" not in question and "on `/west`" in question, question
