"""The runbook's entries of work on rows that stopped: each is provoked, and its own words are followed. Spark's part is played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands, spark
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.spark.runners import Job
from airflow_provider_schemamig.core.upgrade.execute import cutover as cutovers
from airflow_provider_schemamig.core.upgrade.execute import rewrites
from airflow_provider_schemamig.core.upgrade.tables.seals import announce_seals
from tests.support.online import OnlineJobs
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.rows.rewritten import UP_KEYED, Rewritten, built, claimed, expanded, jobs, make_rewritten
from tests.support.upgrades import deployed, releases
from tests.unit.cli.samples import Run
from tests.unit.runbook.book import follow
from tests.unit.runbook.scenes import Releases, Scene
from tests.unit.upgrade.online.test_force import WIDE, Restless

FAST, ROWS, ANEW = "Writers are too fast", "Rows do not fit", "A copy has to start again"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Rewritten:
    return make_rewritten(tmp_path_factory.mktemp("rewritten"))


@pytest.fixture
def found(template: Rewritten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Rewritten:
    made = template.copy(tmp_path)
    use(monkeypatch, jobs())
    return made


@pytest.fixture
def scene(found: Rewritten, run: Run) -> Scene:
    first, second = found.lake.first, found.lake.second
    return Scene(found.lake, Releases(first, second, second, second), run)


def use(monkeypatch: pytest.MonkeyPatch, runner: RowJobs) -> None:
    monkeypatch.setattr(spark, "runner_for", lambda url, conf: runner)


# --- writers are too fast ------------------------------------------------------------------------------------------------------------


def test_a_seal_that_expired(found: Rewritten, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_no_time(work: Any, *rest: Any) -> Any:
        work.seal_seconds = -1
        return announce_seals(work, *rest)

    generation = expanded(found)
    found.write_all(1)
    with monkeypatch.context() as patch:
        patch.setattr(cutovers, "announce_seals", in_no_time)
        cutover = ("cutover", "--env", scene.env, "--generation", generation)
        scene.refused("seal_expired", FAST, *cutover, exit_code=75)
    found.write_all(2)
    follow(scene.run, "Writers are too fast", "let writers wait longer", ENV=scene.env, GENERATION=generation)
    found.check("1.1.0")


@dataclass
class Slow(RowJobs):
    """Each round of the tail takes forty seconds by its own clock; its smallest statement fifteen, if that is asked."""

    now: float = 0.0

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        self.now += 40.0 if job == "apply" else 0.0
        done = super().run(job, request)
        return {**done, "statement_seconds": 15.0} if request.get("timed") else done

    def monotonic(self) -> float:
        return self.now


def test_a_tail_that_never_settles(found: Rewritten, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    generation = expanded(found)
    found.write_all(1)
    slow = Slow(jobs().queries)
    use(monkeypatch, slow)
    monkeypatch.setattr(rewrites, "time", slow)
    scene.refused("tail_never_settles", FAST, "cutover", "--env", scene.env, "--generation", generation, exit_code=75)
    found.write_all(2)
    follow(scene.run, "Writers are too fast", "let writers wait longer", ENV=scene.env, GENERATION=generation)
    found.check("1.1.0")


def test_a_spark_that_is_too_slow_for_a_seal(found: Rewritten, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Slow(jobs().queries))
    scene.refused("seal_too_short", FAST, "upgrade", "--env", scene.env, "--release", scene.releases.two)
    follow(scene.run, "Writers are too fast", "`seal_too_short`", ENV=scene.env, RELEASE=scene.releases.two)
    found.check("1.1.0")


def test_writers_that_outrun_a_change_of_type(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer makes rows due as fast as they are filled."""
    first, second = releases(tmp_path, (WIDE[0], ""), (WIDE[1], 'evolution("a")'))
    scene = Scene(deployed(tmp_path, first, second), Releases(first, second, second, second), run)
    tables.insert(scene.lake.path("a"), [{"id": 1, "v": "1", "n": 0}])
    restless, opened = Restless(scene.lake), Environment.open
    use(monkeypatch, OnlineJobs())
    with monkeypatch.context() as patch:
        patch.setattr(Environment, "open", classmethod(lambda cls, *given, **more: replace(opened(*given, **more), on_write=restless)))
        upgrade = ("upgrade", "--env", scene.env, "--release", second)
        found = scene.refused("backfill_starved", FAST, *upgrade, exit_code=75)
        assert "schemamig force --collection a" in found["next"]
        follow(run, "Writers are too fast", "`backfill_starved`", ENV=scene.env, COLLECTION="a", RELEASE=second)
    assert restless.waited == 1
    scene.is_right("1.1.0")
    assert not any(item["last_step"] for item in commands.status(Environment.open(scene.env)).document["controls"])


# --- rows do not fit -----------------------------------------------------------------------------------------------------------------


def loses_a_row() -> RowJobs:
    queries = dict(jobs().queries)
    up = queries[UP_KEYED]
    queries[UP_KEYED] = lambda row: [] if row["id"] == 2 else up(row)
    return RowJobs(queries)


def test_a_query_that_loses_rows_is_given_up(found: Rewritten, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, loses_a_row())
    scene.refused("cardinality_changed", ROWS, "upgrade", "--env", scene.env, "--release", scene.releases.two)
    generation = max(found.state.deployments)
    follow(scene.run, "Rows do not fit", "give the upgrade up", ENV=scene.env, GENERATION=generation)
    found.check("1.0.0")
    found.check_clean()


def test_rows_that_break_a_rule_are_mended(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    one = "CREATE TABLE a (id BIGINT, v INT);"
    first, second = releases(tmp_path, (one, ""), (one.replace(");", ", CONSTRAINT few CHECK (v < 9));"), 'evolution("a")'))
    scene = Scene(deployed(tmp_path, first, second), Releases(first, second, second, second), run)
    tables.insert(scene.lake.path("a"), [{"id": 1, "v": 10}])
    use(monkeypatch, OnlineJobs())
    scene.refused("data_violation", ROWS, "upgrade", "--env", scene.env, "--release", second)
    tables.change(scene.lake.path("a"), lambda row: {**row, "v": 1})
    follow(run, "Rows do not fit", "the rows were repaired", ENV=scene.env, RELEASE=second)
    scene.is_right("1.1.0")


# --- copies --------------------------------------------------------------------------------------------------------------------------


def test_a_copy_whose_source_was_vacuumed(found: Rewritten, scene: Scene) -> None:
    claimed(found)
    found.write_all(1)
    tables.vacuum(found.path("plain"))
    tables.vacuum(found.path("keyed"))
    words = {"ENV": scene.env, "RELEASE": scene.releases.two, "COLLECTION": "keyed"}
    follow(scene.run, "A copy has to start again", "keep the history", **words)
    found.check("1.1.0")
    assert commands.status(Environment.open(scene.env)).document["pins"] == []


def test_a_copy_that_somebody_wrote_into(found: Rewritten, scene: Scene) -> None:
    generation = expanded(found)
    tables.change(built(found, "keyed"), lambda row: None if row["id"] == 2 else row)
    cutover = ("cutover", "--env", scene.env, "--generation", generation)
    scene.refused("rewrite_differs", ANEW, *cutover, exit_code=75)
    found.check_seals()
    follow(scene.run, "A copy has to start again", "keep the history", ENV=scene.env, RELEASE=scene.releases.two, COLLECTION="keyed")
    found.check("1.1.0")
