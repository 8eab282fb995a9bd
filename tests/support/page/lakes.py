"""Lakes for the page, one in each state that an operator may find it in: all without a JVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pendulum
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.rows.controls import Progress
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, Generation
from tests.support.lake import Crash, Lake, make_lake
from tests.support.product import Product
from tests.support.replicas import make_replicas
from tests.support.upgrades import claimed, expanded, heartbeat

MANY = 1_000


def fresh(folder: Path) -> Lake:
    found = make_lake(folder)
    found.upgrade(found.first)
    return found


def waits(folder: Path) -> Lake:
    found = fresh(folder)
    claimed(found, found.second)
    return found


def copying(folder: Path) -> Lake:
    found = waits(folder)
    now = pendulum.now("UTC")
    row = Progress(CollectionName("stats"), Generation(2), "copy", "files", 420, 1_000, 8_400_000, now.subtract(minutes=14), now)
    LedgerWriter(found.env).transact(lambda state: [Put(row)])
    commands.throttle(found.env, "stats", rows_per_second=10_000, by="ann")
    return found


def sealed(folder: Path) -> Lake:
    """An upgrade that died in its cut-over: tables are locked."""
    found = fresh(folder)
    expanded(found, found.second)
    for write in range(1, 200):
        try:
            commands.cutover(found.crashing_at(write), Generation(2))
        except Crash:
            if any(item["sealed"] for item in commands.status(found.env).to_json()["collections"].values()):
                return found
    raise AssertionError("nothing was ever sealed")


def hold(folder: Path) -> Lake:
    found = fresh(folder)
    found.upgrade(found.second)
    heartbeat(found.env, "1.0.0", name="dashboard-7", seconds=3600)
    return found


def drifted(folder: Path) -> Lake:
    return _with_drift(fresh(folder), "planes", "stats")


def hold_drifted(folder: Path) -> Lake:
    """A lake whose way back is open, and stands still until the drift is gone."""
    return _with_drift(hold(folder), "planes")


def _with_drift(lake: Lake, *names: str) -> Lake:
    for name in names:
        DeltaTable(str(lake.path(name))).alter.add_columns([Field("extra", PrimitiveType("string"))])
    return lake


def paused(folder: Path) -> Lake:
    found = waits(folder)
    commands.pause(found.env, None, by="ann", reason="month end: no change before Monday")
    commands.postpone(found.env, "flights", by="bob", reason="after the night's load")
    return found


def failed(folder: Path) -> Lake:
    found = waits(folder)
    entry = HistoryEntry.ended(
        "fill", pendulum.now("UTC"), generation=2, collection="stats", outcome="spark_driver_died", detail="the driver ran out of memory"
    )
    append_history(found.env, entry)
    return found


def many(folder: Path) -> Lake:
    """A thousand collections that all get a column, behind the gate."""
    product = Product(folder / "product")
    names = [f"t{number:04}" for number in range(MANY)]

    def schema(more: str) -> str:
        return "\n".join(f"CREATE TABLE {name} (id BIGINT NOT NULL, v STRING{more});" for name in names)

    first = product.release("1.0.0", schema(""))
    second = product.release("1.1.0", schema(", added STRING"), ", ".join(f'evolution("{name}")' for name in names))
    found = Lake(Environment.open(str(folder / "lake")), first, second)
    found.upgrade(first)
    claimed(found, second)
    return found


def gap(folder: Path) -> Lake:
    """A stream whose origin has cleaned commits away that it never saw."""
    found = make_replicas(folder)
    found.insert("a", {"id": 1, "v": "x"})
    found.bring("a", "b")
    found.insert("a", {"id": 2, "v": "y"})
    last = found.insert("a", {"id": 3, "v": "z"})
    path = found.path("a")
    DeltaTable(str(path), version=last).create_checkpoint()
    for version in range(last + 1):
        (path / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)
    found.bring("a", "b")
    return found.lakes["b"]


STATES: dict[str, Callable[[Path], Lake]] = {
    "fresh": fresh,
    "waits": waits,
    "copying": copying,
    "sealed": sealed,
    "hold": hold,
    "drifted": drifted,
    "paused": paused,
    "failed": failed,
    "gap": gap,
    "many": many,
}
