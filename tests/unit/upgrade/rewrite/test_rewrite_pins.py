"""Pins: a table's history kept longer while somebody needs it, and its own settings back afterwards, whoever dies on the way."""

from __future__ import annotations

import contextlib
import functools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG
from airflow_provider_schemamig.core.upgrade.tables.pins import pin, unpin
from airflow_provider_schemamig.exceptions import Conflict
from tests.support.lake import Crash, Lake
from tests.support.product import Product
from tests.support.rows import tables
from tests.support.rows.rewritten import Rewritten, claimed, expanded, jobs, make_rewritten, upgrade
from tests.support.upgrades import deployed as first_of
from tests.support.upgrades import refused, releases, two_releases

OWN = "interval 2 days"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Rewritten:
    """``keyed`` says itself how long it keeps its files, and nothing of its log."""
    found = make_rewritten(tmp_path_factory.mktemp("deployed"))
    tables.set_property(found.path("keyed"), FILES, OWN)
    return found


@pytest.fixture
def found(deployed: Rewritten, tmp_path: Path) -> Rewritten:
    return deployed.copy(tmp_path)


def kept(found: Rewritten, path: Path | None = None) -> tuple[str | None, str | None]:
    configuration = tables.snapshot(path or found.path("keyed")).metadata["configuration"]
    return configuration.get(FILES), configuration.get(LOG)


def hours(count: int) -> tuple[str, str | None]:
    """What a pin makes of ``deployed``: nothing of a log that is kept 30 days anyway."""
    return f"interval {count} hours", f"interval {count} hours" if count > 720 else None


def test_rewrite_pins_there_and_back(found: Rewritten) -> None:
    row = pin(found.env, "keyed", "me", 400)
    assert kept(found) == hours(400)
    assert dict(row.properties) == {FILES: OWN, LOG: None}
    version = tables.newest(found.path("keyed"))
    pin(found.env, "keyed", "me", 400)
    assert tables.newest(found.path("keyed")) == version, "there already, so there is no commit"
    assert unpin(found.env, "keyed", "me")
    assert kept(found) == (OWN, None)
    assert not unpin(found.env, "keyed", "me")
    assert not found.state.pins
    found.check("1.0.0")


def test_the_longest_counts_and_the_last_puts_it_back(found: Rewritten) -> None:
    pin(found.env, "keyed", "one", 400)
    pin(found.env, "keyed", "two", 600)
    pin(found.env, "keyed", "three", 300)
    assert kept(found) == hours(600)
    unpin(found.env, "keyed", "two")
    assert kept(found) == hours(400)
    pin(found.env, "keyed", "one", 200)
    assert kept(found) == hours(300)
    unpin(found.env, "keyed", "one")
    unpin(found.env, "keyed", "three")
    assert kept(found) == (OWN, None)


#: What the table says of its files and of its log, the hours of a pin, and what the table says then.
LENGTHS: dict[str, tuple[tuple[str | None, str | None], int, tuple[str | None, str | None]]] = {
    "the defaults are in force": ((None, None), 100, (None, None)),
    "longer than the default of files": ((None, None), 240, ("interval 240 hours", None)),
    "longer than both defaults": ((None, None), 800, ("interval 800 hours", "interval 800 hours")),
    "both are longer": (("interval 90 days", "interval 52 weeks"), 240, ("interval 90 days", "interval 52 weeks")),
    "files are longer": (("interval 90 days", "interval 3 days"), 240, ("interval 90 days", "interval 240 hours")),
    "the log is longer": (("interval 1 day", "INTERVAL 12 weeks"), 240, ("interval 240 hours", "INTERVAL 12 weeks")),
    "as long": (("interval 10 days", "interval 240 hours"), 240, ("interval 10 days", "interval 240 hours")),
    "several units": (("interval 1 week 3 days 1 second", None), 240, ("interval 1 week 3 days 1 second", None)),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_rewrite_pins_only_lengthens(found: Rewritten, name: str) -> None:
    own, count, pinned = LENGTHS[name]
    for key, value in zip((FILES, LOG), own, strict=True):
        tables.set_property(found.path("keyed"), key, value)
    pin(found.env, "keyed", "me", count)
    assert kept(found) == pinned
    unpin(found.env, "keyed", "me")
    assert kept(found) == own


def test_somebody_elses_setting_meanwhile(found: Rewritten) -> None:
    """It stays, is raised where a pin asks for more, and is what is left when the last pin goes."""
    pin(found.env, "keyed", "one", 400)
    tables.set_property(found.path("keyed"), FILES, "interval 90 days")
    tables.set_property(found.path("keyed"), LOG, "interval 1 day")
    pin(found.env, "keyed", "two", 500)
    assert kept(found) == ("interval 90 days", "interval 500 hours")
    unpin(found.env, "keyed", "one")
    unpin(found.env, "keyed", "two")
    assert kept(found) == ("interval 90 days", "interval 1 day")


def test_somebody_else_spells_a_setting_as_a_pin_does(found: Rewritten) -> None:
    """A year, given in hours: no pin shortens it, and the last one that goes leaves it."""
    year = "interval 8760 hours"
    pin(found.env, "keyed", "one", 1000)
    for key in (FILES, LOG):
        tables.set_property(found.path("keyed"), key, year)
    pin(found.env, "keyed", "two", 1200)
    assert kept(found) == (year, year)
    pin(found.env, "keyed", "three", 9000)
    assert kept(found) == hours(9000)
    for holder in ("three", "one", "two"):
        unpin(found.env, "keyed", holder)
    assert kept(found) == (year, year)


def test_a_pin_that_was_asked_for_with_fewer_hours_is_known_again(found: Rewritten) -> None:
    """Also by those that are left when it has gone."""
    pin(found.env, "keyed", "one", 1000)
    set_aside = kept(found)
    pin(found.env, "keyed", "two", 800)
    pin(found.env, "keyed", "one", 900)
    assert kept(found) == hours(900)
    unpin(found.env, "keyed", "one")
    for key, value in zip((FILES, LOG), set_aside, strict=True):
        tables.set_property(found.path("keyed"), key, str(value))  # as a pin that was held up on the way makes it
    unpin(found.env, "keyed", "two")
    assert kept(found) == (OWN, None)


@pytest.mark.parametrize("declared", [900, 1100])
def test_a_release_declares_a_retention_while_there_is_a_pin(tmp_path: Path, declared: int) -> None:
    """The table keeps the longer of both, and what the release says once the pin has gone."""
    properties = f"TBLPROPERTIES ('{LOG}' = 'interval {declared} hours', '{FILES}' = 'interval {declared} hours')"
    lake = two_releases(tmp_path, "CREATE TABLE plain (n INT)", f"CREATE TABLE plain (n INT) {properties}", 'evolution("plain")')
    pin(lake.env, "plain", "me", 1000)
    lake.upgrade(lake.second)
    configuration = tables.snapshot(lake.path("plain")).metadata["configuration"]
    assert configuration[LOG] == configuration[FILES] == f"interval {max(1000, declared)} hours"
    unpin(lake.env, "plain", "me")
    configuration = tables.snapshot(lake.path("plain")).metadata["configuration"]
    assert configuration[LOG] == configuration[FILES] == f"interval {declared} hours"
    assert not commands.status(lake.env).drifted
    pin(lake.env, "plain", "me", 1000)
    commands.rollback(lake.env)
    unpin(lake.env, "plain", "me")
    assert not commands.status(lake.env).drifted
    assert lake.version == "1.0.0"


@pytest.mark.parametrize("declared", [24, 900])
def test_a_release_ends_a_retention_while_there_is_a_pin(tmp_path: Path, declared: int) -> None:
    """What the release of before declared does not come back with the end of the pin: a short one would shorten history."""
    properties = f"TBLPROPERTIES ('{LOG}' = 'interval {declared} hours', '{FILES}' = 'interval {declared} hours')"
    lake = two_releases(tmp_path, f"CREATE TABLE plain (n INT) {properties}", "CREATE TABLE plain (n INT)", 'evolution("plain")')
    pin(lake.env, "plain", "me", 1000)
    lake.upgrade(lake.second)
    unpin(lake.env, "plain", "me")
    assert {LOG, FILES}.isdisjoint(tables.snapshot(lake.path("plain")).metadata["configuration"])
    assert not commands.status(lake.env).drifted


def test_the_log_is_kept_as_long_as_the_files_when_the_pin_goes(tmp_path: Path) -> None:
    properties = f"TBLPROPERTIES ('{FILES}' = 'interval 1000 hours')"
    lake = two_releases(tmp_path, "CREATE TABLE plain (n INT)", f"CREATE TABLE plain (n INT) {properties}", 'evolution("plain")')
    pin(lake.env, "plain", "me", 2000)
    lake.upgrade(lake.second)
    unpin(lake.env, "plain", "me")
    configuration = tables.snapshot(lake.path("plain")).metadata["configuration"]
    assert configuration[FILES] == configuration[LOG] == "interval 1000 hours"
    assert not commands.status(lake.env).drifted


def test_longer_than_declared_is_no_drift(tmp_path: Path) -> None:
    """A pin is no drift, also where a release declares the retention; a shorter history is."""
    declared = f"CREATE TABLE plain (n INT) TBLPROPERTIES ('{LOG}' = 'interval 20 days');"
    release = Product(tmp_path / "product").release("1.0.0", declared)
    lake = Lake(Environment.open(str(tmp_path / "lake")), release, release)
    lake.upgrade(release)
    pin(lake.env, "plain", "me", 600)
    assert not commands.status(lake.env).drifted
    tables.set_property(lake.path("plain"), LOG, "interval 19 days")
    assert commands.status(lake.env).drifted


def test_two_generations_pin_and_one_dies(found: Rewritten) -> None:
    """The dead one's pin goes with the other's clean-up, and so does its own."""
    dead = claimed(found, claim_id="dead")
    pin(found.env, "keyed", str(dead), 900)
    old = found.path("keyed")
    generation = expanded(found, claim_id="alive")
    pin(found.env, "keyed", str(generation), 500)
    pin(found.env, "keyed", "a person", 450)
    commands.cutover(found.env, generation, jobs=jobs())
    commands.cleanup(found.env, generation)
    assert kept(found, old) == hours(450), "a person's stays until the person takes it back"
    assert tables.snapshot(old).sealed
    assert unpin(found.env, "keyed", "a person")
    assert kept(found, old) == (OWN, None)
    assert tables.snapshot(old).sealed
    found.check("1.1.0")
    commands.rollback(found.env, jobs=jobs())
    found.check("1.0.0")


@pytest.mark.parametrize("holder", ["9" * 4301, "02"])
def test_a_persons_name_of_digits_is_no_generation(tmp_path: Path, holder: str) -> None:
    """One of 4,301 digits is more than Python makes a number of."""
    lake = two_releases(tmp_path, "CREATE TABLE plain (n INT)", "CREATE TABLE plain (n INT, m INT)", 'evolution("plain")')
    pin(lake.env, "plain", holder, 1000)
    lake.upgrade(lake.second)
    assert [pinned.holder for pinned in lake.state.pins.values()] == [holder]


def test_a_pin_whose_table_is_gone(found: Rewritten) -> None:
    pin(found.env, "keyed", "a person", 450)
    upgrade(found, found.env, jobs())
    commands.contract(found.env, at_once=True)
    commands.cleanup(found.env, next(iter(sorted(found.state.holds))))
    assert not found.state.pins
    found.check("1.1.0")


def test_rewrite_pins_unknown_collection(found: Rewritten) -> None:
    with refused("unknown_collection", "nothing"):
        pin(found.env, "nothing", "me", 400)
    with refused("unknown_collection", "nothing"):
        unpin(found.env, "nothing", "me")


def moments(found: Rewritten, folder: Path, work: Callable[[Environment], object]) -> int:
    count = 0

    def hook(moment: str, what: str, key: str) -> None:
        nonlocal count
        count += 1

    work(replace(found.copy(folder / "count").env, on_write=hook))
    return count


def hooked(found: Rewritten, at: int, act: Callable[[], object], *, dies: bool) -> Environment:
    count = 0

    def hook(moment: str, what: str, key: str) -> None:
        nonlocal count
        count += 1
        if count == at + 1 or (dies and count > at):
            act()

    return replace(found.env, on_write=hook)


def die() -> None:
    raise Crash


def other_goes(lake: Rewritten, *, dies: bool) -> None:
    unpin(lake.env, "keyed", "two")
    if dies:
        die()


WORKS: dict[str, Callable[[Environment], object]] = {
    "pin": lambda env: pin(env, "keyed", "one", 400),
    "unpin": lambda env: unpin(env, "keyed", "one"),
}


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("name", WORKS)
def test_rewrite_pins_dies_anywhere(found: Rewritten, tmp_path: Path, name: str) -> None:
    """It is repeated, or another comes first; the last to go puts back what was there before all of them."""
    work = WORKS[name]
    if name == "unpin":
        pin(found.env, "keyed", "one", 400)
    for at in range(moments(found, tmp_path, work)):
        for another in (False, True):
            lake = found.copy(tmp_path / "dies")
            with pytest.raises(Crash):
                work(hooked(lake, at, die, dies=True))
            if another:
                pin(lake.env, "keyed", "two", 500)
                assert kept(lake) == hours(500), at
                unpin(lake.env, "keyed", "one")
                assert kept(lake) == hours(500), at
                unpin(lake.env, "keyed", "two")
            else:
                work(lake.env)
                assert kept(lake) == (hours(400) if name == "pin" else (OWN, None)), at
                unpin(lake.env, "keyed", "one")
            assert kept(lake) == (OWN, None), at
            assert not lake.state.pins
            lake.check("1.0.0")
            shutil.rmtree(tmp_path / "dies")


RACES: dict[str, tuple[Callable[[Environment], object], Callable[[Environment], object]]] = {
    "another pin comes while one goes": (WORKS["unpin"], lambda env: pin(env, "keyed", "two", 500)),
    "another pin comes while one comes": (lambda env: pin(env, "keyed", "three", 300), lambda env: pin(env, "keyed", "two", 500)),
    "another pin goes while one comes": (lambda env: pin(env, "keyed", "two", 500), WORKS["unpin"]),
}


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("name", RACES)
def test_another_acts_at_any_moment(found: Rewritten, tmp_path: Path, name: str) -> None:
    ours, other = RACES[name]
    pin(found.env, "keyed", "one", 400)
    for at in range(moments(found, tmp_path, ours)):
        lake = found.copy(tmp_path / "races")
        try:
            ours(hooked(lake, at, lambda lake=lake: other(lake.env), dies=False))  # type: ignore[misc]
        except Conflict:
            ours(lake.env)
        assert kept(lake) == hours(max(pinned.hours for pinned in lake.state.pins.values())), at
        for holder in ("one", "two", "three"):
            unpin(lake.env, "keyed", holder)
        assert kept(lake) == (OWN, None), at
        shutil.rmtree(tmp_path / "races")


def test_pins_go_at_once(found: Rewritten, tmp_path: Path) -> None:
    """Two holders give their pins up at the same time, of whom one may die: what the table had before comes back with the last."""
    pin(found.env, "keyed", "one", 400)
    pin(found.env, "keyed", "two", 500)
    for at in range(moments(found, tmp_path, WORKS["unpin"])):
        for dies in (False, True):
            lake = found.copy(tmp_path / "at-once")
            with contextlib.suppress(Crash):
                unpin(hooked(lake, at, functools.partial(other_goes, lake, dies=dies), dies=False), "keyed", "one")
            asked = [pinned.hours for pinned in lake.state.pins.values() if not pinned.given_up]
            assert kept(lake) == (hours(max(asked)) if asked else (OWN, None)), (at, dies)
            unpin(lake.env, "keyed", "one")
            assert (kept(lake), not lake.state.pins) == ((OWN, None), True), (at, dies)
            shutil.rmtree(tmp_path / "at-once")


@pytest.mark.parametrize("more", [True, False])
def test_pins_go_and_leave_what_somebody_set_meanwhile(found: Rewritten, more: bool) -> None:
    """Also where another pin came in between, and raised that once more."""
    pin(found.env, "keyed", "one", 2000)
    for key, value in ((FILES, "interval 20 days"), (LOG, "interval 60 days")):
        tables.set_property(found.path("keyed"), key, value)
    if more:
        pin(found.env, "keyed", "two", 300)
        assert kept(found) == hours(2000)
    for holder in ("two", "one"):
        unpin(found.env, "keyed", holder)
    assert kept(found) == ("interval 20 days", "interval 60 days")


@pytest.mark.parametrize("way", ["rollback", "a release without"])
def test_pins_outlive_a_longer_retention_that_a_release_had(tmp_path: Path, way: str) -> None:
    """The release's goes, the pin's stays."""
    plain, longer = "CREATE TABLE plain (n INT);", f"TBLPROPERTIES ('{LOG}' = 'interval 60 days', '{FILES}' = 'interval 60 days')"
    found = releases(tmp_path, (plain, ""), (f"{plain[:-1]} {longer};", 'evolution("plain")'), (plain, 'evolution("plain")'))
    lake = first_of(tmp_path, found[0], found[1])
    pin(lake.env, "plain", "me", 1000)
    lake.upgrade(found[1])
    if way == "rollback":
        commands.rollback(lake.env)
    else:
        lake.upgrade(found[2], end_hold=True)
    configuration = tables.snapshot(lake.path("plain")).metadata["configuration"]
    assert configuration[LOG] == configuration[FILES] == "interval 1000 hours"
    assert not commands.status(lake.env).drifted
    unpin(lake.env, "plain", "me")
    assert {LOG, FILES}.isdisjoint(tables.snapshot(lake.path("plain")).metadata["configuration"])
    assert not commands.status(lake.env).drifted
