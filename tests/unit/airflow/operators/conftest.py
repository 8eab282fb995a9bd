"""A task of a run, as far as operators know it, and the verbs that they call."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from tests.support.airflow.fake_verbs import FakeVerbs, install

LAKE = "s3://lake/prod"


class Opened(str):
    """An environment that nobody opened: by which connection, and in whose name."""

    def __new__(cls, hook: SchemamigHook) -> Opened:
        found = super().__new__(cls, f"opened {hook.schemamig_conn_id} for {hook.who}")
        found.location = SimpleNamespace(uri=hook.schemamig_conn_id.removeprefix("file://"))
        return found

    location: SimpleNamespace


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> FakeVerbs:
    monkeypatch.setattr(SchemamigHook, "environment", property(Opened))
    return install(monkeypatch, FakeVerbs())


@pytest.fixture
def pushed() -> dict[str, Any]:
    return {}


@pytest.fixture
def context(pushed: dict[str, Any]) -> Any:
    plan = {"environment": LAKE, "generation": 7, "plan_digest": "d" * 64, "rejected_at": "2026-11-24T03:05:00+00:00"}
    answers: dict[tuple[str, str], Any] = {
        ("upgrade.approval", "return_value"): {"chosen_options": ["Approve"], "responded_by_user": {"id": "7", "name": "ann"}},
        ("upgrade.approval", "asked"): {"upgrade.preflight": plan},
        ("upgrade.preflight", "generation"): 7,
        ("upgrade.preflight", "plan_digest"): "d" * 64,
    }

    def pull(task_ids: str, key: str) -> Any:
        return pushed.get(f"{task_ids}: {key}", answers.get((task_ids, key)))

    def push(key: str, value: Any) -> None:
        pushed[key] = value

    ti = SimpleNamespace(
        dag_id="up",
        run_id="manual__2026-11-24T03:00:00+00:00",
        task_id="t",
        map_index=-1,
        id=uuid.UUID(int=1),
        xcom_push=push,
        xcom_pull=pull,
        get_first_reschedule_date=lambda context: None,
    )
    run = SimpleNamespace(dag_id="up", run_id=ti.run_id, triggering_user_name="bob")
    return {"ti": ti, "dag_run": run, "dag": SimpleNamespace(folder="/dags"), "params": {"release": "flights_lake"}}


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What was written to the log since, without colours."""
    return lambda: re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
