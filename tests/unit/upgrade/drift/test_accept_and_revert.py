"""A ``revert`` that was held up while a whole ``accept`` went by, and the other way round: who comes late changes nothing."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from pathlib import Path

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.exceptions import SchemamigError
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
