"""How long a table says that it keeps its history: the two properties, each by itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

FILES = "delta.deletedFileRetentionDuration"
LOG = "delta.logRetentionDuration"
#: Delta's own defaults, hours: in force where a table says nothing.
DEFAULT_HOURS: Mapping[str, float] = {FILES: 7 * 24, LOG: 30 * 24}
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


def hours_of(key: str, interval: str | None) -> float:
    """Return the hours of ``interval 1 week`` or ``interval 36 hours`` for the property ``key``.

    None, and an interval that cannot be read, count as the default, as they do to Delta's readers.
    """
    parts = _PART.findall((interval or "").lower())
    if not parts or any(unit not in _UNIT_HOURS for _, unit in parts):
        return DEFAULT_HOURS[key]
    return sum(float(number) * _UNIT_HOURS[unit] for number, unit in parts)


def forgets_too_early(properties: Mapping[str, str]) -> bool:
    """Return whether the log is kept for less time than the removed files that its versions name."""
    return hours_of(LOG, properties.get(LOG)) < hours_of(FILES, properties.get(FILES))


def lengthened(key: str, interval: str | None, hours: int) -> str | None:
    """Return ``interval``, which the property ``key`` has (None: nothing), if it is ``hours`` or longer already; else an interval of
    ``hours``."""
    return interval if hours_of(key, interval) >= hours else interval_of(hours)


def interval_of(hours: int) -> str:
    return f"interval {hours} hours"


def longer(key: str, interval: str | None, other: str | None) -> str | None:
    """Return the longer of two settings of the property ``key``, the first of equal ones."""
    return interval if hours_of(key, interval) >= hours_of(key, other) else other
