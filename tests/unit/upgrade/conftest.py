"""A product that is being rewritten, at each stage, made once and copied."""

from __future__ import annotations

import pytest

from tests.support.rows.rewritten import Rewritten, cutover, expanded, jobs, make_rewritten

#: How many moments of a rewrite are tried in ``make test``; all of them in ``make soak``.
TRIES = 1


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
