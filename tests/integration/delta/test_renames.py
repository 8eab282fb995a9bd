"""A column renamed by a metadata commit of ours, in all that names it: Spark reads, writes and deletes as before."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_schemamig.core.delta.commit.commit import commit_changes
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import Fence
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.names import ColumnPath, Epoch, Generation, ShardId
from airflow_provider_schemamig.core.schema.changes import RenameColumn
from airflow_provider_schemamig.core.storage import Location, StorageOptions, open_store

pytestmark = pytest.mark.spark


@pytest.mark.soak
def test_statistics_and_checks_go_on_after_a_rename(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/t`"
    stats = "TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'id,x,s.q')"
    spark.sql(f"CREATE TABLE {table} (id INT, x INT, s STRUCT<q: INT>) USING delta {stats}")
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT c CHECK (s['q'] > 0 AND x > 0)")
    store = open_store(Location.parse(f"{tmp_path}/t"), StorageOptions())
    head = read_head(store)
    changes = [RenameColumn(ColumnPath("x"), "dep-delay"), RenameColumn(ColumnPath("s.q"), "a-b")]
    commit_changes(store, head, changes, Fence("e", ShardId("s"), Epoch(1)), Tag(Generation(1), Epoch(1), "expand"), since=head.version)
    spark.sql(f"INSERT INTO {table} VALUES (1, 1, named_struct('a-b', 1)), (2, 2, named_struct('a-b', 2))")
    with pytest.raises(Exception, match="CHECK constraint"):
        spark.sql(f"INSERT INTO {table} VALUES (3, 1, named_struct('a-b', 0))")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    assert [row.asDict() for row in spark.sql(f"SELECT id, `dep-delay`, s.`a-b` AS q FROM {table}").collect()] == [
        {"id": 2, "dep-delay": 2, "q": 2}
    ]
