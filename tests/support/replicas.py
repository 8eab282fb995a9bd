"""Environments that replicate to each other, without a JVM: releases to bring them to, writers, and one process's turn at a stream."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.model import StreamSettings, StreamState
from airflow_provider_schemamig.core.replication.replicate import Replicated, replicate_once
from airflow_provider_schemamig.core.replication.stream.checkpoint import position
from airflow_provider_schemamig.core.replication.stream.position import StreamEnds
from tests.support.lake import Lake
from tests.support.rows import tables
from tests.support.rows.jobs import RowJobs
from tests.support.rows.tables import Row
from tests.support.upgrades import releases

#: ``trips`` has a key, ``lines`` none.
FIRST = "CREATE TABLE trips (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id));\nCREATE TABLE lines (line STRING, n INT);\n"
SECOND = FIRST.replace("v STRING,", "v STRING, w STRING,")
THIRD = SECOND.replace("w STRING,", "w STRING, x STRING,")
EVOLVE = 'evolution("trips")'
#: A paused stream is looked at anew every time.
EAGER = StreamSettings(retry=timedelta(0), recompute=timedelta(0))


@dataclass
class Replicas:
    """``folders``: releases 1.0.0, 1.1.0, ... ``lakes``: environments by name, each at a release of its own."""

    folders: Sequence[Path]
    lakes: dict[str, Lake]
    runner: RowJobs = field(default_factory=lambda: RowJobs({}))

    def env(self, name: str) -> Environment:
        return self.lakes[name].env

    def upgrade(self, *names: str, to: int, **options: Any) -> None:
        """``to``: the number of a release, from 1 on."""
        for name in names:
            asked = {"end_hold": True, "ignore_nodes": True, "create": True, **options}
            commands.upgrade(self.env(name), self.folders[to - 1], jobs=self.runner, **asked)

    def rollback(self, name: str) -> None:
        commands.rollback(self.env(name), jobs=self.runner)

    def path(self, name: str, collection: str = "trips") -> Path:
        return self.lakes[name].path(collection)

    def copy(self, folder: Path) -> Replicas:
        """The same environments elsewhere."""
        lakes = {}
        for name, lake in self.lakes.items():
            shutil.copytree(lake.env.location.local_path or Path(), folder / name)
            lakes[name] = replace(lake, env=Environment.open(str(folder / name)))
        return Replicas(self.folders, lakes)

    # --- writers ---------------------------------------------------------------------------------------------------------------------

    def insert(self, name: str, *rows: Row, collection: str = "trips") -> int:
        return tables.insert(self.path(name, collection), rows)

    def change(self, name: str, of: Callable[[Row], Row | None], collection: str = "trips") -> int:
        return tables.change(self.path(name, collection), of)

    def rows(self, name: str, collection: str = "trips") -> list[Row]:
        return sorted(tables.snapshot(self.path(name, collection)).rows, key=repr)

    def declared_rows(self, name: str, collection: str = "trips") -> list[Row]:
        """Without hidden columns."""
        columns = [field.name for field in self.lakes[name].state.entry(CollectionName(collection)).declared.fields]
        return [{column: row[column] for column in columns} for row in self.rows(name, collection)]

    # --- streams ---------------------------------------------------------------------------------------------------------------------

    def bring(self, origin: str, target: str, *collections: str, **options: Any) -> Replicated:
        """``env``: the target as a process sees it that may die."""
        env = options.pop("env", self.env(target))
        found = {"settings": EAGER, "jobs": self.runner, **options}
        return replicate_once(self.env(origin), env, collections or ("trips",), **found)

    def state(self, origin: str, target: str, collection: str = "trips", **options: Any) -> StreamState:
        (found,) = self.bring(origin, target, collection, **options).states
        return found

    def checkpoint(self, origin: str, target: str, collection: str = "trips") -> int:
        """In the target's table, of the origin's live one."""
        name = CollectionName(collection)
        ends = StreamEnds.of(self.env(origin), self.env(target))
        table = ends.target.env.table_store(ends.target.state.shard_of(name).uri)
        return position(table, ends.stream(name), ends.origin.state.objects[name].shard).version

    def hooked(self, name: str, hook: Callable[[str, str, str], None]) -> Environment:
        return replace(self.env(name), on_write=hook)


def make_replicas(folder: Path, *found: tuple[str, str], names: str = "ab", at: int = 1) -> Replicas:
    """Environments at release number ``at`` of (schema, steps) each."""
    folders = releases(folder, *(found or ((FIRST, ""), (SECOND, EVOLVE), (THIRD, EVOLVE))))
    lakes = {name: Lake(Environment.open(str(folder / name)), folders[0], folders[-1]) for name in names}
    made = Replicas(folders, lakes)
    for lake in lakes.values():
        lake.upgrade(folders[at - 1])
    return made


def lose_the_log(found: Replicas, upto: int) -> None:
    """Lose the log of a's table, whose newest version stays readable by a checkpoint."""
    DeltaTable(str(found.path("a"))).create_checkpoint()
    log = found.path("a") / "_delta_log"
    for version in range(upto + 1):
        (log / f"{version:020}.json").rename(log / f"{version:020}.gone")


def read_whole(found: Replicas) -> RowJobs:
    """Return jobs that replay the log from its beginning, where Spark would read the checkpoint."""

    def find(job: str, request: object) -> None:
        for gone in (found.path("a") / "_delta_log").glob("*.gone"):
            gone.rename(gone.with_suffix(".json"))

    return RowJobs({}, before=find)
