"""Times in sentences for people."""

from __future__ import annotations

import pendulum


def minute(time: pendulum.DateTime) -> str:
    """To the minute: ``2026-11-21 12:35 UTC``."""
    return time.in_timezone("UTC").format("YYYY-MM-DD HH:mm [UTC]")
