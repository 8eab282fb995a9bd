"""Readers and writers of a release that was rolled back, once a release before it brought its columns: the values, or a fence.

The release that was made in between may call the same column otherwise, and nothing in the ledger tells.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import ReaderFenced, WriterFenced
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.lake import Crash, Lake, no_spark
from tests.support.rows import tables
from tests.support.upgrades import deployed, releases, two_releases


@dataclass(frozen=True)
class Case:
    """Columns of 1.1 and 1.2 and the renames between them; a row of 1.1, and the same row as 1.2 has it."""

    second: str
    third: str
    renames: Mapping[str, str]
    row: Mapping[str, int | None]
    right: Mapping[str, int | None]


CASES = {
    "another name": Case("e INT", "a INT", {"e": "a"}, {"e": 35}, {"a": 35}),
    "names exchanged": Case("a INT, e INT", "a INT, e INT", {"e": "a", "a": "e"}, {"a": 7, "e": 35}, {"a": 35, "e": 7}),
    "a name given to a new one": Case("e INT", "a INT, e INT", {"e": "a"}, {"e": 35}, {"a": 35, "e": None}),
}


def over_and_back(folder: Path, case: Case, *, files_came: bool) -> Lake:
    """From 1.0 to 1.2 and back, then to 1.1, where a row is written."""
    rename = f'evolution("t", rename={dict(case.renames)})'
    schemas = [f"CREATE TABLE t (id BIGINT{columns});" for columns in ("", f", {case.second}", f", {case.third}")]
    found = releases(folder, (schemas[0], ""), (schemas[1], 'evolution("t")'), (schemas[2], rename))
    lake = deployed(folder, found[0], found[1])
    lake.upgrade(found[2])
    if files_came:
        tables.insert(lake.path("t"), [{"id": 0, **dict.fromkeys(case.right, 1)}])
    commands.rollback(lake.env, jobs=no_spark)
    lake.upgrade(found[1])
    tables.insert(lake.path("t"), [{"id": 1, **case.row}])
    return lake


#: Where files have come, 1.1 is refused if it would take 1.2's columns by name (``plan/test_passed_over.py``).
WAYS = [pytest.param(case, False, id=name) for name, case in CASES.items()]
WAYS += [pytest.param(CASES["another name"], True, id="another name, files came")]


@pytest.mark.parametrize("taken_back_too", [False, True])
@pytest.mark.parametrize(("case", "files_came"), WAYS)
def test_a_reader_of_the_release_that_was_taken_back_has_the_values_or_is_fenced(
    tmp_path: Path, case: Case, files_came: bool, taken_back_too: bool
) -> None:
    lake = over_and_back(tmp_path, case, files_came=files_came)
    if taken_back_too:
        commands.rollback(lake.env, jobs=no_spark)
    try:
        rows = lake.env.reader("t", release="1.2.0").arrow().to_pylist()
    except ReaderFenced:
        rows = [{"id": 1, **case.right}]
    assert {"id": 1, **case.right} in rows, rows
    assert {"id": 1, **case.row} in lake.env.reader("t", release="1.1.0").arrow().to_pylist()


@pytest.mark.parametrize(("case", "files_came"), WAYS)
def test_a_writer_of_the_release_that_was_taken_back_is_fenced(tmp_path: Path, case: Case, files_came: bool) -> None:
    lake = over_and_back(tmp_path, case, files_came=files_came)
    rows = pa.table({"id": [2], **{name: pa.array([5], pa.int32()) for name in case.right}})
    with pytest.raises(WriterFenced):
        lake.env.writer("t", release="1.2.0").append(rows)


@dataclass(frozen=True)
class Around:
    """What the new field is in, which 1.2 renames along with it: columns of 1.0 to 1.2, the steps of 1.2, and its collection."""

    schemas: tuple[str, str, str]
    step: str
    collection: str
    row: dict[str, Any]
    files: dict[str, Any]
    written: Mapping[str, pa.Array]


_STRUCT = pa.struct([("k", pa.int32()), ("a", pa.int32())])
AROUND = {
    "struct": Around(
        ("t (id BIGINT, s STRUCT<k: INT>)", "t (id BIGINT, s STRUCT<k: INT, e: INT>)", "t (id BIGINT, r STRUCT<k: INT, a: INT>)"),
        'evolution("t", rename={"s": "r", "s.e": "a"})',
        "t",
        {"id": 1, "s": {"k": 3, "e": 35, "a": None}},  # a: hidden, where files came
        {"id": 0, "r": {"k": 1, "a": 1}},
        {"r": pa.array([{"k": 1, "a": 5}], _STRUCT)},
    ),
    "collection": Around(
        ("t (id BIGINT)", "t (id BIGINT, e INT)", "u (id BIGINT, a INT)"),
        'evolution("u", renamed_from="t", rename={"e": "a"})',
        "u",
        {"id": 1, "e": 35, "a": None},
        {"id": 0, "a": 1},
        {"a": pa.array([5], pa.int32())},
    ),
}


@pytest.mark.parametrize("files_came", [False, True])
@pytest.mark.parametrize("case", AROUND.values(), ids=AROUND)
def test_handles_are_fenced_where_what_the_column_is_in_was_renamed_along_with_it(tmp_path: Path, case: Around, files_came: bool) -> None:
    steps = ("", 'evolution("t")', case.step)
    found = releases(tmp_path, *((f"CREATE TABLE {schema};", step) for schema, step in zip(case.schemas, steps, strict=True)))
    lake = deployed(tmp_path, found[0], found[1])
    lake.upgrade(found[2])
    if files_came:
        tables.insert(lake.path(case.collection), [case.files])
    commands.rollback(lake.env, jobs=no_spark)
    lake.upgrade(found[1])
    tables.insert(lake.path("t"), [case.row])
    with pytest.raises(ReaderFenced):
        lake.env.reader(case.collection, release="1.2.0").arrow()
    with pytest.raises(WriterFenced):
        lake.env.writer(case.collection, release="1.2.0").append(pa.table({"id": [2], **case.written}))
    assert "35" in str(lake.env.reader("t", release="1.1.0").arrow().to_pylist())


def test_a_reader_is_fenced_where_the_column_came_outside_of_a_release(tmp_path: Path) -> None:
    schemas = ("t (id BIGINT)", "t (id BIGINT, e INT)", "t (id BIGINT, a INT)")
    steps = ("", 'evolution("t")', 'evolution("t", rename={"e": "a"})')
    found = releases(tmp_path, *((f"CREATE TABLE {schema};", step) for schema, step in zip(schemas, steps, strict=True)))
    lake = deployed(tmp_path, found[0], found[1])
    lake.upgrade(found[2])
    commands.rollback(lake.env, jobs=no_spark)
    commands.alter(lake.env, "ALTER TABLE t ADD COLUMN e INT", hold=timedelta(0), jobs=no_spark)
    tables.insert(lake.path("t"), [{"id": 1, "e": 35}])
    with pytest.raises(ReaderFenced):
        lake.env.reader("t", release="1.2.0").arrow()


@pytest.mark.parametrize("write", [1, 3, 6])
def test_a_reader_of_a_release_whose_rollback_was_opened_again_and_taken_back_later(tmp_path: Path, write: int) -> None:
    """A rollback that was killed, an upgrade to where the ledger is, which opens the hold again, and a rollback at last."""
    one = "CREATE TABLE t (id BIGINT, price INT, cost INT);"
    lake = two_releases(tmp_path, one, one, 'evolution("t", rename={"price": "cost", "cost": "price"})')
    lake.upgrade(lake.second)
    tables.insert(lake.path("t"), [{"id": 1, "price": 100, "cost": 7}])
    with contextlib.suppress(Crash):
        commands.rollback(lake.crashing_at(write), jobs=no_spark)
    with contextlib.suppress(SchemamigError):  # the rollback had come to its end
        lake.upgrade(lake.second)
    with contextlib.suppress(SchemamigError):
        commands.rollback(lake.env, jobs=no_spark)
    try:
        rows = lake.env.reader("t", release="1.1.0").arrow().to_pylist()
    except ReaderFenced:
        return
    assert rows == [{"id": 1, "price": 100, "cost": 7}]
