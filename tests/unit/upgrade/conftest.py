"""A product that is being rewritten, at each stage, made once and copied."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from airflow_provider_schemamig.core.upgrade import alter
from airflow_provider_schemamig.core.upgrade.tasks import leader
from tests.support.explained import check_explained
from tests.support.rewritten import Rewritten, cutover, expanded, jobs, make_rewritten

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


@pytest.fixture(autouse=True)
def plan_is_what_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every upgrade of these tests that comes through makes the commits that its plan explained."""
    go_through = leader.go_through
    runs: Counter[Any] = Counter()

    def checked(env: Any, found: Any, generation: Any, **options: Any) -> Any:
        runs[env.location, generation] += 1
        outcome = go_through(env, found, generation, **options)
        check_explained(env, found.report, generation, runs=runs[env.location, generation])
        return outcome

    monkeypatch.setattr(leader, "go_through", checked)
    monkeypatch.setattr(alter, "go_through", checked)
