"""Digest of a set of rows that does not depend on their order or on files: equal before and after means that every row was kept.

It adds up: the digest of what was added minus that of what was removed is the digest of the change, so a change can be checked without
reading the rest. ``spark_jobs/digest.py`` and ``spark_jobs/apply.py`` compute it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RowsDigest:
    """``xor`` alone would let pairs of equal rows cancel out; the sum and the count see those. Of a change, ``rows`` may be negative."""

    rows: int
    xor: int
    sum: int

    def __add__(self, other: RowsDigest) -> RowsDigest:
        return RowsDigest(self.rows + other.rows, self.xor ^ other.xor, self.sum + other.sum)

    def __sub__(self, other: RowsDigest) -> RowsDigest:
        return RowsDigest(self.rows - other.rows, self.xor ^ other.xor, self.sum - other.sum)

    def to_json(self) -> dict[str, Any]:
        """Return ``sum`` as text: it has more digits than other JSON readers keep."""
        return {"rows": self.rows, "sum": str(self.sum), "xor": self.xor}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RowsDigest:
        return cls(int(data["rows"]), int(data["xor"]), int(data["sum"]))


NO_ROWS = RowsDigest(0, 0, 0)
