"""A Delta table in a folder, by Spark's statements and by our commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.delta.commit.commit import Committed, commit_changes
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import Fence
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Epoch, Generation, ShardId
from airflow_provider_schemamig.core.schema.changes import (
    AddColumn,
    Change,
)
from airflow_provider_schemamig.core.schema.model import Field, Primitive
from airflow_provider_schemamig.core.storage import Location, StorageOptions, Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = CollectionName("flights")
TAG = Tag(Generation(3), Epoch(1), "expand")
INT, BIGINT, STRING = Primitive("int"), Primitive("bigint"), Primitive("string")
COLUMNS = "id BIGINT, n INT, s STRUCT<a: INT, b: STRING>, arr ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>, v VARCHAR(5), p STRING"
ROWS = """(1, 10, struct(11, 'b1'), array(struct(12), struct(13)), map('k', 14), 'v1', 'u'),
          (2, 20, struct(21, 'b2'), array(struct(22)), map('k', 24), 'v2', 'w'),
          (3, NULL, NULL, NULL, NULL, NULL, NULL)"""
FIRST = {"id": 1, "n": 10, "s": {"a": 11, "b": "b1"}, "arr": [{"x": 12}, {"x": 13}], "m": {"k": 14}, "v": "v1", "p": "u"}


def path(text: str) -> ColumnPath:
    return ColumnPath(text)


def fence(epoch: int = 1) -> Fence:
    return Fence("env-1", ShardId("g1-flights"), Epoch(epoch))


@dataclass
class Table:
    """A Delta table in a folder, by Spark's statements and by our commits."""

    spark: SparkSession
    folder: Path

    @property
    def store(self) -> Store:
        return open_store(Location.parse(str(self.folder)), StorageOptions())

    @property
    def head(self) -> Head:
        return read_head(self.store)

    def sql(self, statement: str) -> list[Any]:
        """``{t}`` stands for the table."""
        return list(self.spark.sql(statement.replace("{t}", f"delta.`{self.folder}`")).collect())

    def rows(self, where: str = "true") -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in self.sql(f"SELECT * FROM {{t}} WHERE {where} ORDER BY id")]

    def commit(self, *changes: Change, forget: Sequence[ColumnPath] = ()) -> Committed:
        head = self.head
        return commit_changes(self.store, head, changes, fence(), TAG, since=head.version, forget=forget)

    def by_delta_rs(self) -> list[dict[str, Any]]:
        from deltalake import DeltaTable, QueryBuilder

        found = QueryBuilder().register("t", DeltaTable(str(self.folder))).execute("SELECT * FROM t ORDER BY id").read_all()
        return [dict(row) for row in found.to_struct_array().to_pylist()]


GATE = AddColumn(path("gate"), Field("gate", STRING))


def fill(table: Table, more: str = "", columns: str = COLUMNS) -> None:
    table.sql(f"CREATE TABLE {{t}} ({columns}) USING delta {more}")
    table.sql(f"INSERT INTO {{t}} VALUES {ROWS}")
