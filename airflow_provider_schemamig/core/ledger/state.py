"""What is true at one version of the ledger: the sum of all diffs up to it, decoded only where it is looked at.

An environment of 1,000 collections has to open in milliseconds, so a ``State`` keeps the stored text and decodes a row when it is
first asked for. Damage in one collection therefore never stops a look into another (the frozen ones above all, seed 001).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from airflow_provider_schemamig.core.ledger.codec import RawRow, collection_of, decode, decode_key, encode_key
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged, LedgerTooNew
from airflow_provider_schemamig.core.ledger.rows import (
    FORMAT_VERSION,
    Ahead,
    Approval,
    Control,
    Deployment,
    EnvironmentConfig,
    EnvironmentRelease,
    Hold,
    Intent,
    IntentKind,
    Leader,
    LedgerSince,
    Object,
    Pin,
    Progress,
    Replacement,
    SchemaEntry,
    Shard,
)
from airflow_provider_schemamig.core.names import CollectionName, Fingerprint, Generation, SchemaId, ShardId, Version

K = TypeVar("K")
R = TypeVar("R")

Texts = dict[str, str]
"""Stored key -> stored value of one ledger collection, one value a key."""


class Rows(Mapping[K, R], Generic[K, R]):
    """The rows of one type by their typed key, decoded one by one on first access (``LedgerDamaged`` where that fails)."""

    def __init__(self, row_type: type[R], texts: Texts, decoded: dict[str, Any], to_key: Callable[[str], K]) -> None:
        self._type = row_type
        self._texts = texts
        self._decoded = decoded
        self._to_key = to_key

    def __getitem__(self, key: K) -> R:
        return self._row(encode_key("/".join(map(str, key)) if isinstance(key, tuple) else str(key)), key)

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

    def _row(self, text: str, key: K) -> R:
        row: R | None = self._decoded.get(text)
        if row is None:
            if text not in self._texts:
                raise KeyError(key)
            row = self._decoded[text] = decode(self._type, text, self._texts[text])
        return row


def _generation(key: str) -> Generation:
    return Generation(int(key))


def _replacement_key(key: str) -> tuple[CollectionName, Version, Generation]:
    collection, version, generation = key.split("/")
    return CollectionName(collection), Version.parse(version), Generation(int(generation))


def _schema_key(key: str) -> tuple[CollectionName, SchemaId]:
    collection, schema_id = key.split("/")
    return CollectionName(collection), SchemaId(int(schema_id))


def _intent_key(key: str) -> tuple[ShardId, IntentKind, Generation]:
    shard, kind, generation = key.rsplit("/", 2)
    return ShardId(shard), IntentKind(kind), Generation(int(generation))


def _pin_key(key: str) -> tuple[ShardId, str]:
    shard, holder = key.split("/", 1)
    return ShardId(shard), holder


class State:
    """The ledger at ``version``. Immutable; ``after`` makes the next one.

    ``config`` is always there and of a known format: making a State of a newer ledger raises ``LedgerTooNew`` before anything else.
    """

    def __init__(self, version: int, texts: Mapping[str, Texts], uri: str, decoded: Mapping[str, dict[str, Any]] | None = None) -> None:
        self.version = version
        self._texts = texts
        self._uri = uri
        self._decoded: dict[str, dict[str, Any]] = dict(decoded or {})
        self._intents_by_shard: dict[ShardId, list[tuple[ShardId, IntentKind, Generation]]] | None = None
        self._newest_schema: dict[CollectionName, SchemaId] | None = None
        check_format(texts.get("config", {}), uri)

    @classmethod
    def of(cls, version: int, rows: Iterable[RawRow], uri: str) -> State:
        """Sum up raw rows. Nothing is decoded but the format; damaged multiplicities raise only where they are looked at."""
        return cls(version, _LazySums(rows), uri)

    # -- the typed view ------------------------------------------------------------------------------------------------------------

    @property
    def config(self) -> EnvironmentConfig:
        config = self._single(EnvironmentConfig)
        if config is None:
            raise LedgerDamaged(where=f"the ledger at {self._uri}", reason="it has no config row")
        return config

    @property
    def release(self) -> EnvironmentRelease | None:
        """The release the environment is at; None before the first commit."""
        return self._single(EnvironmentRelease)

    @property
    def leader(self) -> Leader | None:
        return self._single(Leader)

    @property
    def since(self) -> int:
        """The oldest version that can still be read as-of."""
        row = self._single(LedgerSince)
        return row.since if row else 0

    @property
    def deployments(self) -> Mapping[Generation, Deployment]:
        return self.rows(Deployment, _generation)

    @property
    def replacements(self) -> Mapping[tuple[CollectionName, Version, Generation], Replacement]:
        return self.rows(Replacement, _replacement_key)

    @property
    def approvals(self) -> Mapping[Generation, Approval]:
        return self.rows(Approval, _generation)

    @property
    def objects(self) -> Mapping[CollectionName, Object]:
        return self.rows(Object, CollectionName)

    @property
    def shards(self) -> Mapping[ShardId, Shard]:
        return self.rows(Shard, ShardId)

    @property
    def schemas(self) -> Mapping[tuple[CollectionName, SchemaId], SchemaEntry]:
        return self.rows(SchemaEntry, _schema_key)

    @property
    def intents(self) -> Mapping[tuple[ShardId, IntentKind, Generation], Intent]:
        return self.rows(Intent, _intent_key)

    @property
    def holds(self) -> Mapping[Generation, Hold]:
        return self.rows(Hold, _generation)

    @property
    def controls(self) -> Mapping[str, Control]:
        return self.rows(Control, str)

    @property
    def progress(self) -> Mapping[tuple[str, ...], Progress]:
        """By (collection, stage, generation), all text."""
        return self.rows(Progress, lambda key: tuple(key.split("/")))

    @property
    def pins(self) -> Mapping[tuple[ShardId, str], Pin]:
        return self.rows(Pin, _pin_key)

    @property
    def ahead(self) -> Mapping[tuple[CollectionName, SchemaId], Ahead]:
        """With claims and what releases have caught up with; ``ahead_of`` is what is in force."""
        return self.rows(Ahead, _schema_key)

    def ahead_of(self, collection: CollectionName) -> Ahead | None:
        """What a collection has that its release does not know of."""
        return self.ahead.get((collection, self.objects[collection].schema_id))

    def released(self, item: Object) -> Fingerprint:
        """The fingerprint that the release gives a collection: that of its object, unless the object is ahead of it."""
        ahead = self.ahead.get((item.collection, item.schema_id))
        return item.fingerprint if ahead is None else ahead.released_fingerprint

    def entry(self, collection: CollectionName) -> SchemaEntry:
        """The schema a collection has now."""
        return self.schemas[collection, self.objects[collection].schema_id]

    def next_schema_id(self, collection: CollectionName) -> SchemaId:
        """Ids grow by one and are never used again (research/materialize_persist_stash.md B4)."""
        if self._newest_schema is None:
            self._newest_schema = {}
            for name, schema_id in self.schemas:
                self._newest_schema[name] = max(schema_id, self._newest_schema.get(name, schema_id))
        return SchemaId(self._newest_schema.get(collection, 0) + 1)

    def shard_of(self, collection: CollectionName) -> Shard:
        """The shard that holds a collection's rows now."""
        return self.shards[self.objects[collection].shard]

    def intents_of(self, shard: ShardId) -> tuple[Intent, ...]:
        """The open intents on a shard."""
        if self._intents_by_shard is None:
            self._intents_by_shard = {}
            for key in self.intents:
                self._intents_by_shard.setdefault(key[0], []).append(key)
        return tuple(self.intents[key] for key in self._intents_by_shard.get(shard, ()))

    def rows(self, row_type: type[R], to_key: Callable[[str], K]) -> Mapping[K, R]:
        """The rows of any type, by a key that ``to_key`` makes of the row's ``key`` text (a tuple for keys with ``/`` in them)."""
        collection = collection_of(row_type)
        return Rows(row_type, self._texts.get(collection, {}), self._decoded.setdefault(collection, {}), to_key)

    # -- the stored view -----------------------------------------------------------------------------------------------------------

    @property
    def raw(self) -> Mapping[str, Mapping[str, str]]:
        """Collection -> stored key -> stored value, with what this software does not know."""
        return self._texts

    def stored(self, collection: str, key: str) -> str | None:
        """The stored value of a stored key, or None."""
        return self._texts.get(collection, {}).get(key)

    def after(self, rows: Sequence[RawRow], version: int) -> State:
        """The state at ``version``: this one and all rows appended since. What is decoded already stays so.

        Raises LedgerDamaged if the rows do not fit: retract what is not there, or insert beside another value.
        """
        texts = dict(self._texts)
        decoded = {collection: dict(known) for collection, known in self._decoded.items()}
        for collection in {row.collection for row in rows}:
            texts[collection] = dict(texts.get(collection, {}))
        for row in sorted(rows, key=lambda row: (row.ts, row.diff)):  # retractions first: an update is a pair of both
            decoded.get(row.collection, {}).pop(row.key, None)
            _apply(row, texts[row.collection])
        return State(version, texts, self._uri, decoded)

    def _single(self, row_type: type[R]) -> R | None:
        return self.rows(row_type, str).get(cast(Any, row_type).key)


class _LazySums(Mapping[str, Texts]):
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


def _apply(row: RawRow, texts: Texts) -> None:
    if row.diff == 1 and row.key not in texts:
        texts[row.key] = row.value
    elif row.diff == -1 and texts.get(row.key) == row.value:
        del texts[row.key]
    else:
        reason = f"diff {row.diff} at {row.ts} does not fit the state before"
        raise LedgerDamaged(where=f"ledger row {row.collection} {row.key}", reason=reason)


def sums(rows: Iterable[RawRow]) -> dict[tuple[str, str, str], int]:
    """The multiplicity of each (collection, key, value), without those that cancelled out."""
    found: dict[tuple[str, str, str], int] = {}
    for row in rows:
        identity = (row.collection, row.key, row.value)
        found[identity] = found.get(identity, 0) + row.diff
    return {identity: count for identity, count in found.items() if count}


def one_value_a_key(rows: Iterable[RawRow]) -> Texts:
    """The texts of one collection's rows; ``LedgerDamaged`` if a key has two values, or a value is there less or more than once."""
    texts: Texts = {}
    for (collection, key, value), count in sums(rows).items():
        where = f"ledger row {collection} {key}"
        if count != 1:
            raise LedgerDamaged(where=where, reason=f"a value has multiplicity {count}")
        if key in texts:
            raise LedgerDamaged(where=where, reason="it has two values")
        texts[key] = value
    return texts


def check_format(config: Mapping[str, str], uri: str) -> None:
    """Refuse a ledger of a newer format, looking at nothing but the number: all else may have changed meaning."""
    text = config.get(encode_key(EnvironmentConfig.key))
    if text is None:
        raise LedgerDamaged(where=f"the ledger at {uri}", reason="it has no config row")
    try:
        found = json.loads(text)["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerDamaged(where=f"the ledger at {uri}", reason="its config row names no format version") from error
    if not isinstance(found, int) or found > FORMAT_VERSION:
        raise LedgerTooNew(uri=uri, found=str(found))
