"""Lines in the log of a wait, now and then, about its looks. Without a line nobody knows whether anybody is there."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds between two lines.
TOLD_EVERY = 600.0


class WaitLog:
    """Counts looks that found nothing, and tells of the first and then of one every ``TOLD_EVERY`` seconds."""

    def __init__(self, tell: Callable[..., None], clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._clock = clock
        self._count = 0
        self._told_at = float("-inf")

    def found_nothing(self, awaited: str, again_in: float) -> None:
        """Count one look for what is ``awaited``; the next is in ``again_in`` seconds."""
        self._count += 1
        if self._clock() - self._told_at < TOLD_EVERY:
            return
        self._told_at = self._clock()
        self._tell("Looked %d time(s) for %s: not yet. Looking every %.0f s.", self._count, awaited, again_in)
