"""A ``revert`` that was held up while a whole ``accept`` went by, and the other way round: who comes late changes nothing."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import WriterFenced
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.lake import Crash, Lake
from tests.support.rows import tables
from tests.support.tables import foreign
from tests.support.upgrades import refused, two_releases


def test_a_revert_that_an_accept_overtook(tmp_path: Path) -> None:
    one = "CREATE TABLE u (id BIGINT);"
    lake = two_releases(tmp_path, one, "CREATE TABLE u (id BIGINT, x INT);", 'evolution("u")')
    folder = tmp_path / "release"
    shutil.copytree(lake.first, folder)
    tables.add_column(lake.path("u"), "theirs")
    tables.insert(lake.path("u"), [{"id": 1, "theirs": "kept"}])
    moments = []

    def hook(moment: str, what: str, key: str) -> None:
        moments.append(moment)
        if len(moments) == 1:  # just before the revert's intent is appended
            assert commands.accept(lake.env, folder).version is not None

    with contextlib.suppress(SchemamigError):
        commands.revert(replace(lake.env, on_write=hook), "u", allow_lossy=True)
    assert commands.status(lake.env).drifted == ()
    assert tables.snapshot(lake.path("u")).rows == [{"id": 1, "theirs": "kept"}]


def test_an_accept_that_a_revert_overtook(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE u (id BIGINT);", "CREATE TABLE u (id BIGINT, x INT);", 'evolution("u")')
    folder = tmp_path / "release"
    shutil.copytree(lake.first, folder)
    tables.add_column(lake.path("u"), "theirs")
    once = iter([True])

    def hook(moment: str, what: str, key: str) -> None:
        if next(once, False):  # just before the accept's append
            assert commands.revert(lake.env, "u").changes

    with refused("overtaken", "u"):
        commands.accept(replace(lake.env, on_write=hook), folder)
    assert commands.status(lake.env).drifted == ()
    assert commands.accept(lake.env, folder).version is None


@pytest.mark.parametrize("has_rows", [False, True])
def test_an_accept_that_comes_between_the_two_writes_of_a_revert(tmp_path: Path, has_rows: bool) -> None:
    """It looked before the revert was announced, and appends before the revert's commit: the table is still as it was seen."""
    lake = two_releases(tmp_path, "CREATE TABLE u (id BIGINT);", "CREATE TABLE u (id BIGINT, x INT);", 'evolution("u")')
    folder = tmp_path / "release"
    shutil.copytree(lake.first, folder)
    tables.add_column(lake.path("u"), "theirs")
    if has_rows:
        tables.insert(lake.path("u"), [{"id": 1, "theirs": "gone"}])
    once = iter([True])
    before = tables.newest(lake.path("u"))

    def stop_before_the_commit(moment: str, what: str, key: str) -> None:
        if moment == "before" and what == "put_if_absent" and "_delta_log" in key:
            raise Crash

    def hook(moment: str, what: str, key: str) -> None:
        if next(once, False):  # just before the accept's append
            with contextlib.suppress(Crash):
                commands.revert(replace(lake.env, on_write=stop_before_the_commit), "u", allow_lossy=True)
            assert [intent.kind.value for intent in lake.state.intents.values()] == ["drift_revert"]
            assert tables.newest(lake.path("u")) == before

    with refused("overtaken", "u"):
        commands.accept(replace(lake.env, on_write=hook), folder)
    assert commands.revert(lake.env, "u", allow_lossy=True).changes
    assert commands.status(lake.env).drifted == ()


Z = "CREATE TABLE z (id BIGINT NOT NULL, w BIGINT, PRIMARY KEY (id));"
T = "CREATE TABLE t (id BIGINT, ref BIGINT, FOREIGN KEY (ref) REFERENCES z);"


def referred_to(folder: Path) -> Lake:
    """z, whose columns may be renamed by anybody since a release did, and t, which refers to it."""
    lake = two_releases(folder, Z + T, Z.replace("w BIGINT", "v BIGINT") + T, 'evolution("z", rename={"w": "v"})')
    lake.upgrade(lake.second, hold=timedelta(0))
    return lake


def test_an_accept_of_what_a_foreign_key_refers_to_is_refused_where_its_ways_are_shown(tmp_path: Path) -> None:
    lake, folder = referred_to(tmp_path), tmp_path / "release"
    shutil.copytree(lake.second, folder)
    foreign.rename_column(lake.path("z"), "id", "pk")
    wanted = "id is used by FOREIGN KEY (ref) REFERENCES z of t"
    assert wanted in str(commands.drift_document(lake.env))
    with refused("cannot_accept", "z") as found:
        commands.accept(lake.env, folder)
    assert wanted in str(found[0])
    commands.revert(lake.env, "z")
    assert commands.status(lake.env).drifted == ()


def test_an_unmanaged_table_that_a_foreign_key_refers_to_says_who_cannot_write(tmp_path: Path) -> None:
    lake = referred_to(tmp_path)
    (note,) = commands.unmanage(lake.env, "z").notes
    assert note.startswith("FOREIGN KEY (ref) REFERENCES z of t: schemamig's writers write no rows there")
    with pytest.raises(WriterFenced, match="adopt it, or upgrade to a release without the key"):
        lake.env.writer("t").append(pa.table({"id": [1], "ref": [1]}))


@pytest.mark.parametrize("way", ["accept", "revert"])
def test_an_accept_or_revert_that_leaves_a_referred_column_empty_tells_which_key_was_not_asked(tmp_path: Path, way: str) -> None:
    z, t = "CREATE TABLE z (id BIGINT, w BIGINT);", "CREATE TABLE t (ref BIGINT, FOREIGN KEY (ref) REFERENCES z (id));"
    lake = two_releases(tmp_path, z + t, z.replace("w BIGINT", "v BIGINT") + t, 'evolution("z", rename={"w": "v"})')
    lake.upgrade(lake.second, hold=timedelta(0))
    table, folder = lake.path("z"), tmp_path / "release"
    shutil.copytree(lake.second, folder)
    kind = next(field["type"] for field in tables.snapshot(table).fields if field["name"] == "id")
    foreign.drop_column(table, "id")
    foreign.add_column(table, "id", kind)
    done = commands.accept(lake.env, folder) if way == "accept" else commands.revert(lake.env, "z", allow_lossy=True)
    assert "no row is asked for FOREIGN KEY (ref) REFERENCES z of t; `schemamig verify` asks all" in " ".join(done.notes)


def lose(table: Path) -> str:
    shutil.rmtree(table)
    return "no Delta table is there"


def lose_commits(table: Path) -> str:
    foreign.write(table, [{"id": 1}])
    (table / "_delta_log" / f"{0:020}.json").unlink()
    return f"version 0 of the log of file://{table} is gone"


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("loses", [lose, lose_commits])
def test_an_accept_tells_of_tables_that_are_gone_as_status_does(tmp_path: Path, loses: Callable[[Path], str], others: bool) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE u (id BIGINT); CREATE TABLE t (id BIGINT);", "CREATE TABLE u (id BIGINT);", 'removal("t")')
    folder = tmp_path / "release"
    shutil.copytree(lake.first, folder)
    why = loses(lake.path("t"))
    if others:
        foreign.add_column(lake.path("u"), "theirs")
    done = commands.accept(lake.env, folder)
    assert [name for name, _ in done.changes] == (["u"] if others else [])
    assert done.notes[-1] == f"t is left as it is: {why} (`schemamig status`)"
    item = commands.status(lake.env).document["collections"]["t"]
    assert item["drift"] == [why]
    assert commands.drift_document(lake.env)["tables"][0]["differences"] == [why]
    assert [(way["way"], way["does"]) for way in item["ways_on"]] == [("unmanage", ["the collection is not managed any more"])]
