"""A run in a real Airflow tells its notifiers what happened, in the order of the protocol. The verbs are played by a script."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import BaseNotifier

from airflow_provider_schemamig.core.transfer.errors import Paused
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from airflow_provider_schemamig.notifications.schemamig import SchemamigNotifier
from airflow_provider_schemamig.triggers.ledger import PauseTrigger
from tests.support.airflow.fake_verbs import FakeVerbs, install
from tests.support.airflow.runs import RunDag

pytestmark = pytest.mark.airflow


class Kept(BaseNotifier):
    """Keeps what its template says, in this process."""

    template_fields = ("words",)
    sent: list[str] = []  # noqa: RUF012 - one list for all copies

    def __init__(self) -> None:
        super().__init__()
        self.words = "{{ schemamig.event }}: {{ schemamig.task_id }} of {{ schemamig.environment }}"

    def notify(self, context: Any) -> None:
        self.sent.append(self.words)


def test_a_run_tells_what_happened_and_no_failing_sender_stops_it(
    run_dag: RunDag, shipped_dags: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(BaseNotifier):
        def notify(self, context: Any) -> None:
            raise OSError("no route")

    monkeypatch.setattr(SchemamigHook, "environment", property(lambda hook: "opened"))
    monkeypatch.setattr(PauseTrigger, "look", lambda trigger: True)
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "0")
    monkeypatch.setenv("AIRFLOW__SCHEMAMIG__POLL_INTERVAL", "0.1")
    verbs = install(monkeypatch, FakeVerbs())
    verbs.raises["cutover"] = [Paused(stage="cutover", why="ben said so", scopes=("*",), hours=False)]
    Kept.sent.clear()
    notifier = SchemamigNotifier(via=[Broken(), Kept()])
    for name in ("promote", "cutover_and_commit", "contract"):
        monkeypatch.setattr(shipped_dags["schemamig_upgrade"].get_task(f"upgrade.{name}"), "notifiers", [notifier])
    found = run_dag("schemamig_upgrade", environment="/lake", release="/release", gate="none")
    assert found[""][0] == "success"
    commit = "upgrade.cutover_and_commit of /lake"
    assert Kept.sent == ["promoted: upgrade.promote of /lake", f"paused: {commit}", f"committed: {commit}"]
