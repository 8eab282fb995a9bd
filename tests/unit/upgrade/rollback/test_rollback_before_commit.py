"""A generation that is promoted and not committed is taken back: nothing of it may begin meanwhile under the same epoch, and whoever goes
on with the release after a kill finds all that was built, or builds it anew."""

from __future__ import annotations

import contextlib
import functools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.commit.fence import Fenced
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.upgrade.errors import WrongState
from airflow_provider_schemamig.core.upgrade.rollback.errors import NothingToRollBack
from tests.support.lake import Crash, Lake
from tests.support.online import OnlineJobs
from tests.support.rows import tables
from tests.support.upgrades import expanded as begun
from tests.support.upgrades import releases, whole

FIRST = "CREATE TABLE t (id BIGINT NOT NULL, a INT);\nCREATE TABLE s (n INT);\n"
SECOND = "CREATE TABLE t (id BIGINT NOT NULL, a INT, b INT DEFAULT 7);\nCREATE TABLE s (n INT, m INT);\nCREATE TABLE fresh (id BIGINT);\n"
STEPS = 'evolution("t"), replacement("s", fill="SELECT a AS n, a AS m FROM {t}")'
PROMOTED = Generation(2)
FILLED = [{"n": 1, "m": 1}, {"n": 2, "m": 2}]
VERBS: dict[str, Callable[..., object]] = {"rollback": commands.rollback, "cancel": functools.partial(commands.cancel, generation=PROMOTED)}


@pytest.fixture(scope="module")
def expanded(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """What is new is built and filled."""
    folder = tmp_path_factory.mktemp("expanded")
    folders = releases(folder, (FIRST, ""), (SECOND, STEPS))
    lake = Lake(Environment.open(str(folder / "lake")), *folders)
    lake.upgrade(folders[0])
    tables.insert(lake.path("t"), [{"id": 1, "a": 1}, {"id": 2, "a": 2}])
    tables.insert(lake.path("s"), [{"n": 1}, {"n": 2}])
    generation = commands.preflight(lake.env, folders[1], jobs=OnlineJobs()).generation
    assert generation == PROMOTED
    commands.promote(lake.env, PROMOTED)
    commands.expand(lake.env, PROMOTED)
    return lake


@pytest.fixture(scope="module")
def changed(expanded: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Everything is done but the cut-over."""
    lake = copied(expanded, tmp_path_factory.mktemp("changed"))
    commands.change(lake.env, PROMOTED, jobs=OnlineJobs())
    return lake


def copied(lake: Lake, folder: Path) -> Lake:
    shutil.copytree(lake.env.location.local_path or Path(), folder / "lake")
    return replace(lake, env=Environment.open(str(folder / "lake")))


def upgrade(lake: Lake) -> None:
    commands.upgrade(lake.env, lake.second, jobs=OnlineJobs(), ignore_nodes=True)


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("verb", VERBS)
def test_rollback_before_the_commit_killed_at_any_write_the_upgrade_goes_on_with_all_rows(
    verb: str, expanded: Lake, tmp_path: Path
) -> None:
    for write in range(40):
        lake = copied(expanded, tmp_path / str(write))
        try:
            VERBS[verb](lake.crashing_at(write), jobs=OnlineJobs())
            break
        except Crash:
            upgrade(lake)
            assert lake.version == "1.1.0"
            assert tables.snapshot(lake.path("s")).rows == FILLED
            assert [row["b"] for row in tables.snapshot(lake.path("t")).rows] == [7, 7]
            whole(lake)
    else:
        pytest.fail("it never came to its end")
    assert write > 10


@pytest.mark.some(1)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("other", ["cutover", "upgrade"])
def test_rollback_before_the_commit_what_begins_meanwhile_is_refused_or_leads_alone(
    other: str, verb: str, changed: Lake, tmp_path: Path
) -> None:
    for write in range(40):
        lake = copied(changed, tmp_path / str(write))
        if not _while_it_runs(verb, write, other, lake):
            break
        whole(lake)
        states = {item.generation: item.state for item in lake.state.deployments.values()}
        is_back = states[PROMOTED] is DeploymentState.ROLLED_BACK and DeploymentState.COMMITTED not in (states.get(Generation(3)),)
        assert lake.version == ("1.0.0" if is_back else "1.1.0")
        assert tables.snapshot(lake.path("s")).rows == ([{"n": 1}, {"n": 2}] if is_back else FILLED)
    assert write > 4


def _while_it_runs(verb: str, write: int, other: str, lake: Lake) -> bool:
    """Begin ``other`` at a write of ``verb``; False: that has not so many."""
    writes, done = 0, False

    def hook(moment: str, what: str, key: str) -> None:
        nonlocal writes, done
        writes += what != "ledger"  # which others wait for
        if what != "ledger" and writes == write + 1:
            done = True
            with contextlib.suppress(WrongState):
                if other == "upgrade":
                    upgrade(lake)
                else:
                    commands.cutover(lake.env, PROMOTED, jobs=OnlineJobs())

    with contextlib.suppress(Fenced, NothingToRollBack, WrongState):
        VERBS[verb](replace(lake.env, on_write=hook), jobs=OnlineJobs())
    return done


def test_rollback_before_the_commit_a_task_names_the_ways_on(changed: Lake, tmp_path: Path) -> None:
    lake = copied(changed, tmp_path)
    with contextlib.suppress(Crash):
        commands.rollback(lake.crashing_at(3), jobs=OnlineJobs())
    with pytest.raises(WrongState, match="generation 2 is being rolled back; cutover cannot run on it") as caught:
        commands.cutover(lake.env, PROMOTED, jobs=OnlineJobs())
    assert "`schemamig rollback --generation 2` again" in caught.value.next_action and "`schemamig upgrade`" in caught.value.next_action
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert lake.version == "1.0.0"


@pytest.mark.parametrize("is_committed", [False, True], ids=["settle", "seal and unseal"])
def test_a_rollback_counts_the_tables_that_it_takes_back(tmp_path: Path, is_committed: bool) -> None:
    names = ("a", "b", "c")
    first = "".join(f"CREATE TABLE {name} (id BIGINT);\n" for name in names)
    grown, steps = first.replace("BIGINT", "BIGINT, x INT"), ", ".join(f'evolution("{name}")' for name in names)
    new = "".join(f"CREATE TABLE new_{name} (id BIGINT);\n" for name in names)
    gone = ", ".join(f'removal("{name}")' for name in names)
    folders = releases(tmp_path, (first, ""), (new, gone) if is_committed else (grown, steps))
    lake = Lake(Environment.open(str(tmp_path / "lake")), *folders)
    lake.upgrade(folders[0])
    if is_committed:
        lake.upgrade(folders[1])
    else:
        begun(lake, folders[1])
    events: list[Event] = []
    commands.rollback(lake.env, listen=events.append)
    told = {kind: [(event.done, event.total) for event in events if event.stage == kind] for kind in ("settle", "seal", "unseal")}
    counted = [(1, 3), (2, 3), (3, 3)]
    assert told == ({"settle": [], "seal": counted, "unseal": counted} if is_committed else {"settle": counted, "seal": [], "unseal": []})
