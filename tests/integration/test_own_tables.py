"""Spark reads the ledger and the audit log, whatever of them was rewritten or checkpointed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pendulum
import pytest

from airflow_provider_schemamig.core.ledger.admin.maintenance import compact
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.unit.ledger.samples import counter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_spark_reads_what_we_wrote_of_our_own_tables(spark: SparkSession, tmp_path: Path) -> None:
    writer = LedgerWriter(EnvironmentRoot.open(str(tmp_path / "lake")))
    writer.create("env-1")
    writer.transact(lambda state: [Put(counter(1))])
    compact(writer)  # a checkpoint of ours is what Spark begins with
    writer.transact(lambda state: [Put(counter(2))])
    started = pendulum.datetime(2026, 11, 24, 12, 0, 0, 123456)
    append_history(writer.env, HistoryEntry.ended("promote", started, generation=4))

    place = f"{writer.env.location.uri}/_schemamig"
    rows = spark.read.format("delta").load(f"{place}/ledger").collect()
    assert sorted(tuple(row) for row in rows) == sorted(tuple(row) for row in writer.rows())
    told = spark.sql(f"SELECT what, generation, unix_micros(started_at) FROM delta.`{place}/history`").collect()
    assert [tuple(row) for row in told] == [("promote", 4, 1795521600123456)]
    found = spark.sql(f"DESCRIBE HISTORY delta.`{place}/ledger`").collect()
    assert [row["version"] for row in found] == list(range(writer.state().version, -1, -1))
