"""What docs/runbook.md says to press: the tasks of the DAGs and the verbs of the page, on an environment that something is wrong with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.upgrade.drift.errors import LossyRevert
from airflow_provider_schemamig.operators.control import CancelOperator, ResumeOperator
from airflow_provider_schemamig.operators.drift import RevertOperator, UnmanageOperator
from airflow_provider_schemamig.operators.leader import ContractOperator
from airflow_provider_schemamig.operators.rollback import RollbackOperator
from airflow_provider_schemamig.web import verbs
from tests.support.airflow.final_refusals import fails_for_good
from tests.support.lake import Lake, append, copy_of
from tests.support.tables import foreign
from tests.support.upgrades import claimed, heartbeat, make_holds_due, promoted, whole
from tests.unit.runbook.book import entries
from tests.unit.runbook.scenes import make_first, make_releases, make_second


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("runbook")
    return make_first(folder, make_releases(folder / "releases"))


@pytest.fixture
def first(template: Lake, tmp_path: Path) -> Lake:
    """At 1.0.0, with a row."""
    return copy_of(template, tmp_path)


@pytest.fixture
def second(template: Lake, tmp_path: Path) -> Lake:
    """At 1.1.0, its way back open."""
    return make_second(tmp_path, template)


def press(title: str, word: str, lake: Lake, kind: Any, **arguments: Any) -> Any:
    """What the task returns; the entry names it by this word."""
    assert word in entries()[title].labels["Press"]
    run_of_ann: Any = {"dag_run": SimpleNamespace(dag_id="d", run_id="r", triggering_user_name="ann")}
    context = {
        **run_of_ann,
        "dag": SimpleNamespace(folder=""),
        "ti": SimpleNamespace(task_id="t", map_index=-1, try_number=1, run_id="r", dag_id="d"),
    }
    return kind(task_id="t", environment=lake.env.location.uri, **arguments).execute(context)


def test_drift_is_reverted(first: Lake) -> None:
    foreign.add_column(first.path("t"), "extra")
    press("Drift", "Revert", first, RevertOperator, collection="t")
    whole(first)


def test_drift_with_values_in_it_is_reverted_only_by_order(first: Lake) -> None:
    foreign.add_column(first.path("t"), "extra")
    foreign.write(first.path("t"), [{"id": 2, "extra": "mine"}])
    with fails_for_good(LossyRevert):
        press("Drift", "Revert", first, RevertOperator, collection="t")
    press("Drift", "Revert", first, RevertOperator, collection="t", allow_lossy="True")
    whole(first)


def test_a_drifted_table_is_given_back(first: Lake) -> None:
    foreign.add_column(first.path("t"), "extra")
    press("Drift", "Unmanage", first, UnmanageOperator, collection="t")
    whole(first)


@pytest.mark.parametrize("is_promoted", [False, True])
def test_an_upgrade_is_cancelled(first: Lake, is_promoted: bool) -> None:
    generation = (promoted if is_promoted else claimed)(first, first.second)
    press("Rows do not fit", "Cancel", first, CancelOperator, generation=str(generation))
    assert first.version == "1.0.0"
    whole(first)


def test_a_release_is_rolled_back(second: Lake) -> None:
    append(second.path("t"), [{"id": 2, "b": "z"}])
    press("Readers or writers are fenced", "Roll back", second, RollbackOperator)
    assert second.version == "1.0.0"
    whole(second)


def test_a_hold_ends_by_itself_once_the_node_is_gone(second: Lake) -> None:
    heartbeat(second.env, "1.0.0", seconds=-1)
    make_holds_due(second)
    press("A hold does not end", "schemamig_maintenance", second, ContractOperator)
    assert commands.status(second.env).document["holds"] == []
    whole(second)


@pytest.mark.parametrize("on_the_page", [True, False])
def test_runbook_what_is_paused_is_resumed(first: Lake, on_the_page: bool) -> None:
    commands.pause(first.env, None, by="ann", reason="late loaders")
    if on_the_page:
        assert "*Resume*" in entries()["Paused and nobody knows why"].labels["Press"]
        verbs.resume(first.env, "bob", collection=None, reason="they are here")
    else:
        press("Paused and nobody knows why", "Resume", first, ResumeOperator)
    first.upgrade(first.second)
    assert first.version == "1.1.0"


def test_a_gate_that_timed_out_is_approved_on_the_page(first: Lake) -> None:
    found = commands.preflight(first.env, first.second, jobs=lambda: pytest.fail("no Spark"))
    assert found.generation is not None
    assert "approve on the page" in entries()["The gate timed out"].labels["Press"]
    verbs.approve(first.env, "bob", generation=found.generation, plan=found.plan_digest, reason="read it")
    assert commands.approved(first.env, found.generation), "ledger_approval passes once it is cleared"
