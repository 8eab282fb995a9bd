"""These tests make tens of thousands of durable writes, and pull no plug: they do without what durability and foreign JVMs cost."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from airflow_provider_schemamig.core.storage import store
from tests.support.rewritten import Rewritten, cutover, expanded, jobs, make_rewritten

#: How many moments of a rewrite are tried in ``make test``; all of them in ``make soak``.
TRIES = 1


@pytest.fixture(scope="package", autouse=True)
def _quick() -> Iterator[None]:
    """No fsync, which only a power cut would miss; and our commits are looked at again at once, not after 50 ms, because the only
    writers that overwrite one (test_lost_commits.py) do it at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(store, "CONFIRM_SECONDS", 0.0)
        yield


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Rewritten:
    return make_rewritten(tmp_path_factory.mktemp("deployed"))


@pytest.fixture(scope="session")
def ready(deployed: Rewritten, tmp_path_factory: pytest.TempPathFactory) -> Rewritten:
    """Expanded, and written to since the copy."""
    found = deployed.copy(tmp_path_factory.mktemp("ready"))
    expanded(found)
    found.write_all(1)
    return found


@pytest.fixture(scope="session")
def upgraded(ready: Rewritten, tmp_path_factory: pytest.TempPathFactory) -> Rewritten:
    found = ready.copy(tmp_path_factory.mktemp("upgraded"))
    cutover(found.env, jobs())
    found.write_all(2)
    return found


@pytest.fixture(params=[pytest.param(TRIES, id="some"), pytest.param(None, id="all", marks=pytest.mark.soak)])
def tries(request: pytest.FixtureRequest) -> int | None:
    found: int | None = request.param
    return found
