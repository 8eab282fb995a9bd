"""``accept`` writes one version for all: what other tables are ahead by goes into it, or no upgrade would take it."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.release.check import check
from tests.support.lake import no_spark
from tests.support.tables import foreign
from tests.support.upgrades import refused, two_releases, whole
from tests.unit.upgrade.drift.test_accept_ahead import Change, added, dropped, unreleased


def test_a_version_has_what_other_tables_are_ahead_by(tmp_path: Path) -> None:
    """They were accepted into a version that was taken out again, or altered: without them no upgrade takes the version."""
    lake, folder = unreleased(tmp_path, "ALTER TABLE u RENAME COLUMN i TO j")
    foreign.add_column(lake.path("t"), "x")
    assert str(commands.accept(lake.env, folder).version) == "1.2.0"
    assert 'evolution("u", rename={"i": "j"})' in (folder / "migrations" / "v1_2_0.py").read_text()
    lake.upgrade(folder)
    assert not any(item["ahead"] for item in commands.status(lake.env).document["collections"].values())
    whole(lake)


#: What else drifts of ``t``, which is ahead of its release, without a change that a release would say.
UNSAID: dict[str, Change] = {
    "another id": lambda path: foreign.give_id(path, "ANOTHER"),
    "a column again": lambda path: [change(path) for change in (dropped("b"), added("b"))],
}


@pytest.mark.parametrize("name", UNSAID)
def test_a_version_has_what_a_table_is_ahead_by_that_drifted_otherwise(tmp_path: Path, name: str) -> None:
    lake, folder = unreleased(tmp_path, "ALTER TABLE t ADD COLUMN e INT")
    UNSAID[name](lake.path("t"))
    foreign.add_column(lake.path("u"), "x")
    assert [item for item, _ in commands.accept(lake.env, folder).changes] == ["t", "u"]
    assert 'evolution("t")' in (folder / "migrations" / "v1_2_0.py").read_text()
    lake.upgrade(folder)
    assert lake.version == "1.2.0"
    whole(lake)


def test_a_version_removes_what_was_dropped_outside_of_a_release(tmp_path: Path) -> None:
    lake, folder = unreleased(tmp_path, "DROP TABLE t")
    foreign.add_column(lake.path("u"), "x")
    commands.accept(lake.env, folder)
    assert 'removal("t")' in (folder / "migrations" / "v1_2_0.py").read_text()
    assert not list(check(folder))
    lake.upgrade(folder)
    assert (lake.version, sorted(lake.state.objects)) == ("1.2.0", ["u"])
    whole(lake)


def test_a_version_removes_what_a_key_referred_to_that_was_dropped_first(tmp_path: Path) -> None:
    p, v = "CREATE TABLE p (id BIGINT); ", "CREATE TABLE v (id BIGINT); "
    t = "CREATE TABLE t (ref BIGINT, CONSTRAINT fk FOREIGN KEY (ref) REFERENCES p (id));"
    lake = two_releases(tmp_path, p + v + t, p + v.replace("id BIGINT", "id BIGINT, y INT") + t, 'evolution("v")')
    folder = tmp_path / "folder"
    shutil.copytree(lake.first, folder)
    for statement in ("ALTER TABLE t DROP CONSTRAINT fk", "DROP TABLE p"):
        commands.alter(lake.env, statement, jobs=no_spark, hold=timedelta(0))
    foreign.add_column(lake.path("v"), "x")
    commands.accept(lake.env, folder)
    lake.upgrade(folder, hold=timedelta(0))
    assert (lake.version, sorted(lake.state.objects)) == ("1.1.0", ["t", "v"])


def test_a_version_keeps_dropped_tables_that_the_folder_is_about_to_change_and_what_they_refer_to(tmp_path: Path) -> None:
    """An upgrade to it is refused, which says what to do; ``accept`` makes nothing of it that is no schema."""
    y, u = "CREATE TABLE y (id BIGINT); ", "CREATE TABLE u (i BIGINT); "
    x = "CREATE TABLE x (ref BIGINT, CONSTRAINT fk FOREIGN KEY (ref) REFERENCES y (id));"
    lake = two_releases(tmp_path, y + u + x, y + u + x.replace("ref BIGINT,", "ref BIGINT, k INT,"), 'evolution("x")')
    folder = tmp_path / "folder"
    shutil.copytree(lake.second, folder)
    for name in ("x", "y"):
        commands.alter(lake.env, f"DROP TABLE {name}", jobs=no_spark, hold=timedelta(0))
    foreign.add_column(lake.path("u"), "theirs")
    assert str(commands.accept(lake.env, folder).version) == "1.2.0"
    assert not list(check(folder))
    with refused("ahead_not_in_release", "x"):
        lake.upgrade(folder)


@pytest.mark.parametrize("end", ["", ";", " -- the last one", "\n/* a; b */\n"])
def test_a_version_has_a_created_table_after_a_schema_that_ends_anyhow(tmp_path: Path, end: str) -> None:
    lake = two_releases(tmp_path, f"CREATE TABLE t (id BIGINT){end}", "CREATE TABLE t (id BIGINT, y INT);", 'evolution("t")')
    folder = tmp_path / "folder"
    shutil.copytree(lake.first, folder)
    commands.alter(lake.env, "CREATE TABLE k (z INT)", jobs=no_spark, hold=timedelta(0))
    foreign.add_column(lake.path("t"), "x")
    commands.accept(lake.env, folder)
    assert not list(check(folder))
    lake.upgrade(folder)
    assert sorted(lake.state.objects) == ["k", "t"]


@pytest.mark.parametrize("named", [(), ("u",)])
def test_a_version_lacks_what_a_table_is_ahead_by_whose_log_lost_commits(tmp_path: Path, named: tuple[str, ...]) -> None:
    lake, folder = unreleased(tmp_path, "ALTER TABLE t ADD COLUMN e INT")
    (lake.path("t") / "_delta_log" / f"{0:020}.json").unlink()
    foreign.add_column(lake.path("u"), "x")
    assert [name for name, _ in commands.accept(lake.env, folder, named).changes] == ["u"]
