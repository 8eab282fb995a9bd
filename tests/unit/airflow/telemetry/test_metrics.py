"""What Airflow's metrics are told of online changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.observability import stats

from airflow_provider_schemamig.core.progress import COUNTERS, GAUGES, Event
from airflow_provider_schemamig.core.schema.element_states import ElementState
from airflow_provider_schemamig.core.upgrade.alter import alter
from airflow_provider_schemamig.metrics import metered
from airflow_provider_schemamig.operators.leader import ExpandOperator
from tests.support.lake import rows
from tests.support.online import OnlineJobs
from tests.support.rows.tables import change, insert
from tests.support.upgrades import two_releases

Told = list[tuple[str, float, dict[str, str]]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    found: Told = []
    for name in ("gauge", "incr"):
        monkeypatch.setattr(stats, name, lambda stat, value, *, tags: found.append((stat, value, tags)))
    return found


def of(told: Told, measure: str, **tags: str) -> list[float]:
    return [value for stat, value, found in told if stat == f"schemamig.{measure}" and tags.items() <= found.items()]


def test_an_online_change(told: Told, tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, n INT);", 'evolution("a")')
    for number in (1, 2):
        insert(lake.path("a"), [{"id": number}])
    heard: list[Event] = []

    alter(lake.env, "ALTER TABLE a ADD COLUMN n INT DEFAULT 7", jobs=OnlineJobs(), listen=metered(heard.append, "lake"))

    order = [ElementState.DELETE, ElementState.WRITE, ElementState.REORG, ElementState.PUBLIC]
    states = of(told, "element_state", environment="lake", collection="a", element="column:n")
    assert [list(ElementState)[int(value)] for value in states] in (order, order[1:])
    assert of(told, "done", stage="backfill n")[-1] == of(told, "total", stage="backfill n")[-1] == 2
    assert of(told, "rows", stage="backfill n", collection="a")[-1] == 2
    assert sum(of(told, "commits", stage="change")) == 1
    assert sum(of(told, "commits", stage="backfill")) == 1
    assert "column:n is PUBLIC" in [event.note for event in heard], "the log hears it, too"


@dataclass
class Meddling(OnlineJobs):
    """Somebody changes a row of the file while Spark rewrites it for the first time."""

    table: Path = field(kw_only=True)
    meddled: bool = False

    def run(self, job: Any, request: Mapping[str, Any]) -> dict[str, Any]:
        found = super().run(job, request)
        if job != "preflight" and not self.meddled:
            self.meddled = True
            change(self.table, lambda row: {**row, "id": row["id"] + 10})
        return found


def test_a_batch_that_lost(told: Told, tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, n INT);", 'evolution("a")')
    insert(lake.path("a"), [{"id": 1}])
    jobs = Meddling(table=lake.path("a"))
    alter(lake.env, "ALTER TABLE a ADD COLUMN n INT DEFAULT 7", jobs=jobs, listen=metered(lambda event: None, "lake"))
    assert of(told, "aborted_tries", collection="a") == [1]
    assert rows(lake.path("a")) == [{"id": 11, "n": 7}]


def test_metrics_what_is_told_to_whom(told: Told) -> None:
    heard: list[Any] = []
    event = Event("backfill n", "a", measures={"aborted_tries": 1, "rows": 5, "unknown": 3})
    metered(heard.append, "lake")(event)
    tags = {"environment": "lake", "collection": "a", "stage": "backfill n"}
    assert told == [("schemamig.aborted_tries", 1, tags), ("schemamig.rows", 5, tags)]
    assert heard == [event]
    assert set(GAUGES).isdisjoint(COUNTERS)


def test_every_operator_is_metered(told: Told) -> None:
    ExpandOperator(task_id="expand", environment="lake", generation=1).listener()(Event("expand", "a", 1, 1, 0.1, measures={"commits": 1}))
    assert told == [("schemamig.commits", 1, {"environment": "lake", "collection": "a", "stage": "expand"})]
