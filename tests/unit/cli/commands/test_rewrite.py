"""A rewrite by the command line, from the copy to the way back. Spark's part is played (tests/support/rows/jobs), so there is no JVM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_schemamig.core import spark
from airflow_provider_schemamig.core.upgrade.prepare import tail as following
from tests.support.product import Product
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import QUERIES, SCHEMA_1, SCHEMA_2, STEPS
from tests.unit.cli.samples import Run, conforms


@pytest.fixture
def lake(tmp_path: Path, run: Run, product: Product, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with rows at 1.0.0, and a claim of the rewrite to 1.1.0."""
    monkeypatch.setattr(spark, "runner_for", lambda url, conf: RowJobs(QUERIES))
    monkeypatch.setattr(following, "ROUND_SECONDS", 0.01)
    path = tmp_path / "lake"
    assert run("upgrade", "--env", path, "--release", product.release("1.0.0", SCHEMA_1), "--create", "--json").exit_code == 0
    write(run, path, 3)
    claimed = run("preflight", "--env", path, "--release", product.release("1.1.0", SCHEMA_2, STEPS), "--json")
    assert claimed.exit_code == 0, claimed.stdout + claimed.stderr
    conforms(claimed.document, "preflight")
    assert [stage["kind"] for stage in claimed.document["plan"]["stages"]][:2] == ["copy", "copy"]
    return path


def folder(run: Run, lake: Path, collection: str) -> Path:
    return Path(run("status", "--env", lake, "--json").document["collections"][collection]["uri"].removeprefix("file://"))


def write(run: Run, lake: Path, number: int, value: Any = "7") -> None:
    tables.insert(folder(run, lake, "keyed"), [{"id": number, "v": value}])


def tail(run: Run, lake: Path, *options: str) -> list[tuple[str, str]]:
    done = run("tail", "--env", lake, "--generation", 2, *options, "--json")
    assert done.exit_code == 0, done.stdout + done.stderr
    conforms(done.document, "outcome")
    return [(stage["kind"], stage["collection"]) for stage in done.document["stages"]]


def test_rewrite_there_and_back(run: Run, lake: Path) -> None:
    copied = run("status", "--env", lake, "--json").document["progress"]
    assert {(item["collection"], item["stage"], item["done"] == item["total"]) for item in copied} == {
        ("keyed", "copy", True),
        ("plain", "copy", True),
    }
    write(run, lake, 4)
    assert tail(run, lake, "--once") == [("tail", "keyed")]
    assert tail(run, lake, "--once") == []
    for task in ("promote", "expand", "change"):
        assert run(task, "--env", lake, "--generation", 2, "--json").exit_code == 0
    assert tail(run, lake) == [], "promoted: the cut-over goes on with it"
    write(run, lake, 5)
    done = run("cutover", "--env", lake, "--generation", 2, "--json")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert {"tail", "digest", "seal", "commit"} <= {stage["kind"] for stage in done.document["stages"]}
    assert sum("writers were blocked for" in note for note in done.document["notes"]) == 2
    assert {row["id"]: row["v"] for row in tables.snapshot(folder(run, lake, "keyed")).rows} == {3: 7, 4: 7, 5: 7}

    now = run("status", "--env", lake, "--json")
    conforms(now.document, "status")
    assert (now.exit_code, now.document["version"], now.document["progress"]) == (0, "1.1.0", [])
    assert [(item["collection"], item["sealed"], item["foreign_commits"]) for item in now.document["retired"]] == [
        ("keyed", True, 0),
        ("plain", True, 0),
    ]
    write(run, lake, 6, 8)
    back = run("rollback", "--env", lake, "--json")
    assert back.exit_code == 0, back.stdout + back.stderr
    assert ("undo", "keyed") in {(stage["kind"], stage["collection"]) for stage in back.document["stages"]}
    assert {row["id"]: row["v"] for row in tables.snapshot(folder(run, lake, "keyed")).rows} == {3: "7", 4: "7", 5: "7", 6: "8"}
    assert run("status", "--env", lake, "--json").exit_code == 0


def test_a_paused_tail_says_so_and_ends_with_its_claim(run: Run, lake: Path) -> None:
    write(run, lake, 4)
    run("pause", "--env", lake, "--collection", "keyed")
    held = run("tail", "--env", lake, "--generation", 2, "--once")
    assert "tail  keyed  paused" in held.stderr
    assert "Nothing to do." in held.stdout
    run("resume", "--env", lake, "--collection", "keyed")
    assert tail(run, lake, "--once") == [("tail", "keyed")]


def test_a_paused_tail_does_not_outlive_the_promotion(run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("pause", "--env", lake)
    rests: list[float] = []

    def promote_meanwhile(seconds: float) -> None:
        rests.append(seconds)
        assert run("resume", "--env", lake).exit_code == 0  # a pause holds promotion, too
        assert run("promote", "--env", lake, "--generation", 2, "--json").exit_code == 0

    monkeypatch.setattr(following, "time", SimpleNamespace(sleep=promote_meanwhile))
    assert tail(run, lake) == []
    assert len(rests) == 1


def test_giving_a_copy_up_deletes_it(run: Run, lake: Path) -> None:
    before = {path.name for path in (lake / "keyed").iterdir()}
    assert len(before) == 2
    done = run("cancel", "--env", lake, "--generation", 2, "--json")
    assert done.exit_code == 0, done.stdout
    assert sorted(stage["collection"] for stage in done.document["stages"]) == ["keyed", "plain"]
    assert {path.name for path in (lake / "keyed").iterdir()} == {folder(run, lake, "keyed").name}
    assert run("status", "--env", lake, "--json").document["progress"] == []
    assert tail(run, lake) == []
