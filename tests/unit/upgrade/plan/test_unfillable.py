"""A table whose rows cannot get values is refused before anything is claimed, not in ``change`` after the approval."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.online import OnlineJobs
from tests.support.rows import tables
from tests.support.upgrades import deployed, refused, releases

SECOND = {"type": "CREATE TABLE t (id BIGINT, v BIGINT);", "default": "CREATE TABLE t (id BIGINT, v STRING, d INT DEFAULT 3);"}


@pytest.mark.parametrize("change", SECOND)
def test_a_table_that_cannot_be_filled_is_refused_before_the_claim(tmp_path: Path, change: str) -> None:
    """The property may be set by the table's owners at any time, and is no drift."""
    found = releases(tmp_path, ("CREATE TABLE t (id BIGINT, v STRING);", ""), (SECOND[change], 'evolution("t")'))
    lake = deployed(tmp_path, *found)
    path = lake.path("t")
    tables.insert(path, [{"id": 1, "v": "1"}])
    metadata = dict(tables.snapshot(path).metadata)  # ALTER TABLE t SET TBLPROPERTIES (delta.appendOnly = true): no drift
    metadata["configuration"] = {**metadata["configuration"], "delta.appendOnly": "true"}
    info = {"commitInfo": {"timestamp": 0, "operation": "SET TBLPROPERTIES", "operationParameters": {}}}
    lines = (json.dumps(info), json.dumps({"metaData": metadata}), "")
    tables.commit_path(path, tables.newest(path) + 1).write_text("\n".join(lines))
    assert commands.status(lake.env).drifted == ()
    with refused("cannot_backfill", "t"):
        commands.preflight(lake.env, found[1], jobs=OnlineJobs({}))
