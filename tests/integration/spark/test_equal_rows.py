"""Equal rows of a target without a key, one of which goes at the source, while the target's own writer is at work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

from airflow_provider_schemamig.core.spark import errors
from airflow_provider_schemamig.core.spark.translate import translated
from spark_jobs import apply
from spark_jobs.transactions import Written, write_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def by_rows(origin: str, target: str, version: int) -> dict[str, Any]:
    """The request of one version of a table of one column, without a key."""
    return {
        "target_uri": target,
        "storage_options": {},
        "query": "SELECT * FROM src",
        "source_view": "src",
        "projection": "n",
        "inputs": {},
        "columns": ["n"],
        "txn_app_id": "x",
        "txn_version": 1,
        "user_metadata": "{}",
        "changes": {"kind": "cdf", "uri": origin, "from": version, "to": version},
        "match": [],
    }


def one_of_two_went(spark: SparkSession, origin: str, target: str) -> dict[str, Any]:
    """Two rows that are alike in both tables, one of which goes at the origin; the request that brings that."""
    for place in (origin, target):
        spark.sql(f"CREATE TABLE delta.`{place}` (n INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
        spark.sql(f"INSERT INTO delta.`{place}` SELECT /*+ COALESCE(1) */ 1 FROM range(2)")
    spark.sql(f"INSERT OVERWRITE delta.`{origin}` VALUES (1)")
    spark.newSession().read.format("delta").load(target).cache().count()  # somebody else's, and soon not true any more
    return by_rows(origin, target, 2)


def add_one(target: str) -> None:
    deltalake.write_deltalake(target, pa.table({"n": pa.array([1], pa.int32())}), mode="append")


def take_all(target: str) -> None:
    deltalake.DeltaTable(target).delete()


def came_out(spark: SparkSession, request: dict[str, Any], meddle: Callable[[str], None]) -> None:
    """The rest of a test: the job is run to its end, after what the target's own writer did."""
    try:
        if meddle is take_all:
            with pytest.raises(errors.TargetDiverged, match="1 row"):
                apply.run(spark, request)
        else:
            apply.run(spark, request)
    finally:
        spark.catalog.clearCache()
    assert deltalake.DeltaTable(request["target_uri"]).to_pyarrow_table().num_rows == (0 if meddle is take_all else 2)


@pytest.mark.some(1, of="rows by Spark")
@pytest.mark.parametrize("meddle", [add_one, take_all])
def test_equal_rows_of_a_keyless_target_are_counted_as_its_own_writers_left_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meddle: Callable[[str], None]
) -> None:
    target = str(tmp_path / "target")
    request = one_of_two_went(spark, str(tmp_path / "origin"), target)

    def write(*given: Any) -> Written:
        meddle(target)
        return write_once(*given)

    monkeypatch.setattr("spark_jobs.apply.write_once", write)
    came_out(spark, request, meddle)


@pytest.mark.some(1, of="rows by Spark")
@pytest.mark.parametrize("meddle", [add_one, take_all])
def test_equal_rows_of_a_keyless_target_that_change_while_they_are_counted_make_the_statement_fail(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meddle: Callable[[str], None]
) -> None:
    target, begun, done = (str(tmp_path / name) for name in ("target", "begun", "done"))
    request = one_of_two_went(spark, str(tmp_path / "origin"), target)

    def meddle_when_begun() -> None:
        while not Path(begun).exists():
            time.sleep(0.02)
        meddle(target)
        Path(done).touch()

    def wait(number: int) -> bool:
        """In Spark's worker, which has nothing but Python's own library."""
        import os
        import time

        open(begun, "w").close()
        while not os.path.exists(done):
            time.sleep(0.02)
        return True

    equal_rows = apply._equal_rows
    spark.udf.register("wait", wait, "boolean")
    monkeypatch.setattr(apply, "_equal_rows", lambda *given, **more: f"SELECT * FROM ({equal_rows(*given, **more)}) WHERE wait(n)")
    meddler = threading.Thread(target=meddle_when_begun)
    meddler.start()
    with pytest.raises(errors.ConcurrentWrite), translated("apply"):
        apply.run(spark, request)
    meddler.join()
    came_out(spark, request, meddle)
