"""The verification task: it fails with all that it finds, says what it could not look at, and counts what is kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.upgrade.verify.findings import Inconsistent
from airflow_provider_schemamig.exceptions import Refused
from airflow_provider_schemamig.operators.verification import VerifyOperator
from tests.support.airflow.final_refusals import fails_for_good
from tests.support.lake import Lake
from tests.support.tables import foreign
from tests.support.upgrades import deployed, releases

SCHEMA = "CREATE TABLE a (id BIGINT NOT NULL, n INT NOT NULL); CREATE TABLE b (id BIGINT NOT NULL);"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return deployed(tmp_path, *releases(tmp_path, (SCHEMA, "")) * 2)


def run(lake: Lake, **arguments: Any) -> Any:
    return VerifyOperator(task_id="verify", environment=lake.env.location.uri, **arguments).execute({})


def test_all_is_well(lake: Lake) -> None:
    assert run(lake) == {"kept": 3, "unasked": 0}
    assert run(lake, collections=["b"]) == {"kept": 1, "unasked": 0}


def test_findings_fail_the_task(lake: Lake) -> None:
    foreign.write(lake.path("b"), [{}])
    with fails_for_good(Inconsistent, match="not_null:id: 1 row\\(s\\): rows have no value in id") as found:
        run(lake)
    assert (found.value.collection, found.value.retryable) == ("b", False)
    foreign.write(lake.path("a"), [{}])
    with fails_for_good(Refused) as several:
        run(lake)
    assert [item.collection for item in several.value.refusals] == ["a", "a", "b"]


def test_a_table_that_is_gone_fails_the_task(lake: Lake) -> None:
    shutil.rmtree(lake.path("a"))
    with fails_for_good(Inconsistent, match="no Delta table is there") as found:
        run(lake)
    assert found.value.collection == "a"
    assert run(lake, fails=False) == {"kept": 1, "unasked": 1, "findings": 1}


def test_new_rows_are_asked_of_keys_alone(lake: Lake) -> None:
    foreign.write(lake.path("b"), [{}])
    assert run(lake, new_rows=True) == {"kept": 0, "unasked": 0}
