"""A reader of a release that was rolled back, and whose column came to the table by an earlier release since: fenced, or the values."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.access.errors import ReaderFenced
from tests.support.lake import no_spark
from tests.support.rows import tables
from tests.support.upgrades import deployed, releases


@pytest.mark.parametrize("files_came", [False, True])
def test_the_column_is_there_by_another_name(tmp_path: Path, files_came: bool) -> None:
    found = releases(
        tmp_path,
        ("CREATE TABLE t (id BIGINT);", ""),
        ("CREATE TABLE t (id BIGINT, e INT);", 'evolution("t")'),
        ("CREATE TABLE t (id BIGINT, a INT);", 'evolution("t", rename={"e": "a"})'),
    )
    lake = deployed(tmp_path, found[0], found[1])
    lake.upgrade(found[2])
    if files_came:
        tables.insert(lake.path("t"), [{"id": 0, "a": 1}])
    commands.rollback(lake.env, jobs=no_spark)
    lake.upgrade(found[1])
    tables.insert(lake.path("t"), [{"id": 1, "e": 35}])
    try:
        rows = lake.env.reader("t", release="1.2.0").arrow().to_pylist()
    except ReaderFenced:
        return
    assert {"id": 1, "a": 35} in rows, rows  # docs/handles.md: a column that the table has no more is a fence, not NULL
