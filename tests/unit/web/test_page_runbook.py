"""From each red thing on the page to its entry in the runbook, which the page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.html.runbook import SIGNS, entry_of, runbook_html
from tests.support.page.app import Page
from tests.support.page.lakes import drifted, failed
from tests.unit.runbook.book import entries

ANCHORS = set(re.findall(r'<h[1-6] id="([^"]+)"', runbook_html()))


def test_every_code_and_sign_leads_to_an_entry_that_is_there() -> None:
    assert set(SIGNS.values()) <= set(entries())
    for entry in entries().values():
        assert {entry_of(code) for code in entry.codes} <= {entry.anchor} <= ANCHORS, entry.title
    assert {entry_of(sign) for sign in SIGNS} <= ANCHORS and entry_of("no such code") == ""


def test_red_that_says_only_that_it_was_refused_leads_to_the_entry_of_its_first_reason() -> None:
    several = "[refused] 2 reason(s) against it:\n  - [drift] planes: somebody added x. - [drift] flights: ..."
    assert entry_of("refused", several) == entry_of("drift") != entry_of("refused")
    assert entry_of("failed", "[hold_in_use] a node needs it") == entry_of("hold_in_use") != entry_of("failed")
    assert entry_of("drift", "[hold_in_use] beside it") == entry_of("drift")
    assert entry_of("refused", "for whatever reason") == entry_of("refused")


def test_links_of_the_runbook_lead_to_what_is_there() -> None:
    assert set(re.findall(r'href="([^"]*)"', runbook_html())) <= {f"#{anchor}" for anchor in ANCHORS}


@pytest.mark.airflow
@pytest.mark.parametrize(
    ("make", "path", "anchor"),
    [
        (drifted, "/", "drift"),
        (drifted, "/env/lake/drift", "drift"),
        (drifted, "/env/lake/tables/planes", "drift"),
        (failed, "/", entry_of("spark_driver_died")),
        (failed, "/env/lake/deployments/newest", entry_of("spark_driver_died")),
        (failed, "/env/lake/history", entry_of("spark_driver_died")),
        (None, "/", entry_of("no_environment")),
        (None, "/env/lake/tables", entry_of("no_environment")),
    ],
)
def test_red_leads_to_its_entry(page: Page, tmp_path: Path, make: Any, path: str, anchor: str) -> None:
    page.connect("lake", make(tmp_path).env.location.uri if make else str(tmp_path / "none"))
    links = re.findall(r'<a class="help" href="([^"]+)"', page.view(path))
    assert any(link.endswith(f"/runbook#{anchor}") for link in links), links
    book = page.get("/runbook")
    assert book.status_code == 200 and f'id="{anchor}"' in book.text
