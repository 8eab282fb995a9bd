"""Benchmarks of streams: rows brought, next to a plain MERGE of the same; how far one falls behind; what an idle one costs."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.replication.model import StreamState
from airflow_provider_schemamig.core.replication.replicate import follow, replicate_once
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from bench.rewrite import CDF, OLD, ROWS, Bench
from bench.tools.measure import cpu_s
from bench.tools.table import Row, cell
from tests.support.product import Product

STEP = 'evolution("t")'
IDLE = 100


class Pair(Bench):
    """A collection of ``rows`` rows in two environments, the second a replica of the first."""

    def __init__(self, folder: Path, rows: int) -> None:
        super().__init__(folder, rows, old=OLD, new=OLD.replace("note STRING", "note STRING, more INT"), step=STEP)
        self.replica = _like(folder / "replica", OLD)
        self.bring()

    def bring(self) -> StreamState:
        (state,) = replicate_once(self.env, self.replica, jobs=EmbeddedRunner).states
        assert (state.pause, state.error) == (None, None)
        return state


def _like(folder: Path, schema: str) -> Environment:
    env = Environment.open(str(folder / "lake"))
    commands.upgrade(env, Product(folder / "product").release("1.0.0", schema), jobs=EmbeddedRunner, create=True)
    return env


def rows_brought(folder: Path) -> Iterator[Row]:
    """A fifth of the rows changed and some added, in two commits. The plain MERGE's table has a change data feed as the replica has.

    Three rounds in turns, the first of which is not counted: Spark's code is compiled while it runs, and who comes second would gain by it.
    """
    rows, changed, added = 1_000_000, 200_000, 50_000
    pair, plain = Pair(folder, rows), f"delta.`{folder / 'plain'}`"
    pair.sql(f"CREATE TABLE {plain} USING delta {CDF} AS SELECT * FROM {pair.table}")
    ours, theirs = [], []
    for number in range(3):
        first, begin = rows + number * added, number * changed
        pair.sql(f"UPDATE {pair.table} SET amount = 'changed' WHERE id BETWEEN {begin} AND {begin + changed - 1}")
        pair.sql(f"INSERT INTO {pair.table} {ROWS.format(groups=50)} FROM range({first}, {first + added})")
        began = time.perf_counter()
        state = pair.bring()
        ours.append(time.perf_counter() - began)
        assert state.lag_versions == 0
        source = f"SELECT * FROM {pair.table} WHERE id BETWEEN {begin} AND {begin + changed - 1} OR id >= {first}"
        merge = f"MERGE INTO {plain} t USING ({source}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        theirs.append(pair.sql(merge))
    moved, our_s, their_s = changed + added, sum(ours[1:]) / 2, sum(theirs[1:]) / 2
    yield Row(
        f"replicate: {moved:,} rows into {rows:,}",
        cell("{:,.0f} rows/s", moved / our_s),
        cell("plain MERGE: {:,.0f} rows/s", moved / their_s),
        cell("{:.2f}", their_s / our_s),
        "0.5",
    )


def lag(folder: Path, seconds: int = 40, settle: int = 10) -> Iterator[Row]:
    """One commit a second at the origin, the stream followed in a warm session."""
    pair = Pair(folder, 10_000)
    committed: dict[int, float] = {}
    over = threading.Event()
    first = pair.bring().checkpoint

    def write() -> None:
        for number in range(seconds):
            pair.appends(10_000 + number, 1)
            committed[first + 1 + number] = time.monotonic()
            time.sleep(1.0)
        over.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    began, at, lags = time.monotonic(), first, []
    for turn in follow(pair.env, pair.replica, jobs=EmbeddedRunner, until=over.is_set):
        (state,) = turn.states
        now = time.monotonic()
        while at < state.checkpoint:
            at += 1
            if at in committed and committed[at] - began > settle:
                lags.append(now - committed[at])
    writer.join()
    yield Row(
        "  lag of a stream behind one commit a second",
        cell("{:.1f} s at most, {:.1f} s median, of {:.0f} commits", max(lags), statistics.median(lags), len(lags)),
        goal="10 s",
    )


def idle(folder: Path) -> Iterator[Row]:
    """One turn over collections in which nothing happened, both ledgers and all logs looked at."""
    names = [f"c{number}" for number in range(IDLE)]
    schema = "".join(f"CREATE TABLE {name} (id BIGINT NOT NULL, PRIMARY KEY (id));\n" for name in names)
    west, east = (_like(folder / name, schema) for name in ("west", "east"))
    replicate_once(west, east, jobs=EmbeddedRunner)
    spent = cpu_s(lambda: replicate_once(west, east, jobs=EmbeddedRunner))
    yield Row(f"  one turn over {IDLE} idle collections", cell("{:.2f} s CPU", spent), goal="1 s")
