"""For how long a Connect client asks a server that does not answer. Imported where a session is made: it needs pyspark."""

from __future__ import annotations

import time

from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: TID253 - this file is imported where a session is made

#: A server that was restarted is back within this time; one that is gone for longer is gone.
RETRY_SECONDS = 30.0
#: Failures that are further apart belong to different troubles.
_STREAK_SECONDS = 15.0
_LONGEST_PAUSE_MS = 5_000


class ConnectRetryPolicy(DefaultPolicy):
    """pyspark's own policy, with one time for the whole session instead of ten minutes for every call: a job that is told that its server
    is gone still puts settings back and drops views, and each of these would be tried for as long again."""

    def __init__(self) -> None:
        super().__init__(max_retries=None, max_backoff=_LONGEST_PAUSE_MS)
        self._began = self._last = float("-inf")

    def can_retry(self, exception: BaseException) -> bool:
        if not super().can_retry(exception):
            return False
        now = time.monotonic()
        if now - self._last > _STREAK_SECONDS:
            self._began = now
        self._last = now
        return now - self._began < RETRY_SECONDS
