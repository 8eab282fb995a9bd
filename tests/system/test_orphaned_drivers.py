"""The runner alone is killed, and its Spark driver lives on and commits. What it writes must not double a row, nor disturb
the generation that comes next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from tests.support.lake import append, no_spark, rows
from tests.support.processes import alive_in_group, drivers
from tests.support.product import Product
from tests.support.rows.fills import SLOW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.spark]

EVENTS = "CREATE TABLE events (id BIGINT);\n"
OLD = EVENTS + "CREATE TABLE stats (id BIGINT);\n"
NEW = EVENTS + "CREATE TABLE stats (id BIGINT, n BIGINT);\n"
FILL = "SELECT id, 1L AS n FROM {events}"
#: One row is written at once and the next after a while: time to stop the driver in the middle.
SLOW_FILL = SLOW.format(milliseconds=3000).replace("FROM s ", "FROM {events} ")
FILLED = [{"id": 1, "n": 1}, {"id": 2, "n": 1}]
RUNNER = """
import sys
from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.spark.runners import SubmitRunner
commands.fill(Environment.open(sys.argv[1]), int(sys.argv[2]), ["stats"], jobs=lambda: SubmitRunner("local[1]"))
"""


@dataclass
class Orphan:
    """An environment of which generation 2 is claimed; its fill is left to a driver that has written one row of two, and stands still."""

    folder: Path
    #: Where generation 2 builds ``stats``.
    shard: Path
    runner: subprocess.Popen[bytes]
    #: The release that is being filled, and one of the same version with a fill that does not wait.
    slow: Path
    fast: Path
    driver: int = 0

    @property
    def env(self) -> Environment:
        return Environment.open(str(self.folder))

    def be_orphaned(self) -> None:
        _until(lambda: bool(list(self.shard.glob("*.parquet"))), "the driver writes")
        self.driver = drivers(self.runner.pid)[0]
        os.killpg(self.driver, signal.SIGSTOP)
        self.runner.kill()
        self.runner.wait()
        assert self.versions() == [0]

    def end(self) -> None:
        """The driver goes on to its end."""
        os.killpg(self.driver, signal.SIGCONT)
        _until(lambda: not alive_in_group(self.driver), "the driver ends")

    def versions(self) -> list[int]:
        return sorted(int(path.stem) for path in (self.shard / "_delta_log").glob("*.json"))

    def clear_away(self) -> None:
        """After a test that failed half way."""
        self.runner.kill()
        self.runner.wait()
        if self.driver and alive_in_group(self.driver):
            os.killpg(self.driver, signal.SIGKILL)

    def check(self) -> None:
        """At 1.1.0, with each row once."""
        status = commands.status(self.env)
        assert (status.document["version"], status.drifted) == ("1.1.0", ())
        assert list(LedgerReader(self.env).state().intents) == []
        assert verify(LedgerReader(self.env)) == ()
        assert rows(self.folder / uri(self.env, "stats")) == FILLED


def _until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def orphans(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Orphan]]:
    """Two of them, started together."""
    made = [_start(tmp_path_factory.mktemp("orphan")) for _ in range(2)]
    try:
        for orphan in made:
            orphan.be_orphaned()
        yield made
    finally:
        for orphan in made:
            orphan.clear_away()


def _start(folder: Path) -> Orphan:
    product = Product(folder / "slow")
    first, slow = product.release("1.0.0", OLD), product.release("1.1.0", NEW, f'replacement("stats", fill="{SLOW_FILL}")')
    quick = Product(folder / "fast")
    quick.release("1.0.0", OLD)
    fast = quick.release("1.1.0", NEW, f'replacement("stats", fill="{FILL}")')
    lake = folder / "lake"
    env = Environment.open(str(lake))
    commands.upgrade(env, first, jobs=no_spark, create=True)
    append(lake / uri(env, "events"), [{"id": 1}, {"id": 2}])
    claimed = commands.preflight(env, slow, claim_id="killed", jobs=EmbeddedRunner, fill=False)
    assert claimed.generation == 2
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, str(lake), "2"])
    shard = next(shard for shard in LedgerReader(env).state().shards.values() if shard.generation == 2)
    return Orphan(lake, lake / shard.uri, runner, slow, fast)


def uri(env: Environment, collection: str) -> str:
    return LedgerReader(env).state().shard_of(CollectionName(collection)).uri


def test_a_retry_and_the_driver_write_each_row_once(orphans: list[Orphan]) -> None:
    orphan = orphans[0]
    done = commands.fill(orphan.env, Generation(2), ["stats"], jobs=EmbeddedRunner)
    assert [stage.table_version for stage in done.stages] == [1]
    orphan.end()
    assert orphan.versions() == [0, 1], "the driver committed too"
    assert rows(orphan.shard) == FILLED
    commands.upgrade(orphan.env, orphan.slow, claim_id="killed", jobs=EmbeddedRunner)
    orphan.check()


def test_the_next_generation_does_not_mind_the_driver(orphans: list[Orphan]) -> None:
    orphan = orphans[1]
    commands.upgrade(orphan.env, orphan.fast, claim_id="next", jobs=EmbeddedRunner)
    orphan.check()
    assert not orphan.shard.exists(), "clean-up removes what the dead generation was building"
    orphan.end()
    orphan.check()
    assert not orphan.shard.exists()
