"""A release sets the retention of a pinned table, or takes it away: what the pin asks for is kept, whoever dies on the way."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.rows import IntentKind
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG
from airflow_provider_schemamig.core.upgrade.rollback.errors import NothingToRollBack
from airflow_provider_schemamig.core.upgrade.tables.pins import pin, unpin
from tests.support.lake import Crash, Lake, no_spark
from tests.support.tables import foreign
from tests.support.upgrades import deployed, expanded, refused, releases, two_releases
from tests.unit.upgrade.plan.test_cleaned_logs import clean

PLAIN = "CREATE TABLE t (id BIGINT);"
LONG = f"CREATE TABLE t (id BIGINT) TBLPROPERTIES ('{LOG}' = 'interval 60 days', '{FILES}' = 'interval 60 days');"


def kept(lake: Lake) -> tuple[str | None, str | None]:
    configuration = foreign.metadata(lake.path("t"))["configuration"]
    return configuration.get(FILES), configuration.get(LOG)


@pytest.mark.some(6)
@pytest.mark.parametrize("at", range(40))
@pytest.mark.parametrize("way", ["upgrade", "rollback"])
def test_a_pin_outlives_a_retention_that_goes_with_whoever_is_killed(tmp_path: Path, way: str, at: int) -> None:
    found = releases(tmp_path, (PLAIN, ""), (LONG, 'evolution("t")'), (PLAIN, 'evolution("t")'))
    lake = deployed(tmp_path, found[0], found[1])
    pin(lake.env, "t", "me", 1000)
    lake.upgrade(found[1])
    assert kept(lake) == ("interval 60 days", "interval 60 days")
    for env in (lake.crashing_at(at), lake.env):
        with contextlib.suppress(Crash, NothingToRollBack):  # the first try had done it
            if way == "upgrade":
                commands.upgrade(env, found[2], jobs=no_spark)
            else:
                commands.rollback(env, jobs=no_spark)
    assert kept(lake) == ("interval 1000 hours", "interval 1000 hours")
    unpin(lake.env, "t", "me")
    assert kept(lake) == (None, None)
    assert not commands.status(lake.env).drifted


@pytest.mark.some(8)
@pytest.mark.parametrize("at", range(40))
@pytest.mark.parametrize("way", ["upgrade", "rollback"])
def test_a_pin_that_goes_while_a_run_lies_dead_leaves_what_its_release_declares(tmp_path: Path, way: str, at: int) -> None:
    declared = "interval 40 days"
    lake = two_releases(tmp_path, PLAIN, f"CREATE TABLE t (id BIGINT, x INT) TBLPROPERTIES ('{LOG}' = '{declared}');", 'evolution("t")')
    pin(lake.env, "t", "me", 9600)
    if way == "rollback":
        lake.upgrade(lake.second)
    with contextlib.suppress(Crash):
        if way == "upgrade":
            commands.upgrade(lake.crashing_at(at), lake.second, jobs=no_spark)
        else:
            commands.rollback(lake.crashing_at(at), jobs=no_spark)
    unpin(lake.env, "t", "me")
    assert not commands.status(lake.env).drifted
    with contextlib.suppress(NothingToRollBack):  # the first try had done it
        commands.rollback(lake.env, jobs=no_spark)
    lake.upgrade(lake.second)
    assert kept(lake)[1] == declared
    commands.rollback(lake.env, jobs=no_spark)
    assert kept(lake) == (None, None)
    assert not commands.status(lake.env).drifted


#: What is declared with 60 days before: the same for shorter, and nothing at all.
SHORTER = {
    "shorter": f"CREATE TABLE t (id BIGINT) TBLPROPERTIES ('{LOG}' = 'interval 40 days', '{FILES}' = 'interval 20 days');",
    "none": PLAIN,
}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("after", SHORTER.values(), ids=SHORTER)
def test_a_pin_that_comes_where_an_upgrade_died_keeps_nothing_of_the_release_before(tmp_path: Path, after: str, moment: str) -> None:
    """Before and after differ in nothing but for how long history is kept, and a pin asks for more than both."""
    lake = two_releases(tmp_path, LONG, after, 'evolution("t")')

    def die_at_its_commit(now: str, what: str, key: str) -> None:
        if now == moment and any(intent.kind is IntentKind.EXPAND for intent in lake.state.intents.values()):
            raise Crash(key)

    with pytest.raises(Crash):
        commands.upgrade(replace(lake.env, on_write=die_at_its_commit), lake.second, jobs=no_spark)
    pin(lake.env, "t", "me", 9600)
    for task in (commands.expand, commands.change, commands.cutover):
        task(lake.env, Generation(2), jobs=no_spark)
    unpin(lake.env, "t", "me")
    assert kept(lake) == (("interval 20 days", "interval 40 days") if after != PLAIN else (None, None))
    commands.rollback(lake.env, jobs=no_spark)
    assert kept(lake) == ("interval 60 days", "interval 60 days")


#: What takes the table away, which its hold keeps as it was.
TAKEN_AWAY = {
    "replaced": (LONG.replace("id BIGINT", "id STRING"), 'replacement("t")'),
    "removed": ("CREATE TABLE other (id BIGINT);", 'removal("t")'),
}


@pytest.mark.parametrize("schema, step", TAKEN_AWAY.values(), ids=TAKEN_AWAY)
def test_a_pin_that_goes_in_the_hold_leaves_what_the_release_before_declares(tmp_path: Path, schema: str, step: str) -> None:
    lake = two_releases(tmp_path, LONG, schema, step)
    path = lake.path("t")
    pin(lake.env, "t", "me", 9600)
    lake.upgrade(lake.second)
    unpin(lake.env, "t", "me")
    assert foreign.metadata(path)["configuration"][LOG] == "interval 60 days"
    commands.rollback(lake.env, jobs=no_spark)
    assert kept(lake) == ("interval 60 days", "interval 60 days")
    assert not commands.status(lake.env).drifted


def test_what_a_pin_asks_for_is_not_accepted_into_the_release(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, LONG, LONG, "")
    pin(lake.env, "t", "me", 9600)
    foreign.add_column(lake.path("t"), "z")
    [taken] = commands.accept(lake.env, lake.first).to_json()["accepted"]
    assert [change["text"] for change in taken["changes"]] == ["add z STRING"]
    unpin(lake.env, "t", "me")
    assert kept(lake) == ("interval 60 days", "interval 60 days")
    assert not commands.status(lake.env).drifted


def test_a_pin_outlives_a_deployment_that_is_given_up(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, PLAIN, LONG, 'evolution("t")')
    pin(lake.env, "t", "me", 1000)
    commands.cancel(lake.env, expanded(lake, lake.second))
    assert kept(lake) == ("interval 1000 hours", "interval 1000 hours")


def test_a_pin_outlives_compare_and_evolve_and_a_revert(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, PLAIN, LONG, 'evolution("t")')
    pin(lake.env, "t", "me", 1000)
    for text in (LONG, PLAIN, LONG):
        (declared,) = parse_schema(text, "t.sql")
        commands.compare_and_evolve_schema(lake.env, CollectionName("t"), lake.state.objects[CollectionName("t")].schema_id, declared)
        longest = "interval 60 days" if text == LONG else "interval 1000 hours"
        assert kept(lake) == (longest, longest)
    pin(lake.env, "t", "me", 2000)
    for key in (LOG, FILES):
        foreign.set_property(lake.path("t"), key, "interval 10 days")
    commands.revert(lake.env, "t")
    assert kept(lake) == ("interval 2000 hours", "interval 2000 hours")


@pytest.mark.parametrize("hours, before, after", [(1000, 0, 100), (2000, 150, 60), (2000, 150, 0), (1000, 60, 0)])
def test_a_pinned_table_takes_a_release_that_says_something_of_the_log_alone(tmp_path: Path, hours: int, before: int, after: int) -> None:
    def declared(days: int) -> str:
        return f"{PLAIN[:-1]} TBLPROPERTIES ('{LOG}' = 'interval {days} days');" if days else PLAIN

    lake = two_releases(tmp_path, declared(before), declared(after), 'evolution("t")')
    pin(lake.env, "t", "me", hours)
    lake.upgrade(lake.second)
    longest = f"interval {after} days" if after * 24 > hours else f"interval {hours} hours"
    assert kept(lake) == (f"interval {hours} hours", longest)
    unpin(lake.env, "t", "me")
    assert kept(lake) == (None, f"interval {after} days" if after else None)
    pin(lake.env, "t", "me", hours)
    commands.rollback(lake.env)
    unpin(lake.env, "t", "me")
    assert kept(lake) == (None, f"interval {before} days" if before else None)
    assert not commands.status(lake.env).drifted


@pytest.mark.parametrize("days", [(20, 60), (2, 3), (50, 50)])
@pytest.mark.parametrize("work", ["upgrade", "rollback", "contract", "revert", "killed upgrade"])
def test_what_somebody_sets_of_a_pinned_table_is_left_also_where_a_commit_came_in_between(
    tmp_path: Path, work: str, days: tuple[int, int]
) -> None:
    lake = two_releases(tmp_path, PLAIN, "CREATE TABLE t (id BIGINT, x INT);", 'evolution("t")')
    if work in ("rollback", "contract"):
        lake.upgrade(lake.second)
    pin(lake.env, "t", "me", 2000)
    own = f"interval {days[0]} days", f"interval {days[1]} days"
    for key, value in zip((FILES, LOG), own, strict=True):
        foreign.set_property(lake.path("t"), key, value)
    match work:
        case "upgrade":
            lake.upgrade(lake.second)
        case "rollback":
            commands.rollback(lake.env, jobs=no_spark)
        case "contract":
            commands.contract(lake.env, at_once=True)
        case "revert":
            foreign.add_column(lake.path("t"), "theirs")
            commands.revert(lake.env, "t")
        case "killed upgrade":
            with contextlib.suppress(Crash):
                commands.upgrade(lake.crashing_at(16), lake.second, jobs=no_spark)
            lake.upgrade(lake.second)
    unpin(lake.env, "t", "me")
    assert kept(lake) == own
    assert not commands.status(lake.env).drifted


@pytest.mark.parametrize("days", [1, 6, 7])
def test_a_log_that_was_kept_for_less_time_than_its_files_before_a_pin_is_so_again(tmp_path: Path, days: int) -> None:
    lake = two_releases(tmp_path, PLAIN, "CREATE TABLE t (id BIGINT, x INT);", 'evolution("t")')
    foreign.set_property(lake.path("t"), LOG, f"interval {days} days")
    pin(lake.env, "t", "me", 400)
    assert kept(lake) == ("interval 400 hours", "interval 400 hours")
    lake.upgrade(lake.second)
    unpin(lake.env, "t", "me")
    assert kept(lake) == (None, f"interval {days} days")
    assert not lake.state.pins


def test_a_pin_keeps_what_was_the_tables_own_before_a_release_declared_it(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, PLAIN, LONG, 'evolution("t")')
    for key in (LOG, FILES):
        foreign.set_property(lake.path("t"), key, "interval 60 days")
    pin(lake.env, "t", "me", 2000)
    lake.upgrade(lake.second)
    commands.rollback(lake.env)
    unpin(lake.env, "t", "me")
    assert kept(lake) == ("interval 60 days", "interval 60 days")


@pytest.mark.parametrize("own", [None, "interval 35 days"])
def test_a_rollback_brings_no_retention_of_a_pin_that_has_gone(tmp_path: Path, own: str | None) -> None:
    lake = two_releases(tmp_path, PLAIN, LONG, 'evolution("t")')
    for key in (LOG, FILES) if own else ():
        foreign.set_property(lake.path("t"), key, str(own))
    for hours in (1000, 1100):
        pin(lake.env, "t", "me", hours)
    lake.upgrade(lake.second)
    unpin(lake.env, "t", "me")
    commands.rollback(lake.env)
    assert kept(lake) == (own, own)


KEPT_TOO_LONG = {
    "files alone": f"'{FILES}' = 'interval 60 days'",
    "the log alone": f"'{LOG}' = 'interval 3 days'",
    "both": f"'{FILES}' = 'interval 60 days', '{LOG}' = 'interval 50 days'",
}


@pytest.mark.parametrize("name", KEPT_TOO_LONG)
def test_a_release_that_keeps_files_for_longer_than_their_log_is_refused(tmp_path: Path, name: str) -> None:
    lake = two_releases(tmp_path, PLAIN, f"{PLAIN[:-1]} TBLPROPERTIES ({KEPT_TOO_LONG[name]});", 'evolution("t")')
    if name == "both":
        pin(lake.env, "t", "me", 2000)
    with refused("unsupported_property", "t"):
        lake.upgrade(lake.second)


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_a_retention_by_hand_is_back_after_each_rollback(tmp_path: Path, is_cleaned: bool) -> None:
    """The second time the table has it by our own commit, or by one whose log before it is gone."""
    lake = two_releases(tmp_path, PLAIN, LONG, 'evolution("t")')
    for key in (LOG, FILES):
        foreign.set_property(lake.path("t"), key, "interval 50 days")
    for _ in range(3):
        lake.upgrade(lake.second)
        commands.rollback(lake.env)
        assert kept(lake) == ("interval 50 days", "interval 50 days")
        if is_cleaned:
            clean(lake.path("t"))


def test_a_rollback_brings_no_retention_that_a_release_before_had_declared(tmp_path: Path) -> None:
    """A pin kept it on the table when the release after it took it away."""
    longest = LONG.replace("60 days", "200 days")
    found = releases(tmp_path, (LONG, ""), (PLAIN, 'evolution("t")'), (longest, 'evolution("t")'))
    lake = deployed(tmp_path, found[0], found[1])
    pin(lake.env, "t", "me", 3000)
    lake.upgrade(found[1])
    lake.upgrade(found[2])
    unpin(lake.env, "t", "me")
    commands.rollback(lake.env)
    assert kept(lake) == (None, None)
