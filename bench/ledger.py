"""Benchmarks of the ledger: how long whoever opens an environment waits for its history."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pendulum

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.codec import RawRow, encode
from airflow_provider_schemamig.core.ledger.rows import Leader, Object, SchemaEntry, Shard, ShardState
from airflow_provider_schemamig.core.ledger.store import LedgerWriter
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Fingerprint, Generation, SchemaId, ShardId, Version
from airflow_provider_schemamig.core.schema.model import Declaration, Field, Primitive
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from bench.schema_only import releases
from bench.tools.measure import Usage, run, run_warm
from bench.tools.table import Row, cell, growth, usage_cell

SCHEMAMIG = str(Path(sys.executable).with_name("schemamig"))
UPDATES, COLLECTIONS, COLUMNS = 100_000, 1_000, 20
#: Changes of one commit: a release of many collections has thousands, a mark of progress is one.
A_COMMIT = 60
FEW_AND_MANY = (100, 1_000)


def open_long_history(folder: Path) -> Iterator[Row]:
    """``ledger epoch``, the least that opens a ledger, on 100,000 updates of 1,000 collections: before and after compaction."""
    env = str(folder / "lake")
    commits = write_history(Environment.open(env))
    command = [SCHEMAMIG, "ledger", "epoch", "--env", env, "--json"]
    before = run_warm(command)
    compacted = run([SCHEMAMIG, "ledger", "compact", "--env", env, "--json"])
    after = run_warm(command)
    dumped = run_warm([SCHEMAMIG, "ledger", "dump", "--env", env, "--current", "--json"])
    yield Row(
        f"ledger, {UPDATES:,} updates in {commits:,} commits, opened after compaction",
        usage_cell(after),
        cell("before: {:.2f} s, {:.0f} MiB", before.wall_s, before.peak_mib),
        cell("{:.1f} x", before.cpu_s / after.cpu_s),
        "1 s",
    )
    yield Row("the same ledger compacted", usage_cell(compacted))
    yield Row(f"all rows of {COLLECTIONS:,} collections dumped", usage_cell(dumped))


def after_many_upgrades(folder: Path) -> Iterator[Row]:
    """Commands on an environment with 100 and with 1,000 upgrades and rollbacks behind it, one after the other."""
    first, second = releases(folder, 5)
    env = Environment.open(str(folder / "lake"))
    commands.upgrade(env, first, jobs=without_spark, create=True)
    taken: dict[int, dict[str, Usage]] = {}
    done = 0
    for moves in FEW_AND_MANY:
        while done < moves:
            commands.upgrade(env, second, jobs=without_spark)
            commands.rollback(env, jobs=without_spark)
            done += 2
        place = ["--env", env.location.uri, "--json"]
        asked = {"plan": (["plan", *place, "--release", str(second)], (3,)), "status": (["status", *place], (0,))}
        asked |= {"ledger verify": (["ledger", "verify", *place], (0,)), "history": (["history", *place], (0,))}
        taken[moves] = {name: run_warm([SCHEMAMIG, *command], expect) for name, (command, expect) in asked.items()}
        taken[moves]["upgrade"] = run([SCHEMAMIG, "upgrade", *place, "--release", str(second)])
        commands.rollback(env, jobs=without_spark)
        done += 2
    few, many = (taken[number] for number in FEW_AND_MANY)
    for name in few:
        for moves, usage in zip(FEW_AND_MANY, (few[name], many[name]), strict=True):
            yield Row(f"{name}, after {moves:,} upgrades and rollbacks", usage_cell(usage))
        yield growth(few[name], many[name], FEW_AND_MANY[1] / FEW_AND_MANY[0])


def write_history(env: Environment) -> int:
    """A ledger whose collections got one schema after the other, and as many leaders; the number of its commits."""
    writer = LedgerWriter(env)
    version, made, changes = writer.create("bench").version, 0, _changes()
    while made < UPDATES:
        rows = [row._replace(ts=version + 1) for change in islice(changes, A_COMMIT) for row in change]
        writer.table.head()
        writer.table.commit(rows, f"bench{version}", "append")
        version, made = version + 1, made + len(rows)
    return version + 1


def _changes() -> Iterator[list[RawRow]]:
    """Each the updates of one change: the old text of a row taken back, the new one inserted."""
    stored: dict[tuple[str, str], str] = {}
    for number in count():
        updates = []
        for row in _rows(number):
            collection, key, value = encode(row)
            before = stored.get((collection, key))
            if before == value:
                continue
            if before is not None:
                updates.append(RawRow(collection, key, before, 0, -1))
            updates.append(RawRow(collection, key, value, 0, 1))
            stored[collection, key] = value
        yield updates


def _rows(number: int) -> Iterator[object]:
    """What the ``number``-th change of a collection leaves in the ledger."""
    name, release = CollectionName(f"c{number % COLLECTIONS}"), number // COLLECTIONS + 1
    shard, schema = ShardId(f"g1-{name}"), SchemaId(release)
    fields = tuple(Field(f"column_{item}", Primitive("bigint"), comment=f"in release {release}") for item in range(COLUMNS))
    declared = Declaration(name, fields)
    yield Leader(Generation(release), Epoch(number), pendulum.datetime(2026, 1, 1))
    yield Shard(shard, name, f"{name}/{shard}", f"id of {shard}", Generation(1), ShardState.LIVE)
    yield SchemaEntry(name, SchemaId(1), shard, declared, declared, release, Version(1, release, 0), ())
    yield Object(name, shard, schema, Fingerprint(f"sf1:{release:064}"))
