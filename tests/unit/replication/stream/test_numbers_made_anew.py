"""A release's number is rolled back and comes again with another rewrite: rows of one are no rows of the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.restore.restore import restore
from tests.support.replicas import Replicas, make_replicas
from tests.support.upgrades import releases
from tests.unit.replication.test_rows_taken_away import with_jobs

FIRST = ("CREATE TABLE trips (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id));", "")


def rewriting(mark: str) -> tuple[str, str]:
    up = f"SELECT id, concat('{mark}', v) AS v FROM {{trips}}"
    return FIRST[0].replace("v STRING", "v STRING NOT NULL"), f'rewrite("trips", up="{up}", down="SELECT id, v FROM {{trips}}")'


def made_at_both(folder: Path) -> Replicas:
    """Both ends have made 1.1.0, which puts XX before the values; there is one row."""
    envs = with_jobs(make_replicas(folder / "first", FIRST, rewriting("XX")))
    envs.insert("a", {"id": 1, "v": "v"})
    assert envs.state("a", "b").pause is None
    for name in "ab":
        envs.upgrade(name, to=2, end_hold=False)
    return envs


def make_anew(envs: Replicas, name: str, folder: Path) -> None:
    """Roll 1.1.0 back, and make one that puts Y before the values."""
    _, second = releases(folder / f"second-{name}", FIRST, rewriting("Y"))
    envs.rollback(name)
    commands.upgrade(envs.env(name), second, jobs=envs.runner)


@pytest.mark.parametrize("is_followed", [False, True])
@pytest.mark.parametrize("end", "ab")
def test_a_stream_waits_where_one_end_made_the_number_anew(tmp_path: Path, end: str, is_followed: bool) -> None:
    envs = made_at_both(tmp_path)
    if is_followed:
        assert envs.state("a", "b").pause is None
    make_anew(envs, end, tmp_path)
    envs.insert("a", {"id": 2, "v": "another"})
    pause = envs.state("a", "b").pause
    assert pause is not None and "rewrite" in pause.detail
    assert [row["id"] for row in envs.declared_rows("b")] == [1]
    if end == "a":
        make_anew(envs, "b", tmp_path)
        assert envs.state("a", "b").pause is None
        assert envs.declared_rows("b") == envs.declared_rows("a")


@pytest.mark.parametrize("end", "ab")
def test_a_restore_brings_a_stream_on_that_waits_for_another_rewrite(tmp_path: Path, end: str) -> None:
    envs = made_at_both(tmp_path)
    make_anew(envs, end, tmp_path)
    envs.insert("a", {"id": 2, "v": "another"})
    assert envs.state("a", "b").pause is not None
    restore(envs.env("a"), envs.env("b"), CollectionName("trips"), jobs=lambda: envs.runner)
    envs.insert("a", {"id": 3, "v": "a third"})
    assert envs.state("a", "b").pause is None
    assert envs.declared_rows("b") == envs.declared_rows("a")
