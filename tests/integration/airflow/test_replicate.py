"""The shipped DAG that replicates, over two environments. Spark's part is played, all else is real."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider_schemamig.core.replication.stream.stored_state import read_states
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from airflow_provider_schemamig.operators.replicas import ReplicateCollectionOperator, RestoreCollectionOperator
from airflow_provider_schemamig.triggers import base
from tests.support.airflow.runs import RunDag
from tests.support.replicas import EVOLVE, FIRST, SECOND, Replicas, make_replicas
from tests.support.rows import tables

pytestmark = pytest.mark.airflow


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Replicas:
    made = make_replicas(tmp_path, (FIRST, ""), (SECOND, EVOLVE))
    monkeypatch.setattr(base, "settling_seconds", lambda: 0.0)  # no scheduler has to hear of the end of a process
    monkeypatch.setattr(SchemamigHook, "_make_runner", lambda hook, conn_id: made.runner)
    return made


class Upgrader(threading.Thread):
    """A person who upgrades the target once its stream is deferred; ``deferred``: the mapped task that was."""

    def __init__(self, two: Replicas) -> None:
        super().__init__(daemon=True)
        self.two = two
        self.deferred: list[str] = []

    def run(self) -> None:
        deadline = time.monotonic() + 120
        while not self.deferred and time.monotonic() < deadline:
            time.sleep(0.2)
            self.deferred = _deferred()
        self.two.upgrade("b", to=2)


def _deferred() -> list[str]:
    """The names of the mapped tasks that are deferred."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(TaskInstance).where(TaskInstance.task_id == "replicate.bring", TaskInstance.state == "deferred"))
        return [str(ti.rendered_map_index) for ti in found]


@pytest.mark.soak
def test_one_waits_and_goes_on_by_itself_after_the_upgrade(run_dag: RunDag, two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SCHEMAMIG__POLL_INTERVAL", "0.2")
    monkeypatch.setenv("AIRFLOW__SCHEMAMIG__RECOMPUTE_INTERVAL", "0.5")
    two.bring("a", "b", "trips", "lines")
    two.upgrade("a", to=2)
    two.insert("a", {"id": 1, "v": "x", "w": "w"})
    two.insert("a", {"line": "8", "n": 8}, collection="lines")
    person = Upgrader(two)
    person.start()
    found = run_dag("schemamig_replicate", **ends(two), minutes=0)
    assert person.deferred == ["trips"]
    assert {task: found[task][0] for task in found} == {
        "replicate.collections": "success",
        "replicate.bring": "success",
        "replicate.run_time": "success",
        "": "success",
    }
    assert found["replicate.bring"][1] == 1, "to wait is no failed try"
    assert two.rows("b") == two.rows("a")
    assert two.rows("b", "lines") == two.rows("a", "lines")
    assert not any(state.waits for state in read_states(two.env("b")))


def test_replicate_what_is_not_paused_is_brought_before_the_task_waits(two: Replicas) -> None:
    """With both in one task; in one process, Airflow runs mapped tasks one after the other, in any order."""
    two.bring("a", "b", "trips", "lines")
    two.upgrade("a", to=2)
    two.insert("a", {"id": 1, "v": "x", "w": "w"})
    two.insert("a", {"line": "8", "n": 8}, collection="lines")
    with pytest.raises(TaskDeferred) as caught:
        ReplicateCollectionOperator(task_id="bring", **ends(two), poll_interval=0.1, recompute=0.2).execute({})
    assert two.rows("b", "lines") == two.rows("a", "lines")
    assert two.rows("b") == []
    two.upgrade("b", to=2)

    async def event() -> Any:
        return await asyncio.wait_for(anext(caught.value.trigger.run()), 30)

    again = ReplicateCollectionOperator(task_id="bring", **ends(two), poll_interval=0.1, recompute=0.2)
    assert again.execute_complete({}, asyncio.run(event()).payload) == {"applied_rows": 2, "applied_batches": 2, "restores": 0}
    assert two.rows("b") == two.rows("a")


@pytest.mark.some(1, of="flows of Airflow on a lake")
def test_a_gap_fails_at_once_and_a_restore_mends_it(run_dag: RunDag, two: Replicas) -> None:
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b", "trips")
    two.change("a", lambda row: {**row, "v": "y"})
    tables.vacuum(two.path("a"))  # the change was not brought yet, and the file says no more what it changed
    found = run_dag("schemamig_replicate", **ends(two), collections=["trips"], minutes=0)
    assert found["replicate.bring"] == ("failed", 1)
    context: Any = {"ti": SimpleNamespace(dag_id="schemamig_restore", run_id="manual", task_id="restore", map_index=-1)}
    restore = RestoreCollectionOperator(task_id="restore", **ends(two), collection="trips")
    restored = restore.execute(context)
    assert (restored["version"], restored["rows"]) == (2, 1)
    assert restore.execute(context) == restored, "a second try finds it done"
    assert two.rows("b") == two.rows("a")
    assert run_dag("schemamig_replicate", **ends(two), collections=["trips"], minutes=0)[""][0] == "success"


def ends(two: Replicas) -> dict[str, Any]:
    return {"origin": two.env("a").location.uri, "target": two.env("b").location.uri}
