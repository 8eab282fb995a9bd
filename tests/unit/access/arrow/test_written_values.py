"""What an Arrow table's values are once they are written: the same values, or an error that names the column and what it holds."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core.access.arrow.rows import plain_rows
from airflow_provider_schemamig.core.access.errors import UnusableColumns, WriterFenced
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.spark.errors import BadValue
from tests.support.lake import Lake
from tests.support.upgrades import deployed, releases

T = CollectionName("t")
TYPES = (
    *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(38,0)", "STRING", "BINARY", "DATE", "TIMESTAMP"),
    *("TIMESTAMP_NTZ", "ARRAY<FLOAT>", "MAP<STRING, FLOAT>", "STRUCT<a: INT, f: FLOAT>"),
)
INFINITY = float("inf")
DAY = dt.date(2020, 1, 1)
NOON = dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """With a table for each type, called after its number."""
    folder = tmp_path_factory.mktemp("values")
    [release] = releases(folder, ("\n".join(f"CREATE TABLE t{number} (x {name});" for number, name in enumerate(TYPES)), ""))
    return deployed(folder, release, release)


def written(lake: Lake, name: str, values: Any) -> list[Any]:
    """What is in the table then and was not before."""
    collection = f"t{TYPES.index(name)}"
    before: list[Any] = lake.env.reader(collection).arrow()["x"].to_pylist()
    lake.env.writer(collection).append(pa.table({"x": values}))
    after: list[Any] = lake.env.reader(collection).arrow()["x"].to_pylist()
    return after[: len(after) - len(before)] if after[len(after) - len(before) :] == before else after


SAME = {
    "Infinity and NULL": ("FLOAT", pa.array([INFINITY, -INFINITY, None]), [INFINITY, -INFINITY, None]),
    "the greatest FLOAT": ("FLOAT", pa.array([3.4028234663852886e38]), [3.4028234663852886e38]),
    "rounded to it": ("FLOAT", pa.array([3.4028235e38]), [3.4028234663852886e38]),
    "rounded to nothing": ("FLOAT", pa.array([1e-300]), [0.0]),
    "half a FLOAT": ("FLOAT", pa.array([0.5], pa.float16()), [0.5]),
    "a whole number as DOUBLE": ("DOUBLE", pa.array([2**31 - 1], pa.int32()), [2.0**31 - 1]),
    "a BIGINT that fits": ("TINYINT", pa.array([-128, 127]), [-128, 127]),
    "unsigned": ("SMALLINT", pa.array([255], pa.uint8()), [255]),
    "unsigned and wide": ("BIGINT", pa.array([2**63 - 1], pa.uint64()), [2**63 - 1]),
    "fewer digits": ("DECIMAL(5,2)", pa.array([Decimal("1.2")], pa.decimal128(4, 1)), [Decimal("1.20")]),
    "a wider kind of decimal": ("DECIMAL(5,2)", pa.array([Decimal("1.23")], pa.decimal256(5, 2)), [Decimal("1.23")]),
    "a BIGINT as decimal": ("DECIMAL(38,0)", pa.array([2**63 - 1]), [Decimal(2**63 - 1)]),
    "a dictionary": ("STRING", pa.array(["a", None]).dictionary_encode(), ["a", None]),
    "large strings": ("STRING", pa.array(["a "], pa.large_string()), ["a "]),
    "fixed bytes": ("BINARY", pa.array([b"a"], pa.binary(1)), [b"a"]),
    "a day in milliseconds": ("DATE", pa.array([DAY], pa.date64()), [DAY]),
    "seconds": ("TIMESTAMP", pa.array([NOON], pa.timestamp("s", tz="UTC")), [NOON]),
    "whole nanoseconds": ("TIMESTAMP", pa.array([NOON], pa.timestamp("ns", tz="UTC")), [NOON]),
    "another zone": ("TIMESTAMP", pa.array([NOON], pa.timestamp("us", tz="Asia/Tokyo")), [NOON]),
    "no zone": ("TIMESTAMP_NTZ", pa.array([NOON.replace(tzinfo=None)], pa.timestamp("ms")), [NOON.replace(tzinfo=None)]),
    "a day as a time": ("TIMESTAMP_NTZ", pa.array([DAY]), [dt.datetime(2020, 1, 1)]),  # noqa: DTZ001
    "lists of one length": ("ARRAY<FLOAT>", pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2)), [[1.0, 2.0]]),
    "below a NULL list": (
        "ARRAY<FLOAT>",
        pa.ListArray.from_arrays([0, 1, 2, 3], pa.array([1.0, 1e300, 3.0]), mask=pa.array([False, True, False])),
        [[1.0], None, [3.0]],
    ),
    "below a NULL in lists of one length": (
        "ARRAY<FLOAT>",
        pa.FixedSizeListArray.from_arrays(pa.array([1.0, 1e300, 3.0]), 1, mask=pa.array([False, True, False])).slice(1),
        [None, [3.0]],
    ),
    "below a NULL map": (
        "MAP<STRING, FLOAT>",
        pa.MapArray.from_arrays([0, 1, 3, 3], ["a", "b", "c"], pa.array([1e300, 2.0, None]), mask=pa.array([True, False, False])),
        [None, [("b", 2.0), ("c", None)], []],
    ),
    "below a NULL struct": (
        "STRUCT<a: INT, f: FLOAT>",
        pa.StructArray.from_arrays([pa.array([2**40, 5]), pa.array([1e300, 1.0])], ["a", "f"], mask=pa.array([True, False])),
        [None, {"a": 5, "f": 1.0}],
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_a_value_that_is_written_is_the_same(lake: Lake, case: str) -> None:
    name, values, expected = SAME[case]
    assert written(lake, name, values) == expected


FLOATS = r"a finite DOUBLE is beyond FLOAT, which goes from -3\.4028235e38 to 3\.4028235e38"
REFUSED: dict[str, tuple[str, Any, type[Exception], str]] = {
    "beyond FLOAT": ("FLOAT", pa.array([1.0, 1e300]), BadValue, f"column x is FLOAT: {FLOATS}"),
    "just beyond FLOAT": ("FLOAT", pa.array([-3.4028236e38]), BadValue, FLOATS),
    "in an array": ("ARRAY<FLOAT>", pa.array([[1.0], [1e39]]), BadValue, f"column x is ARRAY<FLOAT>: {FLOATS}"),
    "in a map": ("MAP<STRING, FLOAT>", pa.array([[("k", 1e39)]], pa.map_(pa.string(), pa.float64())), BadValue, FLOATS),
    "in a struct": ("STRUCT<a: INT, f: FLOAT>", pa.array([{"a": 1, "f": 1e39}]), BadValue, FLOATS),
    "beyond INT": ("INT", pa.array([2**31]), BadValue, "column x is INT: .*not in range: -2147483648 to 2147483647"),
    "beyond TINYINT": ("TINYINT", pa.array([200], pa.uint8()), BadValue, "column x is TINYINT: .*not in range: -128 to 127"),
    "beyond BIGINT": ("BIGINT", pa.array([2**63], pa.uint64()), BadValue, "column x is uint64: .*not in range"),
    "a BIGINT as DOUBLE": ("DOUBLE", pa.array([2**53 + 1]), WriterFenced, "is BIGINT in the rows, and DOUBLE"),
    "an INT as FLOAT": ("FLOAT", pa.array([1], pa.int32()), WriterFenced, "is INT in the rows, and FLOAT"),
    "more fractional digits": ("DECIMAL(5,2)", pa.array([Decimal("1.239")]), WriterFenced, r"is DECIMAL\(4,3\) in the rows"),
    "more digits than there are": ("DECIMAL(38,0)", pa.array([1], pa.decimal256(39, 0)), UnusableColumns, "decimal256"),
    "no zone": ("TIMESTAMP", pa.array([0], pa.timestamp("us")), WriterFenced, "is TIMESTAMP_NTZ in the rows, and TIMESTAMP"),
    "a zone": ("TIMESTAMP_NTZ", pa.array([0], pa.timestamp("us", tz="UTC")), WriterFenced, "is TIMESTAMP in the rows"),
    "a time as a day": ("DATE", pa.array([0], pa.timestamp("us")), WriterFenced, "is TIMESTAMP_NTZ in the rows, and DATE"),
    "nanoseconds": ("TIMESTAMP", pa.array([1500], pa.timestamp("ns", tz="UTC")), BadValue, "column x is timestamp.*would lose data"),
    "beyond all times": ("TIMESTAMP", pa.array([2**62], pa.timestamp("s", tz="UTC")), BadValue, "out of bounds"),
    "a part of a day": ("DATE", pa.array([1], pa.date64()), BadValue, "column x is date64"),
    "a time of day": ("BIGINT", pa.array([1], pa.time64("us")), UnusableColumns, "of the Arrow type time64.us., which no table has"),
    "a field twice": ("STRUCT<a: INT, f: FLOAT>", pa.StructArray.from_arrays([pa.array([1])] * 2, ["a", "A"]), UnusableColumns, "struct"),
    "no UTF-8": ("STRING", pa.array([b"\xff"]).view(pa.string()), BadValue, "Invalid UTF8"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_value_that_would_be_another_one_is_refused(lake: Lake, case: str) -> None:
    name, values, error, text = REFUSED[case]
    with pytest.raises(error, match=text) as refused:
        written(lake, name, values)
    assert getattr(refused.value, "collection") == f"t{TYPES.index(name)}"  # noqa: B009 - an error of ours


def test_times_beyond_year_9999_stay_what_they_are(tmp_path: Path) -> None:
    """Python cannot show them."""
    [release] = releases(tmp_path, ("CREATE TABLE t (x TIMESTAMP);", ""))
    lake = deployed(tmp_path, release, release)
    micros = pa.array([253402300800000000, -62135596800000001, 2**63 - 1])
    lake.env.writer("t").append(pa.table({"x": micros.cast(pa.timestamp("us", tz="UTC"))}))
    assert lake.env.reader("t").arrow()["x"].cast(pa.int64()).combine_chunks() == micros


def test_nested_types_are_made_plain_at_any_depth() -> None:
    inner = pa.struct([("z", pa.timestamp("ns", tz="Asia/Tokyo")), ("d", pa.dictionary(pa.int8(), pa.large_string()))])
    rows = pa.table({"x": pa.array([], pa.map_(pa.uint8(), pa.large_list(inner))), "n": pa.nulls(0)})
    plain = pa.struct([("z", pa.timestamp("us", tz="UTC")), ("d", pa.string())])
    found = plain_rows(rows, T, "append").schema
    assert (found.field("x").type, found.field("n").type) == (pa.map_(pa.int16(), pa.list_(plain)), pa.null())
