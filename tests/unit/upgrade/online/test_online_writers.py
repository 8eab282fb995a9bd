"""delta-rs as the other writer: it has planned before a commit of ours and commits after it, for every operation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError, SchemaMismatchError
from deltalake.schema import Field, PrimitiveType

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.upgrade.alter import alter
from airflow_provider_schemamig.core.upgrade.context.controls import throttle
from tests.integration.delta.interleavings import FILES, MAX_FILES, OPERATIONS, OUTCOMES, RS_METADATA, TABLES, Case
from tests.support.lake import Lake, no_spark, rows
from tests.support.online import OnlineJobs
from tests.support.rows.tables import insert, newest
from tests.support.tables.interleave import End, Interleave, kinds
from tests.support.upgrades import two_releases, whole

NO_HOLD = timedelta(0)


def _row(table: DeltaTable, id_: int) -> pa.Table:
    """With all columns that the table has in this snapshot."""
    return pa.Table.from_pylist([{"id": id_, "n": 1}], schema=pa.schema(table.schema().to_arrow()))


def _merge(table: DeltaTable) -> object:
    merge = table.merge(_row(table, 3).select(["id", "n"]), "t.id = s.id", source_alias="s", target_alias="t")
    return merge.when_matched_update({"n": "s.n + 100"}).execute()


STATEMENTS: Mapping[str, Callable[[DeltaTable], object]] = {
    "append": lambda table: write_deltalake(table, _row(table, 100), mode="append"),
    "update": lambda table: table.update({"n": "n + 100"}, predicate="id = 1"),
    "delete": lambda table: table.delete("id = 2"),
    "merge": _merge,
    "optimize": lambda table: table.optimize.compact(),
    "another ALTER": lambda table: table.alter.add_columns(Field("extra", PrimitiveType("string"))),
}
#: A seal is for rows.
SEAL_LETS_THROUGH = ("optimize", "another ALTER")
GRID = [(name, number, statement) for name, case in OPERATIONS.items() for number in range(len(case.steps)) for statement in STATEMENTS]
#: One a conflict class, in ``make test``.
FEW = (("add a CHECK", 0, "append"), ("another type", 1, "update"))


CASES = [pytest.param(*found, id="-".join(map(str, found)), marks=() if found in FEW else pytest.mark.soak) for found in GRID]


def made(case: Case, folder: Path) -> Lake:
    lake = two_releases(folder, case.first, case.second, case.step)
    throttle(lake.env, "t", max_files=MAX_FILES)
    for number in range(1, FILES + 1):
        insert(lake.path("t"), [{"id": number, "n": number, "s": str(number)}])
        if case.others:
            insert(lake.path("p"), [{"k": str(number)}])
    return lake


def attempt(statement: Callable[[DeltaTable], object], table: DeltaTable) -> Exception | None:
    try:
        statement(table)
    except (DeltaError, SchemaMismatchError) as error:
        return error
    return None


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "add UNIQUE" else pytest.mark.soak) for name in OPERATIONS])
def test_the_commits_of_an_operation(tmp_path: Path, name: str) -> None:
    lake = made(OPERATIONS[name], tmp_path)
    begun = newest(lake.path("t"))
    commands.upgrade(lake.env, lake.second, hold=NO_HOLD, jobs=OnlineJobs())
    assert kinds(lake.path("t"), begun, newest(lake.path("t"))) == tuple(step.kind for step in OPERATIONS[name].steps)
    whole(lake)


@pytest.mark.parametrize("name, number, statement", CASES)
def test_planned_before_and_committed_after(tmp_path: Path, name: str, number: int, statement: str) -> None:
    case = OPERATIONS[name]
    lake, run = made(case, tmp_path), STATEMENTS[statement]

    def plan() -> End:
        planned = DeltaTable(str(lake.path("t")))
        return lambda: attempt(run, planned)

    meeting = Interleave(number, plan)
    commands.upgrade(replace(lake.env, on_write=meeting), lake.second, hold=NO_HOLD, jobs=OnlineJobs())
    meeting.check(case.says_no(statement, number) or OUTCOMES[statement][case.steps[number].kind].delta_rs)
    whole(lake)
    before = ids(lake)
    error = attempt(run, DeltaTable(str(lake.path("t"))))
    refused = case.says_no(statement, len(case.steps))
    assert error is None if refused is None else refused in str(error)
    if refused is None:
        assert ids(lake) == {"append": before | {100}, "delete": before - {2}}.get(statement, before)


@pytest.mark.parametrize("statement", [pytest.param(found, marks=() if found == "append" else pytest.mark.soak) for found in STATEMENTS])
@pytest.mark.parametrize("name", TABLES)
def test_whole_tables_by_hand(tmp_path: Path, name: str, statement: str) -> None:
    """What leaves the table alone nobody meets; who wrote to a table that is dropped is told, and writes again if it comes back."""
    lake, run = made(OPERATIONS["add a column"], tmp_path), STATEMENTS[statement]
    folder, (text, steps) = lake.path("t"), TABLES[name]
    planned, begun = DeltaTable(str(folder)), newest(folder)
    alter(lake.env, text, hold=timedelta(hours=1), jobs=no_spark)
    assert kinds(folder, begun, newest(folder)) == tuple(step.kind for step in steps)
    error = attempt(run, planned)
    if steps:
        assert re.search(OUTCOMES[statement][steps[0].kind].delta_rs, str(error))
        if statement in SEAL_LETS_THROUGH:
            return
        assert attempt(run, DeltaTable(str(folder))) is not None
        commands.rollback(lake.env)
        assert newest(folder) == begun + 2, "sealed and opened again"
        error = attempt(run, DeltaTable(str(folder)))
    assert error is None
    assert newest(folder) == begun + 2 * len(steps) + 1


@pytest.mark.parametrize("name, bad", [("add a CHECK", -1), pytest.param("set NOT NULL", None, marks=pytest.mark.soak)])
def test_a_row_that_breaks_the_rule(tmp_path: Path, name: str, bad: int | None) -> None:
    """In flight it is aborted like any other; tried again the rule refuses it."""
    lake = made(OPERATIONS[name], tmp_path)

    def append(table: DeltaTable) -> None:
        columns = pa.table({"id": pa.array([bad], pa.int64()), "n": pa.array([1], pa.int32()), "s": ["x"]})
        write_deltalake(table, columns, mode="append")

    def plan() -> End:
        planned = DeltaTable(str(lake.path("t")))
        return lambda: attempt(append, planned)

    meeting = Interleave(0, plan)
    commands.upgrade(replace(lake.env, on_write=meeting), lake.second, hold=NO_HOLD, jobs=OnlineJobs())
    meeting.check(RS_METADATA)
    assert attempt(append, DeltaTable(str(lake.path("t")))) is not None
    assert ids(lake) == {1, 2, 3}


def ids(lake: Lake) -> set[int]:
    return {row["id"] for row in rows(lake.path("t"), "id")}
