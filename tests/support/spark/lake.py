"""A lake whose rows come from Spark and are read by Spark, as its users see it: tables by their collections' names, and digests."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SparkLake:
    """An environment, and the session its users work with."""

    spark: SparkSession
    env: Environment

    @property
    def state(self) -> State:
        return LedgerReader(self.env).state()

    def upgrade(self, release: Path, **options: Any) -> Any:
        return commands.upgrade(self.env, release, jobs=EmbeddedRunner, **{"create": True, **options})

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
        found = commands.status(self.env)
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
    """A foreign statement that is at work when the constructor returns, and stays so until ``outcome`` lets it go and waits for its end.

    ``statement``: ``held(<column>)`` in it is a condition that is true as soon as it may go on. Who evaluates it has begun to write, so
    has long chosen the version of the table that it works on. It says so with a file, and waits for one: neither a sleep nor a look at
    Spark's stages, which a busy machine shows late, decides what is tested. ``folder``: for the two files.
    """

    def __init__(self, spark: SparkSession, folder: Path, statement: str) -> None:
        super().__init__(daemon=True)
        self._spark = spark
        self._statement = statement
        self._error: Exception | None = None
        at_work, self._may_go_on = folder / "at_work", folder / "may_go_on"
        for sign in (at_work, self._may_go_on):
            sign.unlink(missing_ok=True)
        register_held(spark, str(at_work), str(self._may_go_on))
        self.start()
        wait_until(lambda: at_work.exists() or not self.is_alive(), 120)
        assert at_work.exists(), f"never began: {self._error}"

    def run(self) -> None:
        try:
            run(self._spark, self._statement)
        except Exception as error:  # noqa: BLE001  (handed to the test)
            self._error = error

    def outcome(self) -> Exception | None:
        self._may_go_on.touch()
        self.join(120)
        assert not self.is_alive()
        return self._error


def register_held(spark: SparkSession, at_work: str, may_go_on: str) -> None:
    """The SQL function ``held``: it says with one file that it was called, and waits for the other. ``still_held`` is the same for UPDATE
    and DELETE, whose conditions have to be deterministic.

    It runs in Spark's Python worker, which has no module of the tests: it must bring all it needs.
    """
    from pyspark.sql.functions import udf

    def held(_: object) -> bool:
        import pathlib
        import time

        pathlib.Path(at_work).touch()
        deadline = time.monotonic() + 120  # a test that failed in between leaves no worker behind for ever
        while not pathlib.Path(may_go_on).exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        return True

    spark.udf.register("held", udf(held, "boolean", useArrow=False).asNondeterministic())
    spark.udf.register("still_held", udf(held, "boolean", useArrow=False))
