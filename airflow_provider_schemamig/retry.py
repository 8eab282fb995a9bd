"""When Airflow tries a task again: the error says so (``SchemamigError.retryable``), not the number of tries left."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import RetryDecision, RetryPolicy

from airflow_provider_schemamig.exceptions import SchemamigError

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Tries after the first. A policy can end them earlier, never add to them, and Airflow's own default is none.
DEFAULT_RETRIES = 3


class SchemamigRetryPolicy(RetryPolicy):
    """Conflicts are tried again after a short random delay, what is refused fails on its first try, all else is as the task says.

    The delay is drawn between ``shortest`` and ``longest``, because twins that collided once would otherwise collide again.
    A killed process raises nothing, so the task's own ``retries`` and ``retry_delay`` hold for it.
    """

    def __init__(self, shortest: timedelta = timedelta(seconds=5), longest: timedelta = timedelta(seconds=30)) -> None:
        self.shortest = shortest
        self.longest = longest

    def evaluate(self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None) -> RetryDecision:
        if not isinstance(exception, SchemamigError):
            return RetryDecision.default()
        if not exception.retryable:
            return RetryDecision.fail(reason=f"{exception.code} is not retryable")
        delay = self.shortest + (self.longest - self.shortest) * random.random()
        return RetryDecision.retry(delay=delay, reason=exception.code)
