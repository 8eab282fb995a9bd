"""A copy that loses its Spark, or the room on its disk: a clear error, nothing half done, and the next run goes on from there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.runners import ConnectRunner, connect_session
from airflow_provider_schemamig.core.upgrade.context.controls import throttle
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.bytes import tree
from tests.support.lake import append
from tests.support.processes import wait_until
from tests.support.product import Product
from tests.support.spark.connect import connect_server, kill_server, limit_files

pytestmark = [pytest.mark.spark, pytest.mark.system]

#: Rows that no codec makes small.
UP = "SELECT id, concat('v', v, array_join(transform(sequence(1, 10), i -> sha2(concat(id, '/', i), 512)), '')) AS v FROM {t}"
FILES, ROWS = 6, 400
#: Less than a batch's file has, more than a commit.
LARGEST_FILE_BYTES = 100_000


@pytest.fixture
def lake(tmp_path: Path) -> tuple[Environment, Path]:
    product = Product(tmp_path / "product")
    first = product.release("1.0.0", "CREATE TABLE t (id BIGINT NOT NULL, v INT);\n")
    second = product.release("1.1.0", "CREATE TABLE t (id BIGINT NOT NULL, v STRING);\n", f'rewrite("t", up="{UP}")')
    env = Environment.open(str(tmp_path / "lake"))
    commands.upgrade(env, first, jobs=without_spark, create=True)
    for number in range(FILES):
        append(table(env), [{"id": number * ROWS + n, "v": n} for n in range(ROWS)])
    throttle(env, "t", max_files=1)
    return env, second


def table(env: Environment) -> Path:
    found = env.table_location(LedgerReader(env).state().shard_of(CollectionName("t")).uri).local_path
    assert found is not None
    return found


def copied_files(env: Environment) -> int:
    """Batches whose commit is in the new shard."""
    rows = list(LedgerReader(env).state().replacements.values())
    if not rows:
        return 0
    folder = env.table_location(LedgerReader(env).state().shards[rows[0].shard].uri).local_path
    assert folder is not None
    return len(list((folder / "_delta_log").glob("*.json"))) - 1


def fails_then_goes_on(env: Environment, release: Path, folder: Path, trouble: Callable[[str], None]) -> None:
    before = tree(table(env))
    for name in ("first", "second"):
        (folder / name).mkdir()
    with connect_server(folder / "first") as url:
        trouble(url)
    reached = copied_files(env)
    assert reached < FILES
    assert tree(table(env)) == before, "the live table got a commit"
    with connect_server(folder / "second") as url:
        done = commands.upgrade(env, release, jobs=lambda: ConnectRunner(url))
        assert done.generation == 2, "the next run found its claim"
        session = connect_session(url)
        (row,) = session.sql(f"SELECT count(*) AS n, count(DISTINCT id) AS ids FROM delta.`{table(env)}`").collect()
        session.stop()
    assert (row["n"], row["ids"]) == (FILES * ROWS, FILES * ROWS)


@pytest.mark.timeout(400)
def test_spark_is_lost_during_the_copy(lake: tuple[Environment, Path], tmp_path: Path) -> None:
    env, release = lake

    def lose(url: str) -> None:
        failed: list[Exception] = []

        def run() -> None:
            try:
                commands.preflight(env, release, jobs=lambda: ConnectRunner(url))
            except SchemamigError as error:
                failed.append(error)

        worker = threading.Thread(target=run, daemon=True)
        worker.start()
        wait_until(lambda: copied_files(env) >= 1, seconds=120)
        kill_server(url)
        worker.join(120)
        assert [getattr(error, "code", None) for error in failed] == ["spark_unavailable"], failed
        assert url in str(failed[0])

    fails_then_goes_on(env, release, tmp_path, lose)


@pytest.mark.timeout(400)
def test_the_disk_is_full_during_the_copy(lake: tuple[Environment, Path], tmp_path: Path) -> None:
    env, release = lake

    def fill_up(url: str) -> None:
        session = connect_session(url)  # the codecs' libraries are unpacked while there is room
        session.sql(f"CREATE TABLE delta.`{tmp_path}/small` USING delta AS SELECT 1 AS id").collect()
        session.stop()
        limit_files(url, LARGEST_FILE_BYTES)
        with pytest.raises(SchemamigError) as refused:
            commands.preflight(env, release, jobs=lambda: ConnectRunner(url))
        assert refused.value.code == "spark_disk_full"

    fails_then_goes_on(env, release, tmp_path, fill_up)
