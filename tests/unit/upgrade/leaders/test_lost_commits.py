"""On local disks a foreign writer may overwrite a commit of ours (Spark's store looks first and renames then): it is made again."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from tests.support.lake import Lake
from tests.support.tables import foreign
from tests.support.upgrades import promoted, refused, two_releases, whole


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, x STRING);", 'evolution("a")')


def overwritten(lake: Lake, times: int) -> Environment:
    """The environment with a writer in it that overwrites the first ``times`` commits of ours on the table, just after they were made."""
    log = lake.path("a") / "_delta_log"
    left = times

    def overwrite(moment: str, what: str, key: str) -> None:
        nonlocal left
        if (moment, what) != ("after", "put_if_absent") or not key.startswith("_delta_log/") or not left:
            return
        left -= 1
        theirs = log / f".{left}.tmp"
        theirs.write_text(json.dumps({"commitInfo": {"operation": "WRITE"}}) + "\n")
        os.replace(theirs, log.parent / key)

    return replace(lake.env, on_write=overwrite)


@pytest.mark.parametrize("times", [1, 3])
def test_a_commit_that_was_overwritten_is_made_again(lake: Lake, times: int) -> None:
    generation = promoted(lake, lake.second)
    outcome = commands.expand(overwritten(lake, times), generation)
    assert [stage.table_version for stage in outcome.stages if stage.kind == "expand"] == list(range(1, times + 2))
    commands.cutover(lake.env, generation)
    assert [field["name"] for field in foreign.live_schema(lake.path("a"))] == ["id", "x"]
    whole(lake)


def test_not_for_ever(lake: Lake) -> None:
    generation = promoted(lake, lake.second)
    with refused("commit_lost", "a") as found:
        commands.expand(overwritten(lake, 99), generation)
    assert found[0].retryable
    commands.expand(lake.env, generation)
    commands.cutover(lake.env, generation)
    whole(lake)


def test_one_that_was_overwritten_after_expand_had_looked(lake: Lake) -> None:
    """A JVM that was stopped for long: the cut-over sees that the table lacks its expand commit, and says what to do."""
    generation = promoted(lake, lake.second)
    commands.expand(lake.env, generation)
    commit = lake.path("a") / "_delta_log" / f"{1:020}.json"
    commit.unlink()
    foreign.write(lake.path("a"), [{"id": 1}])
    with refused("wrong_state", "a"):
        commands.cutover(lake.env, generation)
    commands.expand(lake.env, generation)
    commands.cutover(lake.env, generation)
    whole(lake)
