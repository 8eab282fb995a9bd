"""A run that was killed, and comes back when the tables' logs have been cleaned up: it goes on or goes back, as it would have at once.

But a fill does not go on: which rows it has filled nobody knows any more. Then the way back is open, and the next try begins anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.online.errors import BackfillLogGone
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from tests.support.lake import Crash, Lake, copy_of
from tests.support.online import OnlineJobs
from tests.support.tables import foreign
from tests.support.upgrades import releases, whole
from tests.unit.upgrade.plan.test_cleaned_logs import clean


@dataclass(frozen=True)
class Case:
    """``t`` is what the release changes; ``r`` is replaced with it, so that there are seals."""

    before: str
    after: str
    step: str = 'evolution("t")'


TIED = " TBLPROPERTIES ('delta.autoOptimize.optimizeWrite' = 'true')"
CASES = {
    "a column is added": Case("id BIGINT)", "id BIGINT, n INT)"),
    "names change places": Case("id BIGINT, p INT, q INT)", "id BIGINT, p INT, q INT)", 'evolution("t", rename={"p": "q", "q": "p"})'),
    "names go round": Case(
        "id BIGINT, p INT, q INT, o INT)", "id BIGINT, p INT, q INT, o INT)", 'evolution("t", rename={"p": "q", "q": "o", "o": "p"})'
    ),
    "fields change places": Case(
        "id BIGINT, s STRUCT<p: INT, q: INT>)",
        "id BIGINT, z STRUCT<p: INT, q: INT>)",
        'evolution("t", rename={"s": "z", "s.p": "q", "s.q": "p"})',
    ),
    "a property is no longer declared": Case(f"id BIGINT){TIED}", "id BIGINT)"),
    "a key is declared": Case("id BIGINT NOT NULL)", "id BIGINT NOT NULL, PRIMARY KEY (id))"),
    "a CHECK is added": Case("id BIGINT)", "id BIGINT, CONSTRAINT c CHECK (id < 1000))"),
    "NOT NULL is added": Case("id BIGINT)", "id BIGINT NOT NULL)"),
    "a type changes": Case("id BIGINT, p INT)", "id BIGINT, p STRING)"),
    "a DEFAULT is filled in": Case("id BIGINT)", "id BIGINT, p INT DEFAULT 5)"),
    "clustering is declared": Case("id BIGINT)", "id BIGINT) CLUSTER BY (id)"),
}
#: How many moments of a case ``make test`` plays; ``make soak`` all.
SOME = 1


def jobs() -> Jobs:
    found = OnlineJobs()
    return lambda: found


@pytest.fixture(scope="module", params=CASES)
def begun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """At 1.0.0, with a row in each table."""
    case, folder = CASES[request.param], tmp_path_factory.mktemp("begun")
    one, two = (f"CREATE TABLE t ({t}; CREATE TABLE r (id BIGINT{r});" for t, r in ((case.before, ""), (case.after, ", n INT")))
    first, second = releases(folder, (one, ""), (two, f'{case.step}, replacement("r")'))
    lake = Lake(Environment.open(str(folder / "lake")), first, second)
    lake.upgrade(first)
    for name in ("t", "r"):
        foreign.write(lake.path(name), [{"id": 1}])
    return lake


def upgrade(env: Environment, lake: Lake) -> None:
    commands.upgrade(env, lake.second, jobs=jobs())


def back(env: Environment, lake: Lake) -> None:
    commands.rollback(env, jobs=jobs(), allow_lossy=True)  # rows that came to ``r`` stay behind


def moments(lake: Lake, run: Callable[[Environment], None]) -> int:
    count = [0]

    def hook(moment: str, what: str, key: str) -> None:
        count[0] += 1

    run(replace(lake.env, on_write=hook))
    return count[0]


def play(lake: Lake, folder: Path, moment: int, on: Callable[[Environment, Lake], None]) -> None:
    """Die in an upgrade; others write and the logs are cleaned up; then go ``on``."""
    lake = copy_of(lake, folder)
    try:
        upgrade(lake.crashing_at(moment), lake)
    except Crash:
        pass
    else:
        raise AssertionError("it was to die")
    lake = replace(lake, env=replace(lake.env, on_write=None))
    for name in ("t", "r"):
        path = lake.path(name)
        if commands.status(lake.env).document["collections"][name]["sealed"] is False:
            foreign.write(path, [{"id": 2}])
        clean(path)
    was_promoted = any(item.state.value == "promoted" for item in lake.state.deployments.values()) or lake.version == "1.1.0"
    if on is upgrade or was_promoted:
        go(lake, on)
        assert lake.version == ("1.1.0" if on is upgrade else "1.0.0")
        whole(lake)


def go(lake: Lake, on: Callable[[Environment, Lake], None]) -> None:
    try:
        on(replace(lake.env), lake)
    except BackfillLogGone:
        assert on is upgrade
        back(replace(lake.env), lake)
        assert lake.version == "1.0.0"
        whole(lake)
        upgrade(replace(lake.env), lake)


def some(lake: Lake, folder: Path) -> list[int]:
    count = moments(copied := copy_of(lake, folder / "count"), lambda env: upgrade(env, copied))
    return sorted(random.sample(range(count), SOME))


@pytest.mark.some(6)
@pytest.mark.parametrize("on", [upgrade, back])
def test_what_was_killed_goes_on_over_cleaned_logs(begun: Lake, tmp_path: Path, on: Callable[[Environment, Lake], None]) -> None:
    for moment in some(begun, tmp_path):
        play(begun, tmp_path / str(moment), moment, on)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("on", [upgrade, back])
def test_whatever_moment_it_was_killed_at(begun: Lake, tmp_path: Path, on: Callable[[Environment, Lake], None]) -> None:
    count = moments(copied := copy_of(begun, tmp_path / "count"), lambda env: upgrade(env, copied))
    for moment in range(count):
        play(begun, tmp_path / str(moment), moment, on)
