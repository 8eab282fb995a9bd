"""An environment is made only where that was asked for: a URI with a typo is refused, and leaves not a byte."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.backup import backup, restore
from airflow_provider_schemamig.core.ledger.errors import NoEnvironment
from airflow_provider_schemamig.core.storage import Location
from airflow_provider_schemamig.core.upgrade.adopt.adopt import adopt
from airflow_provider_schemamig.core.upgrade.rebuild.rebuild import rebuild
from airflow_provider_schemamig.exceptions import Refused, SchemamigError
from tests.support.bytes import tree
from tests.support.lake import Crash, Lake, no_spark
from tests.support.tables.adopting import Site
from tests.support.upgrades import two_releases

ONE, TWO = "CREATE TABLE t (id BIGINT);", "CREATE TABLE t (id BIGINT, n INT);"
STEPS = 'evolution("t")'

Verb = Callable[[Environment, Lake], Any]
MAKES: dict[str, Verb] = {
    "upgrade": lambda env, lake: commands.upgrade(env, lake.second, jobs=no_spark),
    "preflight": lambda env, lake: commands.preflight(env, lake.second, jobs=no_spark),
    "adopt": lambda env, lake: adopt(env, lake.second.parent / "new", [("x", str(lake.path("t")))]),
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return two_releases(tmp_path, ONE, TWO, STEPS)


def missing(run: Callable[[], Any]) -> NoEnvironment:
    with pytest.raises(SchemamigError) as caught:
        run()
    error = caught.value.refusals[0] if isinstance(caught.value, Refused) else caught.value
    assert isinstance(error, NoEnvironment)
    assert (error.code, error.retryable) == ("no_environment", False)
    return error


@pytest.mark.parametrize("verb", MAKES.values(), ids=MAKES.keys())
def test_a_place_without_an_environment_is_refused_and_stays_as_it_is(lake: Lake, tmp_path: Path, verb: Verb) -> None:
    (tmp_path / "other").mkdir()
    for name in ("lakes", "other"):
        before = tree(tmp_path)
        found = missing(lambda name=name: verb(Environment.open(str(tmp_path / name)), lake))  # type: ignore[misc]
        assert (found.table, found.around) == (None, None)
        assert "--create" in found.next_action
        assert tree(tmp_path) == before


@pytest.mark.parametrize("create", [False, True])
def test_a_table_is_no_place_for_an_environment(lake: Lake, tmp_path: Path, create: bool) -> None:
    elsewhere = Site(tmp_path / "site").table("flights")
    root = lake.env.location.uri
    before = tree(tmp_path)
    for path, table, around in (
        (lake.path("t"), lake.path("t"), root),
        (lake.path("t").parent, None, root),
        (lake.path("t") / "day=1" / "x", lake.path("t"), root),
        (elsewhere, elsewhere, None),
        (elsewhere / "day=1", elsewhere, None),
    ):
        env = Environment.open(str(path))
        found = missing(lambda env=env: commands.upgrade(env, lake.second, create=create, jobs=no_spark))  # type: ignore[misc]
        assert (found.table, found.around) == (None if table is None else f"file://{table}", around)
        assert (", but a Delta table" in str(found), "in the Delta table at" in str(found)) == (path == table, table not in (None, path))
        assert (around or f"`--table NAME=file://{table}`") in found.next_action and "schemamig adopt" not in found.next_action
    assert tree(tmp_path) == before


@pytest.mark.parametrize("verb", ["restore", "rebuild"])
def test_a_ledger_is_brought_back_into_no_table_and_no_other_environment(lake: Lake, tmp_path: Path, verb: str) -> None:
    backup(lake.env, str(tmp_path / "backup"))
    before = tree(tmp_path)
    for path in (lake.path("t"), lake.path("t").parent, lake.path("t") / "day=1" / "x"):
        env = Environment.open(str(path))
        run = (lambda env=env: restore(env, str(tmp_path / "backup"))) if verb == "restore" else (lambda env=env: rebuild(env, lake.first))
        assert missing(run).around == lake.env.location.uri
    assert tree(tmp_path) == before


def test_reading_says_the_same(lake: Lake) -> None:
    found = missing(lambda: commands.status(Environment.open(str(lake.path("t")))))
    assert (found.table, found.around) == (f"file://{lake.path('t')}", lake.env.location.uri)


def test_with_create_it_is_made_once_and_found_again(lake: Lake, tmp_path: Path) -> None:
    env = Environment.open(str(tmp_path / "new"))
    assert str(commands.upgrade(env, lake.first, create=True, jobs=no_spark).target) == "1.0.0"
    made = replace(lake, env=env).state.config.env_id
    assert str(commands.upgrade(env, lake.second, create=True, jobs=no_spark).target) == "1.1.0"
    assert replace(lake, env=env).state.config.env_id == made


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("lost", ["", "/ledger"])
def test_an_environment_that_was_lost_is_not_made_anew(lake: Lake, tmp_path: Path, lost: str, create: bool) -> None:
    """Its ledger is gone, and its tables or what it wrote beside them are there: that is for a backup, or ``ledger rebuild``."""
    (tmp_path / f"lake/_schemamig{lost}").rename(tmp_path / "gone")
    before = tree(tmp_path / "lake")
    env = replace(lake.env)
    for verb in (
        lambda: commands.upgrade(env, lake.second, create=create, jobs=no_spark),
        lambda: adopt(env, tmp_path / "new", [("x", str(Site(tmp_path / "site").table("flights")))], create=create),
    ):
        found = missing(verb)
        assert ("_schemamig/history" in found.remains) is bool(lost)
        assert ("ledger rebuild" in found.next_action) is (create or bool(lost))
        assert not create or found.remains[-1].startswith("t/g1-")
    report = commands.plan(env, lake.second)
    assert [refusal.code for refusal in report.refusals] == ["no_environment"]
    assert tree(tmp_path / "lake") == before


STAGED = (".00000000000000000000.json.0123456789abcdef0123456789abcdef.tmp", "00000000000000000000.json#1")


@pytest.mark.parametrize("name", STAGED)
def test_a_first_commit_that_was_only_staged_is_none(lake: Lake, tmp_path: Path, name: str) -> None:
    """A file store's writers stage a commit beside its name; killed there, none was made."""
    for verb in ("upgrade", "restore", "rebuild"):
        root = tmp_path / f"{verb}{len(name)}"
        if verb == "rebuild":
            shutil.copytree(tmp_path / "lake", root)
            shutil.rmtree(root / "_schemamig" / "ledger")
        (root / "_schemamig/ledger/_delta_log").mkdir(parents=True)
        (root / "_schemamig/ledger/_delta_log" / name).write_bytes(b"")
        env = Environment.open(str(root))
        missing(lambda env=env: commands.status(env))  # type: ignore[misc]
        if verb == "upgrade":
            commands.upgrade(env, lake.first, create=True, jobs=no_spark)
        elif verb == "restore":
            backup(lake.env, str(tmp_path / f"backup{len(name)}"))
            restore(env, str(tmp_path / f"backup{len(name)}"))
        else:
            rebuild(env, lake.first)
        assert replace(lake, env=replace(env)).version == "1.0.0"


def test_no_environment_is_made_in_another_behind_a_link(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link").symlink_to(tmp_path / "lake" / "t")
    env = Environment.open(str(tmp_path / "elsewhere" / "link" / "new"))
    before = tree(tmp_path)
    assert missing(lambda: commands.upgrade(env, lake.second, jobs=no_spark, create=True)).around == lake.env.location.uri
    assert tree(tmp_path) == before


def test_no_environment_is_made_around_another(lake: Lake, tmp_path: Path) -> None:
    above = tmp_path / "above"
    shutil.copytree(tmp_path / "lake", above / "lakes" / "lake")
    before = tree(tmp_path)
    for place in (above / "lakes", above):
        found = missing(lambda place=place: commands.upgrade(Environment.open(str(place)), lake.second, create=True, jobs=no_spark))  # type: ignore[misc]
        assert found.inside == (above / "lakes" / "lake").as_uri()
        assert found.inside in found.next_action
    assert tree(tmp_path) == before


def test_what_a_killed_first_upgrade_left_is_in_nobodys_way(lake: Lake, tmp_path: Path) -> None:
    for moment in range(200):
        env = Environment.open(str(tmp_path / f"new-{moment}"))
        try:
            commands.upgrade(replace(lake, env=env).crashing_at(moment), lake.first, create=True, jobs=no_spark)
        except Crash:
            assert str(commands.upgrade(replace(env), lake.first, create=True, jobs=no_spark).target) == "1.0.0", f"moment {moment}"
        else:
            assert moment > 10
            return
    raise AssertionError("it never came through")


def test_a_plan_says_that_there_is_none_yet(lake: Lake, tmp_path: Path) -> None:
    report = commands.plan(Environment.open(str(tmp_path / "nowhere")), lake.second)
    assert report.exit_code == 3
    assert any("--create" in note for note in report.notes)


@pytest.mark.parametrize(
    ("uri", "parents"),
    [
        ("/a/b/c", ["file:///a/b", "file:///a", "file:///"]),
        ("s3://bucket/a/b", ["s3://bucket/a", "s3://bucket"]),
        ("s3://bucket", []),
        ("/", []),
    ],
)
def test_the_folder_around_a_location(uri: str, parents: list[str]) -> None:
    found, location = [], Location.parse(uri)
    while (location := location.parent) is not None:  # type: ignore[assignment]
        found.append(location.uri)
    assert found == parents
