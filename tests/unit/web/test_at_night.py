"""What somebody reads on the page at night, who knows nothing of what went on: each place says what it is, and where to go on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.html.runbook import entry_of
from airflow_provider_schemamig.core.names import Generation
from tests.support.lake import Crash, Lake
from tests.support.page.app import Page
from tests.support.page.lakes import fresh, sealed
from tests.support.upgrades import expanded

pytestmark = pytest.mark.airflow
NEWEST = "/env/lake/deployments/newest"


def section(view: str, name: str) -> str:
    return view.partition(f'aria-label="{name}"')[2].partition("</section>")[0]


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
    assert "its writers are refused" in flying and entry in flying and entry_of("sealed") not in flying
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
    assert "month end" not in section(page.view(NEWEST), "Pauses and limits")
