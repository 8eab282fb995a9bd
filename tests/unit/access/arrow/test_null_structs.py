"""A struct that is NULL has no fields, also none that may not be NULL: an Arrow reader says so, whatever release it is of."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.support.upgrades import two_releases

INNER = pa.struct([pa.field("x", pa.int32(), nullable=False)])
OUTER = pa.struct([pa.field("i", INNER), pa.field("j", INNER, nullable=False)])
TABLE = (
    "CREATE TABLE t (id BIGINT, s STRUCT<x: INT NOT NULL>, d STRUCT<i: STRUCT<x: INT NOT NULL>, j: STRUCT<x: INT NOT NULL> NOT NULL>{});"
)
ROWS = [
    {"id": 1, "s": None, "d": None},
    {"id": 2, "s": {"x": 1}, "d": {"i": None, "j": {"x": 2}}},
    {"id": 3, "s": {"x": 3}, "d": {"i": {"x": 4}, "j": {"x": 5}}},
]


@pytest.mark.parametrize("release", ["1.0.0", "1.1.0"])
def test_null_structs_with_fields_that_are_not_null_are_read(tmp_path: Path, release: str) -> None:
    lake = two_releases(tmp_path, TABLE.format(""), TABLE.format(", more INT"), 'evolution("t")')
    schema = pa.schema([("id", pa.int64()), ("s", INNER), ("d", OUTER)])
    write_deltalake(str(lake.path("t")), pa.Table.from_pylist(ROWS, schema=schema), mode="append")
    lake.upgrade(lake.second)
    found = lake.env.reader("t", release).arrow(["id", "s", "d"])
    assert sorted(found.to_pylist(), key=lambda row: int(row["id"])) == ROWS
    assert found.schema.field("s").type == INNER
