"""Two small tables and the requests that fill one from the other."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APP_ID = "schemamig:environment:target_shard"
EPOCH = 3
#: One row is written at once, the next only after a while: a file in the target shows that the statement is in flight.
SLOW = "SELECT id, 1L AS n FROM s WHERE id = 1 OR reflect('java.lang.Thread', 'sleep', {milliseconds}L) IS NOT NULL"


@dataclass(frozen=True)
class Lake:
    """``source`` (id INT, v STRING): 'a', 'bb', 'ccc' at version 1. ``target`` (id BIGINT, n BIGINT NOT NULL): empty, at version 0."""

    spark: SparkSession
    root: Path

    @classmethod
    def make(cls, spark: SparkSession, root: Path) -> Lake:
        lake = cls(spark, root)
        spark.sql(f"CREATE TABLE {lake.source_sql} (id INT, v STRING) USING delta")
        spark.sql(f"INSERT INTO {lake.source_sql} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'bb'), (3, 'ccc')")
        spark.sql(f"CREATE TABLE {lake.target_sql} (id BIGINT, n BIGINT NOT NULL) USING delta")
        return lake

    @property
    def source_uri(self) -> str:
        return f"file://{self.root}/source"

    @property
    def target_uri(self) -> str:
        return f"file://{self.root}/target"

    @property
    def source_sql(self) -> str:
        return f"delta.`{self.source_uri}`"

    @property
    def target_sql(self) -> str:
        return f"delta.`{self.target_uri}`"

    def target(self) -> list[tuple[int, int]]:
        return sorted((row["id"], row["n"]) for row in self.spark.sql(f"SELECT * FROM {self.target_sql}").collect())

    def version(self) -> int:
        """The target's newest version, by its log."""
        return max(int(path.stem) for path in (self.root / "target/_delta_log").glob("*.json"))

    def files(self, table: str) -> list[Path]:
        return sorted((self.root / table).glob("*.parquet"))


def fill_request(
    lake: Lake,
    *,
    query: str = "SELECT id, length(v) AS n FROM s",
    version: int | None = 1,
    epoch: int = EPOCH,
    number: int = 1,
    **changes: Any,
) -> dict[str, Any]:
    """Fill ``target`` from ``source``, which the query knows as ``s``."""
    return {
        "collection": "target",
        "shard_uri": lake.target_uri,
        "storage_options": {},
        "query": query,
        "inputs": {"s": {"uri": lake.source_uri, "version": version, "projection": "CAST(id AS BIGINT) AS id, v"}},
        "columns": ["id", "n"],
        "mode": "append",
        "txn_app_id": APP_ID,
        "txn_version": epoch * 2**32 + number,
        "user_metadata": json.dumps({"schemamig": {"epoch": epoch, "number": number}}),
        **changes,
    }


def put_fence(lake: Lake, epoch: int) -> int:
    """A fence commit as the design describes it, by hand: commitInfo and txn, no metaData. Returns its version."""
    now = int(time.time() * 1000)
    version = lake.version() + 1
    actions = [
        {"commitInfo": {"timestamp": now, "operation": "FENCE", "operationParameters": {}}},
        {"txn": {"appId": APP_ID, "version": epoch * 2**32, "lastUpdated": now}},
    ]
    with (lake.root / f"target/_delta_log/{version:020}.json").open("x") as file:
        file.write("".join(f"{json.dumps(action)}\n" for action in actions))
    return version
