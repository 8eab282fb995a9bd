"""The events that Airflow's database has after a run of the shipped DAG over a real lake, be it of 1,000 collections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_provider_schemamig.assets.schemamig import table_asset
from tests.support.airflow.runs import RunDag
from tests.support.product import Product

pytestmark = pytest.mark.airflow


def asset_events(lake: str) -> list[tuple[str, dict[str, Any]]]:
    """URI and extra of the events of an environment's collections, the oldest first."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    beginning = table_asset(lake, "x").uri.removesuffix("x")
    with create_session() as session:
        found = [(event.asset.uri, dict(event.extra)) for event in session.scalars(select(AssetEvent).order_by(AssetEvent.id))]
    return [(uri.removeprefix(beginning), extra) for uri, extra in found if uri.startswith(beginning)]


def upgrade(run_dag: RunDag, lake: Path, release: Path) -> None:
    assert run_dag("schemamig_upgrade", environment=str(lake), release=str(release), gate="none", create=True)[""][0] == "success"


@pytest.mark.some(1, of="flows of Airflow on a lake")
def test_airflow_keeps_an_event_for_each_collection_that_changed(run_dag: RunDag, tmp_path: Path) -> None:
    product, lake = Product(tmp_path / "releases"), tmp_path / "lake"
    upgrade(run_dag, lake, product.release("1.0.0", "CREATE TABLE flights (id BIGINT); CREATE TABLE planes (id BIGINT);"))
    both = "CREATE TABLE flights (id BIGINT, gate STRING); CREATE TABLE planes (id BIGINT);"
    upgrade(run_dag, lake, product.release("1.1.0", both, 'evolution("flights")'))
    assert run_dag("schemamig_rollback", environment=str(lake))["rollback"] == ("success", 1)
    found = [(name, extra["event"], extra["from"], extra["to"]) for name, extra in asset_events(str(lake))]
    assert found == [
        ("flights", "committed", None, "1.0.0"),
        ("planes", "committed", None, "1.0.0"),
        ("flights", "committed", "1.0.0", "1.1.0"),
        ("flights", "rolled_back", "1.1.0", "1.0.0"),
    ]


@pytest.mark.soak
def test_of_a_thousand_collections_those_get_an_event_that_some_dag_names(run_dag: RunDag, tmp_path: Path) -> None:
    """Airflow takes 5 ms for one, while the end of the task waits, and gives up after 5 s."""
    product, lake = Product(tmp_path / "releases"), tmp_path / "lake"
    _known_to_airflow(Asset(name="the seventh", uri=table_asset(str(lake), "t7").uri))
    upgrade(run_dag, lake, product.release("1.0.0", "\n".join(f"CREATE TABLE t{number} (id BIGINT);" for number in range(1000))))
    ((name, extra),) = asset_events(str(lake))
    assert (name, extra["collection"], extra["to"]) == ("t7", "t7", "1.0.0")


def _known_to_airflow(asset: Asset) -> None:
    """As after a DAG was read that is scheduled on it."""
    from airflow.models.asset import AssetActive, AssetModel
    from airflow.utils.session import create_session

    with create_session() as session:
        session.add(AssetModel(name=asset.name, uri=asset.uri))
        session.flush()
        session.add(AssetActive(name=asset.name, uri=asset.uri))
