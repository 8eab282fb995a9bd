"""Values of partition columns without a JVM: delta-rs writes and reads only those that all engines take alike."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core.schema.delta_rules.partition_texts import KEPT_AS_NULL
from tests.support.lake import Lake
from tests.support.upgrades import refused, two_releases

TEXTS = ["a b", "a/b", "%41", "a=b", "ü", "\x01x", "null", "  ", "\n", "'", "\\u0061", "a:b"]
WRITTEN: dict[str, tuple[pa.DataType, list[Any]]] = {
    "STRING": (pa.string(), TEXTS),
    "TINYINT": (pa.int8(), [-128, 127]),
    "SMALLINT": (pa.int16(), [-1, 0]),
    "INT": (pa.int32(), [-(2**31), 7]),
    "BIGINT": (pa.int64(), [-(2**63), 2**63 - 1]),
    "DATE": (pa.date32(), [-1, 0, 2932896]),
    "BOOLEAN": (pa.bool_(), [True, False]),
    "TIMESTAMP_NTZ": (pa.timestamp("us"), [0, 1, -1, 1_700_000_000_123_456]),
}
REFUSED: dict[str, tuple[pa.DataType, Any]] = {
    "DECIMAL(10, 3)": (pa.decimal128(10, 3), Decimal("-9999999.999")),
    "DOUBLE": (pa.float64(), 1e300),
    "FLOAT": (pa.float32(), 0.5),
    "BINARY": (pa.binary(), b"a"),
    "TIMESTAMP": (pa.timestamp("us", "UTC"), 0),
}


def partitioned(folder: Path, kind: str) -> Lake:
    table = f"CREATE TABLE t (id BIGINT, p {kind}) PARTITIONED BY (p);"
    return two_releases(folder, table, table, "")


@pytest.mark.parametrize("kind", WRITTEN)
def test_partition_values_are_read_as_they_were_written(tmp_path: Path, kind: str) -> None:
    lake, (type_, values) = partitioned(tmp_path, kind), WRITTEN[kind]
    written = pa.array([*values, None], type_)
    lake.env.writer("t", "1.0.0").append(pa.table({"id": pa.array(range(len(written)), pa.int64()), "p": written}))
    assert lake.env.reader("t", "1.0.0").arrow().sort_by("id")["p"].to_pylist() == written.to_pylist()


@pytest.mark.parametrize("kind", REFUSED)
def test_partition_values_that_delta_rs_may_write_otherwise_are_left_to_spark(tmp_path: Path, kind: str) -> None:
    lake, (type_, value) = partitioned(tmp_path, kind), REFUSED[kind]
    with refused("needs_spark", "t"):
        lake.env.writer("t", "1.0.0").append(pa.table({"id": pa.array([1], pa.int64()), "p": pa.array([value], type_)}))


@pytest.mark.parametrize("text", KEPT_AS_NULL)
def test_a_partition_of_a_text_that_is_kept_as_null_is_refused(tmp_path: Path, text: str) -> None:
    lake = partitioned(tmp_path, "STRING")
    with refused("invalid_argument", "t"):
        lake.env.writer("t", "1.0.0").append(pa.table({"id": pa.array([1], pa.int64()), "p": [text]}))
    assert lake.env.reader("t", "1.0.0").arrow().num_rows == 0
