"""``AlterOperator`` on a real lake: instant work, so no JVM; a retry is the same claim."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.release.sql.alter.errors import UnknownName
from airflow_provider_schemamig.core.upgrade.context import controls
from airflow_provider_schemamig.core.upgrade.errors import ClaimUsed, DeploymentOpen, WrongState
from airflow_provider_schemamig.operators.alter import AlterOperator
from airflow_provider_schemamig.operators.leader import ContractOperator, CutoverOperator
from airflow_provider_schemamig.triggers.ledger import PauseTrigger
from tests.support.airflow.fake_run import FakeRun
from tests.support.airflow.final_refusals import fails_for_good
from tests.support.lake import Lake, no_spark
from tests.support.upgrades import deployed, releases, two_releases, whole

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


@pytest.mark.parametrize("is_passed", [False, True])
def test_an_alter_that_was_cancelled_while_it_was_paused_is_not_made(lake: Lake, is_passed: bool) -> None:
    """Neither when the pause is over, nor after a deployment since whose clean-up passed over its claim."""
    controls.pause(lake.env, None)
    statement = "ALTER TABLE a ADD COLUMN n INT"
    with pytest.raises(TaskDeferred) as deferred:
        operator(lake, statement).execute(CONTEXT)
    trigger = deferred.value.trigger
    assert isinstance(trigger, PauseTrigger)
    assert (trigger.generation, trigger.look()) == (2, False)
    commands.cancel(lake.env, Generation(2))
    assert trigger.look(), "nothing is waited for any more"
    controls.resume(lake.env, None)
    if is_passed:
        commands.alter(lake.env, "ALTER TABLE a ADD COLUMN other INT", jobs=no_spark)
    with fails_for_good(WrongState, match="generation 2 is cancelled"):
        operator(lake, statement).execute(CONTEXT)
    assert "n" not in [field.name for field in lake.state.entry(CollectionName("a")).declared.fields]


def test_an_alter_that_was_left_and_passed_over_is_made(lake: Lake) -> None:
    """Nobody gave it up: its worker died, and what came meanwhile was another deployment."""
    controls.pause(lake.env, None)
    with pytest.raises(TaskDeferred):
        operator(lake, "ALTER TABLE a ADD COLUMN n INT").execute(CONTEXT)
    controls.resume(lake.env, None)
    commands.alter(lake.env, "ALTER TABLE a ADD COLUMN other INT", jobs=no_spark)
    assert lake.state.deployments[Generation(2)].state is DeploymentState.CANCELLED
    assert operator(lake, "ALTER TABLE a ADD COLUMN n INT").execute(CONTEXT)["generation"] == 4
    whole(lake)


def test_the_paused_end_of_an_older_hold_waits_in_the_triggerer(tmp_path: Path) -> None:
    first, second, third = (f"CREATE TABLE a ({columns});" for columns in ("i INT, j INT, k INT", "i INT, j INT", "i INT"))
    dropped = ('evolution("a", drop=["k"])', 'evolution("a", drop=["j"])')
    folders = releases(tmp_path, (first, ""), (second, dropped[0]), (third, dropped[1]))
    lake = deployed(tmp_path, *folders[:2])
    for folder in folders[1:]:
        commands.upgrade(lake.env, folder, jobs=no_spark)
    controls.pause(lake.env, None)
    contract = ContractOperator(task_id="end", environment=lake.env.location.uri, generation=2, at_once=True)
    with pytest.raises(TaskDeferred) as deferred:
        contract.execute(CONTEXT)
    trigger = deferred.value.trigger
    assert isinstance(trigger, PauseTrigger)
    assert not trigger.look()
    controls.resume(lake.env, None)
    assert trigger.look()


def test_a_cut_over_that_is_cleared_after_the_next_deployment_says_nothing_of_where_the_environment_is(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.upgrade(lake.env, lake.second, hold=timedelta(0), jobs=no_spark)
    cutover = CutoverOperator(task_id="cutover", environment=lake.env.location.uri, generation=2)
    assert "is at 1.1.0, from 1.0.0" in (cutover.execute(FakeRun().context()), capsys.readouterr().out)[1]
    commands.alter(lake.env, "ALTER TABLE a ADD COLUMN n INT", jobs=no_spark)
    assert cutover.execute(FakeRun().context())["epoch"] is None
    told = capsys.readouterr().out
    assert "generation 3 leads by now: nothing was left to do" in told and "is at 1.1.0" not in told


def test_maintenance_beside_an_upgrade_is_skipped(lake: Lake) -> None:
    """It is no red run for as long as the upgrade lasts: the next run ends the holds that are over."""
    claimed = commands.preflight(lake.env, lake.second, jobs=no_spark).generation
    assert claimed is not None
    commands.promote(lake.env, claimed)
    with pytest.raises(AirflowSkipException):
        ContractOperator(task_id="contract", environment=lake.env.location.uri).execute(CONTEXT)
    with pytest.raises(DeploymentOpen):
        ContractOperator(task_id="end_hold", environment=lake.env.location.uri, generation=1).execute(CONTEXT)


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
