"""``AlterOperator`` on a real lake: instant work, so no JVM; a retry is the same claim."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.sql.alter.errors import UnknownName
from airflow_provider_schemamig.core.upgrade.errors import ClaimUsed
from airflow_provider_schemamig.operators.alter import AlterOperator
from tests.support.airflow.final_refusals import fails_for_good
from tests.support.lake import Lake
from tests.support.upgrades import two_releases, whole

CONTEXT: Any = {"ti": SimpleNamespace(dag_id="schemamig_alter", run_id="manual", task_id="alter", map_index=-1)}


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


def test_a_cleared_task_says_that_its_change_was_taken_back_since(lake: Lake) -> None:
    mine, other = "ALTER TABLE a ADD COLUMN n INT", "ALTER TABLE a DROP COLUMN n"
    later: Any = {"ti": SimpleNamespace(**{**vars(CONTEXT["ti"]), "run_id": "later"})}
    assert not any("a second time" in note for note in operator(lake, mine).execute(CONTEXT)["notes"])
    assert operator(lake, mine).execute(CONTEXT)["notes"] == []
    operator(lake, other).execute(later)
    cleared = operator(lake, mine).execute(CONTEXT)
    assert (cleared["generation"], cleared["stages"]) == (2, {})
    told = "generation 2 made this change for the same claim; others changed the table since, and it is not made a second time"
    assert cleared["notes"] == [told]
    whole(lake)


def test_each_statement_of_a_mapped_task_is_made(lake: Lake) -> None:
    for index, name in enumerate(("n", "m")):
        mapped: Any = {"ti": SimpleNamespace(**{**vars(CONTEXT["ti"]), "map_index": index})}
        operator(lake, f"ALTER TABLE a ADD COLUMN {name} INT").execute(mapped)
    assert [field.name for field in lake.state.entry(CollectionName("a")).declared.fields] == ["id", "n", "m"]
    claims = [row.claim_id for row in lake.state.deployments.values() if row.claim_id.startswith("airflow:")]
    assert claims == [f"airflow:schemamig_alter/manual/alter[{index}]" for index in (0, 1)]


def test_another_statement_under_the_claim_of_one_is_refused(lake: Lake) -> None:
    operator(lake, "ALTER TABLE a ADD COLUMN n INT").execute(CONTEXT)
    built_on_it = ("ALTER TABLE a DROP COLUMN n", "ALTER TABLE a RENAME COLUMN n TO m", "ALTER TABLE a ADD CONSTRAINT c CHECK (n > 0)")
    unlike = ("ALTER TABLE a ADD COLUMN m INT", "DROP TABLE a", "CREATE TABLE b (id BIGINT)", "ALTER TABLE a RENAME TO b")
    for other in (*built_on_it, *unlike):
        with fails_for_good(ClaimUsed):
            operator(lake, other).execute(CONTEXT)
    whole(lake)


DONE = ("CREATE TABLE b (id BIGINT)", "DROP TABLE a", "ALTER TABLE a RENAME TO b", "ALTER TABLE a RENAME COLUMN id TO key")


@pytest.mark.parametrize("statement", DONE)
def test_the_retry_of_a_statement_that_is_done_is_no_other_one(lake: Lake, statement: str) -> None:
    for _ in range(2):
        assert operator(lake, statement).execute(CONTEXT)["generation"] == 2


def test_alter_operator_what_cannot_be_read_fails_for_good(lake: Lake) -> None:
    with fails_for_good(UnknownName):
        operator(lake, "ALTER TABLE a DROP COLUMN m").execute(CONTEXT)
