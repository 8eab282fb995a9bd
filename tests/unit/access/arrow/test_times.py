"""Times that delta-rs would take for others: files with INT96 or of the old calendar, as Spark writes them, with and without statistics."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_provider_schemamig.core.access.arrow import times as arrow_times
from airflow_provider_schemamig.core.access.errors import KeyViolated, NeedsSpark
from airflow_provider_schemamig.core.upgrade.adopt.adopt import adopt
from tests.support.lake import Lake
from tests.support.rows.tables import newest
from tests.support.tables.adopting import MAPPED, Site, mapped
from tests.support.upgrades import deployed, releases, two_releases

NOW, FIRST, LAST = datetime(2026, 11, 23, 1, 2, 3, 456789, tzinfo=UTC), datetime(1900, 1, 1, tzinfo=UTC), datetime(2261, 12, 31, tzinfo=UTC)
END, OLD = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)
MICROS = pa.timestamp("us", tz="UTC")
SPARK, SPARK_2 = {"org.apache.spark.version": "4.2.0"}, {"org.apache.spark.version": "2.4.8"}
LEGACY = {**SPARK, "org.apache.spark.legacyDateTime": ""}


def lake_of(folder: Path, schema: str) -> Lake:
    return deployed(folder, *releases(folder, (schema, "")) * 2)


def bring(
    lake: Lake, column: pa.Array, limits: tuple[Any, Any] | None = None, *, int96: bool = True, says: Mapping[str, str] = SPARK, **add: Any
) -> None:
    """Somebody commits a file with ``at``. ``limits``: what its statistics say. ``says``: what its footer does."""
    rows = pa.table({"id": pa.array(range(len(column)), pa.int64()), **({} if add.get("partitionValues") else {"at": column})})
    bring_to(lake.path("t"), rows, limits, int96=int96, says=says, **add)


def bring_to(
    folder: Path, rows: pa.Table, limits: tuple[Any, Any] | None, *, int96: bool = True, says: Mapping[str, str] = SPARK, **add: Any
) -> None:
    """As Spark writes it: without an Arrow schema, by which delta-rs would read INT96 rightly."""
    name = f"{uuid.uuid4()}.parquet"
    with pq.ParquetWriter(folder / name, rows.schema, use_deprecated_int96_timestamps=int96, store_schema=False) as file:
        file.write_table(rows)
        file.add_key_value_metadata(dict(says))
    at = rows.column_names[-1]
    stats: dict[str, Any] = {"numRecords": len(rows), "nullCount": {at: rows[at].null_count}}
    if limits is not None:
        stats |= {"minValues": {at: limits[0]}, "maxValues": {at: limits[1]}}
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
        ((FIRST, LAST), ("1900-01-01T00:00:00.000Z", "2261-12-31T00:00:00.000Z")),
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
        (OLD, ("1700-01-01T00:00:00.000Z", "2026-11-23T01:02:03.456Z")),
        (OLD, ("1900-01-01T00:00:00.000+08:00", "2026-11-23T01:02:03.456Z")),
        (OLD, ("1900-01-01T00:00:00.000", "2026-11-23T01:02:03.456")),
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
    monkeypatch.setattr(arrow_times, "_read_footer", lambda *given: pytest.fail("it was read before"))
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


@pytest.mark.parametrize("says", [LEGACY, SPARK_2, {"org.apache.spark.version": "dev"}], ids=["legacy", "2.4", "unknown"])
@pytest.mark.parametrize(
    ("kind", "value", "limits"),
    [
        ("DATE", date(1, 1, 1), None),
        ("DATE", date(1, 1, 1), ("0001-01-01", "9999-12-31")),
        ("DATE", date(1582, 10, 14), ("1582-10-14", "1582-10-14")),
        ("DATE", date(2026, 1, 1), ("2026-01-01", "+12020-01-01")),
        ("DATE", date(2026, 1, 1), ("2026-13-01", "2026-13-01")),
        ("DATE", date(2026, 1, 1), ("20260101", "20260101")),
        ("TIMESTAMP", OLD, None),
        ("TIMESTAMP", OLD, ("0001-01-01T00:00:00.000Z", "2026-11-23T01:02:03.456Z")),
        ("TIMESTAMP", OLD, ("1899-12-31T23:59:59.999Z", "2026-11-23T01:02:03.456Z")),
    ],
)
def test_arrow_times_what_may_be_of_the_old_calendar_is_left_to_spark(
    tmp_path: Path, kind: str, value: date, limits: tuple[str, str] | None, says: Mapping[str, str]
) -> None:
    lake = lake_of(tmp_path, f"CREATE TABLE t (id BIGINT, at {kind});")
    column = pa.array([value], MICROS if kind == "TIMESTAMP" else pa.date32())
    bring(lake, column, limits, int96=False)
    assert read(lake) == [value], "of a Spark that counts as all do"
    bring(lake, column, limits, int96=False, says=says)
    later = "dates are later than 1582-10-15" if kind == "DATE" else "times are later than 1900"
    with pytest.raises(NeedsSpark, match=rf"column at may be of the calendar that Spark had before 3\.0 in .*\.parquet, .* its {later}"):
        read(lake)
    assert lake.env.reader("t").arrow(["id"]).num_rows == 2, "it is not asked for"


@pytest.mark.parametrize(
    ("kind", "values", "limits"),
    [
        ("DATE", (date(1582, 10, 15), date(9999, 12, 31)), ("1582-10-15", "9999-12-31")),
        ("DATE", (None,), None),
        ("TIMESTAMP", (FIRST, END), ("1900-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z")),
    ],
)
def test_arrow_times_what_is_the_same_by_all_calendars_is_read(tmp_path: Path, kind: str, values: tuple[Any, ...], limits: Any) -> None:
    lake = lake_of(tmp_path, f"CREATE TABLE t (id BIGINT, at {kind});")
    bring(lake, pa.array(values, MICROS if kind == "TIMESTAMP" else pa.date32()), limits, int96=False, says=LEGACY)
    assert read(lake) == list(values)


def test_dates_that_a_table_is_partitioned_by_and_times_without_a_zone(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "1", "CREATE TABLE t (id BIGINT, at DATE) PARTITIONED BY (at);")
    bring(lake, pa.array([None], pa.date32()), partitionValues={"at": "0001-01-01"}, says=LEGACY)
    assert read(lake) == [date(1, 1, 1)]
    lake = lake_of(tmp_path / "2", "CREATE TABLE t (id BIGINT, at TIMESTAMP_NTZ);")
    bring(lake, pa.array([OLD.replace(tzinfo=None)], pa.timestamp("us")), int96=False, says=LEGACY)
    assert read(lake) == [OLD.replace(tzinfo=None)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("STRUCT<at: DATE>", pa.array([{"at": date(2026, 1, 1)}])),
        ("ARRAY<DATE>", pa.array([[date(2026, 1, 1)]])),
        ("MAP<INT, DATE>", pa.array([[(1, date(2026, 1, 1))]], pa.map_(pa.int32(), pa.date32()))),
    ],
)
def test_dates_inside_others(tmp_path: Path, kind: str, value: pa.Array) -> None:
    lake = lake_of(tmp_path, f"CREATE TABLE t (id BIGINT, at {kind});")
    bring(lake, value, int96=False)
    assert read(lake) == value.to_pylist()
    if kind.startswith("STRUCT"):
        bring(lake, value, ({"at": "2026-01-01"}, {"at": "2026-01-01"}), int96=False, says=LEGACY)
        assert read(lake) == value.to_pylist() * 2
    bring(lake, value, int96=False, says=LEGACY)
    with pytest.raises(NeedsSpark, match=r"column at\.(at|element|value) may be of the calendar"):
        read(lake)


def test_dates_of_the_old_calendar_are_not_compared_as_keys(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "CREATE TABLE t (id BIGINT, at DATE UNIQUE);")
    bring(lake, pa.array([date(1, 1, 1)]), ("0001-01-01", "0001-01-01"), int96=False, says=LEGACY)
    before = newest(lake.path("t"))
    with pytest.raises(NeedsSpark, match=r"reading the keys of .*: column at may be of the calendar"):
        lake.env.writer("t").append(pa.table({"id": pa.array([7], pa.int64()), "at": pa.array([date(1500, 3, 1)])}))
    assert newest(lake.path("t")) == before


@pytest.mark.parametrize(
    ("says", "created_by", "is_old"),
    [
        ({}, "parquet-mr version 1.10.1 (build a89df8f)", True),
        ({}, "parquet-mr", True),
        (SPARK, "parquet-mr version 1.16.0 (build 1)", False),
        ({"org.apache.spark.version": "3.0.0"}, "parquet-mr version 1.10.1", False),
        ({"org.apache.spark.version": "10.0.0"}, "parquet-mr version 1.10.1", False),
        ({"org.apache.spark.version": ""}, "parquet-mr version 1.10.1", True),
        (SPARK_2, "", True),
        (LEGACY, "parquet-mr version 1.16.0", True),
        ({"org.apache.spark.legacyINT96": ""}, "parquet-rs version 57.0.0", False),
        ({}, "parquet-rs version 57.0.0", False),
        ({}, "parquet-cpp-arrow version 22.0.0", False),
        ({}, "", False),
    ],
)
def test_which_calendar_a_footer_tells(says: Mapping[str, str], created_by: str, is_old: bool) -> None:
    assert arrow_times._is_old_calendar(says, created_by) is is_old


def test_a_footer_that_cannot_be_read_proves_nothing(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "CREATE TABLE t (id BIGINT, at DATE);")
    bring(lake, pa.array([date(2026, 1, 1)]), int96=False)
    next(lake.path("t").glob("*.parquet")).write_bytes(b"no footer")
    with pytest.raises(NeedsSpark, match=r"column at lies in .*\.parquet is not known, as its footer cannot be read .* 1582-10-15"):
        read(lake)


@pytest.mark.parametrize(("stored", "mode"), [("valid.to", "name"), ("valid_to", "name"), ("other", "id")])
def test_a_column_may_have_a_dot_in_its_name_in_the_files(tmp_path: Path, stored: str, mode: str) -> None:
    site = Site(tmp_path)
    fields = [mapped("id", 1, kind="long"), mapped("at", 2, stored, kind="timestamp")]
    path = site.by_hand("t", fields, MAPPED, delta__columnMapping__mode=mode, delta__columnMapping__maxColumnId="2")
    in_file = "valid" if mode == "id" else stored
    bring_to(path, pa.table({"id": pa.array([1], pa.int64()), in_file: times(END)}), None)
    adopt(site.env, releases(tmp_path, ("CREATE TABLE t (id BIGINT, at TIMESTAMP);", ""))[0], [("t", str(path))], create=True)
    with pytest.raises(NeedsSpark, match="column at is INT96"):
        site.env.reader("t").arrow()


def test_a_key_beyond_the_year_9999_is_refused_in_words(tmp_path: Path) -> None:
    """Delta's dates go on after Python's."""
    lake = lake_of(tmp_path, "CREATE TABLE t (id BIGINT, day DATE UNIQUE);")
    far = pa.array([2_932_897], pa.int32()).cast(pa.date32())
    rows = pa.table({"id": pa.array([1], pa.int64()), "day": far})
    lake.env.writer("t").append(rows)
    with pytest.raises(KeyViolated) as refused:
        lake.env.writer("t").append(rows)
    assert refused.value.sample == ("(10000-01-01)",)
