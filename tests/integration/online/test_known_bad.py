"""What others do where schemamig walks states: kept as tests, so that it is seen when that is no longer needed.

Each is a tempting way to make a change, and it starves, lets wrong rows in or locks others out. These tests show that it still does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.schema import Field, PrimitiveType

from tests.support.tables.delta_table import Table
from tests.support.tables.foreign import set_property

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A condition that takes its time on every row, so that somebody else is always faster than a scan.
SLOW = "length(sha2(repeat('x', 20000000 + CAST(id AS INT)), 512)) > 0"
ENOUGH_TRIES = 3


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@contextmanager
def appending(folder: Path) -> Iterator[None]:
    """Somebody who appends as fast as they can; what they meet is theirs."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.05):
            try:
                write_deltalake(str(folder), rows(1), mode="append")
            except DeltaError:
                continue

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.soak
@pytest.mark.spark
def test_add_constraint_of_spark_starves_under_appends(spark: SparkSession, tmp_path: Path) -> None:
    """It scans, and then commits only if nobody has written meanwhile."""
    table = Table(spark, tmp_path / "t")
    write_deltalake(str(table.folder), rows(*range(20)))
    with appending(table.folder):
        for _ in range(ENOUGH_TRIES):
            with pytest.raises(Exception, match="DELTA_CONCURRENT_APPEND"):
                table.sql(f"ALTER TABLE {{t}} ADD CONSTRAINT slow CHECK ({SLOW})")
    assert not table.head.properties
    table.sql(f"ALTER TABLE {{t}} ADD CONSTRAINT slow CHECK ({SLOW})")


def test_add_constraint_of_delta_rs_lets_a_row_through(tmp_path: Path) -> None:
    """It checks the rows of one version and commits after others: a row that came in between breaks a CHECK that counts as valid."""
    folder = str(tmp_path / "t")
    write_deltalake(folder, rows(1))
    planned = DeltaTable(folder)
    write_deltalake(folder, rows(-1), mode="append")
    planned.alter.add_constraint({"pos": "id > 0"})
    now = DeltaTable(folder)
    assert now.metadata().configuration["delta.constraints.pos"] == "id > 0"
    assert now.to_pyarrow_table()["id"].to_pylist().count(-1) == 1


def test_a_constraint_without_its_feature_is_not_enforced_by_delta_rs(tmp_path: Path) -> None:
    """A property alone: the table is still one of writer version 2, whose writers know no CHECK."""
    folder = str(tmp_path / "t")
    write_deltalake(folder, rows(1))
    set_property(tmp_path / "t", "delta.constraints.pos", "id > 0")
    write_deltalake(folder, rows(-1), mode="append")
    assert DeltaTable(folder).protocol().min_writer_version == 2
    assert sorted(DeltaTable(folder).to_pyarrow_table()["id"].to_pylist()) == [-1, 1]


@pytest.mark.soak
@pytest.mark.spark
def test_a_constraint_without_its_feature_locks_spark_out_of_a_table_of_features(spark: SparkSession, tmp_path: Path) -> None:
    """Not even a SELECT."""
    table = Table(spark, tmp_path / "t")
    write_deltalake(str(table.folder), rows(1), configuration={"delta.enableDeletionVectors": "true"})
    set_property(table.folder, "delta.constraints.pos", "id > 0")
    for statement in ("SELECT * FROM {t}", "INSERT INTO {t} VALUES (1)"):
        with pytest.raises(Exception, match="DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH"):
            table.sql(statement)


@pytest.mark.soak
@pytest.mark.spark
def test_a_constraint_that_a_table_of_writer_version_2_cannot_have_is_enforced_by_spark_alone(spark: SparkSession, tmp_path: Path) -> None:
    """So it goes unnoticed until a delta-rs writer comes (above)."""
    table = Table(spark, tmp_path / "t")
    write_deltalake(str(table.folder), rows(1))
    set_property(table.folder, "delta.constraints.pos", "id > 0")
    with pytest.raises(Exception, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
        table.sql("INSERT INTO {t} VALUES (-1)")
    assert [row.id for row in table.sql("SELECT * FROM {t}")] == [1]


def test_add_column_not_null_of_delta_rs_leaves_nulls(tmp_path: Path) -> None:
    """Nobody asks the rows that are there: the schema says NOT NULL, and a later UPDATE of such a row fails."""
    folder = str(tmp_path / "t")
    write_deltalake(folder, rows(1))
    DeltaTable(folder).alter.add_columns([Field("n", PrimitiveType("integer"), nullable=False)])
    now = DeltaTable(folder)
    assert [field.nullable for field in now.schema().fields] == [True, False]
    assert now.to_pyarrow_table().to_pylist() == [{"id": 1, "n": None}]
    with pytest.raises(DeltaError):
        now.update({"id": "id + 1"})
