"""The runbook's entries of streams and of verify: each is provoked, and its own words are followed. Spark's part is played."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands, spark
from tests.support.online import OnlineJobs
from tests.support.replicas import Replicas, make_replicas
from tests.support.rows.tables import change, insert
from tests.support.upgrades import two_releases
from tests.unit.cli.samples import Run
from tests.unit.runbook.book import follow, sees
from tests.unit.runbook.scenes import Releases, Scene
from tests.unit.upgrade.plan.test_cleaned_logs import clean

GAP = "A stream has a gap"


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Replicas:
    made = make_replicas(tmp_path)
    monkeypatch.setattr(spark, "runner_for", lambda url, conf: made.runner)
    made.insert("a", {"id": 1, "v": "x"})
    return made


def uri(two: Replicas, name: str) -> str:
    return two.env(name).location.uri


def replicate(run: Run, two: Replicas, *more: object, exit_code: int = 0) -> list[dict[str, object]]:
    done = run("replicate", "--from", uri(two, "a"), "--to", uri(two, "b"), "--collection", "trips", *more, "--json")
    assert done.exit_code == exit_code, done.stdout + done.stderr
    streams: list[dict[str, object]] = done.document["streams"]
    return streams


def test_a_stream_waits_for_its_target_s_upgrade(run: Run, two: Replicas) -> None:
    replicate(run, two)
    two.upgrade("a", to=2)
    two.insert("a", {"id": 2, "w": "w"})
    (stream,) = replicate(run, two, exit_code=3)
    assert stream["state"] == "paused"
    sees("stream_paused", "A stream waits")
    words = {"ENV": uri(two, "b"), "ORIGIN": uri(two, "a"), "RELEASE": two.folders[1], "COLLECTION": "trips"}
    follow(run, "A stream waits", "see why", **words)
    assert two.rows("b") == two.rows("a")


def test_a_stream_in_a_gap_is_restored(run: Run, two: Replicas) -> None:
    """Rows of the target's own, and commits of the origin that nobody can read any more."""
    replicate(run, two)
    first = two.checkpoint("a", "b")
    for number in range(2, 5):
        two.insert("a", {"id": number, "v": "y"})
    clean(two.path("a"))
    (stream,) = replicate(run, two, exit_code=1)
    assert stream["error"] == "log_cleaned"
    sees("log_cleaned", GAP)
    assert two.checkpoint("a", "b") == first
    words = {"ENV": uri(two, "b"), "ORIGIN": uri(two, "a"), "COLLECTION": "trips"}
    follow(run, "A stream has a gap", "copy the collection again", **words)
    assert two.rows("b") == two.rows("a")
    two.insert("a", {"id": 9, "v": "z"})
    replicate(run, two)
    assert two.rows("b") == two.rows("a")


def test_a_restore_that_would_lose_the_target_s_own_rows(run: Run, two: Replicas) -> None:
    two.insert("b", {"id": 9, "v": "mine"})
    (stream,) = replicate(run, two, exit_code=1)
    assert stream["error"] == "never_restored"
    refused = run("replicate", "--from", uri(two, "a"), "--to", uri(two, "b"), "--restore", "--collection", "trips", "--json")
    assert refused.document["error"]["code"] == "restore_would_lose"
    sees("restore_would_lose", GAP)
    words = {"ENV": uri(two, "b"), "ORIGIN": uri(two, "a"), "COLLECTION": "trips"}
    follow(run, "A stream has a gap", "`restore_would_lose`", **words)
    assert two.rows("b") == two.rows("a")


def test_a_stream_to_itself(run: Run, two: Replicas) -> None:
    refused = run("replicate", "--from", uri(two, "b"), "--to", uri(two, "b"), "--json")
    assert (refused.exit_code, refused.document["error"]["code"]) == (1, "looping_stream")
    sees("looping_stream", "A stream from an environment to itself")
    follow(run, "A stream from an environment to itself", "with the right origin", ENV=uri(two, "b"), ORIGIN=uri(two, "a"))
    assert two.rows("b") == two.rows("a")


def test_a_note_that_is_damaged(run: Run, two: Replicas) -> None:
    """The error names the object; that one is deleted."""
    replicate(run, two)
    root = two.env("b").location.local_path
    assert root is not None
    (note,) = (root / "_schemamig/replicas/streams").rglob("trips.json")
    note.write_text("{")
    (found,) = run("schema", "status", "--env", uri(two, "b"), "--json").document["unreadable"]
    assert note.match(f"*{found['where']}")
    sees("replica_note_damaged", "A stream's note is damaged")
    note.unlink()
    *_, shown = follow(run, "A stream's note is damaged", "the error names", ENV=uri(two, "b"))
    assert shown.exit_code == 0
    two.insert("a", {"id": 2, "v": "y"})
    replicate(run, two)
    assert note.exists()
    assert two.rows("b") == two.rows("a")


def test_verify_finds_rows_and_is_green_once_they_are_mended(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    keyed = "CREATE TABLE a (id BIGINT NOT NULL, v INT, PRIMARY KEY (id));"
    lake = two_releases(tmp_path, keyed, keyed.replace("v INT", "v INT, w INT"), 'evolution("a")')
    scene = Scene(lake, Releases(lake.first, lake.second, lake.second, lake.second), run)
    monkeypatch.setattr(spark, "runner_for", lambda url, conf: OnlineJobs())
    insert(lake.path("a"), [{"id": 1, "v": 1}, {"id": 1, "v": 2}])
    broken = run("verify", "--env", scene.env, "--json")
    assert (broken.exit_code, [item["collection"] for item in broken.document["findings"]]) == (1, ["a"])
    sees("inconsistent", "Verify found something")
    change(lake.path("a"), lambda row: None if row["v"] == 2 else row)
    (found,) = follow(run, "Verify found something", "see it", ENV=scene.env, COLLECTION="a")
    assert found.exit_code == 0
    assert commands.status(lake.env).drifted == ()
