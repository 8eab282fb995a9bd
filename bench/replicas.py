"""Benchmarks of replicas: what it costs to know where they are."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pendulum

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.jsonable import canonical, to_json
from airflow_provider_schemamig.core.ledger.rows import EnvironmentRelease, Object, SchemaEntry, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, Generation, ShardId, Version
from airflow_provider_schemamig.core.replication.cluster.consistency import ClusterVerdict
from airflow_provider_schemamig.core.replication.cluster.registry import NODES, exchange, nodes, publish
from airflow_provider_schemamig.core.replication.model import EnvId
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint, set_fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration, Field, Primitive
from bench.schema_only import SCHEMAMIG
from bench.tools.measure import cpu_s, run, run_warm
from bench.tools.table import Row, cell, usage_cell

ENVIRONMENTS, COLLECTIONS, COLUMNS = 50, 200, 20


def status(folder: Path) -> Iterator[Row]:
    """``schema status --cluster`` in the middle of a rolling upgrade: half of the nodes have another schema of every collection."""
    old, new = (_environment(folder / name, name, releases) for name, releases in (("west", 1), ("east", 2)))
    now = pendulum.now("UTC")
    exchange(old, new, now)
    for number in range(ENVIRONMENTS - 2):
        node = replace(publish((old, new)[number % 2], now), env_id=EnvId(f"node-{number}"))
        old.store().put(f"{NODES}/{node.env_id}.json", canonical(to_json(node)).encode())
    assert len(nodes(old)) == ENVIRONMENTS
    command = [SCHEMAMIG, "schema", "status", "--cluster", "--env", old.location.uri, "--json"]
    usage = run_warm(command)
    assert f'"verdict": "{ClusterVerdict.ROLLING_UPGRADE.value}"' in usage.output
    alone = run_warm([argument for argument in command if argument != "--cluster"])
    idle = cpu_s(lambda: exchange(old, new, now.add(seconds=30)))
    floor = run([sys.executable, "-c", "import pendulum, deltalake"])
    yield Row(
        f"schema status of {ENVIRONMENTS} nodes x {COLLECTIONS} collections, all of which differ",
        usage_cell(usage),
        cell("importing Delta: {:.2f} s wall, {:.2f} s CPU", floor.wall_s, floor.cpu_s),
        cell("{:.1f} x", usage.cpu_s / floor.cpu_s),
        "1 s",
    )
    yield Row("  of one environment alone", cell("{:.2f} s wall, {:.2f} s CPU", alone.wall_s, alone.cpu_s))
    yield Row("  two environments that have nothing new to tell", cell("{:.0f} ms CPU a poll", idle * 1000))


def _environment(folder: Path, env_id: str, releases: int) -> Environment:
    """Ledger rows alone: there are no tables, and status looks at none."""
    env = Environment.open(str(folder))
    LedgerWriter(env).create(env_id)
    for release in range(releases):
        LedgerWriter(env).transact(functools.partial(_moved, schemas=[_declared(number, release) for number in range(COLLECTIONS)]))
    assert len(LedgerReader(env).state().objects) == COLLECTIONS
    return env


def _declared(number: int, release: int) -> Declaration:
    fields = tuple(Field(f"column_{item}", Primitive("bigint")) for item in range(COLUMNS + release))
    return Declaration(CollectionName(f"c{number}"), fields)


def _moved(state: State, schemas: Sequence[Declaration]) -> list[Update]:
    prints = {declared.name: fingerprint(declared) for declared in schemas}
    version = Version(1, state.next_schema_id(schemas[0].name) - 1, 0)
    updates: list[Update] = [Put(EnvironmentRelease("bench", version, set_fingerprint(prints)))]
    for declared in schemas:
        name, schema_id, shard = declared.name, state.next_schema_id(declared.name), ShardId(f"g1-{declared.name}")
        updates.append(Put(Shard(shard, name, f"{name}/{shard}", f"id of {shard}", Generation(1), ShardState.LIVE)))
        updates.append(Put(SchemaEntry(name, schema_id, shard, declared, declared, schema_id, version, ())))
        updates.append(Put(Object(name, shard, schema_id, prints[name])))
    return updates
