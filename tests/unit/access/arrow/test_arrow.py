"""Arrow arrays shown in another shape: nested, with NULLs at every depth, and as slices of longer ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core.access.arrow.read import arrow_schema, show
from airflow_provider_schemamig.core.access.read_mapping import fit_reader
from tests.unit.access.test_fit import Told, shape

LIVE = "l ARRAY<STRUCT<b: BIGINT, a: INT>>, m MAP<STRING, ARRAY<INT>>, s STRUCT<x: STRUCT<y: STRING>, z: INT>, n INT"
WANTED = "s STRUCT<w: INT, x: STRUCT<y: STRING, v: DATE>>, l ARRAY<STRUCT<a: BIGINT>>, m MAP<STRING, ARRAY<BIGINT>>, k MAP<INT, INT>"
ROWS: list[dict[str, Any]] = [
    {"l": None, "m": None, "s": None, "n": 1},
    {"l": [], "m": [], "s": {"x": None, "z": 1}, "n": 2},
    {"l": [None, {"b": 1, "a": None}], "m": [("k", None), ("l", [None, 1])], "s": {"x": {"y": None}, "z": None}, "n": None},
    {"l": [{"b": None, "a": 2}], "m": [("k", [])], "s": {"x": {"y": "y"}, "z": 3}, "n": 4},
]


def expected(row: dict[str, Any]) -> dict[str, Any]:
    inner = None if row["s"] is None else row["s"]["x"]
    return {
        "s": None if row["s"] is None else {"w": None, "x": None if inner is None else {"y": inner["y"], "v": None}},
        "l": None if row["l"] is None else [item and {"a": item["a"]} for item in row["l"]],
        "m": row["m"],
        "k": None,
    }


@pytest.mark.parametrize(("first", "count"), [(0, 4), (1, 3), (2, 1), (3, 1), (4, 0)])
def test_nested_values_and_nulls_stay_where_they_are(first: int, count: int) -> None:
    live = shape(LIVE)
    rows = pa.Table.from_pylist(ROWS, schema=arrow_schema(live.fields)).slice(first, count)
    wanted = shape(WANTED)
    fit = fit_reader(live, wanted, Told(), is_later=True)
    found = show(rows, fit)
    assert found.to_pylist() == [expected(row) for row in ROWS[first : first + count]]
    assert found.schema == arrow_schema(wanted.fields)
    found.validate(full=True)


def test_in_chunks_as_in_one_piece() -> None:
    live = shape(LIVE)
    rows = pa.Table.from_pylist(ROWS, schema=arrow_schema(live.fields))
    fit = fit_reader(live, shape(WANTED), Told(), is_later=True)
    assert show(pa.concat_tables([rows, rows.slice(2), rows]), fit).num_rows == 10
