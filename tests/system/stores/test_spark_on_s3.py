"""Spark on s3a with the LogStore of ours, beside our own commits: whole upgrades, a race of both, and the sessions that lack something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.create import create_table
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.delta.log.listing import commit_key
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.storage import ObjectExists, StorageOptions, Store, log_stores, open_store, spark_uri
from airflow_provider_schemamig.core.storage.location import Location
from airflow_provider_schemamig.core.storage.own_places import SCRATCH
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from tests.support.product import Product
from tests.support.stores.in_between import in_between
from tests.support.stores.object_servers import ObjectServer, s3_jars

pytestmark = [pytest.mark.spark, pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]
STOCK = "spark.delta.logStore.s3a.impl=io.delta.storage.S3SingleDriverLogStore"
FIRST = """CREATE TABLE grown (id BIGINT NOT NULL, v INT);
CREATE TABLE swapped (id BIGINT NOT NULL, zip STRING);
CREATE TABLE rewritten (id BIGINT NOT NULL, v INT);
CREATE TABLE stats (v INT, n BIGINT);
"""
SECOND = """CREATE TABLE grown (id BIGINT NOT NULL, v INT NOT NULL, w STRING, CONSTRAINT positive CHECK (v > 0));
CREATE TABLE swapped (id BIGINT NOT NULL, zip INT);
CREATE TABLE rewritten (id BIGINT NOT NULL, v STRING);
CREATE TABLE stats (v STRING, n BIGINT);
"""
STEPS = """
    evolution("grown"),
    evolution("swapped"),
    rewrite(
        "rewritten",
        up="SELECT id, CAST(v AS STRING) AS v FROM {rewritten}",
        down="SELECT id, CAST(v AS INT) AS v FROM {rewritten}",
    ),
    replacement("stats", fill="SELECT CAST(v AS STRING) AS v, count(*) AS n FROM {rewritten} GROUP BY 1"),
"""


def schemamig(*arguments: object, code: int = 0) -> Any:
    command = [sys.executable, "-m", "airflow_provider_schemamig.cli.main", *map(str, arguments), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def lake(s3: ObjectServer, tmp_path: Path) -> tuple[Environment, Path]:
    """An environment at 1.0.0 with rows by delta-rs, and the release that takes all kinds of work on them."""
    import pyarrow as pa

    product = Product(tmp_path / "product")
    first, second = product.release("1.0.0", FIRST), product.release("1.1.0", SECOND, STEPS)
    env = Environment.open(f"{s3.uri}/lake")
    commands.upgrade(env, first, jobs=without_spark, create=True)
    numbers = pa.array([1, 2, 3], pa.int32())
    for name, column in (("grown", numbers), ("rewritten", numbers), ("swapped", numbers.cast(pa.string()))):
        env.writer(name, release="1.0.0").append(pa.table({"id": [1, 2, 3], "zip" if name == "swapped" else "v": column}))
    return env, second


def left_behind(env: Environment) -> list[str]:
    """What is left of preflight's scratch tables but Hadoop's markers of folders, whose names end with a slash: no client of
    object_store's can delete one."""
    store = env.store()
    return [name for key in store.folders(SCRATCH) for name in store.names(f"{SCRATCH}/{key}/_delta_log") if "." in name]


JARS = ("--spark", "local[2]", "--spark-jars")


def test_a_mix_of_changes_with_the_sdk_given_and_nothing_declared(lake: tuple[Environment, Path]) -> None:
    env, release = lake
    uri, jars = env.location.uri, ",".join(map(str, s3_jars()))
    schemamig("upgrade", "--env", uri, "--release", release, *JARS, jars)
    state = LedgerReader(env).state()
    store = env.table_store(state.shard_of(CollectionName("rewritten")).uri)
    head = read_head(store)
    assert head.schema["fields"][1]["type"] == "string"
    for version in range(head.version + 1):
        store.get(commit_key(version))
    made = log_stores.newest_commit(store.location.uri)
    assert made is not None and made.is_conditional, "Spark's commits carry the mark"
    assert env.reader("rewritten", release="1.1.0").arrow().sort_by("id").to_pydict() == {"id": [1, 2, 3], "v": ["1", "2", "3"]}
    assert left_behind(env) == []
    schemamig("rollback", "--env", uri, *JARS, jars)
    assert env.reader("rewritten", release="1.0.0").arrow().sort_by("id").to_pydict() == {"id": [1, 2, 3], "v": [1, 2, 3]}
    assert schemamig("ledger", "verify", "--env", uri)["findings"] == []
    assert commands.status(env).drifted == ()


def test_a_session_that_lacks_the_log_store_is_named_before_the_claim(lake: tuple[Environment, Path]) -> None:
    env, release = lake
    jars = ",".join(map(str, s3_jars()))
    version = LedgerReader(env).state().version
    refused = schemamig("upgrade", "--env", env.location.uri, "--release", release, "--spark-conf", STOCK, *JARS, jars, code=1)
    assert refused["error"]["code"] == "unsafe_log_store"
    assert "the Spark that this upgrade uses" in refused["error"]["message"]
    assert LedgerReader(env).state().version == version
    assert left_behind(env) == []


def test_a_spark_without_the_connector_is_told_what_to_give_it(lake: tuple[Environment, Path]) -> None:
    env, release = lake
    version = LedgerReader(env).state().version
    refused = schemamig("upgrade", "--env", env.location.uri, "--release", release, "--spark", "local[2]", code=1)
    assert refused["error"]["code"] == "s3_connector_missing"
    assert "org.apache.hadoop:hadoop-aws:3.5.0,software.amazon.awssdk:bundle:2.35.4" in refused["error"]["next"]
    assert LedgerReader(env).state().version == version


#: A Spark of somebody's own: appends one row.
ONE_ROW = """
import json, sys
from airflow_provider_schemamig.core.spark.session import embedded_session
from airflow_provider_schemamig.core.spark.storage_access import hadoop_settings
conf = json.loads(sys.argv[2]) | {f"spark.hadoop.{name}": value for name, value in hadoop_settings({}).items()}
embedded_session("local[1]", conf).sql(f"INSERT INTO delta.`{sys.argv[1]}` (id) VALUES (7)")
"""


@pytest.mark.parametrize("log_store, kept", [("schemamig.ConditionalLogStore", True), ("io.delta.storage.S3SingleDriverLogStore", False)])
def test_a_commit_that_comes_between_sparks_look_and_its_write(log_store: str, kept: bool, s3: ObjectServer) -> None:
    """Spark has looked, sees no version 1, and has sent its own: right then ours is put. With Delta's LogStore ours is gone, silently."""
    from deltalake import DeltaTable

    store = open_store(Location.parse(f"{s3.uri}/raced/t"), StorageOptions(s3.options))
    table_of_one_column(store)
    ours = b'{"commitInfo":{"timestamp":0,"operation":"OURS","engineInfo":"ours"}}\n'

    def come_between(method: str, path: str) -> None:
        if method == "PUT" and path.endswith(commit_key(1)) and not store.exists(commit_key(1)):
            store.put_if_absent(commit_key(1), ours)

    with in_between(s3.endpoint, come_between) as endpoint:
        conf = {"spark.jars": ",".join(map(str, s3_jars())), "spark.delta.logStore.s3a.impl": log_store}
        command = [sys.executable, "-c", ONE_ROW, spark_uri(store.location.uri), json.dumps(conf)]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "AWS_ENDPOINT_URL": endpoint}, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert (store.get(commit_key(1)) == ours) is kept
    assert store.exists(commit_key(2)) is kept
    assert DeltaTable(store.location.uri, storage_options=dict(s3.options)).to_pyarrow_table()["id"].to_pylist() == [7]


#: A Spark of somebody's own: appends rows with three threads until a line comes, and prints how many were acknowledged.
WRITER = """
import json, sys, threading
from airflow_provider_schemamig.core.spark.session import embedded_session
from airflow_provider_schemamig.core.spark.storage_access import hadoop_settings
table, conf = sys.argv[1], json.loads(sys.argv[2])
spark = embedded_session("local[3]", conf | {f"spark.hadoop.{name}": value for name, value in hadoop_settings({}).items()})
spark.sql(f"INSERT INTO delta.`{table}` (id) VALUES (0)")
print("ready", flush=True)
stop, done = threading.Event(), []
def append(thread):
    number = 0
    while not stop.is_set():
        number += 1
        key = thread * 1_000_000 + number
        try:
            spark.sql(f"INSERT INTO delta.`{table}` (id) VALUES ({key})")
            done.append(key)
        except Exception as error:
            print("failed", str(error).splitlines()[0][:300], file=sys.stderr, flush=True)
threads = [threading.Thread(target=append, args=(thread,)) for thread in (1, 2, 3)]
for thread in threads: thread.start()
sys.stdin.readline()
stop.set()
for thread in threads: thread.join()
print(json.dumps(sorted(done)), flush=True)
"""


def race(s3: ObjectServer, conf: dict[str, str], seconds: float) -> tuple[list[int], list[int], set[int], list[int]]:
    """Let Spark and our commits race for the versions of one table; (versions we were told are ours, those of them that are not any
    more, rows that Spark was told are there, rows that are there)."""
    from deltalake import DeltaTable

    env = Environment.open(f"{s3.uri}/raced")
    store = open_store(Location.parse(f"{env.location.uri}/t"), StorageOptions())
    table_of_one_column(store)
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, spark_uri(store.location.uri), json.dumps({"spark.jars": ",".join(map(str, s3_jars())), **conf})],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    ours: dict[int, bytes] = {}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        # Whoever makes the tenth commit writes a checkpoint, too.
        version = max(int(name[:20]) for name in store.names("_delta_log", f"{0:020d}.") if name.endswith(".json")) + 1
        body = json.dumps({"commitInfo": {"timestamp": 0, "operation": "OURS", "engineInfo": "ours", "txnId": str(version)}}).encode()
        try:
            store.put_if_absent(commit_key(version), body)
            ours[version] = body
        except ObjectExists:
            pass
        time.sleep(0.3)
    said, _ = process.communicate("stop\n")
    told = set(json.loads(said.splitlines()[-1]))
    lost = [version for version, body in ours.items() if store.get(commit_key(version)) != body]
    rows = DeltaTable(store.location.uri).to_pyarrow_table()["id"].to_pylist()
    return sorted(ours), lost, told, rows


def table_of_one_column(store: Store) -> None:
    (declaration,) = parse_schema("CREATE TABLE t (id BIGINT);", "schema.sql")
    create_table(store, declaration, "00000000-0000-4000-8000-000000000001", Tag(Generation(1), Epoch(1), "create"))


def test_sparks_commits_and_ours_exclude_each_other(s3: ObjectServer) -> None:
    ours, lost, told, rows = race(s3, {}, 60)
    assert len(ours) > 20 and len(told) > 3, "both had their turn"
    assert lost == [], "a commit of ours was replaced"
    assert told <= set(rows) and len(rows) == len(set(rows)), "rows that Spark was told are there are not, or twice"
