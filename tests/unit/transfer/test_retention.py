"""How long a table keeps what a copy follows it by, and how much of that is over (the 7-day wall)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pendulum
import pytest

from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG
from airflow_provider_schemamig.core.storage import Location, StorageOptions, Store, open_store
from airflow_provider_schemamig.core.transfer.retention import age_of, kept_hours
from tests.support.rows.tables import put

NOW = pendulum.datetime(2024, 3, 1, 12)
WEEK = 7 * 24.0


def head(version: int, **properties: str) -> Head:
    return Head(Location.parse("/t"), version, {}, {"configuration": properties}, {})


@pytest.mark.parametrize(
    ("properties", "hours"),
    [
        ({}, WEEK),
        ({FILES: "interval 1 day"}, 24),
        ({FILES: "INTERVAL 2 Weeks"}, 2 * WEEK),
        ({FILES: "interval 100 days"}, 30 * 24),
        ({FILES: "interval 100 days", LOG: "interval 60 days"}, 60 * 24),
        ({LOG: "interval 6 hours"}, 6),
        ({FILES: "interval 1 day 12 hours"}, 36),
        ({FILES: "36 hours"}, 36),
        ({FILES: "interval 90 minutes"}, 1.5),
        ({FILES: "interval 1800 seconds"}, 0.5),
        ({FILES: "interval 1.5 days"}, 36),
        ({FILES: "interval 0 hours"}, 0),
        ({FILES: "for ever"}, WEEK),
        ({FILES: "interval 3 fortnights"}, WEEK),
        ({FILES: ""}, WEEK),
    ],
)
def test_retention_kept_hours(properties: dict[str, str], hours: float) -> None:
    assert kept_hours(head(0, **properties)) == pytest.approx(hours)


def test_no_configuration_at_all() -> None:
    assert kept_hours(Head(Location.parse("/t"), 0, {}, {}, {})) == WEEK


def table(folder: Path, *infos: dict[str, Any]) -> Store:
    (folder / "_delta_log").mkdir()
    for number, info in enumerate(infos):
        put(folder, number - 1, [{"commitInfo": info}] if info else [{"txn": {"appId": "x", "version": 1}}])
    return open_store(Location.parse(str(folder)), StorageOptions())


def made(hours_ago: float, key: str = "timestamp") -> dict[str, Any]:
    return {key: int(NOW.subtract(minutes=int(hours_ago * 60)).timestamp() * 1000)}


@pytest.mark.parametrize(
    ("hours_ago", "is_half", "is_past"),
    [(0, False, False), (83, False, False), (84, True, False), (167, True, False), (168, True, True), (1000, True, True)],
)
def test_retention_age(tmp_path: Path, hours_ago: int, is_half: bool, is_past: bool) -> None:
    """From the commit after the version on: before that its files could not be removed."""
    store = table(tmp_path, made(9999), made(9000), made(hours_ago), made(0))
    found = age_of(store, head(3), 1, NOW)
    assert (found.is_half, found.is_past) == (is_half, is_past)
    assert found.hours == pytest.approx(hours_ago)
    assert found.since == NOW.subtract(hours=hours_ago)


def test_the_newest_version_has_no_age(tmp_path: Path) -> None:
    store = table(tmp_path, made(9999), made(9000))
    assert age_of(store, head(1), 1, NOW).hours == 0
    assert age_of(store, head(1), 5, NOW).hours == 0


def test_in_commit_timestamps_are_believed_first(tmp_path: Path) -> None:
    store = table(tmp_path, made(0), {**made(1), **made(50, "inCommitTimestamp")})
    assert age_of(store, head(1), 0, NOW).hours == pytest.approx(50)


def test_a_commit_need_not_say_when_it_was_made(tmp_path: Path) -> None:
    """It is no older than the first after it that does; nothing at all is no reason to copy for ever."""
    store = table(tmp_path, made(9999), {}, {"operation": "WRITE"}, made(30), {})
    assert age_of(store, head(4), 0, NOW).hours == pytest.approx(30)
    assert age_of(store, head(4), 3, NOW).hours == 0


def test_a_cleaned_log(tmp_path: Path) -> None:
    store = table(tmp_path, made(9999), made(9000), made(0))
    (tmp_path / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(LogTruncated):
        age_of(store, head(2), 0, NOW)
