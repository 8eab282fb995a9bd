"""Ledger rows as text and back: ``(collection, key, value)`` with canonical JSON for key and value.

A raw row is what the Delta table holds. Decoding is by type hints (``core.jsonable``) and strict: text that is not a row of its
type is ``LedgerDamaged``, never a guess. Collections this software does not know stay raw.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar, cast

from airflow_provider_schemamig.core.jsonable import canonical, decoder, to_text
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged
from airflow_provider_schemamig.core.ledger.rows import ROW_TYPES, SchemaEntry
from airflow_provider_schemamig.exceptions import SchemamigError

R = TypeVar("R")

_PLACEHOLDER = {"name": "", "fields": []}


class RawRow(NamedTuple):
    """One update as stored. ``ts``: the table version it was committed as; ``diff``: +1 inserts, -1 retracts."""

    collection: str
    key: str
    value: str
    ts: int
    diff: int


def encode(row: Any) -> tuple[str, str, str]:
    """Return (collection, key, value) of a typed row."""
    return row.COLLECTION, encode_key(row.key), to_text(row)


def encode_key(key: str) -> str:
    return canonical(key)


@lru_cache(maxsize=1 << 17)
def decode_key(text: str, collection: str) -> str:
    """Return the row's key from the ``key`` column; ``LedgerDamaged`` if it is not a JSON string."""
    key = _parse(text, f"ledger key {collection} {text}")
    if not isinstance(key, str):
        raise LedgerDamaged(where=f"ledger key {collection} {text}", reason="it is not a JSON string")
    return key


def decode(row_type: type[R], key: str, value: str) -> R:
    """Return the typed row of a raw key and value; ``LedgerDamaged`` if the value is not one, or belongs to another key."""
    where = f"ledger row {collection_of(row_type)} {key}"
    data = _parse(value, where)
    try:
        row: Any = _decode_schema_entry(data) if row_type is SchemaEntry else decoder(cast(Any, row_type))(data)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, SchemamigError) as error:
        raise LedgerDamaged(where=where, reason=f"not a {row_type.__name__} of this format ({_text(error)})") from error
    if encode_key(row.key) != key:
        raise LedgerDamaged(where=where, reason=f"its value belongs to the key {row.key!r}")
    return cast(R, row)


def collection_of(row_type: type[Any]) -> str:
    """Return the ledger collection that a class of rows is stored in."""
    return cast(str, row_type.COLLECTION)


def row_type_of(collection: str, key: str, types: tuple[type[Any], ...] = ROW_TYPES) -> type[Any] | None:
    """Return the class of a raw row among ``types``, which are those of one format.

    None if no type has the collection, or if its types have fixed keys and none of them has this key.
    """
    by_key = _row_types(types).get(collection, {})
    return by_key.get(key) or by_key.get(None)


@cache
def _row_types(types: tuple[type[Any], ...]) -> dict[str, dict[str | None, type[Any]]]:
    found: dict[str, dict[str | None, type[Any]]] = {}
    for row_type in types:
        # A singleton's key is a class constant; elsewhere ``key`` is a property of the instance.
        fixed = encode_key(row_type.key) if isinstance(row_type.key, str) else None
        found.setdefault(collection_of(row_type), {})[fixed] = row_type
    return found


def _decode_schema_entry(data: dict[str, Any]) -> SchemaEntry:
    plain = decoder(SchemaEntry)
    if data["physical"] != data["declared"]:
        return cast(SchemaEntry, plain(data))
    # Most tables are exactly what is declared: decoding that once halves the cost of opening 1,000 collections.
    entry = cast(SchemaEntry, plain({**data, "physical": _PLACEHOLDER}))
    return replace(entry, physical=entry.declared)


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # nested beyond the stack
        raise LedgerDamaged(where=where, reason=f"not JSON ({error})") from error


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
