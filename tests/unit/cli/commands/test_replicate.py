"""``schemamig replicate``: exit codes and documents of what was brought, of what waits, and of what is stopped."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import spark
from airflow_provider_schemamig.core.storage.store import CONFIRM_SECONDS
from tests.support.bytes import unwritten
from tests.support.replicas import Replicas, make_replicas
from tests.support.rows import tables
from tests.unit.cli.samples import Ran, Run, conforms, refused


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Replicas:
    made = make_replicas(tmp_path)
    monkeypatch.setattr(spark, "runner_for", lambda url, conf: made.runner)
    made.insert("a", {"id": 1, "v": "x"})
    return made


def replicated(run: Run, two: Replicas, *options: object, origin: str = "a", target: str = "b", exit_code: int = 0) -> Ran:
    ran = run("replicate", "--from", two.env(origin).location.uri, "--to", two.env(target).location.uri, *options)
    assert ran.exit_code == exit_code, ran.stdout + ran.stderr
    if "--json" in options:
        conforms(ran.document, "replicate")
    return ran


def test_applied_paused_and_woken_by_the_command_itself(run: Run, two: Replicas) -> None:
    document = replicated(run, two, "--json").document
    assert (document["restores"], document["applied_rows"]) == (2, 1)
    assert [stream["state"] for stream in document["streams"]] == ["following"] * 2
    assert "Nothing to do." in replicated(run, two).stdout
    two.upgrade("a", to=2)
    two.insert("a", {"id": 2, "w": "w"})
    (paused,) = replicated(run, two, "--collection", "trips", "--json", exit_code=3).document["streams"]
    assert (paused["state"], paused["pause"]["reason"]) == ("paused", "schema_mismatch")
    shown = replicated(run, two, exit_code=3)
    assert "w is not in the target" in " ".join(shown.stdout.split())
    assert "Nothing was brought." in shown.stdout
    two.upgrade("b", to=2)
    assert replicated(run, two, "--json").document["applied_rows"] == 1, "it looks anew, whatever the last one found"
    assert two.rows("b") == two.rows("a")


def test_replicate_nothing_is_written_where_one_end_is_no_environment(run: Run, two: Replicas, tmp_path: Path) -> None:
    known = two.env("b")
    for ends in (("--from", tmp_path / "typo", "--to", known.location.uri), ("--from", known.location.uri, "--to", tmp_path / "typo")):
        with unwritten(known):
            refused(run, "replicate", *ends, code="no_environment")
    with unwritten(known):
        refused(run, "replicate", "--from", known.location.uri, "--to", known.location.uri, code="looping_stream")
    assert not (tmp_path / "typo").exists()


def test_stopped_and_restored(run: Run, two: Replicas) -> None:
    two.insert("b", {"id": 9, "v": "mine"})
    document = replicated(run, two, "--collection", "trips", "--json", exit_code=1).document
    assert [stream["error"] for stream in document["streams"]] == ["never_restored"]
    uris = [two.env(name).location.uri for name in "ab"]
    restoring = ("replicate", "--from", uris[0], "--to", uris[1], "--restore", "--collection", "trips")
    refused(run, *restoring, code="restore_would_lose", collection="trips")
    assert run("replicate", "--from", uris[0], "--to", uris[1], "--restore").exit_code == 2
    done = replicated(run, two, "--restore", "--collection", "trips", "--allow-lossy", "--json").document
    assert (done["restores"], done["applied_rows"]) == (1, 1)
    refused(run, "replicate", "--from", uris[0], "--to", uris[0], code="looping_stream")


@pytest.mark.parametrize("option", ["--poll", "--retry", "--recompute"])
@pytest.mark.parametrize("seconds", ["inf", "nan", "-1", "1e400", "3e11"])
def test_restored_is_nothing_where_an_interval_is_wrong(run: Run, two: Replicas, option: str, seconds: str) -> None:
    with unwritten(two.env("b")):
        replicated(run, two, "--restore", "--allow-lossy", "--collection", "trips", option, seconds, exit_code=2)


def test_restored_is_nothing_where_one_of_several_is_refused(run: Run, two: Replicas) -> None:
    two.insert("a", {"line": "theirs", "n": 1}, collection="lines")
    for name, row in (("trips", {"id": 9, "v": "mine"}), ("lines", {"line": "mine", "n": 1})):
        two.insert("b", row, collection=name)
    ends = ("replicate", "--from", two.env("a").location.uri, "--to", two.env("b").location.uri, "--restore")
    both = ("--collection", "trips", "--collection", "lines")
    with unwritten(two.env("b")):
        said = run(*ends, *both)
    assert said.exit_code == 1 and said.stderr.count("restore_would_lose") == 2
    with unwritten(two.env("b")):
        refused(run, *ends, "--allow-lossy", "--collection", "trips", "--collection", "nope", code="unknown_collection", collection="nope")
    done = replicated(run, two, "--restore", "--collection", "trips", "--allow-lossy", "--json").document
    assert done["restores"] == 1
    done = replicated(run, two, "--restore", *both, "--collection", "trips", "--allow-lossy", "--json").document
    assert done["restores"] == 1, "trips is at that version already, as after a first try that failed"
    assert two.rows("b", "lines") == two.rows("a", "lines")
    refused(run, *ends, "--allow-lossy", "--collection", "trips", code="restore_not_ahead", collection="trips")
    with unwritten(two.env("b")):
        again = run(*ends, "--allow-lossy", *both)
    assert again.exit_code == 1 and again.stderr.count("restore_not_ahead") == 2, "nothing is left to be done"


def test_restored_at_no_version_that_is_yet_to_come(run: Run, two: Replicas) -> None:
    newest = tables.newest(two.path("a"))
    ends = ("replicate", "--from", two.env("a").location.uri, "--to", two.env("b").location.uri, "--restore", "--collection", "trips")
    with unwritten(two.env("b")):
        refused(run, *ends, "--version", newest + 1, code="no_such_version", collection="trips")


def test_restored_at_a_version_of_the_origin(run: Run, two: Replicas) -> None:
    """Which errors advise, while an upgrade of the origin is under way, or somebody changed its table."""
    trips, version = ("--collection", "trips"), tables.newest(two.path("a"))
    two.insert("a", {"id": 2, "v": "y"})
    ends = ("replicate", "--from", two.env("a").location.uri, "--to", two.env("b").location.uri)
    for wrong in (
        ("--version", 1, *trips),
        ("--restore", "--version", 1, *trips, "--collection", "other"),
        ("--restore", "--version", -1, *trips),
    ):
        with unwritten(two.env("b")):
            assert run(*ends, *wrong).exit_code == 2
    two.insert("b", {"id": 9, "v": "mine"})
    document = replicated(run, two, "--restore", "--version", version, *trips, "--allow-lossy", "--json").document
    assert (document["restores"], document["applied_rows"]) == (1, 2), "the row of then, and by its stream what came since"
    assert two.rows("b") == two.rows("a")


def test_followed_until_ctrl_c(run: Run, two: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = time.sleep

    def sleep(seconds: float) -> None:
        # A Spark session of other tests has threads of its own, and a commit of ours rests for some milliseconds.
        if seconds > CONFIRM_SECONDS and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        wait(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    document = replicated(run, two, "--follow", "--json").document
    assert (document["restores"], len(document["streams"])) == (2, 2)
