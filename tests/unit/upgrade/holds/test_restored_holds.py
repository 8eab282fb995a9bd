"""Holds of a ledger that was restored: they end by themselves, but for those that the lost history rolled back; every advice leads on."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_provider_schemamig.cli.main import app
from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.backup import backup, restore
from airflow_provider_schemamig.core.ledger.rows import HoldState
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.exceptions import Refused, SchemamigError
from tests.support.lake import Crash, Lake, no_spark
from tests.support.rows import tables
from tests.support.upgrades import brought_back, deployed, make_holds_due, releases, two_releases

FIRST = "CREATE TABLE t (id BIGINT, x INT);\n"
SECOND = "CREATE TABLE t (id BIGINT);\n"
HELD = Generation(2)


def restored(lake: Lake, folder: Path, *, rolled_back: bool = False) -> Lake:
    """Lose the ledger, and bring it back from a backup; ``rolled_back``: the release was rolled back in between."""
    backup(lake.env, str(folder / "backup"))
    if rolled_back:
        commands.rollback(lake.env, jobs=no_spark)
    return brought_back(lake, folder)[0]


def in_hold(folder: Path) -> tuple[Lake, Path]:
    """In the hold of 1.1.0, which hides ``x``; 1.2.0 has the name again."""
    found = releases(folder, (FIRST, ""), (SECOND, 'evolution("t", drop=["x"])'), (FIRST, 'evolution("t")'))
    lake = deployed(folder, found[0], found[1])
    tables.insert(lake.path("t"), [{"id": 1, "x": 26}])
    lake.upgrade(found[1])
    return lake, found[2]


def shown(lake: Lake) -> str:
    return " ".join(CliRunner().invoke(app, ["status", "--env", lake.env.location.uri]).stdout.split())


def test_a_hold_whose_rollback_was_lost_ends_by_hand(tmp_path: Path) -> None:
    lake = restored(in_hold(tmp_path)[0], tmp_path, rolled_back=True)
    tables.insert(lake.path("t"), [{"id": 2, "x": 27}])
    make_holds_due(lake)
    outcome = commands.contract(lake.env)
    assert [(hold["over"], hold["by_hand"]) for hold in outcome.pending] == [(True, True)]
    assert ["contract --generation 2`" in note for note in outcome.notes] == [True]
    assert f"`schemamig contract --env {lake.env.location.uri} --generation 2`" in shown(lake)
    assert commands.contract(lake.env, HELD).pending == ()


@pytest.mark.parametrize("verb", ["accept", "unmanage"])
def test_a_change_of_another_table_does_not_end_a_hold_that_ends_by_hand(tmp_path: Path, verb: str) -> None:
    other = "CREATE TABLE u (id BIGINT);"
    lake = two_releases(tmp_path, FIRST + other, SECOND + other, 'evolution("t", drop=["x"])')
    lake.upgrade(lake.second)
    backup(lake.env, str(tmp_path / "backup"))
    commands.rollback(lake.env, jobs=no_spark)
    tables.insert(lake.path("t"), [{"id": 1, "x": 26}])
    tables.add_column(lake.path("u"), "more")
    lake, _ = brought_back(lake, tmp_path)
    make_holds_due(lake)

    def change() -> object:
        return commands.accept(lake.env, lake.second, ["u"]) if verb == "accept" else commands.unmanage(lake.env, "u")

    with pytest.raises(SchemamigError) as caught:
        change()
    assert "--generation 2" in _advice(caught.value)
    commands.contract(lake.env)
    assert {"id": 1, "x": 26} in tables.snapshot(lake.path("t")).rows
    commands.contract(lake.env, HELD)
    change()


def test_a_rollback_that_was_under_way_in_the_backup_and_ended_since_leaves_a_hold_by_hand(tmp_path: Path) -> None:
    lake, _ = in_hold(tmp_path)
    _stopped_in_rollback(lake)
    backup(lake.env, str(tmp_path / "backup"))
    commands.rollback(lake.env, jobs=no_spark)
    tables.insert(lake.path("t"), [{"id": 2, "x": 27}])
    lake, notes = brought_back(lake, tmp_path)
    assert any("rollback of generation 2" in note for note in notes)
    make_holds_due(lake)
    lake.upgrade(lake.second)  # the one that the ledger is at: it opens the hold again
    assert [hold.state for hold in lake.state.holds.values()] == [HoldState.OPEN]
    assert commands.contract(lake.env).notes
    assert {"id": 2, "x": 27} in tables.snapshot(lake.path("t")).rows


def test_a_restore_tells_of_no_rollback_that_is_still_under_way(tmp_path: Path) -> None:
    lake, _ = in_hold(tmp_path)
    _stopped_in_rollback(lake)
    lake = restored(lake, tmp_path)
    commands.rollback(lake.env, jobs=no_spark)
    assert lake.version == "1.0.0"


def test_a_restore_tells_of_no_rollback_that_an_upgrade_took_back_before_the_backup(tmp_path: Path) -> None:
    lake, _ = in_hold(tmp_path)
    _stopped_in_rollback(lake)
    lake.upgrade(lake.second)
    backup(lake.env, str(tmp_path / "backup"))
    _, notes = brought_back(lake, tmp_path)
    assert notes == ()


def test_another_hold_ends_by_itself(tmp_path: Path) -> None:
    lake = restored(in_hold(tmp_path)[0], tmp_path)
    make_holds_due(lake)
    assert "schemamig contract" in shown(lake)
    assert commands.contract(lake.env).pending == ()


def test_without_an_audit_log_every_open_hold_ends_by_hand(tmp_path: Path) -> None:
    lake, _ = in_hold(tmp_path)
    backup(lake.env, str(tmp_path / "backup"))
    for name in ("ledger", "history"):
        shutil.move(tmp_path / "lake" / "_schemamig" / name, tmp_path / f"lost {name}")
    restore(lake.env, str(tmp_path / "backup"))
    (hold,) = commands.status(Environment.open(str(tmp_path / "lake"))).to_json()["holds"]
    assert hold["by_hand"]


def test_a_hold_that_ends_by_hand_does_so_after_another_restore(tmp_path: Path) -> None:
    """The audit log was lost, and has begun anew since."""
    lake, _ = in_hold(tmp_path)
    backup(lake.env, str(tmp_path / "backup"))
    commands.rollback(lake.env, jobs=no_spark)
    tables.insert(lake.path("t"), [{"id": 2, "x": 27}])
    for name in ("ledger", "history"):
        shutil.move(tmp_path / "lake" / "_schemamig" / name, tmp_path / f"lost {name}")
    restore(lake.env, str(tmp_path / "backup"))
    lake = Lake(lake.env.open(str(tmp_path / "lake")), lake.first, lake.second)
    commands.pause(lake.env, None, by="ann", reason="a line in the audit log")
    commands.resume(lake.env, None, by="ann")
    backup(lake.env, str(tmp_path / "second"))
    shutil.move(tmp_path / "lake" / "_schemamig" / "ledger", tmp_path / "lost again")
    restore(lake.env, str(tmp_path / "second"))
    lake = Lake(lake.env.open(str(tmp_path / "lake")), lake.first, lake.second)
    make_holds_due(lake)
    assert commands.contract(lake.env).notes
    assert {"id": 2, "x": 27} in tables.snapshot(lake.path("t")).rows


def test_an_audit_log_that_begins_after_the_hold_does_not_tell(tmp_path: Path) -> None:
    lake, _ = in_hold(tmp_path)
    backup(lake.env, str(tmp_path / "backup"))
    shutil.move(tmp_path / "lake" / "_schemamig" / "history", tmp_path / "lost history")
    commands.pause(lake.env, None, by="ann", reason="a line in the audit log")
    shutil.move(tmp_path / "lake" / "_schemamig" / "ledger", tmp_path / "lost ledger")
    restore(lake.env, str(tmp_path / "backup"))
    (hold,) = commands.status(Environment.open(str(tmp_path / "lake"))).to_json()["holds"]
    assert hold["by_hand"]


@pytest.mark.parametrize("rolled_back", [False, True])
def test_a_release_that_the_hold_keeps_from_going_is_told_what_leads_on(tmp_path: Path, rolled_back: bool) -> None:
    lake, third = in_hold(tmp_path)
    lake = restored(lake, tmp_path, rolled_back=rolled_back)
    make_holds_due(lake)
    _leads_on(lake, lambda: lake.upgrade(third))


def test_alter_is_told_what_ends_the_hold(tmp_path: Path) -> None:
    lake = restored(in_hold(tmp_path)[0], tmp_path, rolled_back=True)
    with pytest.raises(SchemamigError) as caught:
        commands.alter(lake.env, "ALTER TABLE t ADD COLUMN z INT", jobs=no_spark)
    assert "--generation 2" in _advice(caught.value)


def test_a_contract_that_was_killed_goes_on(tmp_path: Path) -> None:
    lake, _ = in_hold(tmp_path)
    make_holds_due(lake)
    for write in range(40):
        with pytest.raises(Crash):
            commands.contract(lake.crashing_at(write))
        if [hold.state for hold in lake.state.holds.values()] == [HoldState.CONTRACTING]:
            break
    lake = restored(lake, tmp_path)
    commands.contract(lake.env)
    assert [hold.state for hold in lake.state.holds.values()] == [HoldState.CLOSED]


def test_rows_that_a_rollback_left_behind_go_when_their_hold_is_over(tmp_path: Path) -> None:
    found = releases(tmp_path, (FIRST, ""), (f"{FIRST}CREATE TABLE n (id BIGINT);", ""))
    lake = deployed(tmp_path, found[0], found[1])
    lake.upgrade(found[1])
    tables.insert(lake.path("n"), [{"id": 1}])
    commands.rollback(lake.env, jobs=no_spark)
    lake = restored(lake, tmp_path)
    make_holds_due(lake)
    commands.contract(lake.env)
    assert [hold.state for hold in lake.state.holds.values()] == [HoldState.CLOSED]


def test_holds_after_one_that_ends_by_hand_wait_for_it(tmp_path: Path) -> None:
    """The nightly maintenance succeeds, and says what a person has to do."""
    other = "CREATE TABLE u (id BIGINT, y INT);"
    third = (f"{SECOND}CREATE TABLE u (id BIGINT);", 'evolution("u", drop=["y"])')
    found = releases(tmp_path, (FIRST + other, ""), (SECOND + other, 'evolution("t", drop=["x"])'), third)
    lake = deployed(tmp_path, found[0], found[1])
    lake.upgrade(found[1])
    lake = restored(lake, tmp_path, rolled_back=True)
    lake.upgrade(found[2])
    make_holds_due(lake)
    outcome = commands.contract(lake.env)
    assert len(outcome.pending) == 2 and len(outcome.notes) == 1
    commands.contract(lake.env, HELD)
    assert commands.contract(lake.env).pending == ()


@pytest.mark.parametrize("at_once", [True, False])
def test_a_restore_says_which_ends_of_holds_were_lost(tmp_path: Path, at_once: bool) -> None:
    lake, third = in_hold(tmp_path)
    commands.contract(lake.env, at_once=True)
    lake.upgrade(third)
    backup(lake.env, str(tmp_path / "backup"))
    if not at_once:
        make_holds_due(lake)
    commands.contract(lake.env, at_once=at_once)
    _, notes = brought_back(lake, tmp_path)
    assert [note.count("contract of generation") for note in notes if "contract of generation" in note] == [1]


def test_a_restore_does_not_name_the_end_of_a_hold_before_the_backup(tmp_path: Path) -> None:
    lake, third = in_hold(tmp_path)
    commands.contract(lake.env, at_once=True)
    lake.upgrade(third)
    backup(lake.env, str(tmp_path / "backup"))
    _, notes = brought_back(lake, tmp_path)
    assert notes == ()


def _stopped_in_rollback(lake: Lake) -> None:
    """Kill a rollback once its hold says that it goes back."""
    for write in range(1, 40):
        with contextlib.suppress(Crash):
            commands.rollback(lake.crashing_at(write), jobs=no_spark)
        if [hold.state for hold in lake.state.holds.values()] == [HoldState.ROLLING_BACK]:
            return
    pytest.fail("no write leaves the hold rolling back")


def _advice(error: SchemamigError) -> str:
    found = error.refusals if isinstance(error, Refused) else (error,)
    return " ".join(item.next_action for item in found)


def _leads_on(lake: Lake, what: Callable[[], object]) -> None:
    """``what`` is refused; what its error says to do is done, and it goes."""
    with pytest.raises(SchemamigError) as caught:
        what()
    assert "schemamig contract --generation 2`" in _advice(caught.value)
    commands.contract(lake.env, HELD)
    what()
