"""The form of every shipped DAG, opened and triggered with its defaults: through the routes that Airflow's page calls, then run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pendulum
import pytest

from airflow_provider_schemamig.core.ledger.rows import Control, Pin
from airflow_provider_schemamig.core.names import ShardId
from airflow_provider_schemamig.core.upgrade.context import controls
from airflow_provider_schemamig.core.upgrade.verify.findings import Verified
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from tests.support.airflow.fake_verbs import FakeVerbs, install
from tests.support.airflow.forms import SAID
from tests.support.airflow.home import SHIPPED
from tests.support.airflow.runs import RunDag

pytestmark = pytest.mark.airflow

VERBS = (
    *("pause", "postpone", "resume", "throttle", "force", "cancel", "approve", "pin", "unpin"),
    *("revert", "unmanage", "end_hold"),
)
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
    **{f"schemamig_{verb}": {verb: "success"} for verb in VERBS},
}


def test_airflow_finds_the_dags_that_the_contract_names(shipped_dags: dict[str, Any]) -> None:
    assert sorted(dag_id for dag_id in shipped_dags if dag_id.startswith("schemamig_")) == SHIPPED


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


@pytest.mark.some(2)
@pytest.mark.parametrize("dag_id", SHIPPED)
def test_a_form_can_be_sent_as_it_opens(page: Any, dag_id: str) -> None:
    params = form(page, dag_id)
    assert missing(params) == set(SAID.get(dag_id, {}))
    conf = {name: param["value"] for name, param in params.items()} | SAID.get(dag_id, {})
    answer = page.post(f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": conf})
    assert answer.status_code == 200, answer.text
    assert answer.json()["conf"] == conf


@pytest.mark.parametrize("dag_id", sorted(f"schemamig_{verb}" for verb in VERBS))
def test_a_short_form_has_the_fields_of_its_verb_and_takes_none_that_is_empty_for_one_that_is_needed(page: Any, dag_id: str) -> None:
    params, needed = form(page, dag_id), SAID.get(dag_id, {})
    assert list(params)[: 1 + len(needed)] == ["environment", *needed]
    assert set(params) - {"environment"} <= set(form(page, "schemamig_control")) and len(params) <= 6
    for name in needed:
        for nothing in ({}, {name: None}, {name: ""}):
            conf = {**{other: value for other, value in needed.items() if other != name}, **nothing}
            answer = page.post(f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": conf})
            assert answer.status_code == 400, (conf, answer.text)


@pytest.mark.parametrize("text", ["", None])
def test_an_empty_text_of_a_program_is_taken_as_nothing_said(page: Any, text: str | None) -> None:
    conf = dict.fromkeys(("collection", "reason", "window", "plan"), text)
    answer = page.post("/api/v2/dags/schemamig_control/dagRuns", json={"logical_date": None, "conf": conf})
    assert answer.status_code == 200, answer.text


def test_what_the_form_refuses_the_server_refuses_too(page: Any) -> None:
    answer = page.post("/api/v2/dags/schemamig_control/dagRuns", json={"logical_date": None, "conf": {"action": "stop"}})
    assert answer.status_code == 400, "or the test before would see no mistake"


@pytest.mark.some(1)
@pytest.mark.parametrize("dag_id", SHIPPED)
def test_the_tasks_take_what_the_form_sends(page: Any, run_dag: RunDag, monkeypatch: pytest.MonkeyPatch, dag_id: str) -> None:
    monkeypatch.setattr(SchemamigHook, "environment", property(lambda hook: f"opened {hook.schemamig_conn_id}"))
    verbs: Any = install(monkeypatch, FakeVerbs(due=False))
    verbs.verify_environment = verbs.watch_keys = lambda *arguments: Verified()
    verbs.restore_rows = lambda *ends, **options: SimpleNamespace(version=1, table_version=2, rows=3)
    verbs.collections = ()
    for name in ("pause", "postpone", "resume", "throttle", "force"):
        monkeypatch.setattr(controls, name, lambda env, collection, **said: Control(collection or "*"))
    monkeypatch.setattr(controls, "still_paused", lambda env, written: ())
    verbs.hold_over = dag_id == "schemamig_end_hold"
    verbs.approve = lambda env, generation, plan, by: SimpleNamespace(plan_digest=plan, approved_by=by)
    verbs.pin = lambda env, collection, holder, hours: Pin(
        ShardId("s1"), holder, hours, (), (hours,), "ann", pendulum.now(), given_up=False
    )
    verbs.unpin = lambda env, collection, holder: True
    verbs.revert = verbs.unmanage = lambda env, collection, **said: SimpleNamespace(to_json=lambda: {"collection": collection})
    monkeypatch.setattr("airflow_provider_schemamig.operators.replicas.StreamChunksOperator.execute", lambda task, context: [])
    conf = {name: param["value"] for name, param in form(page, dag_id).items()} | SAID.get(dag_id, {})
    if dag_id == "schemamig_replicate":
        conf["minutes"] = 0  # or the test would wait for so long
    found = run_dag(dag_id, **conf)
    assert {task: found[task][0] for task in TASKS[dag_id]} == TASKS[dag_id]
    assert found[""][0] == "success"


def test_a_run_with_a_misspelt_parameter_is_refused(run_dag: RunDag) -> None:
    found = run_dag("schemamig_rollback", generatoin=7)
    assert (found["rollback"], found[""][0]) == (("failed", 1), "failed")


def test_the_page_knows_which_dags_upgrade_and_what_their_forms_call_the_environment(page: Any) -> None:
    from airflow_provider_schemamig.web.runs import upgrade_dags

    (dag,) = upgrade_dags()
    assert dag.dag_id == "schemamig_upgrade"
    assert dag.given({"environment": "lake"}) == "lake" and dag.given({}) == dag.defaults["environment"]
