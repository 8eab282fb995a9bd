"""Parquet files of rows: there and back, by parts."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_schemamig.core.ledger.row_files import _ROWS_AT_ONCE, Column, ForeignColumns, decode_rows, encode_rows

_COLUMNS = (Column("key", "string"), Column("at", "timestamp"), Column("diff", "long"), Column("share", "double", nullable=True))


def _rows(count: int) -> list[tuple[Any, ...]]:
    return [(f"{number}", 1_700_000_000_000_000 + number, number - 5, None if number % 7 else number / 3) for number in range(count)]


@pytest.mark.parametrize("count", [0, 1, _ROWS_AT_ONCE - 1, _ROWS_AT_ONCE, 3 * _ROWS_AT_ONCE + 1])
def test_rows_of_a_file_come_back_in_their_order(count: int) -> None:
    rows = _rows(count)
    assert list(zip(*decode_rows(_COLUMNS, encode_rows(_COLUMNS, rows)), strict=True)) == rows


def test_a_file_of_other_columns_is_refused() -> None:
    with pytest.raises(ForeignColumns, match="share"):
        decode_rows(_COLUMNS, encode_rows(_COLUMNS[:3], [row[:3] for row in _rows(3)]))
