"""``schemamig compact``: what is old is shown and rewritten; without old files no JVM starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from tests.support.bytes import tree
from tests.support.tables import foreign
from tests.unit.cli.samples import Run, conforms, refused


def folder(env: Path, collection: str) -> Path:
    uri = commands.status(Environment.open(str(env))).to_json()["collections"][collection]["uri"]
    return Path(uri.removeprefix("file://"))


@pytest.fixture
def owing(env: Path, new_release: Path, run: Run) -> Path:
    """At 1.1.0, with a file of 1.0.0 in ``flights``."""
    foreign.write(folder(env, "flights"), [{"flight_id": 1, "hour": 3}])
    done = run("upgrade", "--env", env, "--release", new_release, "--hold", "0", "--json")
    assert done.exit_code == 0, done.stdout
    return env


def test_the_plan_shows_the_debt_and_writes_nothing(owing: Path, run: Run) -> None:
    before = tree(owing)
    shown = run("compact", "--env", owing, "--plan", "--json")
    assert shown.exit_code == 0, shown.stdout
    conforms(shown.document, "compaction_plan")
    flights = next(item for item in shown.document["collections"] if item["collection"] == "flights")
    assert (flights["schema_id"], flights["old_files"]) == (2, 1)
    assert [(share["schema_id"], share["files"], share["rows"]) for share in flights["debt"]] == [(1, 1, 1)]
    text = run("compact", "--env", owing, "--plan", "--collection", "flights")
    assert "1 file(s) have an older schema" in text.stdout
    assert tree(owing) == before


def test_compact_nothing_to_do(env: Path, run: Run) -> None:
    done = run("compact", "--env", env, "--spark", "sc://127.0.0.1:1", "--json")
    assert done.exit_code == 0, done.stdout
    conforms(done.document, "compaction")
    assert done.document["stages"] == []
    assert "Nothing to do" in run("compact", "--env", env).stdout


def test_what_the_command_line_refuses(env: Path, run: Run) -> None:
    refused(run, "compact", "--env", env, "--collection", "boats", code="unknown_collection", collection="boats")
    assert run("compact", "--env", env, "--max-files", "0").exit_code == 2


def test_without_spark_it_says_so_and_changes_nothing(owing: Path, run: Run) -> None:
    flights = folder(owing, "flights")
    before = foreign.active_files(flights)
    refused(run, "compact", "--env", owing, "--spark", "sc://127.0.0.1:1", code="spark_unavailable", exit_code=75)
    assert foreign.active_files(flights) == before
    assert not list(flights.glob("schemamig-compact-*"))
