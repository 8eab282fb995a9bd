"""What the audit log keeps of online changes: begin, duration, outcome, commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, read_history
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.upgrade.alter import alter
from airflow_provider_schemamig.core.upgrade.context import controls
from airflow_provider_schemamig.core.upgrade.errors import DataViolation
from airflow_provider_schemamig.core.upgrade.tables.change_log import change_intent, made_since
from tests.support.lake import Crash, Lake
from tests.support.online import OnlineJobs
from tests.support.rows.tables import insert
from tests.support.upgrades import two_releases

A = CollectionName("a")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    after = "CREATE TABLE a (id BIGINT, n INT NOT NULL DEFAULT 7, CONSTRAINT pos CHECK (id > 0));"
    found = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", after, 'evolution("a")')
    insert(found.path("a"), [{"id": 1}])
    return found


def expanded(lake: Lake) -> Generation:
    generation = commands.preflight(lake.env, lake.second, jobs=OnlineJobs()).generation
    assert generation is not None
    commands.promote(lake.env, generation)
    commands.expand(lake.env, generation)
    return generation


def of_elements(lake: Lake) -> dict[str, HistoryEntry]:
    return {entry.what: entry for entry in read_history(lake.env) if entry.collection == A}


def test_every_element_that_came_to_its_end(lake: Lake) -> None:
    generation = expanded(lake)
    for _ in range(2):  # whose rerun finds it done, and remembers nothing
        commands.change(lake.env, generation, jobs=OnlineJobs())
    found = of_elements(lake)
    assert {what: (entry.outcome, entry.detail) for what, entry in found.items()} == {
        "change column:n": ("done", "1 metadata commit(s), 1 batch(es) of rows"),
        "change not_null:n": ("done", "2 metadata commit(s), 0 batch(es) of rows"),
        "change check:pos": ("done", "1 metadata commit(s), 0 batch(es) of rows"),
    }
    assert len([entry for entry in read_history(lake.env) if entry.collection == A]) == 3
    assert all(entry.generation == generation and entry.seconds >= 0 for entry in found.values())


def test_change_log_began_with_the_first_commit_of_the_run_that_was_killed(lake: Lake) -> None:
    generation, moment = expanded(lake), 0
    while not commands.status(lake.env).document["elements"]:
        with pytest.raises(Crash):
            commands.change(lake.crashing_at(moment), generation, jobs=OnlineJobs())
        moment += 1
    store = lake.env.table_store(lake.state.shard_of(A).uri)
    first = next(commit for commit in commits(store, 0) if (commit.about or {}).get("action") == "change")
    commands.change(lake.env, generation, jobs=OnlineJobs())
    for entry in of_elements(lake).values():
        assert abs(entry.started_at.timestamp() * 1000 - first.info["timestamp"]) < 1


def test_why_it_was_walked_back(lake: Lake) -> None:
    generation = expanded(lake)
    insert(lake.path("a"), [{"id": -1}])
    with pytest.raises(DataViolation):
        commands.change(lake.env, generation, jobs=OnlineJobs())
    found = of_elements(lake)
    assert {entry.outcome for entry in found.values()} == {"data_violation"}
    assert "walked back: 1 row(s) violate" in found["change check:pos"].detail


def test_change_log_what_a_rollback_took_back(lake: Lake) -> None:
    generation = expanded(lake)
    commands.change(lake.env, generation, jobs=OnlineJobs())
    commands.rollback(lake.env, jobs=OnlineJobs())
    undone = {what: entry.detail for what, entry in of_elements(lake).items() if what.startswith("undo ")}
    assert set(undone) == {"undo column:n", "undo not_null:n", "undo check:pos"}
    assert all(detail.startswith("it was PUBLIC since ") for detail in undone.values())


def test_change_log_what_others_committed_meanwhile(lake: Lake) -> None:
    generation = expanded(lake)
    commands.change(lake.env, generation, jobs=OnlineJobs())
    for number in (2, 3):
        insert(lake.path("a"), [{"id": number, "n": number}])
    intent = change_intent(lake.state, lake.state.objects[A].shard, generation)
    assert intent is not None
    made = made_since(lake.env, lake.state, intent)
    assert made is not None
    assert (made.ours, made.commits, made.others) == ({"change": 3, "backfill:n": 1}, 4, 2)


@dataclass
class Looking(OnlineJobs):
    """Looks at ``status`` whenever Spark would run."""

    lake: Lake = field(kw_only=True)
    seen: list[dict[str, Any]] = field(default_factory=list)

    def run(self, job: Any, request: Mapping[str, Any]) -> dict[str, Any]:
        self.seen.append({item["element"]: item for item in commands.status(self.lake.env).document["elements"]})
        return super().run(job, request)


def test_change_log_what_status_says_of_an_element(lake: Lake) -> None:
    generation, jobs = expanded(lake), Looking(lake=lake)
    commands.change(lake.env, generation, jobs=jobs)
    filling = next(seen for seen in jobs.seen if seen["column:n"]["state"] == "reorg")
    checking = next(seen for seen in jobs.seen if seen["check:pos"]["state"] == "validate")
    column, check = filling["column:n"], checking["check:pos"]
    assert (column["state"], column["phase"], column["waits"], column["error"]) == ("reorg", "backfill", None, None)
    progress = {name: column["progress"][name] for name in ("stage", "unit", "done", "total")}
    assert progress == {"stage": "backfill n", "unit": "files", "done": 0, "total": 1}
    assert column["commits"] == {"metadata": 1, "batches": 0, "others": 0}
    assert (check["state"], check["phase"], check["progress"]) == ("validate", "validation", None)
    assert jobs.seen[-1]["column:n"]["commits"]["batches"] == 1
    assert {item["phase"] for item in commands.status(lake.env).document["elements"]} == {"done"}


def test_change_log_what_an_element_waits_for(lake: Lake) -> None:
    generation, jobs = expanded(lake), Looking(lake=lake)
    jobs.run = _died  # type: ignore[method-assign]
    with pytest.raises(Crash):
        commands.change(lake.env, generation, jobs=jobs)
    controls.pause(lake.env, "a")
    waits = {item["element"]: (item["phase"], item["waits"]) for item in commands.status(lake.env).document["elements"]}
    phase, why = waits["column:n"]
    assert (phase, why.startswith("paused by ")) == ("backfill", True)


def _died(job: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    raise Crash


def test_change_log_a_clustering(lake: Lake) -> None:
    """The one work on rows that is no backfill."""
    jobs = Looking(lake=lake)
    alter(lake.env, "ALTER TABLE a CLUSTER BY (id)", jobs=jobs)
    element = jobs.seen[-1]["clustering"]
    assert (element["phase"], element["progress"]["stage"], element["commits"]["metadata"]) == ("clustering", "cluster", 1)
    assert of_elements(lake)["change clustering"].detail == "1 metadata commit(s), 1 batch(es) of rows"
