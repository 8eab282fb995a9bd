"""Putting updates of one append together."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_schemamig.core.ledger.store import Drop, Put, Update


def one_each(updates: Iterable[Update]) -> list[Update]:
    """One update a row: a Put wins over a Drop (a name given up by a rename may be taken by a new collection in the same commit)."""
    found: dict[tuple[str, str], Update] = {}
    for update in updates:
        identity = (update.row.COLLECTION, update.row.key) if isinstance(update, Put) else (update.row_type.COLLECTION, update.key)
        if isinstance(update, Drop) and isinstance(found.get(identity), Put):
            continue
        found[identity] = update
    return list(found.values())
