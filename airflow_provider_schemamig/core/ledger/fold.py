"""Raw rows summed up to texts: one stored value a key, or damage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged

Texts = dict[str, str]
"""Stored key -> stored value of one ledger collection, one value a key."""


class LazySums(Mapping[str, Texts]):
    """Collection -> Texts, where each collection's diffs are summed up on first access."""

    def __init__(self, rows: Iterable[RawRow]) -> None:
        self._pending: dict[str, list[RawRow]] = {}
        for row in rows:
            self._pending.setdefault(row.collection, []).append(row)
        self._done: dict[str, Texts] = {}

    def __getitem__(self, collection: str) -> Texts:
        texts = self._done.get(collection)
        if texts is None:
            texts = self._done[collection] = one_value_a_key(self._pending[collection])
        return texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._pending)

    def __len__(self) -> int:
        return len(self._pending)


def apply_row(row: RawRow, texts: Texts) -> None:
    """Bring one more row to ``texts``; LedgerDamaged if it retracts what is not there, or inserts beside another value."""
    if row.diff == 1 and row.key not in texts:
        texts[row.key] = row.value
    elif row.diff == -1 and texts.get(row.key) == row.value:
        del texts[row.key]
    else:
        reason = f"diff {row.diff} at {row.ts} does not fit the state before"
        raise LedgerDamaged(where=f"ledger row {row.collection} {row.key}", reason=reason)


def sums(rows: Iterable[RawRow]) -> dict[tuple[str, str, str], int]:
    """Return the multiplicity of each (collection, key, value), without those that cancelled out."""
    found: dict[tuple[str, str, str], int] = {}
    for row in rows:
        identity = (row.collection, row.key, row.value)
        found[identity] = found.get(identity, 0) + row.diff
    return {identity: count for identity, count in found.items() if count}


def one_value_a_key(rows: Iterable[RawRow]) -> Texts:
    """Return the texts of one collection's rows by their keys.

    Raises LedgerDamaged if a key has two values, or a value is there less or more than once.
    """
    texts: Texts = {}
    for (collection, key, value), count in sums(rows).items():
        where = f"ledger row {collection} {key}"
        if count != 1:
            raise LedgerDamaged(where=where, reason=f"a value has multiplicity {count}")
        if key in texts:
            raise LedgerDamaged(where=where, reason="it has two values")
        texts[key] = value
    return texts


def replaced(collection: str, key: str, stored: str | None, value: str | None, ts: int) -> list[RawRow]:
    """Return the updates that put ``value`` in the place of exactly the ``stored`` text; none if the two are equal.

    None as a text: there is no row, or there shall be none.
    """
    texts = ((stored, -1), (value, 1)) if stored != value else ()
    return [RawRow(collection, key, text, ts, diff) for text, diff in texts if text is not None]
