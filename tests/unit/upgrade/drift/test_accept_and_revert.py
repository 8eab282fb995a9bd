"""A ``revert`` that was held up while a whole ``accept`` went by, and the other way round: who comes late changes nothing."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.lake import Crash
from tests.support.rows import tables
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
