"""These tests make tens of thousands of durable writes, and pull no plug: they do without what durability and foreign JVMs cost."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from airflow_provider_schemamig.core.storage import store


@pytest.fixture(scope="package", autouse=True)
def _quick() -> Iterator[None]:
    """No fsync, which only a power cut would miss; and our commits are looked at again at once, not after 50 ms, because the only
    writers that overwrite one (test_lost_commits.py) do it at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(store, "CONFIRM_SECONDS", 0.0)
        yield
