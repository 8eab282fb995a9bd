"""How long a table keeps what a copy and its tail have to read: removed files and log entries (the 7-day wall, research/delta.md B4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pendulum

from airflow_provider_schemamig.core.deltalog.head import Head
from airflow_provider_schemamig.core.deltalog.log import commits
from airflow_provider_schemamig.core.storage import ReadStore

FILES = "delta.deletedFileRetentionDuration"
LOG = "delta.logRetentionDuration"
#: Delta's own defaults, hours.
_DEFAULT_HOURS: Mapping[str, float] = {FILES: 7 * 24, LOG: 30 * 24}
_UNIT_HOURS: Mapping[str, float] = {
    "microsecond": 1 / 3.6e9,
    "millisecond": 1 / 3.6e6,
    "second": 1 / 3600,
    "minute": 1 / 60,
    "hour": 1,
    "day": 24,
    "week": 7 * 24,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s+([a-z]+?)s?\b")


def kept_hours(head: Head) -> float:
    """For how many hours a version can still be read and followed after it was overwritten: the shorter of files' and log's."""
    configuration: Mapping[str, str] = head.metadata.get("configuration") or {}
    return min(_hours(configuration.get(key), default) for key, default in _DEFAULT_HOURS.items())


def _hours(interval: str | None, default: float) -> float:
    """``interval 1 week``, ``interval 36 hours``; one that nobody can read counts as the default, as it does to Delta's readers."""
    parts = _PART.findall((interval or "").lower())
    if not parts or any(unit not in _UNIT_HOURS for _, unit in parts):
        return default
    return sum(float(number) * _UNIT_HOURS[unit] for number, unit in parts)


@dataclass(frozen=True, slots=True)
class Age:
    """How old a version of a table is, of the ``kept_hours`` that it can be relied on."""

    since: pendulum.DateTime
    hours: float
    kept_hours: float

    @property
    def is_past(self) -> bool:
        return self.hours >= self.kept_hours

    @property
    def is_half(self) -> bool:
        return self.hours >= self.kept_hours / 2


def age_of(store: ReadStore, head: Head, version: int, now: pendulum.DateTime) -> Age:
    """When the version after ``version`` was committed is when its files could first be removed. Raises LogTruncated if that is gone.

    A commit need not say when it was made; then it is as old as the first after it that does.
    """
    since = made_at(store, version, head.version)
    if since is None:
        return Age(now, 0.0, kept_hours(head))
    return Age(since, (now - since).total_seconds() / 3600, kept_hours(head))


def made_at(store: ReadStore, after: int, upto: int) -> pendulum.DateTime | None:
    """When the first commit after version ``after`` was made that says so; None if none up to ``upto`` does. Raises LogTruncated."""
    for commit in commits(store, after, max(after, upto)):
        milliseconds = commit.info.get("inCommitTimestamp", commit.info.get("timestamp"))
        if milliseconds is not None:
            return pendulum.from_timestamp(int(milliseconds) / 1000)
    return None
