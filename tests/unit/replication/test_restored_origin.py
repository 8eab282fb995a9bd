"""The origin's ledger came back from a backup of before an upgrade: what its table has since is drift, and nothing of it is left behind."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.backup import backup
from airflow_provider_schemamig.core.ledger.admin.backup import restore as restore_ledger
from airflow_provider_schemamig.core.replication.model import PauseReason
from airflow_provider_schemamig.core.upgrade.drift.accept import accept
from tests.support.online import OnlineJobs
from tests.support.replicas import Replicas, make_replicas

FIRST = "CREATE TABLE trips (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id));\n"


def restore_from(two: Replicas, folder: Path) -> None:
    """Lose a's ledger, and bring back the one in ``folder``."""
    root = two.env("a").location.local_path
    assert root is not None
    shutil.rmtree(root / "_schemamig" / "ledger")
    restore_ledger(Environment.open(str(root)), str(folder))
    two.lakes["a"] = replace(two.lakes["a"], env=Environment.open(str(root)))


@pytest.mark.parametrize("column", ["d INT", "d INT DEFAULT 7"])
@pytest.mark.parametrize("stream", ["is beyond the upgrade", "is behind the upgrade"])
def test_restored_origin_its_events_wait_until_the_drift_is_accepted(stream: str, column: str, tmp_path: Path) -> None:
    two = make_replicas(tmp_path, (FIRST, ""), (FIRST.replace("v STRING", f"v STRING, {column}"), 'evolution("trips")'))
    two.runner = OnlineJobs()
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b")
    backup(two.env("a"), str(tmp_path / "backup"))
    two.upgrade("a", "b", to=2)
    if stream == "is beyond the upgrade":
        assert two.state("a", "b").pause is None
    two.insert("a", {"id": 2, "v": "y", "d": 9})
    restore_from(two, tmp_path / "backup")
    two.change("a", lambda row: row | {"d": 5} if row["id"] == 1 else row)
    pause = two.state("a", "b").pause
    assert pause is not None
    assert pause.reason is PauseReason.ORIGIN_DRIFT
    accept(two.env("a"), two.folders[1])
    two.upgrade("a", to=2)
    state = two.state("a", "b")
    assert (state.pause, state.error) == (None, None)
    assert two.rows("a") == two.rows("b")
