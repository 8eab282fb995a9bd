"""What is refused after the commit does not make a failure of an upgrade, and status says who keeps a hold that is over."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_provider_schemamig.cli.main import app
from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.storage import StorageFull
from airflow_provider_schemamig.core.upgrade.tasks import leader
from tests.support.upgrades import deployed, heartbeat, make_holds_due, releases

WIDE, NARROW = "CREATE TABLE t (id BIGINT, x STRING);", "CREATE TABLE t (id BIGINT);"


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return releases(tmp_path, (WIDE, ""), (NARROW, 'evolution("t", drop=["x"])'))


def test_an_upgrade_whose_contract_waits_for_a_node_succeeds_with_a_note(tmp_path: Path, paths: list[Path]) -> None:
    lake = deployed(tmp_path, *paths)
    heartbeat(lake.env, "1.0.0")
    found = CliRunner().invoke(
        app, ["upgrade", "--env", lake.env.location.uri, "--release", str(paths[1]), "--hold", "0", "--json"], catch_exceptions=False
    )
    document = json.loads(found.stdout)
    assert (found.exit_code, lake.version) == (0, "1.1.0")
    assert {stage["kind"] for stage in document["stages"]} >= {"commit"}
    (note,) = document["notes"]
    assert note.startswith("The release is committed; only contract was not done: [hold_in_use]")
    assert "dashboard" in note
    (hold,) = document["pending"]
    assert (hold["state"], hold["over"]) == ("open", True)


def test_an_upgrade_with_nothing_to_do_succeeds_although_a_due_hold_is_in_use(tmp_path: Path, paths: list[Path]) -> None:
    lake = deployed(tmp_path, *paths)
    lake.upgrade(paths[1])
    make_holds_due(lake)
    heartbeat(lake.env, "1.0.0")
    outcome = lake.upgrade(paths[1])
    assert ["hold_in_use" in note for note in outcome.notes] == [True]
    assert [hold["over"] for hold in outcome.pending] == [True]


def _fails(*_: object, **__: object) -> None:
    raise StorageFull(uri="memory")


@pytest.mark.parametrize("name", ["clean_up", "contract_due"])
def test_a_store_that_fails_after_the_commit_is_told_in_a_note(
    tmp_path: Path, paths: list[Path], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    lake = deployed(tmp_path, *paths)
    monkeypatch.setattr(leader, name, _fails)
    outcome = lake.upgrade(paths[1], hold=timedelta(0))
    assert lake.version == "1.1.0"
    assert ["storage_full" in note for note in outcome.notes] == [True]


def test_status_names_the_node_that_keeps_a_hold_that_is_over(tmp_path: Path, paths: list[Path]) -> None:
    lake = deployed(tmp_path, *paths)
    lake.upgrade(paths[1])
    with lake.env.reader("t", "1.0.0", node="dashboard"):
        make_holds_due(lake)
        found = CliRunner().invoke(app, ["status", "--env", lake.env.location.uri])
        (hold,) = commands.status(lake.env).to_json()["holds"]
    assert "The hold of 1.1.0 ended" in found.stdout
    assert f"`schemamig rollback --env {lake.env.location.uri}` goes back to 1.0.0 until" in " ".join(found.stdout.split())
    assert "is open until" not in found.stdout
    assert "kept by node dashboard, which works with 1.0.0 since" in found.stdout
    (node,) = hold["kept_by"]
    assert (node["id"], node["release"], node["since"] < node["lease_until"]) == ("dashboard", "1.0.0", True)


def test_a_node_that_moved_on_keeps_no_hold(tmp_path: Path, paths: list[Path]) -> None:
    lake = deployed(tmp_path, *paths)
    lake.upgrade(paths[1])
    heartbeat(lake.env, "1.1.0")
    (hold,) = commands.status(lake.env).to_json()["holds"]
    assert (hold["over"], hold["kept_by"]) == (False, [])
