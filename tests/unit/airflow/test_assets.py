"""Collections as assets: their URIs, and which events the tasks make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from airflow.sdk import DAG, Asset, BaseOperator
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_schemamig.assets.schemamig import DRIFTS, TABLES, drift_asset, table_asset, to_openlineage
from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.operators.alter import AlterOperator
from airflow_provider_schemamig.operators.leader import CutoverOperator
from airflow_provider_schemamig.operators.rollback import RollbackOperator
from airflow_provider_schemamig.operators.verification import VerifyOperator
from airflow_provider_schemamig.sensors.fingerprint import FingerprintSensor
from tests.support.lake import Lake, make_lake
from tests.support.tables import foreign
from tests.support.upgrades import claimed, two_releases


def context(**more: Any) -> Any:
    return {"outlet_events": OutletEventAccessors(), **more}


def events(found: Any, alias: Any = TABLES) -> dict[str, dict[str, Any]]:
    """The extras of the events, by URI."""
    return {event.dest_asset_key.uri: event.extra for event in found["outlet_events"][alias].asset_alias_events}


# --- URIs ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "uri"),
    [
        ("prod_lake", "schemamig://prod_lake/flights"),
        ("s3://lake/prod/", "schemamig://s3%3A%2F%2Flake%2Fprod/flights"),
        ("/data/lake", "schemamig://%2Fdata%2Flake/flights"),
        ("s3://ann:secret@lake/prod", "schemamig://s3%3A%2F%2F%2A%2A%2A%40lake%2Fprod/flights"),
    ],
)
def test_the_uri_of_a_collection(environment: str, uri: str) -> None:
    assert table_asset(environment, "flights").uri == uri
    assert drift_asset(environment, "flights").uri == f"{uri}/drift"


def test_the_environment_can_be_told_from_the_uri() -> None:
    assert unquote(urlsplit(table_asset("s3://lake/prod", "flights").uri).netloc) == "s3://lake/prod"


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("schemamig:///flights", "needs an environment"),
        ("schemamig:flights", "needs an environment"),
        ("schemamig://prod_lake", "needs one collection"),
        ("schemamig://prod_lake/flights/gate", "nothing after it but /drift"),
        ("schemamig://ann@prod_lake/flights", "neither a user nor a query"),
        ("schemamig://prod_lake/flights?version=1", "neither a user nor a query"),
    ],
)
def test_a_uri_that_means_no_collection_is_refused(uri: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Asset(uri)


def test_slashes_at_the_end_make_no_other_asset() -> None:
    assert Asset("schemamig://prod_lake/flights/").uri == table_asset("prod_lake", "flights").uri


def test_an_asset_is_a_dataset_of_lineage_by_its_name() -> None:
    pytest.importorskip("openlineage.client")
    found = to_openlineage(table_asset("prod_lake", "flights"), None)
    assert (found.namespace, found.name) == ("schemamig://prod_lake", "flights")


# --- events --------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = make_lake(tmp_path)
    found.upgrade(found.first)
    return found


def named(lake: Lake, name: str) -> str:
    return table_asset(lake.env.location.uri, name).uri


def committed(lake: Lake) -> Any:
    generation = claimed(lake, lake.second)
    commands.promote(lake.env, generation, approved_by="ann")
    commands.expand(lake.env, generation)
    found = context()
    CutoverOperator(task_id="t", environment=lake.env.location.uri, generation=generation).execute(found)
    return found


def test_a_commit_tells_of_the_collections_that_changed_and_of_no_other(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    found = events(committed(lake))
    assert set(found) == {named(lake, name) for name in ("flights", "planes", "stats", "legacy", "airports")}
    told = found[named(lake, "flights")]
    assert told == {
        "event": "committed",
        "change": "altered",
        "environment": lake.env.location.uri,
        "collection": "flights",
        "from": "1.0.0",
        "to": "1.1.0",
        "fingerprint": lake.state.objects[next(name for name in lake.state.objects if name == "flights")].fingerprint,
        "table_version": 1,
        "generation": 2,
        "approver": "ann",
        "by": None,
        "is_gone": False,
    }
    assert (found[named(lake, "legacy")]["change"], found[named(lake, "legacy")]["is_gone"]) == ("removed", True)


def test_a_try_that_finds_the_commit_tells_it_again(lake: Lake) -> None:
    first = committed(lake)
    again = context()
    CutoverOperator(task_id="t", environment=lake.env.location.uri, generation=2).execute(again)
    assert events(again) == events(first)


def test_a_rollback_tells_the_way_back(lake: Lake) -> None:
    committed(lake)
    found = context(ti=Ti())
    RollbackOperator(task_id="t", environment=lake.env.location.uri, allow_lossy=True).execute(found)
    told = events(found)[named(lake, "flights")]
    assert {name: told[name] for name in ("event", "from", "to", "approver")} == {
        "event": "rolled_back",
        "from": "1.1.0",
        "to": "1.0.0",
        "approver": "ann",
    }


def test_an_alter_tells_of_its_collection(lake: Lake) -> None:
    found = context(ti=Ti())
    AlterOperator(task_id="t", environment=lake.env.location.uri, statement="ALTER TABLE planes ADD COLUMN seats INT").execute(found)
    assert [extra["change"] for extra in events(found).values()] == ["altered"]
    assert set(events(found)) == {named(lake, "planes")}


def test_a_renamed_collection_tells_both_names(tmp_path: Path) -> None:
    lake = two_releases(tmp_path, "CREATE TABLE a (id BIGINT);", "CREATE TABLE b (id BIGINT);", 'evolution("b", renamed_from="a")')
    found = events(committed(lake))
    assert {uri: (extra["collection"], extra["is_gone"]) for uri, extra in found.items()} == {
        named(lake, "a"): ("b", True),
        named(lake, "b"): ("b", False),
    }


def test_drift_has_assets_of_its_own(lake: Lake) -> None:
    foreign.add_column(lake.path("flights"), "intruder", "string")
    found = context()
    FingerprintSensor(task_id="t", environment=lake.env.location.uri, looks_for="drift").execute(found)
    ((uri, told),) = events(found, DRIFTS).items()
    assert uri == f"{named(lake, 'flights')}/drift"
    assert told["collection"] == "flights"
    assert "intruder" in told["differences"][0]
    assert not events(found)


def test_findings_make_drift_events_where_they_do_not_fail_the_task(lake: Lake) -> None:
    foreign.write(lake.path("flights"), [{}])
    found = context()
    done = VerifyOperator(task_id="t", environment=lake.env.location.uri, fails=False).execute(found)
    assert done["findings"]
    assert set(events(found, DRIFTS)) == {f"{named(lake, 'flights')}/drift"}


@pytest.mark.parametrize(
    ("task", "alias"),
    [
        (CutoverOperator(task_id="t", environment="/lake", generation=1, outlets=[Asset("x://y")]), TABLES),
        (VerifyOperator(task_id="t", environment="/lake", outlets=[Asset("x://y")]), DRIFTS),
    ],
    ids=lambda value: getattr(value, "task_type", ""),
)
def test_outlets_of_ones_own_are_kept(task: BaseOperator, alias: Any) -> None:
    assert task.outlets == [Asset("x://y"), alias]


@pytest.mark.parametrize("kind", [AlterOperator, VerifyOperator, FingerprintSensor], ids=lambda kind: kind.__name__)
def test_outlets_of_a_mapped_task_are_a_list_as_airflow_wants_them(kind: Any) -> None:
    with DAG("mapped", schedule=None):
        mapped = kind.partial(task_id="t").expand(environment=["/one", "/two"])
    assert [*mapped.outlets, *mapped.inlets] == []


class Ti:
    dag_id, run_id, task_id, map_index = "d", "r", "t", -1

    def xcom_push(self, *_: Any) -> None: ...
