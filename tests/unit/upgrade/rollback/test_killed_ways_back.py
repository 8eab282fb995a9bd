"""A way back that is killed when the table has gone back and the ledger does not know: whoever comes next goes on, back or forth.

What has to stay behind on a way back is neither what the release before has nor a step of the one that is given up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.names import physical_name
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import IntentKind
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.upgrade.rollback.errors import NothingToRollBack
from airflow_provider_schemamig.core.upgrade.tables.errors import RollbackUnfinished
from airflow_provider_schemamig.core.upgrade.verify.verify import verify
from airflow_provider_schemamig.exceptions import Refused
from tests.support.bytes import unwritten
from tests.support.lake import Crash, Lake, copy_of
from tests.support.online import OnlineJobs
from tests.support.product import Product
from tests.support.rows.tables import Row, insert, newest, snapshot
from tests.support.upgrades import promoted, refused, whole

T = CollectionName("t")
Verb = Callable[[Environment, "Case"], object]


@dataclass(frozen=True)
class Case:
    """Three releases and a row: 1.0.0, 1.1.0 that is killed when ``dies`` is committed, and 1.1.1 that goes another way."""

    lake: Lake
    other: Path
    row: Row
    dies: str = ""


def case(folder: Path, before: str, after: str, row: Row, dies: str = "", step: str = 'evolution("t")') -> Case:
    """At 1.0.0, with a row."""
    one, other = Product(folder / "one"), Product(folder / "other")
    first, _ = (product.release("1.0.0", f"CREATE TABLE t ({before});") for product in (one, other))
    lake = Lake(Environment.open(str(folder / "lake")), first, one.release("1.1.0", f"CREATE TABLE t ({after});", step))
    lake.upgrade(first)
    insert(lake.path("t"), [{"id": 1, "p": 1, "q": 2}])
    return Case(lake, other.release("1.1.1", f"CREATE TABLE t ({before}, other STRING);", 'evolution("t")'), row, dies)


def killed(work: Verb, found: Case, word: str) -> None:
    """... right after the table's commit that says ``word``, before the ledger hears of it."""
    path = found.lake.path("t")
    known = newest(path)

    def hook(moment: str, what: str, key: str) -> None:
        commits = (path / "_delta_log" / f"{version:020}.json" for version in range(known + 1, newest(path) + 1))
        if any(f'"action\\":\\"{word}\\"' in commit.read_text() for commit in commits):
            raise Crash

    with pytest.raises(Crash):
        work(replace(found.lake.env, on_write=hook), found)


def announced(work: Verb, found: Case) -> None:
    """Killed when the ledger knows of what is taken back, and the table does not."""

    def hook(moment: str, what: str, key: str) -> None:
        if any(intent.kind is IntentKind.TAKE_BACK for intent in found.lake.state.intents.values()):
            raise Crash

    with pytest.raises(Crash):
        work(replace(found.lake.env, on_write=hook), found)


def moments(work: Verb, found: Case) -> int:
    count = [0]

    def hook(moment: str, what: str, key: str) -> None:
        count[0] += 1

    work(replace(found.lake.env, on_write=hook), found)
    return count[0]


def upgrade(env: Environment, found: Case) -> object:
    return commands.upgrade(env, found.lake.second, jobs=OnlineJobs())


def another(env: Environment, found: Case) -> object:
    return commands.upgrade(env, found.other, jobs=OnlineJobs())


def back(env: Environment, found: Case) -> object:
    with contextlib.suppress(NothingToRollBack):
        commands.rollback(env, jobs=OnlineJobs())
    return None


def cancel(env: Environment, found: Case) -> object:
    leader = found.lake.state.leader
    assert leader is not None
    return commands.cancel(env, leader.generation, jobs=OnlineJobs())


def told(lake: Lake) -> tuple[Any, ...]:
    """The release, its rows, and the table's schema; nothing is wrong with table and ledger."""
    whole(lake)
    assert verify(lake.env, lake.state, OnlineJobs()).findings == ()
    entry = lake.state.entry(T)
    names = [field.name for field in entry.declared.fields]
    rows = sorted(repr([row.get(name) for name in names]) for row in snapshot(lake.path("t")).rows)
    physical = sorted((field.name, str(field.type), field.nullable, field.default) for field in entry.physical.fields)
    return lake.version, names, rows, physical, entry.physical.checks


# --- of what was never committed -----------------------------------------------------------------------------------------------------

BASE, BOTH = "id BIGINT, p INT, q INT", "id BIGINT, p INT NOT NULL, q INT NOT NULL"
TAKEN_BACK: dict[str, dict[str, Any]] = {
    "a DEFAULT": {"before": BASE, "after": f"{BASE}, c INT DEFAULT 9", "row": {"id": 2, "p": 3, "q": 4, "c": 5}, "dies": "change"},
    "a type and a DEFAULT": {
        "before": BASE,
        "after": "id BIGINT, p STRING, q INT, c INT DEFAULT 9",
        "row": {"id": 2, "p": 3, "q": 4},
        "dies": "change",
    },
    "two may be NULL": {"before": BOTH, "after": BASE, "row": {"id": 2, "p": None, "q": 4}, "dies": "expand"},
    "one may be NULL, one comes": {
        "before": BOTH,
        "after": "id BIGINT, p INT, q INT NOT NULL, z INT",
        "row": {"id": 2, "p": 3, "q": 4, "z": 4},
        "dies": "expand",
    },
    "a name changes hands": {
        "before": BASE,
        "after": "id BIGINT, pp INT, q INT, p INT",
        "row": {"id": 2, "pp": 3, "q": 4, "p": 4},
        "dies": "cutover",
        "step": 'evolution("t", rename={"p": "pp"})',
    },
}


@pytest.fixture(scope="module", params=TAKEN_BACK)
def begun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """An upgrade was killed, and a row came."""
    found = case(tmp_path_factory.mktemp("begun"), **TAKEN_BACK[request.param])
    killed(upgrade, found, found.dies)
    insert(found.lake.path("t"), [found.row])
    return found


def copied(found: Case, folder: Path) -> Case:
    return replace(found, lake=copy_of(found.lake, folder))


@pytest.mark.some(4)
@pytest.mark.parametrize("way", [back, another])
@pytest.mark.parametrize("then", [back, upgrade, another, cancel])
def test_taking_back_that_left_something_behind(begun: Case, tmp_path: Path, way: Verb, then: Verb) -> None:
    found, straight = (copied(begun, tmp_path / name) for name in ("killed", "straight"))
    killed(way, found, "take_back")
    then(found.lake.env, found)
    back(straight.lake.env, straight)
    (back if then is cancel else then)(straight.lake.env, straight)
    assert told(found.lake) == told(straight.lake)


@pytest.mark.some(2)
@pytest.mark.parametrize("way", [back, another])
@pytest.mark.parametrize("then", [back, upgrade, another])
def test_taking_back_that_was_only_announced(begun: Case, tmp_path: Path, way: Verb, then: Verb) -> None:
    """Rows that come now may make it another one."""
    found = copied(begun, tmp_path)
    announced(way, found)
    insert(found.lake.path("t"), [{**found.row, "id": 3}])
    then(found.lake.env, found)
    ends: dict[Verb, str] = {back: "1.0.0", upgrade: "1.1.0", another: "1.1.1"}
    assert told(found.lake)[0] == ends[then]


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", [back, another])
def test_taking_back_that_dies_anywhere(begun: Case, tmp_path: Path, way: Verb) -> None:
    """Before its commit a row comes, so what has to stay behind is another thing than was announced."""
    for moment in range(moments(way, copied(begun, tmp_path / "count"))):
        for then in (back, upgrade, another):
            found = copied(begun, tmp_path / f"{moment} {then.__name__}")
            with contextlib.suppress(Crash):
                way(found.lake.crashing_at(moment), found)
            if then is upgrade and found.lake.version == "1.1.1":
                continue  # the older one
            with contextlib.suppress(OSError, AssertionError):
                insert(found.lake.path("t"), [{"id": 3, "p": 7, "q": 8}])
            then(found.lake.env, found)
            told(found.lake)


# --- of what was committed -----------------------------------------------------------------------------------------------------------

ROW: Row = {"id": 2, "p": 3, "q": 4}
REVERTED: dict[str, tuple[str, str]] = {
    "a DEFAULT": (f"{BASE}, c INT DEFAULT 5", "rows came in without the DEFAULT of c"),
    "a DEFAULT that is never NULL": (f"{BASE}, c INT NOT NULL DEFAULT 5", "c stays nullable, because a NULL may have come in"),
    "NOT NULL": ("id BIGINT, p INT NOT NULL, q INT, z INT NOT NULL DEFAULT 1", "z stays nullable, because a NULL may have come in"),
    "a CHECK": (f"{BASE}, CONSTRAINT k CHECK (q < 10)", "CHECK k stays dropped, because rows came in without it"),
}


@pytest.fixture(scope="module", params=REVERTED)
def half_back(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Case, str]:
    """At 1.1.0, of which a rollback was killed when the table had gone back. Why no upgrade can go on, once a row came."""
    after, reason = REVERTED[request.param]
    found = case(tmp_path_factory.mktemp("half"), BASE, after, ROW)
    upgrade(found.lake.env, found)
    killed(back, found, "rollback")
    return found, reason


def back_to_the_first(found: Case) -> None:
    for _ in range(2):
        if found.lake.version != "1.0.0":
            back(found.lake.env, found)
    assert told(found.lake)[:2] == ("1.0.0", ["id", "p", "q"])


def straight_on(found: Case) -> None:
    """The upgrade is as if nobody had been killed: what came while no release had a column gets its value."""
    upgrade(found.lake.env, found)
    version, names, rows, physical, _ = told(found.lake)
    given = {"c": 5, "z": 1}
    expected = [repr([{**ROW, **row, **given}[name] for name in names]) for row in ({"id": 1, "p": 1, "q": 2}, ROW)]
    assert (version, rows) == ("1.1.0", sorted(expected))
    declared = {field.name: (field.nullable, field.default) for field in found.lake.state.entry(T).declared.fields}
    assert {name: rest for name, _, *rest in physical if name in declared} == {name: list(rest) for name, rest in declared.items()}


def test_an_upgrade_over_half_a_rollback_that_loses_nothing(half_back: tuple[Case, str], tmp_path: Path) -> None:
    found = copied(half_back[0], tmp_path)
    upgrade(found.lake.env, found)
    insert(found.lake.path("t"), [{**ROW, "c": 5, "z": 1} if "z" in told(found.lake)[1] else {**ROW, "c": 5}])
    assert told(found.lake)[0] == "1.1.0"
    back_to_the_first(found)


@pytest.mark.some(8, of="histories at each moment")
def test_an_upgrade_over_half_a_rollback_that_would_lose_something(half_back: tuple[Case, str], tmp_path: Path) -> None:
    found, reason = copied(half_back[0], tmp_path), half_back[1]
    insert(found.lake.path("t"), [ROW])
    with unwritten(found.lake.env), refused("rollback_unfinished", "t") as errors:
        upgrade(found.lake.env, found)
    assert reason in str(errors[0])
    back_to_the_first(found)
    straight_on(found)


def test_rows_that_come_between_the_plan_and_its_upgrade(half_back: tuple[Case, str], tmp_path: Path) -> None:
    found, reason = copied(half_back[0], tmp_path), half_back[1]
    generation = promoted(found.lake, found.lake.second)
    insert(found.lake.path("t"), [ROW])
    before = newest(found.lake.path("t"))
    with refused("rollback_unfinished", "t") as errors:
        commands.expand(found.lake.env, generation)
    assert reason in str(errors[0])
    commits = (
        found.lake.path("t") / "_delta_log" / f"{version:020}.json" for version in range(before + 1, newest(found.lake.path("t")) + 1)
    )
    assert not any('"metaData"' in commit.read_text() for commit in commits)
    back_to_the_first(found)
    straight_on(found)


@pytest.mark.some(2)
def test_an_upgrade_that_dies_over_half_a_rollback_goes_on(half_back: tuple[Case, str], tmp_path: Path) -> None:
    for moment in range(0, moments(upgrade, copied(half_back[0], tmp_path / "count")), 7):
        found = copied(half_back[0], tmp_path / str(moment))
        with contextlib.suppress(Crash):
            upgrade(found.lake.crashing_at(moment), found)
        upgrade(found.lake.env, found)
        assert told(found.lake)[0] == "1.1.0"


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("work", [upgrade, back])
def test_what_goes_on_over_half_a_rollback_dies_anywhere(half_back: tuple[Case, str], tmp_path: Path, work: Verb) -> None:
    for moment in range(moments(work, copied(half_back[0], tmp_path / "count"))):
        found = copied(half_back[0], tmp_path / str(moment))
        with contextlib.suppress(Crash):
            work(found.lake.crashing_at(moment), found)
        insert(found.lake.path("t"), [{key: ROW.get(key, 5) for key in told_of_writers(found)}])
        with contextlib.suppress(RollbackUnfinished, Refused):
            upgrade(found.lake.env, found)
            assert told(found.lake)[0] == "1.1.0"
        back_to_the_first(found)
        upgrade(found.lake.env, found)
        assert told(found.lake)[0] == "1.1.0"


def told_of_writers(found: Case) -> list[str]:
    """The columns that somebody gives values who looks at the table: those that ask for one."""
    return [*ROW, *(field["name"] for field in snapshot(found.lake.path("t")).fields if not field["nullable"] and field["name"] not in ROW)]


@pytest.mark.parametrize("then", [upgrade, back])
def test_a_type_that_half_a_rollback_took_back(tmp_path: Path, then: Verb) -> None:
    """Rows that came since get their values, so nothing is lost; what has its values from before is no finding."""
    found = case(tmp_path, BASE, "id BIGINT, p STRING NOT NULL, q INT", ROW)
    upgrade(found.lake.env, found)
    killed(back, found, "rollback")
    insert(found.lake.path("t"), [ROW])
    then(found.lake.env, found)
    value = str if then is upgrade else int
    assert told(found.lake)[2] == [repr([1, value(1), 2]), repr([2, value(3), 4])]


@pytest.mark.parametrize("dies", [False, True])
def test_a_column_that_was_gone_and_came_again(tmp_path: Path, dies: bool) -> None:
    """The half of the rollback drops it, as no file carries it; what an upgrade adds has another name in the data files."""
    found = case(tmp_path, BASE, "id BIGINT, pp INT, q INT, c STRING", ROW, step='evolution("t", rename={"p": "pp"})')
    lake = found.lake
    upgrade(lake.env, found)
    killed(back, found, "rollback")
    assert [field["name"] for field in snapshot(lake.path("t")).fields] == ["id", "p", "q"]
    if dies:
        killed(upgrade, found, "take_back")
        cancel(lake.env, found)
    else:
        upgrade(lake.env, found)
    insert(lake.path("t"), [{"id": 2, "pp": 3, "q": 4, "c": "new"}])
    told(lake)
    called = {field["name"]: physical_name(field) for field in snapshot(lake.path("t")).fields}
    assert dict(lake.state.entry(T).stored_names) == {name: there for name, there in called.items() if name != there}
    for release in (None, "1.1.0"):
        assert sorted(row["c"] or "" for row in lake.env.reader("t", release).arrow().to_pylist()) == ["", "new"]
    back_to_the_first(found)
