"""What the list of environments, and what programs read beside it, say of all environments together."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.page.app import Page
from tests.support.page.lakes import fresh
from tests.support.replicas import make_replicas

pytestmark = pytest.mark.airflow


def test_the_count_of_paused_leaves_out_what_is_only_postponed(page: Page, tmp_path: Path) -> None:
    lake = fresh(tmp_path)
    page.connect("lake", lake.env.location.uri)
    commands.postpone(lake.env, None, by="ann")
    assert "<b>0</b> paused" in page.view("/")
    page.post("/env/lake/pause", {"collection": "flights", "reason": "a test"})
    assert "<b>1</b> paused" in page.view("/")


def test_programs_are_told_that_an_environment_was_not_read_yet(page: Page, tmp_path: Path) -> None:
    page.connect("lake", fresh(tmp_path).env.location.uri)
    first = page.get("/api/environments").json()["environments"][0]
    assert first["stale"] is (first["overview"] is None)
    page.view("/")
    again = page.get("/api/environments").json()["environments"][0]
    assert (again["stale"], again["overview"]["version"]) == (False, "1.0.0")


def test_streams_call_environments_by_their_names_on_the_page(page: Page, tmp_path: Path) -> None:
    replicas = make_replicas(tmp_path)
    replicas.insert("a", {"id": 1, "v": "x"})
    replicas.bring("a", "b")
    ids = {name: lake.state.config.env_id for name, lake in replicas.lakes.items()}
    page.connect("target", replicas.lakes["b"].env.location.uri)
    assert ids["a"] in page.view("/env/target/streams")
    page.connect("first", replicas.lakes["a"].env.location.uri)
    page.view("/")
    view = page.view("/env/target/streams")
    assert f'first <code class="dim" title="{ids["a"]}">{ids["a"][:8]}</code>' in view
    assert f'Environment id<dd><code class="break">{ids["b"]}</code>' in view
    assert ids["b"] in page.view("/env/target/deployments/newest")
