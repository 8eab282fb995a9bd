"""Readers and writers of a release that was rolled back, once a release before it brought its columns: the values, or a fence.

The release that was made in between may call the same column otherwise, and nothing in the ledger tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import ReaderFenced, WriterFenced
from tests.support.lake import Lake, no_spark
from tests.support.rows import tables
from tests.support.upgrades import deployed, releases


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


@pytest.mark.parametrize("taken_back_too", [False, True])
@pytest.mark.parametrize("files_came", [False, True])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
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


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_writer_of_the_release_that_was_taken_back_is_fenced(tmp_path: Path, case: Case) -> None:
    lake = over_and_back(tmp_path, case, files_came=True)
    rows = pa.table({"id": [2], **{name: pa.array([5], pa.int32()) for name in case.right}})
    with pytest.raises(WriterFenced):
        lake.env.writer("t", release="1.2.0").append(rows)
