"""Somebody changes the origin's columns, and a stream, its first copy or a restore comes by: no value stays behind without a word."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.errors import OriginDrifted
from airflow_provider_schemamig.core.replication.model import PauseReason
from airflow_provider_schemamig.core.replication.restore.restore import restore
from tests.support.lake import Crash
from tests.support.replicas import EAGER, Replicas, make_replicas
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.tables import foreign
from tests.unit.replication.test_older_writers import stamp

TRIPS = CollectionName("trips")
#: The backfill of y, whose DEFAULT is 7.
FILLS_Y = "SELECT `id`, `f`, (\nCAST((7) AS INT)\n) AS `y` FROM schemamig_files"
KEYS = pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"], ids=["no key", "key"])


def drifted(folder: Path, key: str, *, begun: bool) -> Replicas:
    """An origin to which somebody added a column with a value in it; ``begun``: a stream from it had been there before."""
    two = make_replicas(folder, (f"CREATE TABLE trips (id BIGINT NOT NULL, v STRING{key});", ""))
    two.insert("a", {"id": 0, "v": "before"})
    if begun:
        two.bring("a", "b")
    tables.add_column(two.path("a"), "x")
    two.insert("a", {"id": 1, "v": "v", "x": "kept"})
    return two


def accepted(two: Replicas) -> None:
    """The change becomes the next release, at both ends."""
    commands.accept(two.env("a"), two.folders[0])
    for name in "ab":
        commands.upgrade(two.env(name), two.folders[0], jobs=two.runner)


def assert_equal(two: Replicas) -> None:
    assert two.declared_rows("b") == two.declared_rows("a")
    assert "kept" in str(two.declared_rows("b"))


@KEYS
def test_the_first_copy_waits_for_drift_of_the_origin_as_an_event_does(tmp_path: Path, key: str) -> None:
    two = drifted(tmp_path, key, begun=False)
    (state,) = two.bring("a", "b").states
    assert state.pause is not None
    assert (state.pause.reason, state.pause.detail) == (PauseReason.ORIGIN_DRIFT, "x: expected nothing, found STRING")
    assert two.rows("b") == []
    accepted(two)
    two.bring("a", "b")
    assert_equal(two)


@KEYS
@pytest.mark.parametrize("begun", [False, True], ids=["no stream yet", "a stream"])
def test_a_restore_is_refused_while_the_origin_has_drift(tmp_path: Path, key: str, begun: bool) -> None:
    two = drifted(tmp_path, key, begun=begun)
    before = two.rows("b")
    with pytest.raises(OriginDrifted, match="at version 3 are not those that its ledger has: x: expected nothing, found STRING"):
        restore(two.env("a"), two.env("b"), TRIPS, jobs=two.runner)
    assert two.rows("b") == before
    accepted(two)
    two.bring("a", "b")
    assert_equal(two)


def test_a_restore_of_a_version_before_the_accept_is_refused_also_later(tmp_path: Path) -> None:
    two = drifted(tmp_path, "", begun=False)
    two.insert("a", {"id": 2, "v": "v", "x": "more"})
    commands.accept(two.env("a"), two.folders[0])
    with pytest.raises(OriginDrifted):
        restore(two.env("a"), two.env("b"), TRIPS, version=3, jobs=two.runner)
    restore(two.env("a"), two.env("b"), TRIPS, version=3, allow_schema_change=True, jobs=two.runner)
    assert [row["v"] for row in two.rows("b")] == ["before", "v"]


@KEYS
@pytest.mark.parametrize("between", [(1,), (2,), (1, 2)], ids=str)
def test_a_row_between_two_columns_that_one_accept_takes_over_is_brought(tmp_path: Path, key: str, between: tuple[int, ...]) -> None:
    two = make_replicas(tmp_path, (f"CREATE TABLE trips (id BIGINT NOT NULL, v STRING{key});", ""))
    two.insert("a", {"id": 0, "v": "kept"})
    two.bring("a", "b")
    for number, column in ((1, "x"), (2, "y")):
        tables.add_column(two.path("a"), column)
        if number in between:
            two.insert("a", {"id": number, "v": "v", "x": f"x{number}", **({"y": "y2"} if number == 2 else {})})
    accepted(two)
    two.bring("a", "b")
    assert_equal(two)


@pytest.mark.parametrize("more", ["", ", y INT", ", y INT DEFAULT 7"], ids=["no other", "another", "another with a default"])
def test_rows_of_an_attempt_that_was_given_up_half_way_are_brought_once_it_is_made_again(tmp_path: Path, more: str) -> None:
    """The new column y is there in its time, and the new f, whose name another column still had, is not yet."""
    table = "CREATE TABLE trips (id BIGINT NOT NULL, {}, PRIMARY KEY (id));"
    step = 'evolution("trips", rename={"f": "r"})'
    two = make_replicas(tmp_path, (table.format("f STRING"), ""), (table.format(f"r STRING, f BIGINT{more}"), step))
    two.runner = RowJobs({FILLS_Y: lambda row: [{**row, "y": 7}]})
    two.insert("a", {"id": 1, "f": "kept"})
    two.bring("a", "b")
    generation = commands.preflight(two.env("a"), two.folders[1], jobs=two.runner).generation
    assert generation is not None
    commands.promote(two.env("a"), generation)
    commands.expand(two.env("a"), generation)
    two.insert("a", {**dict.fromkeys(two.rows("a")[0], 7), "id": 2, "f": "v2"})
    commands.rollback(two.env("a"), jobs=two.runner)
    two.insert("a", {"id": 3, "f": "v3"})
    two.upgrade("a", "b", to=2)
    (state,) = two.bring("a", "b").states
    assert state.pause is None
    assert_equal(two)


TABLE = "CREATE TABLE trips (id BIGINT NOT NULL, v STRING{}, PRIMARY KEY (id));"


def test_a_row_of_an_attempt_over_two_releases_is_brought_with_the_columns_of_both(tmp_path: Path) -> None:
    """The attempt was given up, and the releases were made one by one since."""
    steps = [("", ""), (", y STRING", 'evolution("trips")'), (", y STRING, z STRING", 'evolution("trips")')]
    two = make_replicas(tmp_path, *((TABLE.format(columns), step) for columns, step in steps))
    two.insert("a", {"id": 1, "v": "v1"})
    two.bring("a", "b")
    generation = commands.preflight(two.env("a"), two.folders[2], jobs=two.runner, end_hold=True).generation
    assert generation is not None
    commands.promote(two.env("a"), generation)
    commands.expand(two.env("a"), generation)
    two.insert("a", {"id": 2, "v": "v2", "y": "y", "z": "kept"})
    commands.rollback(two.env("a"), jobs=two.runner)
    for number in (2, 3):
        two.upgrade("a", "b", to=number, end_hold=True)
    two.bring("a", "b", settings=replace(EAGER, depth=9))
    assert_equal(two)


def test_a_property_that_somebody_sets_while_an_upgrade_is_under_way_is_no_drift(tmp_path: Path) -> None:
    two = make_replicas(tmp_path, (TABLE.format(""), ""), (TABLE.format(", y STRING"), 'evolution("trips")'))
    two.insert("a", {"id": 1, "v": "kept"})
    two.bring("a", "b")
    generation = commands.preflight(two.env("a"), two.folders[1], jobs=two.runner).generation
    assert generation is not None
    commands.promote(two.env("a"), generation)
    commands.expand(two.env("a"), generation)
    tables.set_property(two.path("a"), "delta.logRetentionDuration", "interval 33 days")
    for number in (2, 3):
        row = {"id": number, "v": "by a handle", "y": None}
        tables.Statement(tables.snapshot(two.path("a")), [row], None, None, stamp(two, "1.0.0")).commit()
        assert two.state("a", "b").pause is None
    assert [row["id"] for row in two.rows("b")] == [1, 2, 3]


@pytest.mark.parametrize("retyped", [False, True], ids=["away", "of another type"])
def test_a_row_without_a_column_that_came_back_beside_another_one_that_is_accepted_waits_for_a_restore(
    tmp_path: Path, retyped: bool
) -> None:
    two = make_replicas(tmp_path, (TABLE.format(", x STRING"), ""))
    two.insert("a", {"id": 1, "v": "v", "x": "x"})
    two.bring("a", "b")
    tables.add_column(two.path("a"), "y")
    both = foreign.live_schema(two.path("a"))
    if retyped:
        fields = [field | ({"type": "integer"} if field["name"] == "x" else {}) for field in both]
        tables.alter(two.path("a"), schemaString=json.dumps({"type": "struct", "fields": fields}))
    else:
        foreign.drop_column(two.path("a"), "x")
    now = tables.snapshot(two.path("a"))
    row = {field["name"]: None for field in now.fields} | {"id": 2, "v": "v"}
    tables.put(
        two.path("a"), now.version, [{"commitInfo": {"operation": "WRITE"}}, {"add": tables.data_file(two.path("a"), now.fields, [row])}]
    )
    tables.alter(two.path("a"), schemaString=json.dumps({"type": "struct", "fields": both}))
    two.insert("a", {"id": 3, "v": "kept", "x": "x", "y": "y"})
    accepted(two)
    pause = two.state("a", "b").pause
    assert pause is not None
    found = "INT" if retyped else "nothing"
    assert (pause.reason, pause.detail) == (PauseReason.ORIGIN_DRIFT, f"x: expected STRING, found {found}, for a while")
    restore(two.env("a"), two.env("b"), TRIPS, jobs=two.runner)
    assert_equal(two)


def test_what_the_end_of_a_hold_takes_away_is_no_drift_wherever_it_is_cut_short(tmp_path: Path) -> None:
    """For the first copy, that is: a stream that has begun passes over these commits."""
    start = make_replicas(tmp_path / "start", (TABLE.format(", d STRING"), ""), (TABLE.format(""), 'evolution("trips", drop=["d"])'))
    start.insert("a", {"id": 1, "v": "kept", "d": "d"})
    start.upgrade("a", "b", to=2, end_hold=False)
    for moment in range(1, 30):
        two = start.copy(tmp_path / str(moment))
        try:
            commands.contract(two.lakes["a"].crashing_at(moment), at_once=True)
        except Crash:
            pass
        else:
            return
        pause = two.state("a", "b").pause
        assert pause is None or pause.reason is not PauseReason.ORIGIN_DRIFT, f"killed at moment {moment}: {pause.detail}"
    raise AssertionError("the hold never ended")
