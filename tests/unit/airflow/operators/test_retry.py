from __future__ import annotations

from datetime import timedelta

import pytest
from airflow.sdk import RetryAction

from airflow_provider_schemamig.exceptions import Conflict, Refusal, Refused
from airflow_provider_schemamig.retry import SchemamigRetryPolicy


class Overtaken(Conflict):
    code = "overtaken"


class Incompatible(Refusal):
    code = "incompatible"


@pytest.mark.parametrize(
    "error, action, reason",
    [
        (Overtaken(), RetryAction.RETRY, "overtaken"),
        (Incompatible(), RetryAction.FAIL, "incompatible is not retryable"),
        (Refused(refusals=(Incompatible(),)), RetryAction.FAIL, "refused is not retryable"),
        (OSError("disk"), RetryAction.DEFAULT, None),
        (KeyboardInterrupt(), RetryAction.DEFAULT, None),
    ],
)
def test_the_error_decides(error: BaseException, action: RetryAction, reason: str | None) -> None:
    decision = SchemamigRetryPolicy().evaluate(error, try_number=1, max_tries=3)
    assert (decision.action, decision.reason) == (action, reason)


def test_twins_do_not_come_back_at_the_same_moment() -> None:
    policy = SchemamigRetryPolicy(shortest=timedelta(seconds=5), longest=timedelta(seconds=30))
    delays = {policy.evaluate(Overtaken(), 1, 3).retry_delay for _ in range(20)}
    assert len(delays) > 1
    assert all(delay is not None and timedelta(seconds=5) <= delay <= timedelta(seconds=30) for delay in delays)
