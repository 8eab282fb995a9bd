"""Benchmarks of work on rows: a rewrite's copy, tail and block time, each on the same session as its baseline."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.spark.session import embedded_session
from bench.tools.measure import median_ms
from bench.tools.table import Row, cell
from tests.support.product import Product

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CDF = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
OLD = f"CREATE TABLE t (id BIGINT NOT NULL, g INT, amount STRING, note STRING, PRIMARY KEY (id)) {CDF};\n"
NEW = f"CREATE TABLE t (id BIGINT NOT NULL, g INT, amount DECIMAL(12, 2), note STRING, PRIMARY KEY (id)) {CDF};\n"
UP = "SELECT id, g, CAST(amount AS DECIMAL(12, 2)) AS amount, note FROM {t}"
STEP = f'rewrite("t", up="{UP}")'
ROWS = "SELECT id, CAST(id % {groups} AS INT) AS g, CAST(id * 0.01 AS STRING) AS amount, concat('note ', id) AS note"
_BLOCKED = re.compile(r"blocked for ([0-9.]+) s")


class Bench:
    """A collection of ``rows`` rows in ``files`` files at 1.0.0, and the release that changes it."""

    def __init__(
        self, folder: Path, rows: int, files: int = 8, *, old: str = OLD, new: str = NEW, step: str = STEP, groups: int = 50
    ) -> None:
        product = Product(folder / "product")
        first, self.second = product.release("1.0.0", old), product.release("1.1.0", new, step)
        self.env = Environment.open(str(folder / "lake"))
        self.spark = embedded_session()
        commands.upgrade(self.env, first, jobs=EmbeddedRunner, create=True)
        self.sql(f"INSERT INTO {self.table} {ROWS.format(groups=groups)} FROM range(0, {rows}, 1, {files})")

    @property
    def path(self) -> Path:
        found = self.env.table_location(LedgerReader(self.env).state().shard_of(CollectionName("t")).uri).local_path
        assert found is not None
        return found

    @property
    def table(self) -> str:
        return f"delta.`{self.path}`"

    def sql(self, text: str) -> float:
        """Seconds that a statement takes."""
        started = time.perf_counter()
        self.spark.sql(text).collect()
        return time.perf_counter() - started

    def copied(self) -> tuple[Generation, float]:
        """A claimed generation, and the seconds of its copy."""
        found = commands.preflight(self.env, self.second, jobs=EmbeddedRunner)
        assert found.generation is not None
        return found.generation, next(stage.seconds for stage in found.filled if stage.kind == "copy")

    def appends(self, first: int, count: int) -> None:
        """Small commits by delta-rs, which makes fifty a second."""
        import pyarrow as pa
        from deltalake import write_deltalake

        for number in range(first, first + count):
            rows = {
                "id": pa.array([number], pa.int64()),
                "g": pa.array([1], pa.int32()),
                "amount": pa.array(["1.5"]),
                "note": pa.array(["small"]),
            }
            write_deltalake(str(self.path), pa.table(rows), mode="append")


def copy(folder: Path) -> Iterator[Row]:
    """The first copy of an environment feels its way, so that a pause takes hold; the next knows how fast it goes."""
    rows = 10_000_000
    Bench(folder / "small", 100_000).copied()  # Spark compiles the code of a statement when it runs first, as it does for the CTAS
    bench = Bench(folder, rows)
    query = UP.replace("{t}", bench.table)
    bench.sql(f"CREATE TABLE delta.`{folder / 'warm'}` USING delta AS {query} WHERE id < 100000")
    before = bench.sql(f"CREATE TABLE delta.`{folder / 'before'}` USING delta AS {query}")
    generation, first = bench.copied()
    commands.cancel(bench.env, generation)
    _, second = bench.copied()
    plain = (before + bench.sql(f"CREATE TABLE delta.`{folder / 'after'}` USING delta AS {query}")) / 2
    for what, seconds in ((f"rewrite: copy of {rows:,} rows", second), ("  the first of the environment", first)):
        speed, theirs = cell("{:,.0f} rows/s", rows / seconds), cell("CTAS: {:,.0f} rows/s", rows / plain)
        yield Row(what, speed, theirs, cell("{:.2f}", plain / seconds), "0.8")


def tail(folder: Path) -> Iterator[Row]:
    rows, commits = 1_000_000, 100
    bench = Bench(folder, rows)
    generation, _ = bench.copied()
    bench.appends(rows, commits - 4)
    for number in range(4):
        bench.sql(f"UPDATE {bench.table} SET amount = '9.75' WHERE id IN ({number * 7}, {number * 1000 + 5})")
    newest = _version(bench)
    seconds = sum(stage.seconds for stage in commands.tail(bench.env, generation, jobs=EmbeddedRunner, once=True).stages)
    other = folder / "plain"
    bench.sql(f"CREATE TABLE delta.`{other}` USING delta AS {UP.replace('{t}', f'{bench.table} VERSION AS OF 1')}")
    feed = f"table_changes_by_path('{bench.path}', 2, {newest})"
    changes = (
        f"SELECT id, g, CAST(amount AS DECIMAL(12, 2)) AS amount, note FROM {feed} WHERE _change_type IN ('insert', 'update_postimage')"
    )
    bench.spark.sql("SET spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled=true").collect()
    read = bench.sql(f"SELECT count(*), max(amount) FROM ({changes})")
    merge = bench.sql(
        f"MERGE INTO delta.`{other}` b USING (SELECT * FROM ({changes}) QUALIFY row_number() OVER (PARTITION BY id ORDER BY amount) = 1) s "
        "ON b.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    yield Row(
        f"rewrite: tail of {commits} small commits",
        cell("{:.1f} s", seconds),
        cell("CDF read {:.1f} s + MERGE {:.1f} s", read, merge),
        cell("{:.1f}x", seconds / (read + merge)),
        "3x",
    )


def block(folder: Path) -> Iterator[Row]:
    rows, commits = 1_000_000, 1_000
    bench = Bench(folder, rows)
    generation, _ = bench.copied()
    for hundred in range(commits // 100):
        bench.appends(rows + hundred * 100, 100)
        commands.tail(bench.env, generation, jobs=EmbeddedRunner, once=True)
    commands.promote(bench.env, generation)
    commands.expand(bench.env, generation)
    stop = threading.Event()
    writer = threading.Thread(target=_write_until_refused, args=(bench, rows + commits, stop), daemon=True)
    writer.start()
    try:
        done = commands.cutover(bench.env, generation, jobs=EmbeddedRunner)
    finally:
        stop.set()
        writer.join()
    blocked = max(float(found[1]) for note in done.notes if (found := _BLOCKED.search(note)))
    yield Row(
        f"rewrite: writers blocked, {rows:,} rows, {commits:,} commits tailed",
        cell("{:.1f} s", blocked),
        cell("two tail rounds and one MERGE: 2.5-3 s"),
        goal="5 s",
    )


def _write_until_refused(bench: Bench, first: int, stop: threading.Event) -> None:
    """One commit a second, so that there is something to catch up with."""
    from deltalake.exceptions import DeltaError

    path = bench.path
    number = first
    while not stop.wait(1.0):
        try:
            bench.appends(number, 1)
        except DeltaError:
            return
        number += 1
        if bench.path != path:
            return


def _version(bench: Bench) -> int:
    (row,) = bench.spark.sql(f"DESCRIBE HISTORY {bench.table} LIMIT 1").select("version").collect()
    return int(row["version"])


def reader(folder: Path) -> Iterator[Row]:
    rows = 10_000_000
    bench = Bench(folder, rows)
    bench.env.reader("t", spark=bench.spark).df(["id"]).limit(1).collect()  # imports, and the table's first snapshot
    plain_start = median_ms(9, lambda _: bench.spark.read.format("delta").load(str(bench.path)))
    start = median_ms(9, lambda _: bench.env.reader("t", spark=bench.spark).df())

    def aggregate(frame: DataFrame) -> None:
        frame.selectExpr("count(*)", "sum(g)", "max(note)", "max(amount)").collect()

    aggregate(bench.spark.read.format("delta").load(str(bench.path)))
    plain = median_ms(3, lambda _: aggregate(bench.spark.read.format("delta").load(str(bench.path))))
    ours = median_ms(3, lambda _: aggregate(bench.env.reader("t", spark=bench.spark).df()))
    took, theirs = cell("{:.2f} s", ours / 1000), cell("spark.read: {:.2f} s", plain / 1000)
    yield Row(f"reader: {rows:,} rows", took, theirs, cell("{:.2f}x", ours / plain), "1.10x")
    begun, theirs = cell("{:.0f} ms", start), cell("spark.read: {:.0f} ms", plain_start)
    yield Row("  start of one read", begun, theirs, cell("{:+.0f} ms", start - plain_start), "+50 ms")
