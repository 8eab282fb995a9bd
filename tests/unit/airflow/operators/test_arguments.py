"""What tasks make of arguments as templates and XComs give them: None, numbers, lists, the text of a list. No raw TypeError, no green task
that did nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.upgrade.errors import UnknownCollection
from airflow_provider_schemamig.exceptions import Refused
from airflow_provider_schemamig.hooks.schemamig import ConnectionUnusable, SchemamigHook
from airflow_provider_schemamig.operators.alter import AlterOperator
from airflow_provider_schemamig.operators.arguments import BadArgument, UnknownParameter, as_chunk, as_names, as_number, as_text, as_window
from airflow_provider_schemamig.operators.base import EnvironmentOperator
from airflow_provider_schemamig.operators.control import ApproveOperator, PauseOperator, PostponeOperator, ThrottleOperator, UnpinOperator
from airflow_provider_schemamig.operators.drift import AcceptOperator, AdoptOperator, RevertOperator, UnmanageOperator
from airflow_provider_schemamig.operators.leader import ChangeOperator, ContractOperator
from airflow_provider_schemamig.operators.ledger import BackupLedgerOperator
from airflow_provider_schemamig.operators.read_only import FillChunksOperator, FillOperator, TailOperator
from airflow_provider_schemamig.operators.refused import TaskRefused
from airflow_provider_schemamig.operators.replicas import RestoreCollectionOperator
from airflow_provider_schemamig.operators.verification import VerifyOperator
from airflow_provider_schemamig.sensors.fingerprint import FingerprintSensor
from tests.support.airflow.fake_run import FakeRun
from tests.support.airflow.final_refusals import fails_for_good
from tests.support.lake import Lake, append
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.upgrades import two_releases

FLIGHTS = "CREATE TABLE flights (id BIGINT, x INT);"
UP, DOWN = "SELECT id, CAST(x AS STRING) AS x FROM {flights}", "SELECT id, CAST(x AS INT) AS x FROM {flights}"
REWRITTEN = f'rewrite("flights", up="{UP}", down="{DOWN}")'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return two_releases(tmp_path, FLIGHTS, "CREATE TABLE flights (id BIGINT, x STRING);", REWRITTEN)


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> RowJobs:
    found = RowJobs({UP: lambda row: [{**row, "x": str(row["x"])}], DOWN: lambda row: [{**row, "x": int(row["x"])}]})
    monkeypatch.setattr(SchemamigHook, "job_runner", lambda hook: found)
    return found


def executed(kind: type[EnvironmentOperator], lake: Lake, **arguments: Any) -> Any:
    return kind(task_id="t", **{"environment": lake.env.location.uri, **arguments}).execute(FakeRun().context())


ASKED: Sequence[tuple[type[EnvironmentOperator], dict[str, Any], str]] = [
    (PauseOperator, {"collection": ["flights"]}, "collection"),
    (PauseOperator, {"reason": ["month", "end"]}, "reason"),
    (PostponeOperator, {"reason": {"why": "month end"}}, "reason"),
    (ThrottleOperator, {"window": 22}, "window"),
    (UnpinOperator, {"collection": None}, "collection"),
    (UnpinOperator, {"collection": "flights", "holder": []}, "holder"),
    (ApproveOperator, {"generation": 1, "plan": None}, "plan"),
    (ApproveOperator, {"generation": "9" * 5000, "plan": "0" * 64}, "generation"),
    (RevertOperator, {"collection": ["flights"]}, "collection"),
    (UnmanageOperator, {"collection": None}, "collection"),
    (AcceptOperator, {"release": None}, "release"),
    (AcceptOperator, {"release": "release", "collections": [1]}, "collections"),
    (AcceptOperator, {"release": "release", "collections": []}, "collections"),
    (AcceptOperator, {"release": "release", "collections": "[]"}, "collections"),
    (VerifyOperator, {"collections": {"flights": 1}}, "collections"),
    (VerifyOperator, {"collections": "[]"}, "collections"),
    (VerifyOperator, {"collections": "None"}, "collections"),
    (PauseOperator, {"collection": "None"}, "collection"),
    (PauseOperator, {"environment": "None"}, "environment"),
    (ContractOperator, {"generation": "None"}, "generation"),
    (ContractOperator, {"generation": "two"}, "generation"),
    (ContractOperator, {"generation": "", "at_once": True}, "generation"),
    (ContractOperator, {"generation": "", "at_once": "True"}, "generation"),
    (VerifyOperator, {"collections": 5}, "collections"),
    (AdoptOperator, {"release": "release", "tables": '{"q": "/x"}'}, "tables"),
    (AdoptOperator, {"release": "release", "tables": {"q": None}}, "tables"),
    (AdoptOperator, {"release": "release", "tables": {5: "/x"}}, "tables"),
    (AdoptOperator, {"release": "release", "tables": {"q": "x"}}, "the table of q"),
    (AlterOperator, {"statement": None}, "statement"),
    (AlterOperator, {"statement": ["DROP TABLE flights"]}, "statement"),
    (BackupLedgerOperator, {"folder": None}, "folder"),
    (BackupLedgerOperator, {"folder": "backup"}, "folder"),
    (FingerprintSensor, {"looks_for": "arrival", "version": None}, "version"),
    (FillOperator, {"generation": 1, "collections": None}, "collections"),
    (FillOperator, {"generation": 1, "collections": ""}, "collections"),
    (FillOperator, {"generation": 1, "collections": "['flights'"}, "collections"),
    (FillChunksOperator, {"generation": 1, "collections": ""}, "collections"),
    (TailOperator, {"generation": 1, "collections": None, "mode": "poke"}, "collections"),
    (ChangeOperator, {"generation": 1, "collections": [["flights"]]}, "collections"),
]


@pytest.mark.parametrize(("kind", "arguments", "argument"), ASKED)
def test_what_an_operator_cannot_take_is_named(
    lake: Lake, kind: type[EnvironmentOperator], arguments: dict[str, Any], argument: str
) -> None:
    with fails_for_good(BadArgument) as caught:
        executed(kind, lake, **arguments)
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("conf", "left_out"),
    [
        ({"generatoin": 7, "environment": "x"}, ["'generatoin'"]),
        ({"generation": 7}, []),
        ({"openlineage": {"parentRunId": "x"}}, []),
        (None, []),
    ],
)
def test_a_key_of_the_conf_that_is_no_parameter_is_named(lake: Lake, conf: dict[str, Any] | None, left_out: list[str]) -> None:
    context = FakeRun().context()
    context["dag"].params, context["dag_run"].conf = {"environment": "lake", "generation": None}, conf
    for only_params in (False, True):
        operator = PauseOperator(task_id="t", environment=lake.env.location.uri, only_params=only_params)
        if only_params and left_out:
            with fails_for_good(UnknownParameter) as caught:
                operator.execute(context)
            assert caught.value.names == left_out
            assert caught.value.next_action.endswith("the DAG's parameters are environment, generation.")
        else:
            operator.execute(context)


@pytest.mark.parametrize("environment", [None, 5, "", ["/lake"]])
def test_an_environment_that_is_no_text_is_named(lake: Lake, environment: Any) -> None:
    with fails_for_good(ConnectionUnusable, match="URI or as an absolute path"):
        executed(PauseOperator, lake, environment=environment)


def test_a_number_is_taken_as_it_is_typed(lake: Lake) -> None:
    assert executed(PauseOperator, lake, reason=4711)["reason"] == "4711"
    assert (as_text("reason", 1.5), as_text("reason", None), as_text("reason", "")) == ("1.5", "", "")
    with pytest.raises(BadArgument):
        as_text("reason", True)


def test_numbers_and_windows_may_be_absent() -> None:
    assert [as_number("n", value) for value in (None, "", "3", 3, 3.0, "3.0")] == [None, None, 3, 3, 3, 3]
    assert (as_window(""), as_window(None), as_window("22-6")) == (None, None, (22, 6))


@pytest.mark.parametrize("value", [["a", "b"], ("a", "b"), "a,b", " a , b,", "['a', 'b']", '["a", "b"]'])
def test_names_come_as_a_list_or_as_the_text_of_one(value: Any) -> None:
    assert as_names(value) == as_chunk(value) == ["a", "b"]


@pytest.mark.parametrize("value", [[], (), "[]"])
def test_a_task_may_get_no_names(value: Any) -> None:
    assert as_chunk(value) == as_names(value) == as_names(None) == as_names("") == []


def test_version_0_of_a_table_can_be_restored(lake: Lake) -> None:
    operator = RestoreCollectionOperator(task_id="t", origin=lake.env.location.uri, target="/nowhere", collection="flights", version=0)
    with pytest.raises(TaskRefused) as caught:
        operator.execute(FakeRun().context())
    assert not isinstance(caught.value.error, BadArgument)  # the target is what is asked next


def test_tasks_work_on_the_text_of_a_list_as_a_template_renders_it(lake: Lake, runner: RowJobs) -> None:
    append(lake.path("flights"), [{"id": 1, "x": 5}])
    claimed = commands.preflight(lake.env, lake.second, jobs=lambda: runner, fill=False)
    assert claimed.generation is not None
    number = str(int(claimed.generation))
    assert executed(FillChunksOperator, lake, generation=number, collections="['flights']") == [["flights"]]
    assert executed(FillOperator, lake, generation=number, collections="['flights']")["stages"]["copy"]["count"] == 1
    unknown(FillOperator, lake, number)
    unknown(TailOperator, lake, number, mode="poke")
    commands.promote(lake.env, Generation(int(number)))
    commands.expand(lake.env, Generation(int(number)))
    executed(ChangeOperator, lake, generation=number, collections="['flights']")
    unknown(ChangeOperator, lake, number)
    commands.cutover(lake.env, Generation(int(number)), jobs=lambda: runner)
    assert tables.snapshot(lake.path("flights")).rows == [{"id": 1, "x": "5"}]


def unknown(kind: type[EnvironmentOperator], lake: Lake, number: str, **options: Any) -> None:
    with pytest.raises(TaskRefused) as caught:
        executed(kind, lake, generation=number, collections=["flights", "fligths"], **options)
    error = caught.value.error
    found = error.refusals if isinstance(error, Refused) else (error,)
    assert [(type(reason), reason.collection) for reason in found] == [(UnknownCollection, "fligths")]
