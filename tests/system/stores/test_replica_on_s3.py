"""On a real S3 server: a replica whose process is killed, and a driver that gets its work through the store alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.errors import InputMissing
from airflow_provider_schemamig.core.spark.runners import SubmitRunner
from airflow_provider_schemamig.core.storage import spark_uri
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from tests.support.processes import wait_until
from tests.support.product import Product
from tests.support.stores.object_servers import ObjectServer, s3_jars

pytestmark = [pytest.mark.spark, pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]
SCHEMA = "CREATE TABLE flights (id BIGINT NOT NULL, v INT, PRIMARY KEY (id));"


@pytest.fixture
def ends(s3: ObjectServer, tmp_path: Path) -> tuple[Environment, Environment]:
    """Two environments of one release in one bucket; the first has rows."""
    release = Product(tmp_path / "product").release("1.0.0", SCHEMA)
    origin, target = (Environment.open(f"{s3.uri}/{name}") for name in ("east", "west"))
    for env in (origin, target):
        commands.upgrade(env, release, jobs=without_spark, create=True)
    append(origin, range(6))
    return origin, target


def append(env: Environment, ids: range) -> None:
    for key in ids:  # a commit each
        env.writer("flights", release="1.0.0").append(pa.table({"id": [key], "v": pa.array([key], pa.int32())}))


def rows(env: Environment) -> list[int]:
    found: list[int] = env.reader("flights", release="1.0.0").arrow()["id"].to_pylist()
    return sorted(found)


def replicate(origin: Environment, target: Environment) -> subprocess.Popen[bytes]:
    jars = ",".join(map(str, s3_jars()))
    places = ("--from", origin.location.uri, "--to", target.location.uri)
    command = ("replicate", *places, "--spark", "local[2]", "--spark-jars", jars)
    return subprocess.Popen([sys.executable, "-m", "airflow_provider_schemamig.cli.main", *command], cwd=ROOT)


def test_a_replica_goes_on_where_it_was_killed(ends: tuple[Environment, Environment]) -> None:
    origin, target = ends
    first = replicate(origin, target)
    wait_until(lambda: bool(rows(target)), 300)
    first.kill()
    first.wait()
    append(origin, range(6, 9))
    assert replicate(origin, target).wait() == 0
    assert rows(target) == rows(origin) == list(range(9))
    assert commands.status(target).drifted == ()
    assert commands.verify_ledger(LedgerReader(target)) == ()


def test_a_driver_gets_its_work_through_the_store(ends: tuple[Environment, Environment]) -> None:
    env, _ = ends
    uri = env.location.child(env.SYSTEM_FOLDER, "jobs").uri
    runner = SubmitRunner("local[1]", {"spark.jars": ",".join(map(str, s3_jars()))}, exchange_uri=uri)
    table = env.table_location(LedgerReader(env).state().shard_of(CollectionName("flights")).uri)
    asked = {"checks": [], "expressions": [], "timed": False, "storage_options": {}}
    try:
        found = runner.run("preflight", {**asked, "estimates": [{"collection": "flights", "uri": spark_uri(table.uri)}]})
        with pytest.raises(InputMissing):
            runner.run("preflight", {**asked, "estimates": [{"collection": "gone", "uri": spark_uri(f"{table.uri}-gone")}]})
    finally:
        runner.stop()
    assert [item["rows"] for item in found["estimates"]] == [6]
    assert env.store().folders(f"{env.SYSTEM_FOLDER}/jobs") == []
