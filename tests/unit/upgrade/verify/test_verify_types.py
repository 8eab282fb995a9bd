"""``verify`` on changes of type: whether every row had its value when the columns changed places, whatever they are called since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.upgrade.execute import online_schedule
from airflow_provider_schemamig.core.upgrade.verify.verify import verify
from tests.support.lake import Crash, Lake
from tests.support.online import OnlineJobs
from tests.support.rows.tables import insert, newest
from tests.support.upgrades import deployed, releases, two_releases


def told(lake: Lake) -> list[str]:
    return [finding.element for finding in verify(lake.env, lake.state, OnlineJobs()).findings]


RETYPED = {
    "exchanged with another one": ('evolution("a", rename={"p": "q", "q": "p"})', "id BIGINT, q STRING, p INT"),
    "renamed": ('evolution("a", rename={"p": "z"})', "id BIGINT, z STRING, q INT"),
    "renamed, and another one comes": ('evolution("a", rename={"p": "z"})', "id BIGINT, z STRING, q INT, p INT"),
}


@pytest.mark.parametrize(("filled", "name"), [(filled, name) for filled in (True, False) for name in RETYPED])
def test_a_column_of_another_type_has_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: bool, name: str) -> None:
    step, columns = RETYPED[name]
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT, p INT, q INT);", f"CREATE TABLE a ({columns});", step)
    insert(lake.path("a"), [{"id": 1, "p": 11, "q": 12}])
    if not filled:
        monkeypatch.setattr(online_schedule, "backfill", lambda *given, **options: newest(lake.path("a")))
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs())
    called = columns.split()[2]
    assert told(lake) == ([] if filled else [f"type:{called}"])


def test_a_type_that_was_given_up_and_made_then(tmp_path: Path) -> None:
    """Its shadow stayed, so the fill is older than all that the ledger says of the release."""
    folders = releases(
        tmp_path,
        ("CREATE TABLE a (id BIGINT, p INT);", ""),
        ("CREATE TABLE a (id BIGINT, p STRING);", 'evolution("a")'),
        ("CREATE TABLE a (id BIGINT, p STRING, n INT DEFAULT 5);", 'evolution("a")'),
    )
    lake = deployed(tmp_path, *folders[:2])
    insert(lake.path("a"), [{"id": 1, "p": 11}])

    def dies(job: str, request: Any) -> None:
        if job == "fill":
            raise Crash

    with pytest.raises(Crash):
        commands.upgrade(lake.env, lake.second, jobs=OnlineJobs(before=dies))
    insert(lake.path("a"), [{"id": 2, "p": 12}])
    commands.rollback(lake.env, jobs=OnlineJobs())
    for folder in folders[1:]:
        commands.upgrade(lake.env, folder, jobs=OnlineJobs())
        assert told(lake) == []
