"""A rewrite through the shipped DAG: copied, followed while the gate waits, cut over. Spark's part is played, all else is real."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.upgrade.context.context import Outcome
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from tests.support.airflow.runs import Answer, RunDag
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import QUERIES, Rewritten, make_rewritten

pytestmark = pytest.mark.airflow


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> RowJobs:
    jobs = RowJobs(QUERIES)
    monkeypatch.setattr(SchemamigHook, "_make_runner", lambda hook, conn_id: jobs)
    return jobs


@pytest.fixture
def lake(tmp_path: Path) -> Rewritten:
    return make_rewritten(tmp_path)


def upgrade(run_dag: RunDag, lake: Rewritten, **params: Any) -> dict[str, tuple[str, int]]:
    return run_dag("schemamig_upgrade", environment=lake.env.location.uri, release=str(lake.lake.second), **params)


def write_while_it_waits(lake: Rewritten, person: Answer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A row comes in before each round of the tail; the person answers after the first. Returns the rounds."""
    rounds: list[str] = []
    real, deadline = commands.tail, time.monotonic() + 120

    def tail(env: Environment, *arguments: Any, **options: Any) -> Outcome:
        lake.insert("keyed", [{"id": 500 + len(rounds), "v": "5"}])
        outcome = real(env, *arguments, **options)
        rounds.extend(stage.collection or "" for stage in outcome.stages)
        if person.ident is None:
            person.start()
        assert time.monotonic() < deadline, "nobody answered, and this would go on for ever"
        return outcome

    monkeypatch.setattr(commands, "tail", tail)
    return rounds


@pytest.mark.some(1, of="flows of Airflow on a lake")
def test_rewrite_tail_is_followed_while_a_person_thinks(
    run_dag: RunDag, lake: Rewritten, played: RowJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Answer("Approve")
    rounds = write_while_it_waits(lake, person, monkeypatch)
    found = upgrade(run_dag, lake, gate="approval")
    assert [found[task][0] for task in ("fill", "tail", "promote", "cutover_and_commit", "")] == ["success"] * 5
    assert "keyed" in rounds
    lake.check("1.1.0")
    back = run_dag("schemamig_rollback", environment=lake.env.location.uri, allow_lossy=False)
    assert back["rollback"] == ("success", 1)
    lake.check("1.0.0")


@pytest.mark.soak
def test_a_rejection_ends_it_and_leaves_the_copy(
    run_dag: RunDag, lake: Rewritten, played: RowJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = write_while_it_waits(lake, Answer("Reject"), monkeypatch)
    found = upgrade(run_dag, lake, gate="approval")
    assert [found[task][0] for task in ("tail", "promote", "")] == ["success", "skipped", "success"]
    assert rounds
    lake.check("1.0.0")
    status = commands.status(lake.env).to_json()
    generation = status["deployments"][-1]["generation"]
    assert status["deployments"][-1]["state"] == "claimed"
    assert run_dag("schemamig_control", environment=lake.env.location.uri, action="cancel", generation=generation)["cancel"][0] == "success"
    lake.check_clean()
    assert not list(tables.folder_of(lake.env.location.uri).glob("*/g2-*"))
