"""The target renames a column between a stream's look at it and its statement: the stream looks again, or says what it has written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.restore.restore import restore
from airflow_provider_schemamig.core.spark.errors import QueryRefused
from tests.support.replicas import make_replicas
from tests.support.rows.jobs import RowJobs

FIRST = "CREATE TABLE trips (id BIGINT NOT NULL, v STRING);\n"


def test_a_statement_with_a_name_of_before_is_planned_again(tmp_path: Path) -> None:
    two = make_replicas(tmp_path, (FIRST, ""), (FIRST.replace("v STRING", "w STRING"), 'evolution("trips", rename={"v": "w"})'))
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b")
    two.insert("a", {"id": 2, "v": "y"})
    upgraded: list[str] = []

    def rename_first(job: str, _request: Mapping[str, Any]) -> None:
        if not upgraded:
            upgraded.append(job)
            two.upgrade("b", to=2, end_hold=False)
            raise QueryRefused(condition="UNRESOLVED_COLUMN", detail="v")

    assert two.state("a", "b", jobs=RowJobs({}, before=rename_first)).error is None
    assert upgraded == ["apply"]
    assert [row["id"] for row in two.declared_rows("b")] == [1, 2]


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"], ids=["without a key", "by key"])
def test_rows_that_were_written_while_names_changed_places_stop_the_stream_until_a_restore(tmp_path: Path, key: str) -> None:
    schema = f"CREATE TABLE trips (id BIGINT NOT NULL, v STRING, u STRING{key});\n"
    two = make_replicas(tmp_path, (schema, ""), (schema, 'evolution("trips", rename={"v": "u", "u": "v"})'))
    two.insert("a", {"id": 1, "v": "V", "u": "U"})
    two.bring("a", "b")
    two.insert("a", {"id": 2, "v": "V", "u": "U"})
    upgraded: list[str] = []

    def exchange_first(job: str, _request: Mapping[str, Any]) -> None:
        if job == "apply" and not upgraded:
            upgraded.append(job)
            two.upgrade("b", to=2, end_hold=False)

    assert two.state("a", "b", jobs=RowJobs({}, before=exchange_first)).error == "wrote_other_columns"
    assert two.state("a", "b").error == "wrote_other_columns", "it stays"
    two.upgrade("a", to=2)
    assert two.state("a", "b").error == "wrote_other_columns"
    restore(two.env("a"), two.env("b"), CollectionName("trips"), allow_lossy=True, jobs=two.runner)
    assert two.state("a", "b").error is None
    assert two.declared_rows("b") == two.declared_rows("a")
