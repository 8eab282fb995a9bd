"""Rollbacks whose tables had their logs cleaned up inside of the hold: what cannot be told any more, and what that costs."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.storage import StorageUnreachable
from airflow_provider_schemamig.core.upgrade.rollback import evolutions, rollback
from tests.support.bytes import unwritten
from tests.support.lake import Lake, append, no_spark
from tests.support.online import OnlineJobs
from tests.support.rows.rewritten import jobs, make_rewritten, upgrade
from tests.support.rows.tables import insert
from tests.support.tables import foreign
from tests.support.upgrades import refused, releases, seen, two_releases, whole
from tests.unit.upgrade.online.test_online_types import table, texts, upgraded

#: One table evolves, and another one is replaced.
ONE = "CREATE TABLE t (id BIGINT, b INT NOT NULL, CONSTRAINT few CHECK (b < 9)); CREATE TABLE s (o STRING);"
TWO = "CREATE TABLE t (id BIGINT, g STRING); CREATE TABLE s (o STRING, n BIGINT);"
STEPS = 'evolution("t", drop=["b"]), replacement("s")'
EVOLVE = 'evolution("t")'


def clean(path: Path) -> None:
    """What Delta does by itself when commits are older than the table keeps them: a checkpoint, and no commit before it."""
    table = DeltaTable(str(path))
    table.create_checkpoint()
    for version in range(table.version()):
        (path / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = two_releases(tmp_path, ONE, TWO, STEPS)
    append(found.path("t"), [{"id": 1, "b": 1}])
    found.upgrade(found.second)
    return found


def test_an_evolved_table_goes_back_as_if_everything_had_come(lake: Lake) -> None:
    for number in range(3):
        foreign.write(lake.path("t"), [{"id": number}])
    clean(lake.path("t"))
    outcome = commands.rollback(lake.env, jobs=no_spark)
    assert lake.version == "1.0.0"
    whole(lake)
    assert seen(lake, "t")["hidden"] == ["g"]
    assert any("stays nullable" in note for note in outcome.notes) and any("g stays as a hidden column" in note for note in outcome.notes)
    lake.upgrade(lake.second, end_hold=True)
    whole(lake)


def test_a_rollback_that_cannot_be_done_leaves_all_as_it_was(tmp_path: Path) -> None:
    """Rows of a rewritten table have to go back, and nobody knows any more which; another table of the release is replaced."""
    found = make_rewritten(tmp_path)
    upgrade(found, found.env, jobs())
    found.insert("keyed", [{"id": 900, "v": 9}])
    clean(found.path("keyed"))
    before = found.state
    for lossy in (False, True):
        with unwritten(found.env), refused("way_back_gone", "keyed") as errors:
            commands.rollback(found.env, jobs=jobs, allow_lossy=lossy)
        assert not errors[0].retryable
    assert found.state.version == before.version
    append(found.path("keyed"), [{"id": 901, "v": 9}])
    found.insert("plain", [{"line": "x", "n": 1, "day": "x"}])


def test_columns_change_places_again_whatever_came(tmp_path: Path) -> None:
    """Which rows came cannot be known, so all are asked: those whose value still says the same keep the text that they had."""
    lake = upgraded(texts(tmp_path))
    insert(lake.path("a"), [{"id": 4, "s": 4}])
    clean(lake.path("a"))
    commands.rollback(lake.env, jobs=OnlineJobs())
    assert lake.version == "1.0.0"
    whole(lake)
    assert table(lake) == {1: "007", 2: None, 3: "3", 4: "4"}


def test_a_rollback_that_fails_half_way_opens_what_it_sealed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any evolved table went back the release stands as it was, and its hold is open."""

    def fails(*_: object, **__: object) -> object:
        raise StorageUnreachable(uri="file:///elsewhere", reason="gone")

    monkeypatch.setattr(rollback, "roll_back_tables", fails)
    foreign.write(lake.path("t"), [{"id": 1}])
    with pytest.raises(StorageUnreachable):
        commands.rollback(lake.env, jobs=no_spark)
    assert [hold.state.value for hold in lake.state.holds.values()] == ["open"]
    assert not seen(lake, "s")["sealed"]
    whole(lake)
    monkeypatch.undo()
    append(lake.path("s"), [{"o": "x", "n": 1}])
    commands.rollback(lake.env, jobs=no_spark, allow_lossy=True)
    assert lake.version == "1.0.0"
    whole(lake)


def test_a_rollback_that_fails_after_a_table_went_back_opens_what_it_sealed_and_goes_on(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    roll_back_tables = evolutions.roll_back_tables

    def fails(*found: Any, **options: Any) -> Any:
        roll_back_tables(*found, **options)
        raise StorageUnreachable(uri="file:///elsewhere", reason="gone")

    monkeypatch.setattr(rollback, "roll_back_tables", fails)
    with pytest.raises(StorageUnreachable):
        commands.rollback(lake.env, jobs=no_spark)
    assert [hold.state.value for hold in lake.state.holds.values()] == ["rolling_back"]
    assert not seen(lake, "s")["sealed"], "nobody waits for the next try"
    monkeypatch.undo()
    commands.rollback(lake.env, jobs=no_spark)
    assert lake.version == "1.0.0"
    whole(lake)


def test_another_table_in_the_hold_refuses_the_rollback_before_anything(lake: Lake) -> None:
    foreign.make_anew(lake.path("t"), commits=9)
    with unwritten(lake.env), refused("another_table", "t"):
        commands.rollback(lake.env, jobs=no_spark)


# --- said before ---------------------------------------------------------------------------------------------------------------------


def kept(hours: int) -> str:
    """Properties of a table. Removed files may not be kept for longer than the log."""
    pair = (f"'delta.{key}' = 'interval {hours} hours'" for key in ("deletedFileRetentionDuration", "logRetentionDuration"))
    return f" TBLPROPERTIES ({', '.join(pair)})"


SHORT = kept(1)


def notes(lake: Lake, hold: timedelta = timedelta(hours=24)) -> dict[str, str]:
    """What the plan and preflight say of history, by collection: both the same."""
    found = commands.preflight(lake.env, lake.second, hold=hold, claim_id=str(hold), jobs=no_spark).report.notes
    if hold == timedelta(hours=24):
        assert commands.plan(lake.env, lake.second).notes == found
    return {name: text for name, _, text in (note.partition(": ") for note in found) if "history is kept" in text}


def test_the_plan_says_where_history_is_kept_for_a_shorter_time_than_the_hold(tmp_path: Path) -> None:
    one = f"CREATE TABLE t (id BIGINT){SHORT}; CREATE TABLE s (o STRING){SHORT}; CREATE TABLE u (id BIGINT){SHORT};"
    two = one.replace("t (id BIGINT", "t (id BIGINT, g STRING").replace("s (o STRING", "s (o STRING, n INT")
    lake = two_releases(tmp_path, one, two, 'evolution("t"), replacement("s")')
    found = notes(lake)
    assert sorted(found) == ["s", "t"]
    assert "kept for 1 hours, and a rollback may need 24" in found["t"] and "stay hidden" in found["t"]
    assert "delta.logRetentionDuration" in found["t"] and "--hold" in found["t"]
    assert "--allow-lossy" in found["s"]
    assert notes(lake, timedelta(minutes=30)) == {}
    again = commands.preflight(lake.env, lake.second, claim_id=str(timedelta(hours=24)), jobs=no_spark).report.notes
    assert any(found["t"] in note for note in again), "the claim that goes on has its hold, and what is said of it"


def test_cleaned_logs_what_the_release_declares_counts(tmp_path: Path) -> None:
    short = " TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 8 days')"
    lake = two_releases(tmp_path, "CREATE TABLE t (id BIGINT)", f"CREATE TABLE t (id BIGINT, g STRING){short}", EVOLVE)
    assert notes(lake) == {}
    assert "kept for 192 hours" in notes(lake, timedelta(days=9))["t"]


def test_a_longer_hold_than_the_default_of_the_log(lake: Lake, tmp_path: Path) -> None:
    other = two_releases(tmp_path / "other", "CREATE TABLE t (id BIGINT)", "CREATE TABLE t (id BIGINT, g STRING)", 'evolution("t")')
    assert notes(other) == {} and sorted(notes(other, timedelta(days=60))) == ["t"]


def test_cleaned_logs_what_an_older_hold_needs_counts_from_its_own_beginning(tmp_path: Path) -> None:
    """The log is kept for 30 hours; the older release is 10 hours old."""
    short = kept(30)
    folders = releases(
        tmp_path,
        *(
            (f"CREATE TABLE t (id BIGINT{more}){short}", steps)
            for more, steps in (("", ""), (", g STRING", EVOLVE), (", g STRING, h STRING", EVOLVE))
        ),
    )
    lake = Lake(Environment.open(str(tmp_path / "lake")), folders[0], folders[2])
    lake.upgrade(folders[0])
    lake.upgrade(folders[1])
    assert notes(lake) == {}
    for commit in (lake.path("t") / "_delta_log").glob("*.json"):
        commit.write_text("".join(f"{_older(line, hours=10)}\n" for line in commit.read_text().splitlines()))
    assert "a rollback may need 34" in notes(lake)["t"]


def _older(line: str, hours: int) -> str:
    action = json.loads(line)
    if "commitInfo" in action:
        action["commitInfo"]["timestamp"] -= hours * 3_600_000
    return json.dumps(action)
