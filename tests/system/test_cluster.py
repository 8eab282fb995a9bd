"""Real upgrades on a standalone cluster and on Spark Connect: everything a release can ask of rows, under a writer.

A driver that takes long to start, a worker that is lost in the middle, and two environments on one cluster at once.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.launch import require_pyspark
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from tests.support.lake import append, rows
from tests.support.processes import drivers, wait_until
from tests.support.product import Product
from tests.support.spark.connect import Wire, connect_server, hold_server, kill_server
from tests.support.spark.standalone import Cluster, standalone

pytestmark = [pytest.mark.spark, pytest.mark.system, pytest.mark.timeout(3400)]

OLD = """CREATE TABLE events (id BIGINT NOT NULL, v INT);
CREATE TABLE orders (id BIGINT NOT NULL, zip STRING);
CREATE TABLE users (id BIGINT, name STRING);
CREATE TABLE stats (v INT, n BIGINT);
"""
NEW = """CREATE TABLE events (id BIGINT NOT NULL, v STRING);
CREATE TABLE orders (id BIGINT NOT NULL, zip INT);
CREATE TABLE users (id BIGINT NOT NULL, full_name STRING, CONSTRAINT known CHECK (id >= 0));
CREATE TABLE stats (v INT, n BIGINT, share DOUBLE);
"""
STEPS = """
    rewrite("events", up="SELECT id, concat('v', v) AS v FROM {events}", down="SELECT id, CAST(substr(v, 2) AS INT) AS v FROM {events}"),
    evolution("orders"),
    evolution("users", rename={"name": "full_name"}),
    replacement("stats", fill="SELECT v, count(*) AS n, 0.5D AS share FROM {events} GROUP BY v"),
"""
ROWS = 400
#: What a task may take of the cluster.
SHARE = """spark.cores.max 1
spark.executor.memory 512m
spark.driver.memory 512m
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.ui.enabled false
"""
SLOW_SUBMIT = """#!/bin/sh
sleep 40
SPARK_HOME={home} exec {home}/bin/spark-submit "$@"
"""
#: The exit code of what is to be tried again.
CONFLICT = 75
SCHEMAMIG = str(Path(sys.executable).with_name("schemamig"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@dataclass
class Lake:
    """An environment at 1.0.0, and the release that asks for everything."""

    folder: Path
    env: Environment
    release: Path
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path) -> Lake:
        product = Product(folder / "product")
        first, second = product.release("1.0.0", OLD), product.release("1.1.0", NEW, STEPS)
        env = Environment.open(str(folder / "lake"))
        commands.upgrade(env, first, jobs=without_spark, create=True)
        found = cls(folder, env, second)
        append(found.table("events"), [{"id": n, "v": n % 7} for n in range(ROWS)])
        append(found.table("orders"), [{"id": n, "zip": str(10_000 + n)} for n in range(ROWS)])
        append(found.table("users"), [{"id": n, "name": f"user {n}"} for n in range(ROWS)])
        (folder / "conf").mkdir()
        (folder / "conf/spark-defaults.conf").write_text(SHARE)
        found.environment["SPARK_CONF_DIR"] = str(folder / "conf")
        return found

    def table(self, collection: str) -> Path:
        found = self.env.table_location(LedgerReader(self.env).state().shard_of(CollectionName(collection)).uri).local_path
        assert found is not None
        return found

    def is_sealed(self) -> bool:
        """Return whether writers of ``events`` are locked out at this moment."""
        state = LedgerReader(self.env).state()
        shard = state.shard_of(CollectionName("events"))
        return read_head(table_store(self.env, state, shard.shard)).sealed_for is not None

    def upgrade(self, spark: str, *options: str) -> subprocess.Popen[str]:
        command = [SCHEMAMIG, "upgrade", "--env", str(self.folder / "lake"), "--release", str(self.release), "--spark", spark, "--json"]
        command += options
        return subprocess.Popen(command, env=os.environ | self.environment, stdout=PIPE, text=True)

    def check(self, written: int) -> None:
        """All rows are in the new shapes, also those of a writer that was told that it had written them."""
        status = commands.status(self.env)
        assert (status.document["version"], status.drifted) == ("1.1.0", ())
        assert verify(LedgerReader(self.env)) == ()
        events = rows(self.table("events"))
        assert sorted(row["id"] for row in events) == list(range(ROWS + written))
        assert all(row["v"] == f"v{row['id'] % 7}" for row in events)
        assert {row["zip"] - row["id"] for row in rows(self.table("orders"))} == {10_000}
        assert all(row["full_name"] == f"user {row['id']}" for row in rows(self.table("users")))
        assert sum(row["n"] for row in rows(self.table("stats"))) >= ROWS


#: What delta-rs says of an append in flight at the seal, and of one after it.
REFUSED = ("metadata changed", "validation check failed")


@dataclass
class Writer:
    """Appends a row to the old table of ``events`` again and again, until it is refused; knows which ones were acknowledged."""

    table: Path
    rest_s: float = 2
    written: int = 0
    refused: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def work(self) -> None:
        while not self.over.wait(self.rest_s):
            number = ROWS + self.written
            try:
                append(self.table, [{"id": number, "v": number % 7}])
            except Exception as error:  # noqa: BLE001 - delta-rs has no class for what a seal does to it
                self.refused = str(error)
                return
            self.written += 1


@contextmanager
def writing(lake: Lake, rest_s: float = 2) -> Iterator[Writer]:
    writer = Writer(lake.table("events"), rest_s)
    thread = threading.Thread(target=writer.work)
    thread.start()
    try:
        yield writer
    finally:
        writer.over.set()
        thread.join()


def ended(upgrade: subprocess.Popen[str], began: float) -> dict[str, Any]:
    """The upgrade's document, with what it told of times."""
    try:
        out, _ = upgrade.communicate(timeout=3000)
    finally:
        upgrade.kill()  # its driver ends by itself
    found: dict[str, Any] = json.loads(out)
    assert upgrade.returncode == 0, found
    print(f"took {time.monotonic() - began:.0f} s; {[note for note in found['notes'] if 'blocked' in note or 'locked' in note]}")
    return found


def blocked_seconds(document: dict[str, Any]) -> float:
    (seconds,) = (
        float(match[1]) for note in document["notes"] if (match := re.search(r"events: writers were blocked for ([\d.]+) s", note))
    )
    return seconds


def test_one_driver_that_takes_40_s_to_start_serves_a_whole_upgrade_under_a_writer(cluster: Cluster, tmp_path: Path) -> None:
    lake = Lake.make(tmp_path)
    slow = tmp_path / "spark/bin/spark-submit"
    slow.parent.mkdir(parents=True)
    slow.write_text(SLOW_SUBMIT.format(home=require_pyspark()))
    slow.chmod(0o755)
    lake.environment["SPARK_HOME"] = str(tmp_path / "spark")
    before, began = cluster.submits(), time.monotonic()
    with writing(lake) as writer:
        document = ended(lake.upgrade(cluster.url), began)
    assert cluster.submits() - before == 1
    assert blocked_seconds(document) < 60
    assert writer.written > 5, "it was at work all the time"
    assert not writer.refused or any(words in writer.refused.lower() for words in REFUSED), writer.refused
    lake.check(writer.written)


def test_a_worker_is_lost_in_the_middle(cluster: Cluster, tmp_path: Path) -> None:
    lake, began = Lake.make(tmp_path), time.monotonic()
    upgrade = lake.upgrade(cluster.url)
    wait_until(lambda: drivers(upgrade.pid) and used(cluster) is not None, 300)
    number = used(cluster)
    assert number is not None
    wait_until(lambda: any(row.filled_rows is not None for row in LedgerReader(lake.env).state().replacements.values()), 600)
    cluster.kill_worker(number)
    ended(upgrade, began)
    lake.check(0)


def used(cluster: Cluster) -> int | None:
    """The worker that has an executor, by its place in the list."""
    pids = {}
    for worker in cluster.state()["workers"]:
        if worker["coresused"]:
            pids[worker["port"]] = worker["id"]
    for number, process in enumerate(cluster.workers):
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")
        if int(command[command.index("--port") + 1]) in pids:
            return number
    return None


def test_two_environments_at_once_share_the_cluster(tmp_path_factory: pytest.TempPathFactory) -> None:
    with standalone(tmp_path_factory.mktemp("shared")) as cluster:
        lakes, began = [Lake.make(tmp_path_factory.mktemp(name)) for name in ("one", "other")], time.monotonic()
        upgrades = [lake.upgrade(cluster.url) for lake in lakes]
        for upgrade in upgrades:
            ended(upgrade, began)
        assert cluster.submits() == 2
        for lake in lakes:
            lake.check(0)


def test_a_whole_upgrade_under_a_writer_on_connect(tmp_path: Path) -> None:
    lake = Lake.make(tmp_path)
    (tmp_path / "server").mkdir()
    with connect_server(tmp_path / "server", master="local[2]") as url, writing(lake) as writer:
        document = ended(lake.upgrade(url), time.monotonic())
    assert blocked_seconds(document) < 60
    lake.check(writer.written)


#: A moment in a whole upgrade -> whether it has come.
MOMENTS: dict[str, Callable[[Lake], bool]] = {
    "the first rows are filled": lambda lake: any(
        row.filled_rows is not None for row in LedgerReader(lake.env).state().replacements.values()
    ),
    "it is promoted": lambda lake: LedgerReader(lake.env).state().is_promoted,
    "a rule is added online": lambda lake: bool(LedgerReader(lake.env).state().elements),
    "writers are locked out": Lake.is_sealed,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_connect_server_is_killed_in_the_middle_of_a_whole_upgrade_under_a_writer(tmp_path: Path, moment: str) -> None:
    """The command ends as one to be tried again; the next one, on another server, goes on from there, and no acknowledged row is lost."""
    lake = Lake.make(tmp_path)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with writing(lake, 0.5) as writer:
        with connect_server(tmp_path / "first", master="local[2]") as url:
            upgrade = lake.upgrade(url)
            wait_until(lambda: MOMENTS[moment](lake), 300, pause_seconds=0.01)
            kill_server(url)
            out, _ = upgrade.communicate(timeout=300)
        assert upgrade.returncode == CONFLICT, out
        error = json.loads(out)["error"]
        assert (error["code"], url in error["message"]) == ("spark_unavailable", True), error
        assert not lake.is_sealed(), "writers are locked out by nobody"
        with connect_server(tmp_path / "second", master="local[2]") as url:
            ended(lake.upgrade(url), time.monotonic())
    lake.check(writer.written)


def test_a_connect_server_that_is_started_anew_during_an_upgrade_is_tried_again(tmp_path: Path) -> None:
    """As a cluster does with one that died: the client finds a server at the old address that knows nothing of its session."""
    lake = Lake.make(tmp_path)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with connect_server(tmp_path / "first", master="local[2]") as url:
        upgrade = lake.upgrade(url)
        wait_until(lambda: bool(LedgerReader(lake.env).state().replacements), 300, pause_seconds=0.01)
        time.sleep(1.5)  # it is in the middle of the first fill
        kill_server(url)
        with connect_server(tmp_path / "second", master="local[2]", port=int(url.rpartition(":")[2])):
            out, _ = upgrade.communicate(timeout=300)
            assert upgrade.returncode == CONFLICT, out
            assert json.loads(out)["error"]["code"] == "spark_unavailable", out
            ended(lake.upgrade(url), time.monotonic())
    lake.check(0)


def test_a_connect_server_that_hangs_after_the_seal_keeps_writers_out_no_longer_than_they_may_wait(tmp_path: Path) -> None:
    lake = Lake.make(tmp_path)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with writing(lake, 0.2) as writer:
        with connect_server(tmp_path / "first", master="local[2]") as url:
            upgrade = lake.upgrade(url, "--seal-seconds", "20")
            wait_until(lake.is_sealed, 300, pause_seconds=0.01)
            hold_server(url, on=False)
            wait_until(lambda: not lake.is_sealed(), 30)
            out, _ = upgrade.communicate(timeout=60)
            assert (upgrade.returncode, json.loads(out)["error"]["code"]) == (CONFLICT, "seal_expired"), out
        with connect_server(tmp_path / "second", master="local[2]") as url:
            ended(lake.upgrade(url), time.monotonic())
    lake.check(writer.written)


def test_a_connect_server_whose_machine_is_gone_without_a_word_is_missed(tmp_path: Path) -> None:
    lake = Lake.make(tmp_path)
    (tmp_path / "server").mkdir()
    with connect_server(tmp_path / "server", master="local[2]") as url:
        wire = Wire(url)
        upgrade = lake.upgrade(wire.url)
        wait_until(lambda: bool(LedgerReader(lake.env).state().replacements), 300, pause_seconds=0.01)
        time.sleep(1.0)  # it is in the middle of the first fill
        wire.cut()
        out, _ = upgrade.communicate(timeout=120)
        assert (upgrade.returncode, json.loads(out)["error"]["code"]) == (CONFLICT, "spark_unavailable"), out
        ended(lake.upgrade(url), time.monotonic())
    lake.check(0)
