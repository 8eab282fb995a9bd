"""An environment that streams come from: one collection, its writers, and somebody else at its table."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.replication.stream.events import EventBatch, FoundEvents, next_events
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from tests.support.lake import Lake, no_spark
from tests.support.rows import tables
from tests.support.rows.tables import Row
from tests.support.upgrades import two_releases

T = CollectionName("t")
FIRST = "CREATE TABLE t (id BIGINT NOT NULL, x INT, PRIMARY KEY (id));"
SECOND = "CREATE TABLE t (id BIGINT NOT NULL, x INT, y STRING, PRIMARY KEY (id));"


@dataclass
class Origin:
    lake: Lake
    no_jobs = staticmethod(no_spark)

    @property
    def shard(self) -> ShardId:
        return self.lake.state.objects[T].shard

    @property
    def path(self) -> Path:
        return self.lake.path(T)

    @property
    def newest(self) -> int:
        return tables.newest(self.path)

    def found(self, after: int, **options: Any) -> FoundEvents:
        return next_events(self.lake.env, self.lake.state, T, self.shard, after, **options)

    def all(self, after: int = 0, **options: Any) -> list[EventBatch]:
        """All batches, read one by one."""
        batches: list[EventBatch] = []
        while (batch := self.found(after, **options).batch) is not None:
            batches.append(batch)
            after = batch.hi
        return batches

    def ranges(self, after: int = 0, **options: Any) -> list[tuple[int, int, str]]:
        """(lo, hi, columns of the events' schema)"""
        return [(batch.lo, batch.hi, columns(batch.entry)) for batch in self.all(after, **options)]

    def copy(self, folder: Path) -> Origin:
        """The same one elsewhere, with releases of its own."""
        product = self.lake.first.parent
        shutil.copytree(product, folder / product.name)
        shutil.copytree(self.lake.env.location.local_path or Path(), folder / "lake")
        first, second = (folder / product.name / release.name for release in (self.lake.first, self.lake.second))
        return Origin(replace(self.lake, env=Environment.open(str(folder / "lake")), first=first, second=second))

    # -- writers ----------------------------------------------------------------------------------------------------------------------

    def insert(self, *ids: int, **more: Any) -> int:
        """Somebody else does; the version."""
        return tables.insert(self.path, [{"id": number, "x": number, **more} for number in ids])

    def update(self, number: int) -> int:
        return tables.change(self.path, lambda row: {**row, "x": 0} if row["id"] == number else row)

    def append(self, *ids: int, release: str | None = None) -> int:
        """A writer of ours does, without a JVM."""
        rows = pa.table({"id": pa.array(ids, pa.int64()), "x": pa.array(ids, pa.int32())})
        version = self.lake.env.writer(T, release).append(rows).version
        assert version is not None
        return version

    def write(self, said: Any, *ids: int, info: dict[str, Any] | None = None) -> int:
        """A commit with rows that says ``said`` of itself, as text or as what is to be JSON."""
        text = said if said is None or isinstance(said, str) else json.dumps(said)
        now = tables.snapshot(self.path)
        rows: list[Row] = [{field["name"]: None for field in now.fields} | {"id": number} for number in ids or (self.newest + 1,)]
        add = tables.data_file(self.path, now.fields, rows)
        commit_info = {"operation": "WRITE", "timestamp": 1_700_000_000_000, **(info or {}), "userMetadata": text}
        return tables.put(self.path, now.version, [{"commitInfo": commit_info}, {"add": add}])

    def commit(self, *actions: dict[str, Any]) -> int:
        return tables.put(self.path, self.newest, [{"commitInfo": {"operation": "X"}}, *actions])

    def write_metadata(self, schema: dict[str, Any], said: Any) -> int:
        """A commit of ours with another schema."""
        metadata = {**tables.snapshot(self.path).metadata, "schemaString": json.dumps(schema)}
        return tables.put(self.path, self.newest, [{"commitInfo": {"userMetadata": json.dumps(said)}}, {"metaData": metadata}])

    def rearrange(self) -> int:
        """OPTIMIZE: all rows into one file."""
        now = tables.snapshot(self.path)
        removes = [{"remove": {"path": file, "dataChange": False}} for file in now.files]
        return self.commit(*removes, {"add": {**tables.data_file(self.path, now.fields, now.rows), "dataChange": False}})


def make_origin(folder: Path, first: str = FIRST, second: str = SECOND, steps: str = 'evolution("t")') -> Origin:
    return Origin(two_releases(folder, first, second, steps))


def columns(entry: SchemaEntry) -> str:
    return " ".join(field.name for field in entry.declared.fields)


def hash_of(entry: SchemaEntry) -> str:
    return fingerprint(entry.declared)
