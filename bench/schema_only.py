"""Benchmarks of work that starts no JVM."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_schemamig.core.delta.commit.commit import commit_changes
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import Fence
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Epoch, Generation, ShardId
from airflow_provider_schemamig.core.schema.changes import AddColumn
from airflow_provider_schemamig.core.schema.model import Field, Primitive
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from bench.measure import Usage, floor_commits, median_ms, median_of, run
from tests.support.product import Product

SCHEMAMIG = str(Path(sys.executable).with_name("schemamig"))
COLUMNS = ", ".join(
    f"c{n} {kind}" for n, kind in enumerate(["INT", "BIGINT", "STRING", "DOUBLE", "TIMESTAMP", "STRUCT<a: INT, b: STRING>"] * 2)
)


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    measured: str
    baseline: str = ""
    ratio: str = ""
    goal: str = ""

    def cells(self) -> tuple[str, str, str, str, str]:
        return self.what, self.measured, self.baseline, self.ratio, self.goal


def schema(tables: int, extra: str = "") -> str:
    return "\n".join(f"CREATE TABLE t{n} (id BIGINT NOT NULL, {COLUMNS}{extra});" for n in range(tables))


def lake(folder: Path, tables: int) -> tuple[Path, Path, str]:
    """Two releases of ``tables`` collections, the second with a column more, and an environment at the first."""
    product = Product(folder / "product")
    first = product.release("1.0.0", schema(tables))
    second = product.release("1.1.0", schema(tables, ", added STRING"), ", ".join(f'evolution("t{n}")' for n in range(tables)))
    env = str(folder / "lake")
    run([SCHEMAMIG, "upgrade", "--env", env, "--release", str(first), "--create", "--json"])
    return first, second, env


def plan_unchanged(folder: Path) -> Iterator[Row]:
    def measured(tables: int) -> Usage:
        first, _, env = lake(folder / str(tables), tables)
        return median_of(5, [SCHEMAMIG, "plan", "--env", env, "--release", str(first), "--json"])

    one, thousand = measured(1), measured(1_000)
    each_ms = (thousand.cpu_s - one.cpu_s) / 999 * 1000
    yield Row("plan, 1 collection: start-up", f"{one.wall_s:.2f} s wall, {one.cpu_s:.2f} s CPU", goal="0.5 s")
    ratio = f"{12.5 / thousand.wall_s:.0f}x faster"
    yield Row("plan, 1,000 unchanged collections", f"{thousand.wall_s:.2f} s wall", "12-13 s (SQLMesh 0.236, as published)", ratio)
    yield Row("  CPU a collection", f"{each_ms:.2f} ms", goal="2 ms")


def upgrade_many(folder: Path) -> Iterator[Row]:
    tables = 1_000
    _, second, env = lake(folder, tables)
    usage = run([SCHEMAMIG, "upgrade", "--env", env, "--release", str(second), "--json"])
    commits = len([stage for stage in json.loads(usage.output)["stages"] if stage["kind"] == "expand"])
    floor_cpu, floor_wall = floor_commits(folder / "floor", tables)
    yield Row(
        f"upgrade: add a column to {commits:,} collections",
        f"{usage.cpu_s:.2f} s CPU, {usage.wall_s:.2f} s wall, {usage.peak_mib:.0f} MiB",
        f"floor (write+fsync+link): {floor_cpu:.2f} s CPU, {floor_wall:.2f} s wall",
        f"{usage.wall_s / floor_wall:.1f}x the floor",
        "5 s CPU",
    )
    spark_s = spark_alter(folder / "alter", 100)
    ours_ms = usage.wall_s / commits * 1000
    yield Row(
        "  the same through Spark's ALTER TABLE",
        f"{ours_ms:.1f} ms a table",
        f"{spark_s * 10:.0f} ms a table",
        f"{spark_s * 10 / ours_ms:.0f}x",
    )


def spark_alter(folder: Path, tables: int) -> float:
    """Seconds of ``tables`` ALTER TABLE ADD COLUMN through a warm Spark session."""
    from airflow_provider_schemamig.core.spark.session import embedded_session

    first = Product(folder / "product").release("1.0.0", schema(tables))
    env = Environment.open(str(folder / "lake"))
    run([SCHEMAMIG, "upgrade", "--env", str(folder / "lake"), "--release", str(first), "--create", "--json"])
    state = LedgerReader(env).state()
    uris = [env.table_location(shard.uri).local_path for shard in state.shards.values()]
    spark = embedded_session()
    spark.sql(f"ALTER TABLE delta.`{uris[0]}` ADD COLUMN warm STRING")
    started = time.perf_counter()
    for uri in uris:
        spark.sql(f"ALTER TABLE delta.`{uri}` ADD COLUMN added STRING")
    return time.perf_counter() - started


# --- a table of many files -----------------------------------------------------------------------------------------------------------


#: Files of a table -> own work in ms that an instant change may take.
OWN_WORK_GOALS = {10: 20, 1_000: 20, 100_000: 20, 1_000_000: 100}


def evolve_many_files(folder: Path) -> Iterator[Row]:
    lakes = {files: _with_files(folder / str(files), files) for files in OWN_WORK_GOALS}
    own = {files: _own_work_ms(env) for files, env in lakes.items()}
    few, many = 10, 100_000
    for files, goal in OWN_WORK_GOALS.items():
        what = f"evolve a table of {files:,} files: own work, one commit"
        yield Row(what, f"{own[files]:.1f} ms", f"{few} files: {own[few]:.1f} ms", goal=f"{goal} ms")
    a, b = (_command(folder / str(files), lakes[files]) for files in (few, many))
    yield Row(
        f"  whole upgrade command, {many:,} files",
        f"{b.wall_s:.2f} s",
        f"10 files: {a.wall_s:.2f} s",
        f"{b.wall_s / a.wall_s:.2f}x",
        "1.5x",
    )
    yield Row("  peak memory", f"{b.peak_mib:.0f} MiB", f"10 files: {a.peak_mib:.0f} MiB", f"{b.peak_mib / a.peak_mib:.2f}x", "flat")


def _with_files(folder: Path, files: int) -> Environment:
    """An environment at 1.0.0 whose one table has ``files`` add actions and a checkpoint at its head."""
    from deltalake import DeltaTable

    _, _, uri = lake(folder, 1)
    env = Environment.open(uri)
    log = _table(env) / "_delta_log"
    batch = 10_000
    for version, begin in enumerate(range(0, files, batch), start=1):
        adds = (_add(number) for number in range(begin, min(begin + batch, files)))
        (log / f"{version:020d}.json").write_text("\n".join(adds) + "\n")
    DeltaTable(str(_table(env))).create_checkpoint()
    return env


def _add(number: int) -> str:
    stats = json.dumps({"numRecords": 10, "minValues": {"id": number}, "maxValues": {"id": number}, "nullCount": {"id": 0}})
    action = {
        "path": f"part-{number:06d}.parquet",
        "partitionValues": {},
        "size": 1000,
        "modificationTime": 0,
        "dataChange": True,
        "stats": stats,
    }
    return json.dumps({"add": action})


def _table(env: Environment) -> Path:
    state = LedgerReader(env).state()
    path = env.table_location(state.shard_of(CollectionName("t0")).uri).local_path
    assert path is not None
    return path


def _own_work_ms(env: Environment) -> float:
    """Head and commit of one added column, in this process; each round adds another column."""
    state = LedgerReader(env).state()
    shard = state.objects[CollectionName("t0")].shard
    store = table_store(env, state, shard)

    def once(number: int) -> None:
        head = read_head(store)
        change = AddColumn(ColumnPath(f"extra{number}"), Field(f"extra{number}", Primitive("string")))
        fence = Fence(env_id=state.config.env_id, shard=ShardId(shard), epoch=Epoch(1))
        commit_changes(store, head, (change,), fence, Tag(Generation(1), Epoch(1), "bench"), since=head.version)

    os.sync()  # the actions of a million files were just written: their way to the disk is not the commit's
    milliseconds = median_ms(15, once)
    for path in (_table(env) / "_delta_log").glob("*.json"):
        if "extra0" in path.read_text()[:20_000]:
            path.unlink()  # back to where the ledger thinks the table is
    return milliseconds


def _command(folder: Path, env: Environment) -> Usage:
    release = folder / "product" / "1.1.0"
    return run([SCHEMAMIG, "upgrade", "--env", env.location.uri, "--release", str(release), "--json"])


# --- Airflow -------------------------------------------------------------------------------------------------------------------------


def import_dags(folder: Path) -> Iterator[Row]:
    dags = Path(__file__).parents[1] / "dags"
    load = "import importlib.util as u\nfor p in %r:\n s=u.spec_from_file_location('d',p); m=u.module_from_spec(s); s.loader.exec_module(m)"
    files = [str(path) for path in sorted(dags.glob("*.py"))]
    alone = median_of(5, [sys.executable, "-c", "import airflow.sdk; from airflow.sdk import DAG, Param, dag"])
    both = median_of(5, [sys.executable, "-c", "import airflow.sdk; from airflow.sdk import DAG, Param, dag\n" + load % files])
    extra = both.wall_s - alone.wall_s
    yield Row(
        f"importing the {len(files)} DAG files",
        f"{both.wall_s:.2f} s",
        f"import airflow.sdk: {alone.wall_s:.2f} s",
        f"+{extra:.2f} s",
        "+0.2 s",
    )


def no_jvm(folder: Path) -> Iterator[Row]:
    """Schema-only work with a ``java`` that would say so if it was called."""
    trap = folder / "bin"
    trap.mkdir()
    called = folder / "called"
    for name in ("java", "spark-submit"):
        (trap / name).write_text(f"#!/bin/sh\necho $0 >> {called}\nexit 1\n")
        (trap / name).chmod(0o755)
    product = Product(folder / "product")
    env = {"PATH": f"{trap}:/usr/bin:/bin", "JAVA_HOME": str(folder)}
    for version, sql, steps in (
        ("1.0.0", schema(5), ""),
        ("1.1.0", schema(5, ", x INT"), ", ".join(f'evolution("t{n}")' for n in range(5))),
    ):
        release = product.release(version, sql, steps)
        run([SCHEMAMIG, "upgrade", "--env", str(folder / "lake"), "--release", str(release), "--create", "--json"], env=env)
    yield Row("a schema-only upgrade starts a JVM", "yes" if called.exists() else "no", goal="no")
