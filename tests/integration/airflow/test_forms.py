"""The form of every shipped DAG, opened and triggered with its defaults: through the routes that Airflow's page calls, then run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.upgrade.context import controls
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from tests.support.airflow_home import DAGS
from tests.support.airflow_runs import RunDag
from tests.support.fake_verbs import FakeVerbs, install

pytestmark = pytest.mark.airflow

SHIPPED = sorted(path.stem for path in DAGS.glob("*.py"))
#: What a person has to say: there is no default for it.
SAID = {
    "schemamig_alter": {"statement": "ALTER TABLE flights ADD COLUMN gate STRING"},
    "schemamig_restore": {"collection": "flights"},
}
TASKS = {
    "schemamig_alter": {"alter": "success"},
    "schemamig_control": {"action": "success", "pause": "success", "resume": "skipped", "cancel": "skipped"},
    "schemamig_maintenance": {"contract": "skipped", "compact": "skipped"},
    "schemamig_replicate": {"replicate.collections": "success", "replicate.bring": "skipped", "replicate.run_time": "success"},
    "schemamig_restore": {"restore": "success"},
    "schemamig_rollback": {"rollback": "success"},
    "schemamig_upgrade": {"fingerprint": "skipped", "cutover_and_commit": "skipped"},
    "schemamig_verify": {"verify": "success"},
    "schemamig_watch_keys": {"watch_keys": "success"},
}


def form(page: Any, dag_id: str) -> dict[str, dict[str, Any]]:
    answer = page.get(f"/api/v2/dags/{dag_id}/details")
    assert answer.status_code == 200, answer.text
    found: dict[str, dict[str, Any]] = answer.json()["params"]
    return found


def missing(params: dict[str, dict[str, Any]]) -> set[str]:
    """The fields for which the page greys its button: those with a type that is not null, while they are empty.

    It is the rule of Airflow's FlexibleForm (``isRequired``), which takes an empty text for a missing one.
    """

    def required(schema: dict[str, Any]) -> bool:
        kind = schema.get("type")
        return bool(kind) and not (isinstance(kind, list) and "null" in kind)

    return {name for name, param in params.items() if required(param["schema"]) and param["value"] in (None, "")}


@pytest.mark.parametrize("dag_id", SHIPPED)
def test_a_form_can_be_sent_as_it_opens(page: Any, dag_id: str) -> None:
    params = form(page, dag_id)
    assert missing(params) == set(SAID.get(dag_id, {}))
    conf = {name: param["value"] for name, param in params.items()} | SAID.get(dag_id, {})
    answer = page.post(f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": conf})
    assert answer.status_code == 200, answer.text
    assert answer.json()["conf"] == conf


@pytest.mark.parametrize("text", ["", None])
def test_an_empty_text_of_a_program_is_taken_as_nothing_said(page: Any, text: str | None) -> None:
    conf = dict.fromkeys(("collection", "reason", "window", "plan"), text)
    answer = page.post("/api/v2/dags/schemamig_control/dagRuns", json={"logical_date": None, "conf": conf})
    assert answer.status_code == 200, answer.text


def test_what_the_form_refuses_the_server_refuses_too(page: Any) -> None:
    answer = page.post("/api/v2/dags/schemamig_control/dagRuns", json={"logical_date": None, "conf": {"action": "stop"}})
    assert answer.status_code == 400, "or the test before would see no mistake"


@pytest.mark.parametrize("dag_id", SHIPPED)
def test_the_tasks_take_what_the_form_sends(page: Any, run_dag: RunDag, monkeypatch: pytest.MonkeyPatch, dag_id: str) -> None:
    monkeypatch.setattr(SchemamigHook, "environment", property(lambda hook: f"opened {hook.schemamig_conn_id}"))
    verbs: Any = install(monkeypatch, FakeVerbs(due=False))
    consistent = SimpleNamespace(unasked=(), findings=(), kept=())
    verbs.verify_environment = verbs.watch_keys = lambda *arguments: consistent
    verbs.restore_rows = lambda *ends, **options: SimpleNamespace(version=1, table_version=2, rows=3)
    verbs.collections = ()
    monkeypatch.setattr(controls, "pause", lambda env, collection, **said: Control(collection or "*", paused=True))
    monkeypatch.setattr("airflow_provider_schemamig.operators.replicas.StreamChunksOperator.execute", lambda task, context: [])
    conf = {name: param["value"] for name, param in form(page, dag_id).items()} | SAID.get(dag_id, {})
    if dag_id == "schemamig_replicate":
        conf["minutes"] = 0  # or the test would wait for so long
    found = run_dag(dag_id, **conf)
    assert {task: found[task][0] for task in TASKS[dag_id]} == TASKS[dag_id]
    assert found[""][0] == "success"
