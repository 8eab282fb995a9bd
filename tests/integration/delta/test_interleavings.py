"""Spark as the other writer: it has planned before a commit of ours and commits after it, for every operation."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.upgrade.alter import alter
from airflow_provider_schemamig.core.upgrade.context.controls import throttle
from airflow_provider_schemamig.core.upgrade.errors import DriftFound
from tests.integration.delta.interleavings import COMMITS, FILES, MAX_FILES, OPERATIONS, OUTCOMES, TABLES, Case
from tests.support.processes import wait_until
from tests.support.product import Product
from tests.support.rows.tables import commit_at, newest
from tests.support.spark.lake import InFlight, SparkLake, run
from tests.support.tables.interleave import End, Interleave, is_ours, kinds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ALTER = "another ALTER"
#: ``{t}``: the table. ``still_held``: see ``register_held``. To run one again changes nothing more, but for the append's second row.
STATEMENTS: Mapping[str, str] = {
    "append": "INSERT INTO {t} (id, n) SELECT id, 1 FROM range(100, 101) WHERE held(id)",
    "update": "UPDATE {t} SET n = 101 WHERE id = 1 AND still_held(id)",
    "delete": "DELETE FROM {t} WHERE id = 2 AND still_held(id)",
    "merge": "MERGE INTO {t} t USING (SELECT * FROM VALUES (3L) AS v (id) WHERE held(id)) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET t.n = 103",
    "optimize": "OPTIMIZE {t}",
    ALTER: "INSERT INTO {t} BY NAME SELECT id, 1 AS n, 'e' AS extra FROM range(100, 101) WHERE held(id)",
}
#: What each does to the rows, which are (id, n) by id.
EFFECTS: Mapping[str, Mapping[int, int | None]] = {
    "append": {100: 1},
    "update": {1: 101},
    "delete": {2: None},
    "merge": {3: 103},
    "optimize": {},
    ALTER: {100: 1},
}
GRID = [(name, {number: statement}) for name, case in OPERATIONS.items() for number in range(len(case.steps)) for statement in STATEMENTS]
#: One a conflict class: a writer that meets a metadata commit, and one that meets a batch, in one walk; in ``make test``.
BOTH = ("add a column with a default", {0: "append", 1: "update"})
CASES = [
    pytest.param(*BOTH, id="both"),
    *(pytest.param(name, who, id=f"{name}-{number}-{who[number]}", marks=pytest.mark.soak) for name, who in GRID for number in who),
]


#: Two files go into one, and one task at a time does it: so it goes on for a while after its first file.
OPTIMIZE_SETTINGS = {"maxFileSize": "3000", "maxThreads": "1"}
MANY_FILES = 12


@dataclass(frozen=True)
class Scene:
    """Collection ``t`` with a row a file, and its next release."""

    lake: SparkLake
    release: Path
    folder: Path
    #: Of those who write: it brings columns along.
    session: SparkSession
    files: int

    @classmethod
    def of(cls, spark: SparkSession, case: Case, folder: Path, files: int) -> Scene:
        product, lake = Product(folder / "product"), SparkLake(spark, Environment.open(str(folder / "lake")))
        lake.upgrade(product.release("1.0.0", case.first))
        release = product.release("1.1.0", case.second, case.step)
        text = "INSERT INTO {t} (id, n, s) SELECT id, CAST(id AS INT), CAST(id AS STRING)"
        lake.sql(f"{text} FROM range(1, {files + 1}, 1, {files})")
        throttle(lake.env, "t", max_files=files - (FILES - MAX_FILES))
        session = spark.newSession()
        session.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
        for name, value in OPTIMIZE_SETTINGS.items():
            session.conf.set(f"spark.databricks.delta.optimize.{name}", value)
        return cls(lake, release, folder, session, files)

    def plan(self, name: str) -> End:
        """Begin a statement, which is held."""
        text = STATEMENTS[name].format(t=self.lake.table("t"))
        return optimizing(self, text) if name == "optimize" else InFlight(self.session, self.folder, text).outcome

    def rows(self) -> dict[int, int]:
        return {row["id"]: row["n"] for row in self.lake.sql("SELECT id, n FROM {t}")}

    def ours(self) -> list[int]:
        """Versions of our commits, without the first, which made the table."""
        return self._versions(True)

    def foreign(self) -> list[int]:
        """Versions of the commits of others, without the first, which filled the table."""
        return self._versions(False)

    def _versions(self, ours: bool) -> list[int]:
        table = self.lake.folder("t")
        return [version for version in range(newest(table) + 1) if is_ours(commit_at(table, version)) is ours][1:]

    def expected(self, names: Iterable[str]) -> dict[int, int]:
        changed: dict[int, int | None] = {number: number for number in range(1, self.files + 1)}
        for name in names:
            changed |= EFFECTS[name]
        return {id_: n for id_, n in changed.items() if n is not None}


def optimizing(scene: Scene, text: str) -> End:
    """An OPTIMIZE that has begun to write. It has no row that could be held, so the whole JVM stands still until it may end."""

    def files() -> set[Path]:  # where columns are mapped, in folders of their own
        return {path for path in scene.lake.folder("t").rglob("*.parquet") if path.parent.name != "_delta_log"}

    known, ended = files(), ThreadPoolExecutor(1)
    jvm = int(scene.session._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    result = ended.submit(run, scene.session, text)
    wait_until(lambda: result.done() or files() > known, 120, pause_seconds=0.002)
    os.kill(jvm, signal.SIGSTOP)
    ended.shutdown(wait=False)
    late = threading.Timer(60, os.kill, (jvm, signal.SIGCONT))  # should nobody come to the end
    late.start()

    def end() -> Exception | None:
        late.cancel()
        os.kill(jvm, signal.SIGCONT)
        return result.exception(120)  # type: ignore[return-value]

    return end


@pytest.mark.soak
@pytest.mark.parametrize("name, who", CASES)
def test_planned_before_and_committed_after(spark: SparkSession, tmp_path: Path, name: str, who: Mapping[int, str]) -> None:
    case = OPERATIONS[name]
    scene = Scene.of(spark, case, tmp_path, MANY_FILES if "optimize" in who.values() else FILES)
    meetings = {number: Interleave(number, functools.partial(scene.plan, statement)) for number, statement in who.items()}

    def hook(moment: str, what: str, key: str) -> None:
        for meeting in meetings.values():
            meeting(moment, what, key)

    expected = {number: OUTCOMES[statement][case.steps[number].kind].spark for number, statement in who.items()}
    altered = ALTER in who.values() and COMMITS in expected.values()
    with pytest.raises(DriftFound) if altered else contextlib.nullcontext():
        commands.upgrade(replace(scene.lake.env, on_write=hook), scene.release, hold=timedelta(0), jobs=EmbeddedRunner)
    for number, meeting in meetings.items():
        meeting.check(expected[number])
    done = [statement for number, statement in who.items() if expected[number] == COMMITS]
    assert len(scene.foreign()) == len(done)
    assert all(version > scene.ours()[max(who)] for version in scene.foreign()), "it was not in flight"
    assert scene.rows() == scene.expected(done)
    if case.kept is not None:
        wrong = f"SELECT * FROM {{t}} WHERE id <= {scene.files} AND CAST({case.kept} AS STRING) IS DISTINCT FROM CAST(id AS STRING)"
        assert scene.lake.sql(wrong) == []
    if altered:
        return
    scene.lake.check("1.1.0")
    for statement in who.values():  # tried again, each goes through: its held condition is true by now
        run(scene.session, STATEMENTS[statement].format(t=scene.lake.table("t")))
    assert scene.rows() == scene.expected([*done, *who.values()])


@pytest.mark.soak
@pytest.mark.parametrize("statement", [found for found in STATEMENTS if found != "optimize"])
@pytest.mark.parametrize("name", TABLES)
def test_whole_tables_by_hand(spark: SparkSession, tmp_path: Path, name: str, statement: str) -> None:
    """What leaves the table alone nobody meets; who wrote to a table that is dropped is told, and writes again if it comes back."""
    scene = Scene.of(spark, OPERATIONS["add a column"], tmp_path, FILES)
    folder, (text, steps) = scene.lake.folder("t"), TABLES[name]
    begun, tried_again = newest(folder), STATEMENTS[statement].format(t=scene.lake.table("t"))
    outcome = scene.plan(statement)
    alter(scene.lake.env, text, hold=timedelta(hours=1), jobs=EmbeddedRunner)
    assert kinds(folder, begun, newest(folder)) == tuple(step.kind for step in steps)
    error = outcome()
    if steps:
        assert OUTCOMES[statement][steps[0].kind].spark in str(error)
        with pytest.raises(Exception, match=r"DELTA_.*(CONSTRAINT|APPEND)"):
            run(scene.session, tried_again)
        commands.rollback(scene.lake.env)
        assert newest(folder) == begun + 2, "sealed and opened again"
        run(scene.session, tried_again)
    else:
        assert error is None
    assert newest(folder) == begun + 2 * len(steps) + 1
