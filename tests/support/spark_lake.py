"""A lake whose rows come from Spark and are read by Spark, as its users see it: tables by their collections' names, and digests."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.ledger.verify import verify
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from airflow_provider_schemamig.core.upgrade import verbs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A condition that is true after a while: the statement with it is in flight for so long. One row of it only, or it adds up.
SLOWLY = "reflect('java.lang.Thread', 'sleep', 4000L) IS NOT NULL"


@dataclass(frozen=True)
class SparkLake:
    """An environment, and the session its users work with."""

    spark: SparkSession
    env: Environment

    @property
    def state(self) -> State:
        return LedgerReader(self.env).state()

    def upgrade(self, release: Path, **options: Any) -> Any:
        return verbs.upgrade(self.env, release, jobs=EmbeddedRunner, **options)

    def folder(self, collection: str) -> Path:
        found = self.env.table_location(self.state.shard_of(CollectionName(collection)).uri).local_path
        assert found is not None
        return found

    def table(self, collection: str) -> str:
        """The collection's present table, for SQL."""
        return table(self.folder(collection))

    def sql(self, text: str, **tables: str) -> list[Any]:
        """Run a statement in which ``{name}`` is a collection's present table, or one of ``tables``."""
        return run(self.spark, text.format_map(_Tables(self, tables)))

    def digest(self, collection: str, *columns: str) -> tuple[int, int]:
        """Rows, and their digest over ``columns`` (expressions, in this order)."""
        text = f"SELECT count(*) AS rows, bit_xor(xxhash64({', '.join(columns)})) AS digest FROM {self.table(collection)}"
        (row,) = run(self.spark, text)
        return row["rows"], row["digest"]

    def columns(self, collection: str) -> list[str]:
        return list(self.spark.read.format("delta").load(str(self.folder(collection))).columns)

    def check(self, version: str) -> None:
        """At ``version``, without drift, open intents or a damaged ledger."""
        found = verbs.status(self.env)
        assert (found.document["version"], found.drifted) == (version, ())
        assert list(self.state.intents) == []
        assert verify(LedgerReader(self.env)) == ()


class _Tables(dict[str, str]):
    def __init__(self, lake: SparkLake, known: dict[str, str]) -> None:
        super().__init__(known)
        self._lake = lake

    def __missing__(self, collection: str) -> str:
        return self._lake.table(collection)


def table(folder: Path) -> str:
    return f"delta.`{folder}`"


def run(spark: SparkSession, text: str) -> list[Any]:
    return list(spark.sql(text).collect())


class InFlight(threading.Thread):
    """A foreign statement that is at work when the constructor returns; ``outcome`` waits for its end."""

    def __init__(self, spark: SparkSession, statement: str) -> None:
        super().__init__(daemon=True)
        self._spark = spark
        self._statement = statement
        self._error: Exception | None = None
        self.start()
        deadline = time.monotonic() + 60
        found = self._stages_at_work()
        while not found & self._stages_at_work(after=0.3):  # still the same: it sleeps, and has long chosen the version it works on
            assert time.monotonic() < deadline and self.is_alive(), f"never began: {self._error}"
            found = self._stages_at_work()

    def run(self) -> None:
        try:
            run(self._spark, self._statement)
        except Exception as error:  # noqa: BLE001  (handed to the test)
            self._error = error

    def outcome(self) -> Exception | None:
        self.join(60)
        assert not self.is_alive()
        return self._error

    def _stages_at_work(self, after: float = 0.0) -> set[int]:
        time.sleep(after)
        tracker = self._spark.sparkContext.statusTracker()
        active = {stage: tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()}
        return {stage for stage, info in active.items() if info is not None and info.numActiveTasks > 0}
