"""Times in sentences for people, and as Delta's log has them."""

from __future__ import annotations

import time

import pendulum

#: Ten years: as long as anything is kept that a person asks for. Delta reads no interval of a million times that, nor has a calendar it.
LONGEST_HOURS = 24 * 3650


def minute(when: pendulum.DateTime) -> str:
    """Format a time to the minute: ``2026-11-21 12:35 UTC``."""
    return when.in_timezone("UTC").format("YYYY-MM-DD HH:mm [UTC]")


def minute_of(text: str) -> str:
    """Format a document's time (UTC) as ``minute`` does."""
    return f"{text[:16].replace('T', ' ')} UTC"


def now_millis() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
