"""What a step of the ledger's format gets and returns: all rows at one moment, and the changes of some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar


class Keyed(Protocol):
    """A row: its ``key`` is unique within its type."""

    @property
    def key(self) -> str: ...


R = TypeVar("R", bound=Keyed)


@dataclass(frozen=True, slots=True)
class Stored:
    """A row and the ledger version that wrote it; after a consolidation, the version it was consolidated to."""

    row: Any
    version: int


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """Every row of the collections that a format knows, in its types."""

    rows: Sequence[Stored]

    def of(self, row_type: type[R]) -> dict[str, R]:
        """Return the rows of one type by their key."""
        return {item.row.key: item.row for item in self.rows if isinstance(item.row, row_type)}

    def versions(self, row_type: type[Any]) -> dict[str, int]:
        """Return, of the rows of one type, key -> ledger version that wrote the row."""
        return {item.row.key: item.version for item in self.rows if isinstance(item.row, row_type)}

    def __iter__(self) -> Iterator[Any]:
        return (item.row for item in self.rows)


@dataclass(frozen=True, slots=True)
class Insert:
    """A row of the new format at a key that nothing is stored at."""

    new: Any


@dataclass(frozen=True, slots=True)
class Update:
    """A row of the old format becomes one of the new format, at the same key of the same collection."""

    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Delete:
    """A row of the old format goes."""

    old: Any


Action = Insert | Update | Delete
