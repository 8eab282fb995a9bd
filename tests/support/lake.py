"""A small lake to upgrade: two releases that hold every kind of step, an environment, and crashes at any write."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.names import physical_name
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from tests.support.product import Product
from tests.support.rows.nested_values import logical

SCHEMA_1 = """
CREATE TABLE flights (id BIGINT NOT NULL, dep_delay INT, hour INT NOT NULL, origin STRUCT<code: STRING, name: STRING>);
CREATE TABLE planes (tailnum STRING NOT NULL, year INT);
CREATE TABLE stats (origin STRING, flights BIGINT);
CREATE TABLE legacy (id BIGINT);
CREATE TABLE untouched (id BIGINT);
"""
SCHEMA_2 = """
CREATE TABLE flights (id BIGINT NOT NULL, departure_delay BIGINT, origin STRUCT<code: STRING, name: STRING, city: STRING>, gate STRING);
CREATE TABLE planes (year INT, tailnum STRING, seats INT);
CREATE TABLE stats (origin STRING, dest STRING, flights STRING);
CREATE TABLE airports (code STRING NOT NULL);
CREATE TABLE untouched (id BIGINT);
"""

STEPS_2 = """
    evolution("flights", rename={"dep_delay": "departure_delay"}, drop=["hour"]),
    evolution("planes"),
    replacement("stats"),
    removal("legacy"),
"""


def no_spark() -> Any:
    """The runner factory of schema-only work: nobody may call it."""
    raise AssertionError("schema-only work must start no JVM")


class Crash(BaseException):
    """The process died here."""


@dataclass
class Lake:
    """An environment with two releases at hand."""

    env: Environment
    first: Path
    second: Path

    @property
    def state(self) -> State:
        return LedgerReader(self.env).state()

    @property
    def version(self) -> str | None:
        release = self.state.release
        return str(release.version) if release is not None else None

    def upgrade(self, folder: Path, **options: Any) -> Any:
        return commands.upgrade(self.env, folder, jobs=no_spark, **{"create": True, **options})

    def path(self, collection: str) -> Path:
        found = self.env.table_location(self.state.shard_of(CollectionName(collection)).uri).local_path
        assert found is not None
        return found

    def crashing_at(self, write: int) -> Environment:
        """The environment for a process that dies at its ``write``-th moment (two a write: just before, just after)."""
        count = 0

        def hook(moment: str, what: str, key: str) -> None:
            nonlocal count
            count += 1
            if count > write:
                raise Crash(f"{moment} {what} {key}")

        return replace(self.env, on_write=hook)


def copy_of(lake: Lake, folder: Path) -> Lake:
    """The same lake elsewhere: its URIs are relative to the root."""
    shutil.copytree(lake.env.location.local_path or Path(), folder / "lake")
    return replace(lake, env=Environment.open(str(folder / "lake")))


def make_lake(folder: Path) -> Lake:
    """A lake that is not yet initialised."""
    product = Product(folder / "product")
    first = product.release("1.0.0", SCHEMA_1)
    second = product.release("1.1.0", SCHEMA_2, STEPS_2)
    return Lake(Environment.open(str(folder / "lake")), first, second)


def append(path: Path, rows: list[dict[str, Any]]) -> None:
    """A foreign writer (delta-rs) appends rows that have the table's columns."""
    from deltalake import DeltaTable, write_deltalake

    schema = pa.schema(DeltaTable(str(path)).schema().to_arrow())
    write_deltalake(str(path), pa.Table.from_pylist(rows, schema=schema), mode="append")


def rows(path: Path, *columns: str) -> list[dict[str, Any]]:
    """The rows of a table by its log and files alone, sorted: top-level ``columns`` (default: all) in the table's present schema.

    delta-rs does not read type widening, and Spark would need a JVM: this is the reading rule of Delta's protocol in a few lines
    (files without a column show NULL; columns are found by their physical names). For logs without checkpoints.
    """
    active: dict[str, None] = {}
    fields: list[dict[str, Any]] = []
    for commit in sorted((path / "_delta_log").glob("*.json")):
        for action in map(json.loads, commit.read_text().splitlines()):
            if "metaData" in action:
                fields = json.loads(action["metaData"]["schemaString"])["fields"]
            elif "add" in action:
                active[action["add"]["path"]] = None
            elif "remove" in action:
                active.pop(action["remove"]["path"], None)
    shown = [field for field in fields if not columns or field["name"] in columns]
    assert not columns or len(shown) == len(columns), (columns, fields)
    found = []
    for name in active:
        for stored in pq.ParquetFile(path / name).read().to_pylist():
            found.append({field["name"]: logical(stored.get(physical_name(field)), field["type"]) for field in shown})
    return sorted(found, key=repr)
