"""``AlterOperator`` on a real lake: instant work, so no JVM; a retry is the same claim."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.sql.alter.errors import UnknownName
from airflow_provider_schemamig.operators.alter import AlterOperator
from tests.support.airflow.final_refusals import fails_for_good
from tests.support.lake import Lake
from tests.support.upgrades import two_releases, whole

CONTEXT: Any = {"ti": SimpleNamespace(dag_id="schemamig_alter", run_id="manual", task_id="alter")}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE a (id BIGINT, x INT);", 'evolution("a")')


def operator(lake: Lake, statement: str) -> AlterOperator:
    return AlterOperator(task_id="alter", environment=lake.env.location.uri, statement=statement, hold="0")


def test_a_statement_and_its_retry(lake: Lake) -> None:
    first = operator(lake, "ALTER TABLE a ADD COLUMN n INT").execute(CONTEXT)
    again = operator(lake, "ALTER TABLE a ADD COLUMN n INT").execute(CONTEXT)
    assert (first["generation"], again["generation"]) == (2, 2)
    assert first["stages"]["expand"]["count"] == 1
    assert [field.name for field in lake.state.entry(CollectionName("a")).declared.fields] == ["id", "n"]
    whole(lake)


def test_alter_operator_what_cannot_be_read_fails_for_good(lake: Lake) -> None:
    with fails_for_good(UnknownName):
        operator(lake, "ALTER TABLE a DROP COLUMN m").execute(CONTEXT)
