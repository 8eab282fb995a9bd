"""A column that is on the table already, hidden, comes up with the values that it has: the plan says so before anybody approves it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.upgrade.rebuild.rebuild import rebuild
from tests.support.lake import Lake, append
from tests.support.upgrades import deployed, expanded, releases, two_releases
from tests.unit.ledger.samples import elsewhere
from tests.unit.upgrade.rebuild.test_rebuild import lose

WITH = "CREATE TABLE t (id BIGINT, a STRING);"
WITHOUT = "CREATE TABLE t (id BIGINT);"


def notes(lake: Lake, release: Path) -> list[str]:
    return [note for note in commands.plan(lake.env, release).plan.notes if "hidden" in note]


def test_a_column_that_was_dropped_before_the_ledger_was_lost_is_told(tmp_path: Path) -> None:
    made = releases(tmp_path, (WITH, ""), (WITHOUT, 'evolution("t", drop=["a"])'), (WITH, 'evolution("t")'))
    lake = deployed(tmp_path, made[0], made[1])
    append(lake.path("t"), [{"id": 1, "a": "of before"}])
    lake.upgrade(made[1])
    lose(lake)
    rebuild(elsewhere(lake.env), made[1])
    again = replace(lake, env=elsewhere(lake.env))
    (note,) = notes(again, made[2])
    told, _, what = note.partition(". ")
    assert told == "t: the column a is on the table, hidden, and no release that the ledger knows had it"
    assert what == "Rows that have a value in it show that value."
    again.upgrade(made[2])
    assert again.env.reader("t").arrow().to_pylist() == [{"id": 1, "a": "of before"}]


def test_a_column_that_a_rollback_hid_is_told(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, WITHOUT, WITH, 'evolution("t")')
    assert notes(lake, lake.second) == [], "it is not there yet"
    lake.upgrade(lake.second)
    append(lake.path("t"), [{"id": 1, "a": "kept"}])
    commands.rollback(lake.env)
    (note,) = notes(lake, lake.second)
    assert note.startswith("t: the column a is on the table, hidden since an upgrade was rolled back. ")


def test_a_field_that_a_rollback_hid_is_told_by_its_path(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE t (s STRUCT<x: INT>);", "CREATE TABLE t (s STRUCT<x: INT, y: INT>);", 'evolution("t")')
    lake.upgrade(lake.second)
    append(lake.path("t"), [{"s": {"x": 1, "y": 2}}])
    commands.rollback(lake.env)
    (note,) = notes(lake, lake.second)
    assert note.startswith("t: the column s.y is on the table, hidden from before. ")


def test_columns_that_are_new_or_renamed_are_no_news(tmp_path: Path) -> None:
    made = releases(tmp_path, (WITH, ""), ("CREATE TABLE t (id BIGINT, b STRING, a INT);", 'evolution("t", rename={"a": "b"})'))
    lake = deployed(tmp_path, made[0], made[1])
    assert notes(lake, made[1]) == []
    lake.upgrade(made[1], hold=timedelta(0))
    assert notes(lake, made[1]) == []


def test_an_upgrade_in_one_go_says_what_its_plan_said(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, WITHOUT, WITH, 'evolution("t")')
    lake.upgrade(lake.second)
    append(lake.path("t"), [{"id": 1, "a": "kept"}])
    commands.rollback(lake.env)
    expected = commands.plan(lake.env, lake.second).plan.notes
    assert expected
    assert set(expected) <= set(lake.upgrade(lake.second).notes)


def test_a_rollback_before_the_commit_says_what_stays(tmp_path: Path) -> None:
    """The column is used by a writer that did not wait for the release; nothing on the table has to be changed for it to be hidden."""
    lake = two_releases(tmp_path, WITHOUT, WITH, 'evolution("t")')
    expanded(lake, lake.second)
    append(lake.path("t"), [{"id": 1, "a": "early"}])
    assert [note for note in commands.rollback(lake.env).notes if "a stays as a hidden column" in note]


def test_a_name_that_a_hold_keeps_is_refused_for_that_alone(tmp_path: Path) -> None:
    """Not also for what the commit would say of the field that is in the way."""
    made = releases(
        tmp_path,
        ("CREATE TABLE t (id BIGINT, a STRING, b STRING);", ""),
        ("CREATE TABLE t (id BIGINT, b STRING);", 'evolution("t", drop=["a"])'),
        ("CREATE TABLE t (id BIGINT, a STRING);", 'evolution("t", rename={"b": "a"})'),
    )
    lake = deployed(tmp_path, made[0], made[1])
    append(lake.path("t"), [{"id": 1, "a": "x", "b": "y"}])
    lake.upgrade(made[1])
    assert [refusal.code for refusal in commands.plan(lake.env, made[2]).refusals] == ["hold_open"]
