"""The commands around work on rows, and what ``status`` says of it: documents, and one line or table for people. No JVM."""

from __future__ import annotations

import getpass
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deltalake
import pendulum
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import Progress
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.upgrade.context import controls
from airflow_provider_schemamig.core.upgrade.context.context import Outcome
from tests.support.bytes import tree
from tests.support.product import Product
from tests.unit.cli.samples import SCHEMA_1, Run, conforms, refused

NO_LIMITS = {
    "last_step": False,
    "paused": False,
    "rows_per_second": None,
    "max_files": None,
    "commits_per_minute": None,
    "window": None,
    "paused_by": None,
    "paused_at": None,
    "reason": None,
}
NOW = pendulum.datetime(2026, 11, 21, 9, 30)
SAID = {"paused": True, "paused_by": getpass.getuser(), "paused_at": NOW.isoformat()}
BY = f"by {getpass.getuser()} since 2026-11-21 09:30 UTC"


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controls, "pendulum", SimpleNamespace(now=lambda zone: NOW))


# --- pause, resume, throttle ---------------------------------------------------------------------------------------------------------

CONTROLS: list[tuple[list[str], dict[str, Any], str]] = [
    (["pause"], {"collection": None, **NO_LIMITS, **SAID}, f"all collections  paused {BY}, no limits"),
    (["resume"], {"collection": None, **NO_LIMITS}, "all collections  runs, no limits"),
    (
        ["pause", "--collection", "flights", "--reason", "the disk is full"],
        {"collection": "flights", **NO_LIMITS, **SAID, "reason": "the disk is full"},
        f"flights  paused {BY} (the disk is full), no limits",
    ),
    (
        ["postpone", "--collection", "flights"],
        {"collection": "flights", **NO_LIMITS, **SAID, "last_step": True},
        f"flights  runs until its last step, which waits for `schemamig resume` {BY}",
    ),
    (
        ["force", "--collection", "flights"],
        {"collection": "flights", **NO_LIMITS, "last_step": True},
        "flights  runs, its last step even if writers have to wait",
    ),
    (
        ["throttle", "--rows-per-second", "50000", "--max-files", "8", "--commits-per-minute", "4", "--window", "22-6"],
        {"collection": None, **NO_LIMITS, "rows_per_second": 50000, "max_files": 8, "commits_per_minute": 4, "window": "22-6"},
        "all collections  runs, 50,000 rows/s, 8 files a batch, 4 commits a minute, only in the hours 22-6 UTC",
    ),
]


@pytest.mark.parametrize(("command", "document", "text"), CONTROLS, ids=[" ".join(case[0]) for case in CONTROLS])
def test_what_is_said_to_work_on_rows(
    run: Run, env: Path, command: list[str], document: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEMAMIG_ENV", str(env))
    said = run(*command, "--env", env, "--json")
    assert said.exit_code == 0, said.stdout
    conforms(said.document, "control")
    assert said.document == document
    assert run(*command, "--env", env).stdout == f"{text}\n"
    kept = [] if document == {"collection": None, **NO_LIMITS} else [document]
    assert run("status", "--env", env, "--json").document["controls"] == kept
    assert (text in run("status", "--env", env).stdout) == bool(kept)


def test_resume_says_what_still_waits(run: Run, env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes back what was said of just that, and `runs` alone would be taken for the end of it."""
    monkeypatch.setenv("SCHEMAMIG_ENV", str(env))
    still = f"still: {{}}  paused {BY} (month end), no limits\n  next: `schemamig resume{{}}` takes it back.\n"
    run("pause", "--env", env, "--collection", "flights", "--reason", "month end")
    assert run("resume", "--env", env).stdout == "all collections  runs, no limits\n" + still.format("flights", " --collection flights")
    assert run("resume", "--env", env, "--json").document == {"collection": None, **NO_LIMITS}
    run("pause", "--env", env, "--reason", "month end")
    assert run("resume", "--env", env, "--collection", "flights").stdout == "flights  runs, no limits\n" + still.format(
        "all collections", ""
    )
    assert run("resume", "--env", env).stdout == "all collections  runs, no limits\n"


@pytest.mark.parametrize("verb", ["postpone", "force"])
@pytest.mark.parametrize("scope", [(), ("--collection", "flights")], ids=["all", "one"])
def test_a_pause_stays_whatever_follows_and_the_answer_says_so(
    run: Run, env: Path, monkeypatch: pytest.MonkeyPatch, verb: str, scope: tuple[str, ...]
) -> None:
    """A pause is somebody's brake: another verb does not take it back."""
    monkeypatch.setenv("SCHEMAMIG_ENV", str(env))
    run("pause", "--env", env, *scope, "--reason", "month end")
    told = run(verb, "--env", env, "--collection", "flights").stdout
    assert "(month end)" in told and f"`schemamig {' '.join(('resume', *scope))}` takes it back." in told
    assert f"paused {BY} (month end)" in run("status", "--env", env).stdout


def test_a_second_pause_without_a_reason_leaves_the_first_ones(run: Run, env: Path) -> None:
    run("pause", "--env", env, "--reason", "month end")
    first = run("status", "--env", env, "--json").document["controls"]
    run("pause", "--env", env)
    assert run("status", "--env", env, "--json").document["controls"] == first
    run("pause", "--env", env, "--reason", "locks")
    assert [control["reason"] for control in run("status", "--env", env, "--json").document["controls"]] == ["locks"]


def test_a_throttle_of_nothing_takes_the_limits_back_and_leaves_a_pause(run: Run, env: Path) -> None:
    run("throttle", "--env", env, "--max-files", 4)
    run("pause", "--env", env)
    assert run("throttle", "--env", env, "--json").document == {"collection": None, **NO_LIMITS, **SAID}
    run("resume", "--env", env)
    assert run("status", "--env", env, "--json").document["controls"] == []


@pytest.mark.parametrize(
    ("command", "code", "collection"),
    [
        (["pause", "--collection", "nowhere"], "unknown_collection", "nowhere"),
        (["throttle", "--rows-per-second", "0"], "bad_throttle", None),
        (["throttle", "--commits-per-minute", "0"], "bad_throttle", None),
        (["throttle", "--max-files", "-1"], "bad_throttle", None),
        (["throttle", "--window", "6-6"], "bad_throttle", None),
        (["throttle", "--window", "22-30"], "bad_throttle", None),
        (["pin", "--collection", "nowhere", "--hours", "5"], "unknown_collection", "nowhere"),
    ],
)
def test_cli_rows_what_cannot_be_kept_is_refused(run: Run, unchanged: Path, command: list[str], code: str, collection: str | None) -> None:
    refused(run, *command, "--env", unchanged, code=code, collection=collection)


# --- pins ----------------------------------------------------------------------------------------------------------------------------


def test_pins_are_counted_and_put_back(run: Run, env: Path) -> None:
    uri = run("status", "--env", env, "--json").document["collections"]["planes"]["uri"]
    before = deltalake.DeltaTable(uri).metadata().configuration
    mine = run("pin", "--env", env, "--collection", "planes", "--hours", 400, "--json")
    assert mine.exit_code == 0, mine.stdout
    conforms(mine.document, "pin")
    assert (mine.document["holder"], mine.document["hours"]) == (getpass.getuser(), 400)
    theirs = run("pin", "--env", env, "--collection", "planes", "--hours", 900, "--holder", "7")
    assert theirs.stdout == "planes keeps its history for at least 900 hours, until 7 unpins it.\n"
    assert deltalake.DeltaTable(uri).metadata().configuration["delta.logRetentionDuration"] == "interval 900 hours"
    now = run("status", "--env", env, "--json")
    assert now.exit_code == 0, "a pin is no drift"
    conforms(now.document, "status")
    assert sorted((pin["collection"], pin["holder"], pin["hours"]) for pin in now.document["pins"]) == [
        ("planes", "7", 900),
        ("planes", getpass.getuser(), 400),
    ]
    assert "planes  900 h for 7, by" in run("status", "--env", env).stdout
    gone = run("unpin", "--env", env, "--collection", "planes", "--holder", "7", "--json")
    conforms(gone.document, "unpin")
    assert gone.document == {"collection": "planes", "holder": "7", "unpinned": True}
    assert run("unpin", "--env", env, "--collection", "planes").stdout == f"{getpass.getuser()} pins planes no longer.\n"
    assert deltalake.DeltaTable(uri).metadata().configuration == before
    again = run("unpin", "--env", env, "--collection", "planes")
    assert (again.exit_code, again.stdout) == (0, f"{getpass.getuser()} has no pin on planes.\n")
    refused(run, "unpin", "--env", env, "--collection", "plains", code="unknown_collection", collection="plains")
    assert run("pin", "--env", env, "--collection", "planes", "--hours", 24 * 3650 + 1).exit_code == 2


# --- tail and cancel -----------------------------------------------------------------------------------------------------------------


def test_a_claim_is_followed_and_given_up(run: Run, env: Path, new_release: Path) -> None:
    claimed = run("preflight", "--env", env, "--release", new_release, "--json").document
    followed = run("tail", "--env", env, "--generation", claimed["generation"], "--once", "--json")
    assert followed.exit_code == 0, followed.stdout
    conforms(followed.document, "outcome")
    assert followed.document["stages"] == [], "nothing of it is rewritten"
    cancelled = run("cancel", "--env", env, "--generation", claimed["generation"], "--json")
    assert cancelled.exit_code == 0, cancelled.stdout
    conforms(cancelled.document, "outcome")
    assert run("status", "--env", env, "--json").document["deployments"][-1]["state"] == "cancelled"
    refused(run, "promote", "--env", env, "--generation", claimed["generation"], code="wrong_state")


@pytest.mark.parametrize("verb", ["tail", "cutover", "rollback"])
def test_spark_is_made_by_who_needs_it(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    from airflow_provider_schemamig.core import spark

    made: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(spark, "runner_for", lambda url, conf: made.append((url, dict(conf))))
    outcome = Outcome(None, None, Generation(3), None, notes=("flights: writers were blocked for 3.2 s",))

    def play(*arguments: object, jobs: Any, **options: object) -> Outcome:
        assert made == []
        jobs()
        return outcome

    monkeypatch.setattr(commands, verb, play)
    generation = [] if verb == "rollback" else ["--generation", "3"]
    own = ["--spark-conf", "spark.executor.memory=4g", "--spark-conf", "spark.executor.cores=2", "--spark-jars", "/a.jar,/b.jar"]
    done = run(verb, "--env", tmp_path, *generation, "--spark", "yarn", *own)
    conf = {"spark.executor.memory": "4g", "spark.executor.cores": "2", "spark.jars": "/a.jar,/b.jar"}
    assert made == [("yarn", conf)]
    assert "note  flights: writers were blocked for 3.2 s" in done.stdout


def test_schema_only_work_never_makes_it(run: Run, env: Path, new_release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_schemamig.core.spark.runner_for", lambda url, conf: pytest.fail("nothing here needs Spark"))
    generation = run("preflight", "--env", env, "--release", new_release, "--json").document["generation"]
    for task in ("tail", "promote", "expand", "change", "cutover"):
        options = ["--once"] if task == "tail" else []
        assert run(task, "--env", env, "--generation", generation, *options, "--json").exit_code == 0
    assert run("rollback", "--env", env, "--json").exit_code == 0


# --- status --------------------------------------------------------------------------------------------------------------------------


def progress(generation: int, **parts: Any) -> Progress:
    began = pendulum.datetime(2026, 11, 21, 10)
    usual: dict[str, Any] = {"done": 30, "total": 120, "rows": 5000, "done_before": 20, "rows_before": 3000}
    return Progress(
        CollectionName("flights"),
        Generation(generation),
        stage="copy",
        unit="files",
        started_at=began,
        updated_at=began.add(minutes=10),
        **{**usual, **parts},
    )


def put(env: Path, *rows: Progress) -> None:
    LedgerWriter(Environment.open(str(env))).transact(lambda state: [Put(row) for row in rows])


def test_progress_of_open_generations_has_a_rate_and_an_end(run: Run, env: Path, new_release: Path) -> None:
    claimed = run("preflight", "--env", env, "--release", new_release, "--json").document["generation"]
    put(env, progress(claimed), progress(1))
    now = run("status", "--env", env, "--json").document
    conforms(now, "status")
    (found,) = now["progress"]
    assert (found["collection"], found["generation"], found["stage"], found["unit"]) == ("flights", claimed, "copy", "files")
    assert (found["done"], found["total"], found["rows"], found["updated_at"]) == (30, 120, 5000, "2026-11-21T10:10:00+00:00")
    assert (found["rows_per_second"], found["eta_seconds"]) == (3, 5400), "of this process: 10 files and 2,000 rows in 10 minutes"
    shown = run("status", "--env", env).stdout
    assert "flights     copy   30/120 files  5,000       3  no sign of life  2026-11-21 10:10 UTC" in shown
    put(env, replace(progress(claimed), started_at=pendulum.now("UTC").subtract(minutes=10), updated_at=pendulum.now("UTC")))
    assert "5,000       3  1 h 30 min  20" in run("status", "--env", env).stdout


@pytest.mark.parametrize(
    ("parts", "rate", "left"),
    [
        ({"done": 20, "rows": 3000}, None, None),
        ({"done": 120, "rows": 9000}, 10, None),
        ({"done_before": 0, "rows_before": 0}, 8, 1800),
    ],
    ids=["just begun", "all done", "never interrupted"],
)
def test_a_rate_needs_something_done(run: Run, env: Path, new_release: Path, parts: dict[str, int], rate: int, left: int) -> None:
    claimed = run("preflight", "--env", env, "--release", new_release, "--json").document["generation"]
    put(env, progress(claimed, **parts))
    (found,) = run("status", "--env", env, "--json").document["progress"]
    assert (found["rows_per_second"], found["eta_seconds"]) == (rate, left)


def test_a_restore_of_a_retired_shard_is_seen(run: Run, env: Path, product: Product, old_release: Path) -> None:
    uri = run("status", "--env", env, "--json").document["collections"]["planes"]["uri"]
    without = product.release("1.1.0", SCHEMA_1.splitlines()[0], 'removal("planes")')
    assert run("upgrade", "--env", env, "--release", without, "--json").exit_code == 0
    quiet = run("status", "--env", env, "--json")
    assert quiet.exit_code == 0
    conforms(quiet.document, "status")
    (retired,) = quiet.document["retired"]
    assert retired["uri"] == uri
    assert (retired["collection"], retired["sealed"], retired["foreign_commits"]) == ("planes", True, 0)

    deltalake.DeltaTable(uri).restore(0)
    before = tree(env)
    touched = run("status", "--env", env, "--json")
    assert touched.exit_code == 3
    (retired,) = touched.document["retired"]
    assert (retired["sealed"], retired["foreign_commits"]) == (False, 0), "it brought no rows, but took the seal away"
    assert "drift  planes  old shard" in run("status", "--env", env).stdout
    assert tree(env) == before


def test_rows_in_a_retired_shard_are_counted(run: Run, env: Path, product: Product, old_release: Path) -> None:
    import pyarrow as pa

    uri = run("status", "--env", env, "--json").document["collections"]["planes"]["uri"]
    rows = pa.table({"tailnum": ["N1"], "year": pa.array([2013], pa.int32())})
    without = product.release("1.1.0", SCHEMA_1.splitlines()[0], 'removal("planes")')
    run("upgrade", "--env", env, "--release", without, "--json")
    deltalake.DeltaTable(uri).restore(0)
    for _ in range(2):
        deltalake.write_deltalake(uri, rows, mode="append")
    document = run("status", "--env", env, "--json").document
    assert document["retired"][0]["foreign_commits"] == 2
    assert "its seal is gone, 2 commit(s) of others since it was retired" in run("status", "--env", env).stdout
    assert run("rollback", "--env", env, "--json").document["to"] == "1.0.0"
    assert run("status", "--env", env, "--json").document["retired"] == []
