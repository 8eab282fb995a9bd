"""The target renames a column between a stream's look at it and its statement: the stream looks again and is not stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
