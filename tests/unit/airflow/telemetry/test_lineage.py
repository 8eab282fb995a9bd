"""What OpenLineage is told, held to its JSON schemas."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import jsonschema
import pytest
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_schemamig import lineage
from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.merge.merged import RewriteStep
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration, Field, Primitive
from airflow_provider_schemamig.core.upgrade.errors import DataViolation
from airflow_provider_schemamig.core.upgrade.plan.target import Target
from airflow_provider_schemamig.core.upgrade.table_changes import REWRITTEN, TableChange
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook
from airflow_provider_schemamig.operators.leader import ContractOperator, CutoverOperator
from airflow_provider_schemamig.operators.read_only import ReadOnlyMigrationOperator
from airflow_provider_schemamig.operators.rollback import RollbackOperator
from tests.support.airflow.final_refusals import fails_for_good
from tests.support.airflow.openlineage import checked
from tests.support.lake import Lake, make_lake
from tests.support.online import OnlineJobs
from tests.support.rows.tables import insert
from tests.support.upgrades import expanded, make_holds_due, two_releases

pytest.importorskip("openlineage.client")


class Ti:
    dag_id, run_id, task_id, map_index = "d", "r", "t", -1

    def xcom_push(self, *_: Any) -> None: ...


def event_of(found: Any) -> dict[str, Any]:
    """The event that the provider makes of what an operator returns, as it is sent."""
    from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
    from openlineage.client.serde import Serde

    event = RunEvent(
        eventType=RunState.COMPLETE,
        eventTime="2026-11-25T00:00:00.000Z",
        run=Run(runId=str(uuid4()), facets=found.run_facets),
        job=Job(namespace="airflow", name="d.t", facets=found.job_facets),
        inputs=found.inputs,
        outputs=found.outputs,
        producer="https://example.org",
    )
    return checked(json.loads(Serde.to_json(event)))


def outputs(event: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The facets of the outputs, by their collections."""
    return {item["facets"]["symlinks"]["identifiers"][0]["name"]: item["facets"] for item in event["outputs"]}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = make_lake(tmp_path)
    found.upgrade(found.first)
    return found


def ran(operator: Any) -> dict[str, Any]:
    operator.execute({"outlet_events": OutletEventAccessors(), "ti": Ti()})
    return event_of(operator.get_openlineage_facets_on_complete(None))


def committed(lake: Lake) -> dict[str, Any]:
    generation = expanded(lake, lake.second)
    return ran(CutoverOperator(task_id="t", environment=lake.env.location.uri, generation=generation))


# --- tables --------------------------------------------------------------------------------------------------------------------------


def test_a_commit_tells_what_became_of_each_table(lake: Lake) -> None:
    event = committed(lake)
    found = outputs(event)
    assert {name: facets["lifecycleStateChange"]["lifecycleStateChange"] for name, facets in found.items()} == {
        "flights": "ALTER",
        "planes": "ALTER",
        "stats": "CREATE",
        "legacy": "DROP",
        "airports": "CREATE",
    }
    assert found["flights"]["version"]["datasetVersion"] == "1"
    assert "schema" not in found["legacy"]
    deployment = event["run"]["facets"]["schemamig_deployment"]
    assert {name: deployment[name] for name in ("fromRelease", "toRelease", "generation", "changedTables")} == {
        "fromRelease": "1.0.0",
        "toRelease": "1.1.0",
        "generation": 2,
        "changedTables": 5,
    }


def test_a_table_is_known_by_its_place_and_by_its_collection(lake: Lake) -> None:
    places = {(item["namespace"], item["name"]) for item in committed(lake)["outputs"]}
    assert ("file", str(lake.path("flights"))) in places
    assert lineage._place("lake", "s3://bucket/lake/flights/s1", "flights") == ("s3://bucket", "lake/flights/s1")
    assert lineage._place("prod_lake", None, "flights") == ("schemamig://prod_lake", "flights")


def test_the_schema_has_types_order_and_what_is_inside(lake: Lake) -> None:
    fields = outputs(committed(lake))["flights"]["schema"]["fields"]
    assert [(item["name"], item["type"], item["ordinal_position"]) for item in fields][:2] == [
        ("id", "bigint", 1),
        ("departure_delay", "bigint", 2),
    ]
    assert [item["name"] for item in fields[2]["fields"]] == ["code", "name", "city"]


def test_columns_are_drawn_from_what_they_were(lake: Lake) -> None:
    columns = outputs(committed(lake))["flights"]["columnLineage"]["fields"]
    (delay,), (ident,) = columns["departure_delay"]["inputFields"], columns["id"]["inputFields"]
    assert (delay["namespace"], delay["name"], delay["field"]) == ("file", str(lake.path("flights")), "dep_delay")
    assert [item["transformations"][0]["subtype"] for item in (delay, ident)] == ["TRANSFORMATION", "IDENTITY"]
    assert "gate" not in columns


def test_a_rollback_is_drawn_the_other_way_round(lake: Lake) -> None:
    committed(lake)
    event = ran(RollbackOperator(task_id="t", environment=lake.env.location.uri, allow_lossy=True))
    facets = outputs(event)["flights"]
    assert facets["columnLineage"]["fields"]["dep_delay"]["inputFields"][0]["field"] == "departure_delay"
    assert event["run"]["facets"]["schemamig_deployment"]["isRollback"] is True


def test_a_renamed_collection_names_the_one_before(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE b (id BIGINT);", 'evolution("b", renamed_from="a")')
    change = outputs(committed(lake))["b"]["lifecycleStateChange"]
    assert (change["lifecycleStateChange"], change["previousIdentifier"]["name"]) == ("RENAME", "a")


def test_contract_tells_of_tables_whose_columns_go(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(lake)
    make_holds_due(lake)
    monkeypatch.setattr(lineage, "tell_rest", lambda *_: None)
    monkeypatch.setitem(sys.modules, lineage._LISTENER, sys)
    event = ran(ContractOperator(task_id="t", environment=lake.env.location.uri))
    assert set(outputs(event)) == {"flights"}


def test_a_rewrite_is_drawn_from_its_query() -> None:
    name = CollectionName("planes")
    old = Declaration(name, (Field("tail", Primitive("string")), Field("made", Primitive("string"))))
    new = Declaration(name, (Field("tailnum", Primitive("string")), Field("year", Primitive("int"))))
    up = "SELECT t.tail_number AS tailnum, CAST(t.made AS INT) AS year FROM {planes} t"
    step = RewriteStep(name, old, new, up, None, Version.parse("1.1.0"))
    target = Target(
        "lake", None, Version.parse("1.1.0"), fingerprint(new), (step,), projections=((name, "`tail` AS `tail_number`, `made`"),)
    )
    change = TableChange(REWRITTEN, old, new, "s3://b/planes/s1", "s3://b/planes/s2", 3, step, target)
    event = event_of(lineage.lineage("lake", None, [change]))
    columns = outputs(event)["planes"]["columnLineage"]["fields"]
    assert {
        out: [(item["name"], item["field"], item["transformations"][0]["subtype"]) for item in found["inputFields"]]
        for out, found in columns.items()
    } == {"tailnum": [("planes/s1", "tail", "IDENTITY")], "year": [("planes/s1", "made", "TRANSFORMATION")]}
    assert [(item["namespace"], item["name"]) for item in event["inputs"]] == [("s3://b", "planes/s1")]


# --- many tables ---------------------------------------------------------------------------------------------------------------------


def wide(number: int, columns: int = 1) -> TableChange:
    new = Declaration(CollectionName(f"t{number}"), tuple(Field(f"c{n}", Primitive("string")) for n in range(columns)))
    return TableChange("created", None, new, None, f"s3://b/t{number}", 0)


@pytest.mark.parametrize(
    ("tables", "columns", "sizes"),
    [(0, 1, [0]), (1, 5_000, [1]), (100, 1, [100]), (1_000, 1, [100] * 10), (50, 100, [20, 20, 10])],
)
def test_events_are_kept_small(tables: int, columns: int, sizes: list[int]) -> None:
    assert [len(part) for part in lineage.chunks([wide(number, columns) for number in range(tables)])] == sizes


def test_lineage_what_is_too_much_for_one_event_is_sent_in_others(monkeypatch: pytest.MonkeyPatch) -> None:
    import airflow.providers.openlineage.api as api

    sent: list[int] = []
    monkeypatch.setattr(api, "emit_dataset_lineage", lambda *, inputs, outputs: sent.append(len(outputs)))
    tables = [wide(number) for number in range(250)]
    monkeypatch.delitem(sys.modules, lineage._LISTENER, raising=False)
    lineage.tell_rest("lake", tables)
    assert sent == [], "nobody is told"
    monkeypatch.setitem(sys.modules, lineage._LISTENER, sys)
    lineage.tell_rest("lake", tables)
    assert sent == [100, 50]


def test_no_task_fails_over_what_cannot_be_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    import airflow.providers.openlineage.api as api

    def broken(**_: Any) -> None:
        raise OSError("no route")

    monkeypatch.setattr(api, "emit_dataset_lineage", broken)
    monkeypatch.setitem(sys.modules, lineage._LISTENER, sys)
    lineage.tell_rest("lake", [wide(number) for number in range(150)])
    assert "OpenLineage was not told (more tables): OSError: no route" in caplog.text


# --- tests of preflight --------------------------------------------------------------------------------------------------------------

KEYED = "CREATE TABLE a (id BIGINT, n INT NOT NULL, CONSTRAINT positive CHECK (n > 0));"


def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: dict[str, Any]) -> ReadOnlyMigrationOperator:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT, n INT);", KEYED, 'evolution("a")')
    insert(lake.path("a"), [row])
    monkeypatch.setattr(SchemamigHook, "_make_runner", lambda hook, conn_id: OnlineJobs())
    return ReadOnlyMigrationOperator(task_id="preflight", environment=lake.env.location.uri, release=str(lake.second))


def results(operator: ReadOnlyMigrationOperator) -> dict[str, str]:
    event = event_of(operator.get_openlineage_facets_on_complete(None))
    return {item["name"]: item["status"] for item in event["run"]["facets"]["test"]["tests"]}


RUN: Any = {"ti": Ti(), "dag": type("Dag", (), {"folder": "/"})()}


def test_preflight_tells_what_it_asked_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = asking(tmp_path, monkeypatch, {"id": 1, "n": 1})
    operator.execute(RUN)
    assert results(operator) == {"a: positive": "pass", "a: not_null n": "pass", "plan": "pass"}


def test_a_refused_preflight_tells_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = asking(tmp_path, monkeypatch, {"id": 1, "n": -1})
    with fails_for_good(DataViolation):
        operator.execute(RUN)
    assert results(operator) == {"a: data_violation": "fail"}


# --- Spark ---------------------------------------------------------------------------------------------------------------------------


def test_spark_gets_the_task_as_its_parent_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.providers.common.compat.openlineage.utils import spark as compat

    found = {"spark.openlineage.parentRunId": "r", "spark.openlineage.parentJobName": "d.t"}
    monkeypatch.setattr(compat, "inject_parent_job_information_into_spark_properties", lambda conf, context: {**conf, **found})
    assert conf_of_spark() == {}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO", "True")
    assert conf_of_spark() == found


def conf_of_spark() -> dict[str, str]:
    operator = CutoverOperator(task_id="t", environment="/lake", generation=1)
    operator.begin({"ti": Ti()})  # type: ignore[typeddict-item]
    runner: Any = operator.hook.job_runner()
    return dict(runner._runner.conf)


# --- without it ----------------------------------------------------------------------------------------------------------------------


def test_without_openlineage_nothing_is_missing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = ("openlineage", "airflow.providers.openlineage", "airflow.providers.common.compat.openlineage")
    for name in [name for name in sys.modules if name.startswith(loaded)]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("openlineage", "airflow.providers.openlineage"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO", "True")
    operator = CutoverOperator(task_id="t", environment=lake.env.location.uri, generation=expanded(lake, lake.second))
    assert operator.execute({"outlet_events": OutletEventAccessors(), "ti": Ti()})["to"] == "1.1.0"  # type: ignore[typeddict-item]


def test_the_schemas_would_notice_a_mistake(lake: Lake) -> None:
    event = committed(lake)
    event["outputs"][0]["facets"]["lifecycleStateChange"]["lifecycleStateChange"] = "CHANGED"
    with pytest.raises(jsonschema.ValidationError):
        checked(event)


def test_lineage_nothing_of_openlineage_is_imported_for_a_dag_file() -> None:
    import subprocess

    code = "import sys, airflow_provider_schemamig.task_groups.upgrade; print([m for m in sys.modules if m.startswith('openlineage')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()[-1] == "[]"


def test_tables_as_they_are(lake: Lake) -> None:
    assert outputs(event_of(lineage.lineage("lake", None, commands.tables_now(lake.env, ["planes"])))).keys() == {"planes"}
