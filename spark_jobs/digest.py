"""Digest of a table's rows that does not depend on their order or on files: equal before and after means that every row was kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class RowsDigest:
    """``xor`` alone would let pairs of equal rows cancel out; the sum and the count see those."""

    rows: int
    xor: int
    sum: int


def rows_digest(frame: DataFrame, columns: Sequence[str] | None = None) -> RowsDigest:
    """Digest of ``columns`` (default: all, in the frame's order) over all rows; names take no part, so a rename does not change it.

    NULLs count by a flag beside each column, as a hash leaves them out: (1, NULL) is not (NULL, 1). A map is hashed by its sorted
    entries. The sum is a decimal, because a BIGINT overflows under ANSI (research/delta_spark.md, CDF).
    """
    types = {field.name: field.dataType.typeName() for field in frame.schema.fields}
    parts = []
    for column in columns or frame.columns:
        value = f"array_sort(map_entries({quote(column)}))" if types[column] == "map" else quote(column)
        parts += [value, f"({quote(column)} IS NULL)"]
    hashed = frame.selectExpr(f"xxhash64({', '.join(parts)}) AS h")
    total = hashed.selectExpr("count(*) AS n", "coalesce(bit_xor(h), 0L) AS x", "coalesce(sum(cast(h AS DECIMAL(38, 0))), 0) AS s")
    (row,) = total.collect()
    return RowsDigest(int(row["n"]), int(row["x"]), int(row["s"]))
