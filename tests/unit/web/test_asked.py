"""What the page tells of the runs that its buttons asked for: each until its end, a refused one with why and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig import run_notes
from airflow_provider_schemamig.core.upgrade.drift.errors import LossyRevert
from airflow_provider_schemamig.operators.refused import TaskRefused
from tests.support.lake import Lake, make_lake
from tests.support.page.app import Page
from tests.support.page.runs import Start, kept_of
from tests.support.tables import foreign

pytestmark = pytest.mark.airflow

REFUSAL = LossyRevert(collection="planes", losses=["extra has values"])


@pytest.fixture
def lake(page: Page, tmp_path: Path) -> Lake:
    found = make_lake(tmp_path)
    found.upgrade(found.first)
    page.connect("lake", found.env.location.uri)
    return found


def test_asked_runs_are_told_from_the_press_to_the_end(page: Page, lake: Lake, start: Start) -> None:
    start("schemamig_control", "queued", action="end_hold", generation=2)
    start("schemamig_rollback", "success", minutes_ago=5)
    view = page.view("/env/lake/deployments/newest")
    section = view.partition('aria-label="Asked for lately"')[2].partition("</section>")[0]
    for told in ("ann", "end_hold", "generation 2", "queued", "rollback", "success", '/dags/schemamig_control/runs/manual__0"'):
        assert told in section, told


def test_a_refused_run_is_red_with_its_code_and_what_to_do(page: Page, lake: Lake, start: Start) -> None:
    foreign.add_column(lake.path("planes"), "extra")
    start("schemamig_control", "failed", kept_of(TaskRefused(str(REFUSAL), REFUSAL)), action="revert", collection="planes")
    for path in ("/env/lake/drift", "/env/lake/deployments/newest"):
        view = page.view(path)
        assert "[lossy_revert] planes: reverting the change loses values" in view and "--allow-lossy" in view
        assert '<span class="tag bad">failed</span>' in view and "my own words" not in view
    front = page.view("/")
    assert "<b>1</b> asked for and failed" in front and "revert failed" in front and "lossy_revert" in front


def test_a_failed_run_without_a_word_leads_to_its_log(page: Page, lake: Lake, start: Start) -> None:
    start("schemamig_rollback", "failed")
    assert "The log of the run" in page.view("/env/lake/deployments/newest")


def test_asked_again_with_success_is_no_failure_any_more(page: Page, lake: Lake, start: Start) -> None:
    start("schemamig_control", "failed", minutes_ago=9, action="revert", collection="planes")
    start("schemamig_control", "success", minutes_ago=3, action="revert", collection="planes")
    start("schemamig_control", "failed", minutes_ago=60 * 30, action="revert", collection="stats")
    assert "<b>0</b> asked for and failed" in page.view("/")
    assert "stats" not in page.view("/env/lake/deployments/newest").partition("Asked for lately")[2].partition("</section>")[0]


def test_asked_runs_of_another_environment_are_not_told_here(page: Page, lake: Lake, start: Start, tmp_path: Path) -> None:
    page.connect("other", str(tmp_path / "other"))
    start("schemamig_rollback", "failed", environment="other")
    assert "Asked for lately" not in page.view("/env/lake/deployments/newest")


def test_asked_runs_are_for_who_may_see_them(page: Page, lake: Lake, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_schemamig.web import lately

    start("schemamig_rollback", "failed", kept_of(TaskRefused(str(REFUSAL), REFUSAL)))
    start("schemamig_control", "failed", action="revert", collection="planes")
    monkeypatch.setattr(lately, "may_see_runs", lambda user, dag_id: dag_id == "schemamig_control")
    view, front = page.view("/env/lake/deployments/newest"), page.view("/")
    assert "schemamig_control" in view and "schemamig_rollback" not in view and "lossy_revert" not in view
    assert "<b>1</b> asked for and failed" in front and "lossy_revert" not in front


def test_a_run_that_ended_draws_the_page_anew(page: Page, lake: Lake, start: Start) -> None:
    page.view("/env/lake/drift")
    etag = page.view("/env/lake/drift").partition('data-etag="')[2].partition('"')[0]
    assert page.get("/env/lake/drift", headers={"If-None-Match": etag}).status_code == 204
    start("schemamig_control", "running", action="unmanage", collection="planes")
    assert page.get("/env/lake/drift", headers={"If-None-Match": etag}).status_code == 200


@pytest.mark.parametrize("error", [ValueError("a bug"), None, "marked by hand"])
def test_a_failure_that_is_no_refusal_is_left_to_the_log(error: Any) -> None:
    assert kept_of(error) == ""


def test_the_note_of_a_failed_run_says_why_beside_what_people_wrote(page: Page, start: Start) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    start("schemamig_control", "failed", kept_of(TaskRefused(str(REFUSAL), REFUSAL)), action="revert", collection="planes")
    with create_session() as session:
        run = session.query(DagRun).filter(DagRun.dag_id == "schemamig_control").order_by(DagRun.id.desc()).first()
        assert run is not None
        run_notes.on_dag_run_failed(dag_run=run, msg="")
        lines = str(run.note).splitlines()
    assert lines[0] == "my own words" and lines[1].startswith("schemamig: revert failed: [lossy_revert] planes:")


def test_a_note_that_is_too_long_ends_between_words_and_in_no_command() -> None:
    told = "because " * 110 + "`schemamig accept --env URI --release /a/long/way/to/a/release/folder`"
    assert run_notes.cut(told) == "because " * 110 + "..."
    assert run_notes.cut("word " * 300).endswith("word ...")
    assert run_notes.cut("`a` short") == "`a` short"
