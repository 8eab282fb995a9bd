"""These tests make tens of thousands of durable writes, and pull no plug: they do without what durability and other writers cost."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from airflow_provider_schemamig.core.ledger import file_lock
from airflow_provider_schemamig.core.storage import store
from tests.support.explained import ExplainedRuns


@pytest.fixture(scope="package", autouse=True)
def _quick() -> Iterator[None]:
    """No fsync, which only a power cut would miss. Nor a pause after each turn at the ledger, for whoever else wants one, nor a wait for a
    turn, which nobody in this process would end; and our commits are looked at again at once, not after 50 ms: the only writers that
    overwrite one (test_lost_commits.py) do it at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(file_lock, "_GAP_SECONDS", 0.0)
        patch.setattr(file_lock, "_WAIT_SECONDS", 0.0)
        patch.setattr(store, "CONFIRM_SECONDS", 0.0)
        yield


@pytest.fixture(autouse=True)
def _plan_is_what_is_run(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Every upgrade of these tests that comes through makes the commits that its plan explained.

    It takes a fifth of their time, so ``make test`` asks a sixth of them, drawn by its seed.
    """
    seed, is_soak = os.environ["SCHEMAMIG_TEST_SEED"], "SCHEMAMIG_EXAMPLES" in os.environ
    if is_soak or random.Random(f"{seed} {request.node.nodeid}").random() < 1 / 6:
        ExplainedRuns().install(monkeypatch)
