"""Benchmarks of online changes: a CHECK while others append, next to Delta's own; a backfill, next to one UPDATE of the whole table."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.upgrade.context.context import Outcome
from airflow_provider_schemamig.core.upgrade.context.controls import throttle
from bench.rewrite import Bench
from bench.tools.table import Row, cell

COLUMNS = "id BIGINT, g INT, amount STRING, note STRING"
OLD = f"CREATE TABLE t ({COLUMNS});\n"
PARTITIONED = f"CREATE TABLE t ({COLUMNS}) PARTITIONED BY (g);\n"
CHECKED = f"CREATE TABLE t ({COLUMNS}, CONSTRAINT ours CHECK (length(note) > 0));\n"
FILLED = f"CREATE TABLE t ({COLUMNS}, x INT DEFAULT 7)"
EVOLUTION = 'evolution("t")'
#: Delta's own ADD CONSTRAINT is given up after this; it never got through when it was measured.
NATIVE_SECONDS = 45.0
PARTITIONS = 8


class Appender(threading.Thread):
    """Somebody else: small appends by delta-rs, ``per_second`` of them, each tried again until it is in. A context while it is at work."""

    def __init__(self, bench: Bench, first: int, per_second: float) -> None:
        super().__init__(daemon=True)
        self._bench = bench
        self._next = first
        self._pause = 1 / per_second
        self._over = threading.Event()
        self.acknowledged = 0
        #: By other metadata, and by anything else.
        self.aborted = self.other = 0

    def __enter__(self) -> Appender:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        from deltalake.exceptions import CommitFailedError

        while not self._over.wait(self._pause):
            try:
                self._bench.appends(self._next, 1)
            except CommitFailedError as error:
                if "Metadata changed" in str(error) or "Protocol changed" in str(error):
                    self.aborted += 1
                else:
                    self.other += 1
            else:
                self._next += 1
                self.acknowledged += 1


def check(folder: Path, rows: int = 60_000_000, native_s: float = NATIVE_SECONDS) -> Iterator[Row]:
    bench = Bench(folder, rows, old=OLD, new=CHECKED, step=EVOLUTION)
    scan = f"SELECT count_if(NOT (length(note) > 0)) FROM {bench.table}"
    bench.sql(scan)
    with Appender(bench, rows, 3) as appender:
        plain = bench.sql(scan)
        started = time.perf_counter()
        generation = commands.preflight(bench.env, bench.second, jobs=EmbeddedRunner).generation
        assert generation is not None
        before = time.perf_counter() - started
        commands.promote(bench.env, generation)
        commands.expand(bench.env, generation)
        began, aborted = time.perf_counter(), appender.aborted
        done = commands.change(bench.env, generation, jobs=EmbeddedRunner)
        ours = time.perf_counter() - began
        commands.cutover(bench.env, generation)
        aborted = appender.aborted - aborted
        tries, native = _native(bench, native_s)
    commits = sum(stage.kind == "change" for stage in done.stages)
    theirs = (
        cell("ADD CONSTRAINT: not through after {:.0f} tries, {:.0f} s", tries, native_s)
        if native is None
        else cell("ADD CONSTRAINT: {:.1f} s, {:.0f} tries", native, tries)
    )
    yield Row(
        f"CHECK on {rows:,} rows, 3 appends/s: enforce, validate",
        cell("{:.1f} s", ours),
        cell("one scan: {:.1f} s", plain),
        cell("{:.2f}x", ours / plain),
        "1.5x",
    )
    yield Row("  with preflight, which asks all rows before", cell("{:.1f} s", before + ours), theirs)
    yield Row(
        f"  appends aborted by {commits} metadata commit(s) of ours, 1 writer",
        cell("{:.0f}", aborted),
        cell("{:.0f} in, {:.0f} aborted otherwise", appender.acknowledged, appender.other),
        goal=str(commits),
    )


def _native(bench: Bench, seconds: float) -> tuple[int, float | None]:
    """Tries of Delta's own ADD CONSTRAINT, and how long it took in all; None: it never got through in ``seconds``."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    started, tries = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        tries += 1
        try:
            bench.sql(f"ALTER TABLE {bench.table} ADD CONSTRAINT native CHECK (length(note) < 1000)")
        except (PySparkException, Py4JJavaError) as error:
            if "DELTA_CONCURRENT_" not in str(error):
                raise
        else:
            return tries, time.perf_counter() - started
    return tries, None


def backfill(folder: Path) -> Iterator[Row]:
    """By default a batch has up to 16 GiB (``throttle.BATCH_BYTES``), and partitions that fit into one share it. Here each partition is a
    batch of its own, of 120 MB (one file of the usual size), and of 8 MB, where the second that a statement costs is more than its rows."""
    yield _backfill(folder / "plain", 5_000_000, "0.5", partitioned=False)
    for rows, goal in ((80_000_000, "0.8"), (5_000_000, "")):
        yield _backfill(folder / f"partitioned-{rows}", rows, goal, partitioned=True)


def _backfill(place: Path, rows: int, goal: str, *, partitioned: bool) -> Row:
    name, old, clause = ("each a partition", PARTITIONED, "PARTITIONED BY (g)") if partitioned else ("one table", OLD, "")
    bench = Bench(place, rows, old=old, new=f"{FILLED} {clause};\n", step=EVOLUTION, groups=PARTITIONS)
    other = f"delta.`{place / 'other'}`"
    bench.sql(f"CREATE TABLE {other} USING delta {clause} AS SELECT *, CAST(NULL AS INT) AS x FROM {bench.table}")
    update = bench.sql(f"UPDATE {other} SET x = 7")
    if partitioned:
        throttle(bench.env, "t", max_files=_files_of_a_partition(bench))
    done = commands.upgrade(bench.env, bench.second, jobs=EmbeddedRunner)
    ours, batches = _seconds(done, "backfill"), _count(done, "backfill")
    mebibytes = sum(file.stat().st_size for file in (place / "other").rglob("*.parquet")) / 2 / 2**20 / batches
    return Row(
        f"backfill of {rows:,} rows, {name} ({mebibytes:,.0f} MiB)",
        cell("{:,.0f} rows/s, {:.0f} batches", rows / ours, batches),
        cell("one UPDATE: {:,.0f} rows/s", rows / update),
        cell("{:.2f}", update / ours),
        goal,
    )


def _files_of_a_partition(bench: Bench) -> int:
    return max(len(list(folder.glob("*.parquet"))) for folder in bench.path.glob("g=*"))


def _seconds(done: Outcome, kind: str) -> float:
    return sum(stage.seconds for stage in done.stages if stage.kind == kind)


def _count(done: Outcome, kind: str) -> int:
    return sum(stage.kind == kind for stage in done.stages)
