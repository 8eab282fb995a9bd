"""The rows of one type by their typed key, and what a key's text says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from airflow_provider_schemamig.core.ledger.codec import collection_of, decode, decode_key, encode_key
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged
from airflow_provider_schemamig.core.ledger.fold import Texts
from airflow_provider_schemamig.core.ledger.rows import IntentKind
from airflow_provider_schemamig.core.names import CollectionName, Generation, SchemaId, ShardId, Version

K = TypeVar("K")
R = TypeVar("R")


class RowMissing(LedgerDamaged, KeyError):
    """A row that another one names is not there. A KeyError, too: whoever asks whether there is one gets his answer by it."""


class Rows(Mapping[K, R], Generic[K, R]):
    """The rows of one type by their typed key, decoded one by one on first access (``LedgerDamaged`` where there is none, or a bad one)."""

    def __init__(self, row_type: type[R], texts: Texts, decoded: dict[str, Any], to_key: Callable[[str], K]) -> None:
        self._type = row_type
        self._texts = texts
        self._decoded = decoded
        self._to_key = to_key
        self._by_key: dict[K, R] = {}

    def __getitem__(self, key: K) -> R:
        row = self._by_key.get(key)
        if row is None:
            row = self._by_key[key] = self._row(_text_of(key))
        return row

    def get(self, key: K, default: Any = None) -> Any:
        """Return a row, or ``default``: no error is made of one that is not there, of which there are thousands in an upgrade."""
        is_there = key in self._by_key or (bool(self._texts) and _text_of(key) in self._texts)
        return self[key] if is_there else default

    def __iter__(self) -> Iterator[K]:
        collection = collection_of(self._type)
        for text in self._texts:
            key = decode_key(text, collection)
            try:
                yield self._to_key(key)
            except (ValueError, TypeError) as error:
                raise LedgerDamaged(where=f"ledger key {collection} {text}", reason=str(error)) from error

    def __len__(self) -> int:
        return len(self._texts)

    def _row(self, text: str) -> R:
        row: R | None = self._decoded.get(text)
        if row is None:
            if text not in self._texts:
                where = f"ledger row {collection_of(self._type)} {text}"
                raise RowMissing(where=where, reason="it is not there, and another row names it")
            row = self._decoded[text] = decode(self._type, text, self._texts[text])
        return row


def _text_of(key: object) -> str:
    return encode_key("/".join(map(str, key)) if isinstance(key, tuple) else str(key))


def to_generation(key: str) -> Generation:
    return Generation(int(key))


def to_replacement_key(key: str) -> tuple[CollectionName, Version, Generation]:
    collection, version, generation = key.split("/")
    return CollectionName(collection), Version.parse(version), Generation(int(generation))


def to_schema_key(key: str) -> tuple[CollectionName, SchemaId]:
    collection, schema_id = key.split("/")
    return CollectionName(collection), SchemaId(int(schema_id))


def to_intent_key(key: str) -> tuple[ShardId, IntentKind, Generation]:
    shard, kind, generation = key.rsplit("/", 2)
    return ShardId(shard), IntentKind(kind), Generation(int(generation))


def to_element_key(key: str) -> tuple[CollectionName, str, str]:
    collection, rest = key.split("/", 1)
    name, spec = rest.rsplit("/", 1)  # a column's name, which is a part of an element's, may have a slash
    return CollectionName(collection), name, spec


def to_pin_key(key: str) -> tuple[ShardId, str]:
    shard, holder = key.split("/", 1)
    return ShardId(shard), holder
