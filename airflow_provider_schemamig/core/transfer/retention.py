"""How long a table keeps what a copy and its tail have to read: removed files and log entries (the 7-day wall)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pendulum

from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG, hours_of
from airflow_provider_schemamig.core.storage import ReadStore


def kept_hours(head: Head) -> float:
    """Return for how many hours a version can be read and followed after it was overwritten: the shorter of files' and log's."""
    configuration: Mapping[str, str] = head.metadata.get("configuration") or {}
    return min(hours_of(key, configuration.get(key)) for key in (FILES, LOG))


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
    """Return the age of ``version`` since its files could first be removed: since the next version's commit. Raises LogTruncated if that is
    gone.

    A commit without a timestamp counts as made when the next one with a timestamp was.
    """
    since = made_at(store, version, head.version)
    if since is None:
        return Age(now, 0.0, kept_hours(head))
    return Age(since, (now - since).total_seconds() / 3600, kept_hours(head))


def made_at(store: ReadStore, after: int, upto: int) -> pendulum.DateTime | None:
    """Return the time of the first commit after version ``after`` that has one; None if none up to ``upto`` has. Raises LogTruncated."""
    for commit in commits(store, after, max(after, upto)):
        if commit.milliseconds is not None:
            return pendulum.from_timestamp(commit.milliseconds / 1000)
    return None
