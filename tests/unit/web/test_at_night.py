"""What somebody reads on the page at night, who knows nothing of what went on: each place says what it is, and where to go on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.html.runbook import entry_of
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.errors import DriftFound
from airflow_provider_schemamig.exceptions import SchemamigError
from airflow_provider_schemamig.operators.refused import TaskRefused
from airflow_provider_schemamig.web import lately, pages, places
from airflow_provider_schemamig.web.runs import UpgradeDag
from tests.support.lake import Crash, Lake, append
from tests.support.page.app import Page
from tests.support.page.lakes import fresh, sealed
from tests.support.page.runs import Start, kept_of
from tests.support.tables import foreign
from tests.support.upgrades import claimed, expanded

pytestmark = pytest.mark.airflow
NEWEST = "/env/lake/deployments/newest"


@pytest.fixture
def lake(page: Page, tmp_path: Path) -> Lake:
    found = fresh(tmp_path)
    page.connect("lake", found.env.location.uri)
    return found


def section(view: str, name: str) -> str:
    return view.partition(f'aria-label="{name}"')[2].partition("</section>")[0]


def anew(page: Page, path: str) -> str:
    """Return a view of what is there now: nothing that was read before is known."""
    pages.reader._known.clear()
    page.view(path)
    return page.view(path)


def text(html: str) -> str:
    """What of it is read: words and spaces."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", html)).strip()


def about_to_seal(folder: Path) -> Lake:
    """An upgrade that died after it had announced its seals, before it made the first."""
    found = fresh(folder)
    expanded(found, found.second)
    for write in range(1, 200):
        try:
            commands.cutover(found.crashing_at(write), Generation(2))
        except Crash:
            if any(str(intent.kind) == "seal" for intent in found.state.intents.values()):
                return found
    raise AssertionError("no seal was ever announced")


def test_a_seal_of_an_open_upgrade_leads_to_how_it_is_ended(page: Page, tmp_path: Path) -> None:
    lake = sealed(tmp_path)
    page.connect("lake", lake.env.location.uri)
    entry = f"runbook#{entry_of('half_way')}"
    flying = section(page.view(NEWEST), "In flight")
    assert ": sealed, its writers are refused" in text(flying) and entry in flying and entry_of("sealed") not in flying
    shut = next(name for name, item in commands.status(lake.env).to_json()["collections"].items() if item["sealed"])
    for view in (page.view(f"/env/lake/tables/{shut}"), page.view("/")):
        after = view.partition("sealed</span>")[2].partition("what to do")[0]
        assert entry in after and entry_of("sealed") not in after


def test_a_seal_that_was_only_begun_says_so(page: Page, tmp_path: Path) -> None:
    page.connect("lake", about_to_seal(tmp_path).env.location.uri)
    flying = text(section(page.view(NEWEST), "In flight"))
    assert "seal, begun: its writers still write" in flying and "its writers are refused" not in flying


@pytest.mark.parametrize("make", [fresh, sealed])
def test_pause_and_resume_are_offered_whatever_is_under_way(page: Page, tmp_path: Path, make: Callable[[Path], Lake]) -> None:
    lake = make(tmp_path)
    page.connect("lake", lake.env.location.uri)
    commands.pause(lake.env, None, by="ann", reason="month end")
    view = page.view(NEWEST)
    assert "month end" in view and 'data-verb="resume"' in view and 'data-verb="pause"' in view
    assert page.post("/env/lake/resume").status_code == 200
    assert "month end" not in section(anew(page, NEWEST), "Pauses and limits")


# --- upgrades that failed before they claimed a generation ---------------------------------------------------------------------------

DRIFTED = DriftFound(collection="planes", differences=["unknown column extra (STRING)"])


@pytest.fixture
def upgrade_dag(monkeypatch: pytest.MonkeyPatch) -> str:
    """A DAG whose form has the environment ``lake``."""
    dag = UpgradeDag("nightly_upgrade", "{{ params.environment }}", "release", {"environment": "lake"}, "")
    monkeypatch.setattr(lately, "upgrade_dags", lambda: (dag,))
    monkeypatch.setattr(places, "environment_of_run", lambda dag_id, run_id: "lake")
    return dag.dag_id


def told_of(error: SchemamigError) -> str:
    return kept_of(TaskRefused(str(error), error))


def test_a_run_that_failed_before_its_claim_says_so_on_its_tab(page: Page, lake: Lake, start: Start, upgrade_dag: str) -> None:
    run_id = start(upgrade_dag, "failed", told_of(DRIFTED))
    view = page.view(f"/run?dag_id={upgrade_dag}&run_id={run_id}")
    shown = section(view, "The run")
    assert '<span class="tag bad">failed</span>' in shown and f"runbook#{entry_of('drift')}" in shown
    assert "[drift] planes" in text(shown) and "ann" in text(shown)
    busy = start(upgrade_dag, "running")
    assert '<span class="tag busy">running</span>' in section(page.view(f"/run?dag_id={upgrade_dag}&run_id={busy}"), "The run")


def test_the_tab_of_a_failed_run_without_an_environment_says_so(
    page: Page, start: Start, upgrade_dag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "environment_of_run", lambda dag_id, run_id: None)
    view = page.view(f"/run?dag_id={upgrade_dag}&run_id={start(upgrade_dag, 'failed')}")
    assert "No task of this run has worked on an environment yet." in view
    assert '<span class="tag bad">failed</span>' in view and "The log of the run" in view


def test_a_run_on_its_tab_is_for_who_may_see_runs(
    page: Page, lake: Lake, start: Start, upgrade_dag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = start(upgrade_dag, "failed", told_of(DRIFTED))
    for module in (pages, lately):
        monkeypatch.setattr(module, "may_see_runs", lambda user, dag_id: False)
    assert "[drift]" not in page.view(f"/run?dag_id={upgrade_dag}&run_id={run_id}") and "upgrade failed" not in page.view("/")


def test_a_failed_upgrade_is_named_until_one_succeeds(page: Page, lake: Lake, start: Start, upgrade_dag: str) -> None:
    page.connect("other", lake.env.location.uri + "/none")
    start(upgrade_dag, "failed", told_of(DRIFTED), minutes_ago=60 * 50)
    front = page.view("/")
    assert "<b>1</b> upgrades failed" in front and front.count("upgrade failed") == 1 and f"runbook#{entry_of('drift')}" in front
    start(upgrade_dag, "success", minutes_ago=30, environment="other")
    assert "<b>1</b> upgrades failed" in page.view("/")
    start(upgrade_dag, "success", minutes_ago=20)
    assert "<b>0</b> upgrades failed" in page.view("/") and "upgrade failed" not in page.view("/")


def test_a_run_that_claimed_is_told_of_by_its_deployment_alone(page: Page, lake: Lake, start: Start, upgrade_dag: str) -> None:
    run_id = start(upgrade_dag, "failed")
    claimed(lake, lake.second, claim_id=f"airflow:{upgrade_dag}/{run_id}/preflight")
    assert "upgrade failed" not in page.view("/")
    assert f'href="/dags/{upgrade_dag}/runs/{run_id}"' in section(page.view(NEWEST), "Deployment")


# --- what stands beside a deployment -------------------------------------------------------------------------------------------------


def test_a_told_refusal_is_red_whatever_airflow_calls_its_run(page: Page, lake: Lake, start: Start) -> None:
    said = "schemamig: nothing is ended: [hold_in_use] reader dashboard-7 needs what it keeps"
    start("schemamig_control", "success", said, action="end_hold", generation=1)
    lines = section(page.view(NEWEST), "Asked for lately")
    assert '<span class="tag bad">success</span>' in lines and f"runbook#{entry_of('hold_in_use')}" in lines
    front = page.view("/")
    assert "<b>1</b> asked for and failed" in front and "end_hold refused" in front


def test_a_claim_without_an_answer_waits_for_approval(page: Page, lake: Lake) -> None:
    assert "waits for approval" not in page.view("/")
    generation = claimed(lake, lake.second)
    assert "waits for approval" in anew(page, "/")
    plan = page.document("lake", "deployment")["deployment"]["plan_digest"]
    page.post("/env/lake/approve", {"generation": int(generation), "plan": plan, "reason": "a test"})
    assert "waits for approval" not in anew(page, "/")
    shown = text(page.view(NEWEST))
    assert f"schemamig promote --env {lake.env.location.uri} --generation {generation}" in shown


def test_an_approved_claim_of_a_run_is_left_to_that_run(page: Page, lake: Lake) -> None:
    generation = claimed(lake, lake.second, claim_id="airflow:nightly_upgrade/manual__1/preflight")
    plan = page.document("lake", "deployment")["deployment"]["plan_digest"]
    assert page.post("/env/lake/approve", {"generation": int(generation), "plan": plan, "reason": "a test"}).status_code == 200
    shown = text(page.view(NEWEST))
    assert "The run that claimed it promotes it, and goes on." in shown and "schemamig promote" not in shown


def test_a_deployment_says_that_its_environment_drifted(page: Page, lake: Lake) -> None:
    foreign.add_column(lake.path("planes"), "extra")
    anew(page, "/")
    view = page.view(NEWEST)
    line = view.partition("1 drifted")[2].partition("</p>")[0]
    assert 'href="../../../env/lake/drift"' in view and f"runbook#{entry_of('drift')}" in line


def test_a_dialog_is_told_its_table_and_what_is_lost(page: Page, lake: Lake) -> None:
    foreign.add_column(lake.path("planes"), "extra")
    append(lake.path("planes"), [{"tailnum": "N1", "year": 2001, "extra": "x"}])
    buttons = re.findall(r"data-verb=\"revert\" data-about='([^']*)'", page.view("/env/lake/drift"))
    abouts = [json.loads(unescape(found)) for found in buttons]
    assert [about["collection"] for about in abouts] == ["planes"] and any("extra" in loss for loss in abouts[0]["losses"])


def test_the_plan_says_before_what_it_says_after_of_blocked_writers(page: Page, lake: Lake) -> None:
    words = "Writers are blocked for less than a second, from the seal to the commit: legacy"
    claimed(lake, lake.second)
    assert words in text(section(page.view(NEWEST), "What it costs"))
    lake.upgrade(lake.second)
    after = text(section(anew(page, NEWEST), "What it costs"))
    assert f"Planned: {words}" in after and "legacy: writers were blocked for" in after
