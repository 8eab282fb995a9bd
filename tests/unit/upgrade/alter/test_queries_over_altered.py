"""A release's query names the columns of the release before: over a table that was changed since, outside of one, it would fail or lose
values, so it is refused until a release has the change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.bytes import unwritten
from tests.support.lake import Lake, no_spark
from tests.support.online import OnlineJobs
from tests.support.rows import tables
from tests.support.upgrades import deployed, make_holds_due, refused, releases, whole

FIRST = "CREATE TABLE t (id BIGINT, a INT, s STRUCT<f: INT>);"
OTHER = "CREATE TABLE n (id BIGINT);"
READS = 'replacement("n", fill="SELECT id FROM {t}")'


@dataclass(frozen=True)
class Case:
    """``columns``, ``step``: the release that contains the change; ``says``: what a query over it is refused for."""

    statement: str
    columns: str
    step: str
    says: str
    is_lost_only: bool = False


CASES = [
    Case("ALTER TABLE t DROP COLUMN a", "s STRUCT<f: INT>", 'evolution("t", drop=["a"])', "a was dropped here"),
    Case("ALTER TABLE t RENAME COLUMN a TO q", "q INT, s STRUCT<f: INT>", 'evolution("t", rename={"a": "q"})', "a is called q here"),
    Case("ALTER TABLE t ALTER COLUMN a TYPE STRING", "a STRING, s STRUCT<f: INT>", 'evolution("t")', "a is STRING here"),
    Case("ALTER TABLE t DROP COLUMN s", "a INT", 'evolution("t", drop=["s"])', "s was dropped here"),
    Case("ALTER TABLE t RENAME COLUMN s.f TO g", "a INT, s STRUCT<g: INT>", 'evolution("t", rename={"s.f": "g"})', "s.f is called s.g"),
    Case("ALTER TABLE t ADD COLUMN g INT", "a INT, s STRUCT<f: INT>, g INT", 'evolution("t")', "g is new here", is_lost_only=True),
    Case("ALTER TABLE t ADD COLUMN s.g INT", "a INT, s STRUCT<f: INT, g: INT>", 'evolution("t")', "s.g is new here", is_lost_only=True),
]  # fmt: skip


def altered(folder: Path, case: Case, *more: tuple[str, str]) -> tuple[Lake, list[Path]]:
    found = releases(folder, (FIRST, ""), *more)
    lake = deployed(folder, found[0], found[1])
    tables.insert(lake.path("t"), [{"id": 1, "a": 5, "s": {"f": 6}}])
    commands.alter(lake.env, case.statement, jobs=OnlineJobs)
    make_holds_due(lake)
    commands.contract(lake.env)
    return lake, list(found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.statement)
def test_a_rewrite_of_an_altered_table(tmp_path: Path, case: Case) -> None:
    schema = f"CREATE TABLE t (id BIGINT, {case.columns}, k INT);"
    lake, found = altered(tmp_path, case, (schema, 'rewrite("t", up="SELECT *, 7 AS k FROM {t}", down=None)'))
    with unwritten(lake.env), refused("moved_ahead", "t") as told:
        commands.plan(lake.env, found[1])
    assert case.says in str(told[0])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.statement)
def test_a_fill_that_reads_an_altered_table(tmp_path: Path, case: Case) -> None:
    """The release that has the change goes first, as the refusal says; then the query finds what it names."""
    schema = f"CREATE TABLE t (id BIGINT, {case.columns});"
    lake, found = altered(tmp_path, case, (schema, case.step), (f"{schema}\n{OTHER}", READS))
    both = releases(tmp_path / "both", (FIRST, ""), (f"{schema}\n{OTHER}", f"{case.step}, {READS}"))[1]
    if not case.is_lost_only:
        with unwritten(lake.env), refused("moved_ahead", "t") as told:
            commands.plan(lake.env, both)
        assert case.says in str(told[0])
        assert "Deploy a release first that has the same changes and reads none of it" in told[0].next_action
    shown = tables.snapshot(lake.path("t")).rows
    lake.upgrade(found[1])
    commands.upgrade(lake.env, found[2], jobs=lambda: OnlineJobs(queries={"SELECT id FROM {t}": lambda row: [{"id": row["id"]}]}))
    assert tables.snapshot(lake.path("t")).rows == shown
    assert tables.snapshot(lake.path("n")).rows == [{"id": 1}]
    whole(lake)


def test_no_spark_is_started_for_a_refusal(tmp_path: Path) -> None:
    lake, found = altered(tmp_path, CASES[0], (f"{FIRST.replace(', a INT', '')}\n{OTHER}", f"{CASES[0].step}, {READS}"))
    with unwritten(lake.env), refused("moved_ahead", "t"):
        commands.preflight(lake.env, found[1], jobs=no_spark)


def test_a_query_over_a_column_that_is_wider_here(tmp_path: Path) -> None:
    case = Case("ALTER TABLE t ALTER COLUMN a TYPE BIGINT", "a BIGINT, s STRUCT<f: INT>", 'evolution("t")', "")
    lake, found = altered(tmp_path, case, (f"CREATE TABLE t (id BIGINT, {case.columns});\n{OTHER}", f"{case.step}, {READS}"))
    commands.upgrade(lake.env, found[1], jobs=lambda: OnlineJobs(queries={"SELECT id FROM {t}": lambda row: [{"id": row["id"]}]}))
    assert tables.snapshot(lake.path("n")).rows == [{"id": 1}]
    whole(lake)
