"""Benchmarks of work that starts no JVM."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
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
from bench.tools.measure import Usage, floor_commits, median_ms, run, run_warm
from bench.tools.table import Row, cell, growth, usage_cell
from tests.support.product import Product

SCHEMAMIG = str(Path(sys.executable).with_name("schemamig"))
COLUMNS = ", ".join(
    f"c{n} {kind}" for n, kind in enumerate(["INT", "BIGINT", "STRING", "DOUBLE", "TIMESTAMP", "STRUCT<a: INT, b: STRING>"] * 2)
)


def schema(tables: int, extra: str = "") -> str:
    return "\n".join(f"CREATE TABLE t{n} (id BIGINT NOT NULL, {COLUMNS}{extra});" for n in range(tables))


def releases(folder: Path, tables: int) -> tuple[Path, Path]:
    """Two releases of ``tables`` collections, the second with a column more."""
    product = Product(folder / "product")
    first = product.release("1.0.0", schema(tables))
    return first, product.release("1.1.0", schema(tables, ", added STRING"), ", ".join(f'evolution("t{n}")' for n in range(tables)))


def lake(folder: Path, tables: int) -> tuple[Path, Path, str]:
    """Two releases of ``tables`` collections and an environment at the first."""
    first, second = releases(folder, tables)
    env = str(folder / "lake")
    run([SCHEMAMIG, "upgrade", "--env", env, "--release", str(first), "--create", "--json"])
    return first, second, env


def plan_unchanged(folder: Path) -> Iterator[Row]:
    def measured(tables: int) -> Usage:
        first, _, env = lake(folder / str(tables), tables)
        return run_warm([SCHEMAMIG, "plan", "--env", env, "--release", str(first), "--json"])

    one, thousand = measured(1), measured(1_000)
    each_ms = (thousand.cpu_s - one.cpu_s) / 999 * 1000
    yield Row("plan, 1 collection: start-up", cell("{:.2f} s wall, {:.2f} s CPU", one.wall_s, one.cpu_s), goal="0.5 s")
    yield Row("plan, 1,000 unchanged collections", cell("{:.2f} s wall", thousand.wall_s), cell("others: make bench peers"))
    yield Row("  CPU a collection", cell("{:.2f} ms", each_ms), goal="2 ms")


def upgrade_many(folder: Path) -> Iterator[Row]:
    tables = 1_000
    _, second, env = lake(folder, tables)
    usage = run([SCHEMAMIG, "upgrade", "--env", env, "--release", str(second), "--json"])
    commits = len([stage for stage in json.loads(usage.output)["stages"] if stage["kind"] == "expand"])
    floor_cpu, floor_wall = floor_commits(folder / "floor", tables)
    yield Row(
        f"upgrade: add a column to {commits:,} collections",
        cell("{:.2f} s CPU, {:.2f} s wall, {:.0f} MiB", usage.cpu_s, usage.wall_s, usage.peak_mib),
        cell("floor (write+fsync+link): {:.2f} s CPU, {:.2f} s wall", floor_cpu, floor_wall),
        cell("{:.1f}x the floor", usage.wall_s / floor_wall),
        "5 s CPU",
    )
    spark_s = spark_alter(folder / "alter", 100)
    ours_ms = usage.wall_s / commits * 1000
    yield Row(
        "  the same through Spark's ALTER TABLE",
        cell("{:.1f} ms a table", ours_ms),
        cell("{:.0f} ms a table", spark_s * 10),
        cell("{:.0f}x", spark_s * 10 / ours_ms),
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
#: Whole commands are run on tables of so many: the start-up, and two to see how it grows.
FEW, MANY, MOST = 10, 100_000, 1_000_000


def evolve_many_files(folder: Path) -> Iterator[Row]:
    lakes = {files: _with_files(folder / str(files), files) for files in OWN_WORK_GOALS}
    own = {files: _own_work_ms(env) for files, env in lakes.items()}
    for files, goal in OWN_WORK_GOALS.items():
        what = f"evolve a table of {files:,} files: own work, one commit"
        yield Row(what, cell("{:.1f} ms", own[files]), cell(f"{FEW} files: {{:.1f}} ms", own[FEW]), goal=f"{goal} ms")
    taken = {files: _commands(folder / str(files), lakes[files]) for files in (FEW, MANY, MOST)}
    for name in taken[FEW]:
        few, many, most = (taken[files][name] for files in (FEW, MANY, MOST))
        for files, usage in ((MANY, many), (MOST, most)):
            yield Row(
                f"{name}, a table of {files:,} files",
                usage_cell(usage),
                cell(f"{FEW} files: {{:.2f}} s wall, {{:.2f}} s CPU, {{:.0f}} MiB", few.wall_s, few.cpu_s, few.peak_mib),
                cell("{:.2f}x", usage.wall_s / few.wall_s),
                "1.5x" if (name, files) == ("upgrade", MANY) else "",
            )
        yield growth(many, most, MOST / MANY)


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


def _commands(folder: Path, env: Environment) -> dict[str, Usage]:
    release = str(folder / "product" / "1.1.0")

    def command(name: str, *options: str, expect: tuple[int, ...] = (0,)) -> Usage:
        return run([SCHEMAMIG, *name.split(), "--env", env.location.uri, "--json", *options], expect)

    return {
        "plan": command("plan", "--release", release, expect=(3,)),
        "upgrade": command("upgrade", "--release", release),
        "status": command("status"),
        "ledger verify": command("ledger verify"),
        "compact --plan": command("compact", "--plan"),
        "rollback": command("rollback"),
    }


# --- Airflow -------------------------------------------------------------------------------------------------------------------------


def import_dags(folder: Path) -> Iterator[Row]:
    dags = Path(__file__).parents[1] / "dags"
    load = "import importlib.util as u\nfor p in %r:\n s=u.spec_from_file_location('d',p); m=u.module_from_spec(s); s.loader.exec_module(m)"
    files = [str(path) for path in sorted(dags.glob("*.py"))]
    alone = run_warm([sys.executable, "-c", "import airflow.sdk; from airflow.sdk import DAG, Param, dag"])
    both = run_warm([sys.executable, "-c", "import airflow.sdk; from airflow.sdk import DAG, Param, dag\n" + load % files])
    extra = both.wall_s - alone.wall_s
    yield Row(
        f"importing the {len(files)} DAG files",
        cell("{:.2f} s", both.wall_s),
        cell("import airflow.sdk: {:.2f} s", alone.wall_s),
        cell("+{:.2f} s", extra),
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
    yield Row("a schema-only upgrade starts a JVM", cell("yes" if called.exists() else "no"), goal="no")
