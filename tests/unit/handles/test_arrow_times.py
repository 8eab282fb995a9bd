"""Times that delta-rs would take for others: files with INT96, as Spark writes them, with and without statistics in the log."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core.handles import arrow_times
from airflow_provider_schemamig.core.handles.errors import KeyViolated, NeedsSpark
from tests.support.lake import Lake
from tests.support.row_tables import newest
from tests.support.upgrades import deployed, releases, two_releases

NOW, FIRST, LAST = datetime(2026, 11, 23, 1, 2, 3, 456789, tzinfo=UTC), datetime(1678, 1, 1, tzinfo=UTC), datetime(2261, 12, 31, tzinfo=UTC)
END, OLD = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)
MICROS = pa.timestamp("us", tz="UTC")


def lake_of(folder: Path, schema: str) -> Lake:
    return deployed(folder, *releases(folder, (schema, "")) * 2)


def bring(lake: Lake, column: pa.Array, limits: tuple[Any, Any] | None = None, *, int96: bool = True, **add: Any) -> None:
    """Somebody commits a file with ``at``. ``limits``: what its statistics say."""
    folder = lake.path("t")
    name = f"{uuid.uuid4()}.parquet"
    rows = pa.table({"id": pa.array(range(len(column)), pa.int64()), **({} if add.get("partitionValues") else {"at": column})})
    pq.write_table(rows, folder / name, use_deprecated_int96_timestamps=int96)
    stats: dict[str, Any] = {"numRecords": len(column), "nullCount": {"at": column.null_count}}
    if limits is not None:
        stats |= {"minValues": {"at": limits[0]}, "maxValues": {"at": limits[1]}}
    commit(folder, {"path": name, "partitionValues": {}, "size": 1, "stats": json.dumps(stats), **add})


def commit(folder: Path, add: Mapping[str, Any]) -> None:
    size = (folder / str(add["path"])).stat().st_size
    action = {"add": {"modificationTime": 0, "dataChange": True, **add, "size": size}}
    (folder / "_delta_log" / f"{newest(folder) + 1:020}.json").write_text(json.dumps(action) + "\n")


def times(*values: datetime | None) -> pa.Array:
    return pa.array(values, MICROS)


def read(lake: Lake) -> list[Any]:
    return list(lake.env.reader("t").arrow(["at"])["at"].to_pylist())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_of(tmp_path, "CREATE TABLE t (id BIGINT, at TIMESTAMP);")


@pytest.mark.parametrize(
    ("values", "limits"),
    [
        ((NOW, None), ("2026-11-23T01:02:03.456Z", "2026-11-23T01:02:03.456Z")),
        ((NOW,), ("2026-11-22T17:02:03.456-08:00", "2026-11-22T17:02:03.456-08:00")),
        ((FIRST, LAST), ("1678-01-01T00:00:00.000Z", "2261-12-31T00:00:00.000Z")),
        ((None, None), None),
    ],
)
def test_times_that_statistics_prove_are_read(lake: Lake, values: tuple[datetime | None, ...], limits: tuple[str, str] | None) -> None:
    bring(lake, times(*values), limits)
    assert read(lake) == list(values)
    DeltaTable(str(lake.path("t"))).create_checkpoint()
    assert read(lake) == list(values), "out of a checkpoint"


@pytest.mark.parametrize(
    ("value", "limits"),
    [
        (NOW, None),
        (END, None),
        (END, ("2026-11-23T01:02:03.456Z", "9999-12-31T23:59:59.999Z")),
        (OLD, ("0001-01-01T00:00:00.000Z", "2026-11-23T01:02:03.456Z")),
        (END, ("2026-11-23T01:02:03.456Z", "+12020-12-31T23:59:59.999Z")),
        (OLD, ("-1700-01-01T00:00:00.000Z", "2026-11-23T01:02:03.456Z")),
        (NOW, (1, 2)),
        (NOW, ("2026", "2026")),
    ],
)
def test_times_that_nothing_proves_are_left_to_spark(lake: Lake, value: datetime, limits: tuple[Any, Any] | None) -> None:
    bring(lake, times(NOW), ("2026-11-23T01:02:03.456Z", "2026-11-23T01:02:03.456Z"))
    bring(lake, times(value), limits)
    with pytest.raises(NeedsSpark, match=r"column at is INT96 in .*\.parquet"):
        read(lake)
    DeltaTable(str(lake.path("t"))).create_checkpoint()
    with pytest.raises(NeedsSpark, match=r"column at is INT96 in .*\.parquet"):
        read(lake)
    assert lake.env.reader("t").arrow(["id"]).num_rows == 2, "it is not asked for"


def test_a_file_without_int96_needs_no_proof_and_is_looked_at_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    bring(lake, times(END, OLD, None), int96=False)
    assert read(lake) == [END, OLD, None]
    monkeypatch.setattr(arrow_times, "_int96_columns", lambda *given: pytest.fail("it was read before"))
    assert read(lake) == [END, OLD, None]


def test_a_file_from_before_the_column_has_no_times(tmp_path: Path) -> None:
    old, new = "CREATE TABLE t (id BIGINT);", "CREATE TABLE t (id BIGINT, at TIMESTAMP);"
    lake = two_releases(tmp_path, old, new, 'evolution("t")')
    bring(lake, times(END))
    commit_of_ids = pa.table({"id": pa.array([1], pa.int64())})
    lake.env.writer("t").append(commit_of_ids)
    folder = lake.path("t")
    assert lake.env.reader("t").arrow().num_rows == 2, "nobody declares it yet"
    lake.upgrade(lake.second)
    with pytest.raises(NeedsSpark, match="column at is INT96"):
        read(lake)
    action = next(json.loads(line) for line in (folder / "_delta_log" / f"{1:020}.json").read_text().splitlines())
    gone = {"remove": {"path": action["add"]["path"], "deletionTimestamp": 0, "dataChange": True}}
    (folder / "_delta_log" / f"{newest(folder) + 1:020}.json").write_text(json.dumps(gone) + "\n")
    assert read(lake) == [None]


def test_times_that_a_table_is_partitioned_by_are_in_no_file(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "CREATE TABLE t (id BIGINT, at TIMESTAMP) PARTITIONED BY (at);")
    bring(lake, times(None), partitionValues={"at": "9999-12-31 23:59:59.999999"})
    assert read(lake) == [END]


NESTED: Mapping[str, tuple[pa.Array, Any]] = {
    "STRUCT<x: INT, at: TIMESTAMP>": (
        pa.array([{"at": NOW}], pa.struct([("x", pa.int32()), ("at", MICROS)])),
        {"x": 1, "at": "2026-11-23T01:02:03.456Z"},
    ),
    "ARRAY<TIMESTAMP>": (pa.array([[NOW]], pa.list_(MICROS)), None),
    "MAP<TIMESTAMP, INT>": (pa.array([[(NOW, 1)]], pa.map_(MICROS, pa.int32())), None),
    "MAP<INT, TIMESTAMP>": (pa.array([[(1, NOW)]], pa.map_(pa.int32(), MICROS)), None),
    "ARRAY<STRUCT<at: TIMESTAMP>>": (pa.array([[{"at": NOW}]], pa.list_(pa.struct([("at", MICROS)]))), {"at": "2026-11-23T01:02:03.456Z"}),
}


@pytest.mark.parametrize(("kind", "value", "limit"), [(kind, *case) for kind, case in NESTED.items()], ids=NESTED)
def test_times_inside_others(tmp_path: Path, kind: str, value: pa.Array, limit: Any) -> None:
    """Statistics look into structs alone."""
    lake = lake_of(tmp_path, f"CREATE TABLE t (id BIGINT, at {kind});")
    bring(lake, value, int96=False)
    assert read(lake) == value.to_pylist()
    bring(lake, value, None if limit is None else (limit, limit))
    if kind.startswith("STRUCT"):
        assert read(lake) == value.to_pylist() * 2
        bring(lake, value)
    with pytest.raises(NeedsSpark, match=r"column at\.(at|element|element\.at|key|value) is INT96"):
        read(lake)


def test_keys_are_compared_with_times_that_are_known(tmp_path: Path) -> None:
    lake = lake_of(
        tmp_path,
        "CREATE TABLE t (id BIGINT, at TIMESTAMP UNIQUE); CREATE TABLE u (id BIGINT, at TIMESTAMP, FOREIGN KEY (at) REFERENCES t (at));",
    )
    rows = pa.table({"id": pa.array([7], pa.int64()), "at": times(END)})
    now = rows.set_column(1, "at", times(NOW))
    bring(lake, times(NOW), ("2026-11-23T01:02:03.456Z", "2026-11-23T01:02:03.456Z"))
    with pytest.raises(KeyViolated):
        lake.env.writer("t").append(now)
    lake.env.writer("u").append(now)
    bring(lake, times(END), ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"))
    before = newest(lake.path("t"))
    for collection in ("t", "u"):
        with pytest.raises(NeedsSpark, match=r"reading the keys of .*: column at is INT96"):
            lake.env.writer(collection).append(rows)
    assert newest(lake.path("t")) == before
