"""An approval on the page: the ledger and Airflow's own waiting approval say the same, or neither is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pendulum
import pytest

from tests.support.lake import Lake, make_lake
from tests.support.page.app import Page
from tests.support.upgrades import claimed

pytestmark = pytest.mark.airflow


@pytest.fixture
def lake(page: Page, tmp_path: Path) -> Lake:
    found = make_lake(tmp_path)
    found.upgrade(found.first)
    claimed(found, found.second)
    page.connect("lake", found.env.location.uri)
    return found


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An approval of Airflow's that waits, and what it was answered; its database knows no run here."""
    from airflow_provider_schemamig.web import runs

    class Waiting:
        assigned: frozenset[str] = frozenset()
        answers: list[tuple[str, bool]] = []  # noqa: RUF012
        waits = True

        rejected_at: pendulum.DateTime | None = None

        def found(self, claimed_by: str, plan_digest: str) -> runs.WaitingApproval | None:
            found = runs.WaitingApproval("schemamig_upgrade", "run", "upgrade.approval", -1, self.rejected_at, self.assigned)
            return found if self.waits else None

    waiting = Waiting()
    waiting.answers = []
    monkeypatch.setattr(runs, "waiting_approval", waiting.found)
    monkeypatch.setattr(runs, "answer", lambda found, user, *, approve: waiting.answers.append((user.get_name(), approve)))
    return waiting


def plan(page: Page) -> dict[str, Any]:
    deployment = page.document("lake", "deployment")["deployment"]
    return {"reason": "looked at it", "generation": deployment["generation"], "plan": deployment["plan_digest"]}


def test_an_approval_is_written_and_airflows_is_answered(page: Page, lake: Lake, airflow: Any) -> None:
    answer = page.post("/env/lake/approve", plan(page), who="op")
    assert answer.status_code == 200 and "Airflow's approval is answered" in answer.json()["text"]
    assert airflow.answers == [("op", True)]
    assert page.document("lake", "deployment")["deployment"]["approved_by"] == "op"
    assert "looked at it" in page.get("/env/lake/history.csv").text


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_who_may_not_answer_airflows_approval_leaves_the_ledger_as_it_was(page: Page, lake: Lake, airflow: Any, verb: str) -> None:
    airflow.assigned = frozenset(("ann",))
    asked, before = plan(page), lake.state.version
    answer = page.post(f"/env/lake/{verb}", asked, who="admin")
    assert answer.status_code == 403 and "assigned to others" in answer.json()["detail"]
    assert lake.state.version == before and airflow.answers == []
    assert page.document("lake", "history")["entries"][0]["what"] not in ("approve", "reject asked")


def test_approvals_who_it_is_assigned_to_may(page: Page, lake: Lake, airflow: Any) -> None:
    airflow.assigned = frozenset(("op",))
    assert page.post("/env/lake/approve", plan(page), who="op").status_code == 200
    assert airflow.answers == [("op", True)]


def test_a_plan_that_is_another_by_now_is_not_approved(page: Page, lake: Lake, airflow: Any) -> None:
    answer = page.post("/env/lake/approve", {**plan(page), "plan": "0" * 64})
    assert answer.status_code == 409 and answer.json()["error"]["code"] == "plan_changed"
    assert airflow.answers == []


def test_a_rejection_answers_no_and_is_remembered(page: Page, lake: Lake, airflow: Any) -> None:
    assert page.post("/env/lake/reject", plan(page)).status_code == 200
    assert airflow.answers == [("admin", False)]
    entry = page.document("lake", "history")["entries"][0]
    about = plan(page)
    assert (entry["what"], entry["who"], entry["detail"]) == ("reject", "admin", f"{about['plan']}; because: looked at it")


def test_a_rejected_plan_says_so_and_takes_no_answer_any_more(page: Page, lake: Lake, airflow: Any) -> None:
    page.post("/env/lake/reject", {**plan(page), "reason": "not before Monday"}, who="op")
    airflow.waits = False
    view = page.view("/env/lake/deployments/newest")
    assert "Rejected" in view and "by op" in view and "not before Monday" in view and "start the upgrade again" in view
    assert 'data-verb="approve"' not in view and 'data-verb="reject"' not in view and 'data-verb="cancel"' in view
    assert "rejected" in page.view("/")
    answer = page.post("/env/lake/approve", plan(page))
    assert answer.status_code == 409 and answer.json()["error"]["code"] == "plan_rejected"


def test_a_rejected_plan_is_approved_where_its_gate_asks_again(page: Page, lake: Lake, airflow: Any) -> None:
    page.post("/env/lake/reject", plan(page))
    answer = page.post("/env/lake/approve", plan(page))
    assert answer.status_code == 409 and answer.json()["error"]["code"] == "plan_rejected", "it has asked since before the no"
    rejected = lake.state.deployments[plan(page)["generation"]].rejected
    assert rejected is not None
    airflow.rejected_at = rejected.at
    assert 'data-verb="approve"' in page.view("/env/lake/deployments/newest"), "it was cleared, and waits"
    assert page.post("/env/lake/approve", plan(page)).status_code == 200
    deployment = page.document("lake", "deployment")["deployment"]
    assert (deployment["rejected"], deployment["approved_by"]) == (None, "admin")


def test_a_rejection_gives_the_generation_up_where_the_ledger_is_the_gate(
    page: Page, lake: Lake, airflow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_provider_schemamig.web import runs

    airflow.waits = False
    sent: list[Any] = []
    monkeypatch.setattr(runs, "check_startable", lambda dag_id: None)

    def start(dag_id: str, user: Any, conf: Any) -> str:
        sent.append((dag_id, conf))
        return "run 1"

    monkeypatch.setattr(runs, "start", start)
    assert page.post("/env/lake/reject", plan(page)).status_code == 200
    assert sent == [("schemamig_control", {"environment": "lake", "action": "cancel", "generation": 2})]
    view = page.view("/env/lake/deployments/newest")
    assert 'data-verb="reject"' in view and 'data-verb="approve"' in view and "Airflow's approval waits" not in view


def test_a_run_that_would_not_begin_is_not_written_down(page: Page, lake: Lake) -> None:
    answer = page.post("/env/lake/rollback", {"generation": 2, "reason": "a test"})
    assert answer.status_code == 409 and answer.json()["error"]["code"] == "run_not_started"
    assert "rollback asked" not in page.get("/env/lake/history.csv").text


def test_history_has_each_verb_once_with_its_reason_and_what_was_set(page: Page, lake: Lake, airflow: Any) -> None:
    asked: dict[str, dict[str, Any]] = {
        "pause": {},
        "resume": {},
        "postpone": {},
        "force": {"collection": "planes"},
        "throttle": {"rows_per_second": 5000, "window": "22-6"},
        "approve": plan(page),
    }
    for verb, fields in asked.items():
        assert page.post(f"/env/lake/{verb}", {**fields, "reason": f"why {verb}"}).status_code == 200
    entries = [entry for entry in page.document("lake", "history")["entries"] if entry["what"] in asked]
    assert [entry["what"] for entry in reversed(entries)] == list(asked)
    assert all(entry["detail"].count(f"why {entry['what']}") == 1 for entry in entries)
    assert "5,000 rows/s, only in the hours 22-6 UTC; because: why throttle" in page.view("/env/lake/history")
