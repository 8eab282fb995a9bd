"""What is true at one version of the ledger: the sum of all diffs up to it, decoded only where it is looked at.

An environment of 1,000 collections has to open in milliseconds, so a ``State`` keeps the stored text and decodes a row when it is
first asked for. Damage in one collection therefore never stops a look into another (the frozen ones above all).

A ledger of an older format is read as the current one: the steps between run in memory, on first sight of a collection that they may
change. What is stored stays apart from what is seen; only ``ledger upgrade`` makes them the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from airflow_provider_schemamig.core.ledger.codec import RawRow, collection_of, decode, decode_key, encode_key
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged, LedgerFormatOld, LedgerTooNew, LedgerTooOld
from airflow_provider_schemamig.core.ledger.fold import LazySums, Texts, apply_row
from airflow_provider_schemamig.core.ledger.format.compat_view import Older
from airflow_provider_schemamig.core.ledger.format.formats import FORMATS, Formats
from airflow_provider_schemamig.core.ledger.format.migrate import Carried
from airflow_provider_schemamig.core.ledger.rows import (
    Ahead,
    Approval,
    BuildingShard,
    Control,
    Deployment,
    Element,
    EnvironmentConfig,
    EnvironmentRelease,
    GivenOut,
    HeldTable,
    Hold,
    Intent,
    IntentKind,
    Leader,
    LedgerSince,
    Object,
    Pin,
    Progress,
    SchemaEntry,
    Shard,
    TransitionIntent,
)
from airflow_provider_schemamig.core.names import CollectionName, Fingerprint, Generation, SchemaId, ShardId, Version

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

    def __getitem__(self, key: K) -> R:
        return self._row(encode_key("/".join(map(str, key)) if isinstance(key, tuple) else str(key)))

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


def _element_key(key: str) -> tuple[CollectionName, str, str]:
    collection, rest = key.split("/", 1)
    name, spec = rest.rsplit("/", 1)  # a column's name, which is a part of an element's, may have a slash
    return CollectionName(collection), name, spec


def _pin_key(key: str) -> tuple[ShardId, str]:
    shard, holder = key.split("/", 1)
    return ShardId(shard), holder


class State:
    """The ledger at ``version``. Immutable; ``after`` makes the next one.

    ``config`` is always there and of a known format: making a State of a newer or a too old ledger raises ``LedgerTooNew`` or
    ``LedgerTooOld`` before anything else. ``format``: the one that is stored, which may be older than what is seen.
    """

    def __init__(
        self,
        version: int,
        stored: Mapping[str, Texts],
        uri: str,
        *,
        older: Older | None = None,
        decoded: Mapping[str, dict[str, Any]] | None = None,
        formats: Formats = FORMATS,
    ) -> None:
        self.version = version
        #: The id of the commit that made it, once it was read from a ledger or appended to one: another ledger may have this version, too.
        self.commit_id: str | None = None
        self.formats = formats
        self.format = check_format(stored.get("config", {}), uri, formats)
        self._older = older
        self._stored = stored
        self._texts: Mapping[str, Texts] = stored if older is None else older
        self._uri = uri
        self._decoded: dict[str, dict[str, Any]] = dict(decoded or {})
        self._intents_by_shard: dict[ShardId, list[tuple[ShardId, IntentKind, Generation]]] | None = None
        self._elements_by_shard: dict[ShardId, list[Element]] | None = None
        self._newest_schema: dict[CollectionName, SchemaId] | None = None
        self._schemas_by_shard: dict[ShardId, list[SchemaEntry]] | None = None
        self._held_by_shard: dict[ShardId, list[tuple[Generation, HeldTable]]] | None = None

    @classmethod
    def of(cls, version: int, rows: Iterable[RawRow], uri: str, formats: Formats = FORMATS) -> State:
        """Sum up raw rows. Nothing is decoded but the format; damaged multiplicities raise only where they are looked at."""
        rows = tuple(rows)
        stored = LazySums(rows)
        number = check_format(stored.get("config", {}), uri, formats)
        older = Older(version, number, stored, rows, formats) if number < formats.current else None
        return cls(version, stored, uri, older=older, formats=formats)

    # -- the format ----------------------------------------------------------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """Return whether the ledger is stored in this software's own format."""
        return self._older is None

    def require_current(self, what: str) -> None:
        """Raise LedgerFormatOld unless the ledger has the current format. ``what``: what was asked for, in words."""
        if not self.is_current:
            raise LedgerFormatOld(uri=self._uri, what=what, found=self.format, current=self.formats.current)

    @property
    def upgrades(self) -> tuple[Carried, ...]:
        """Return what each step from the stored format to the current one makes of this ledger, in turn; raises as ``migrate.carry``."""
        return () if self._older is None else self._older.upgrades

    # -- the typed view ------------------------------------------------------------------------------------------------------------

    @property
    def config(self) -> EnvironmentConfig:
        config = self._single(EnvironmentConfig)
        if config is None:
            raise LedgerDamaged(where=f"the ledger at {self._uri}", reason="it has no config row")
        return config

    @property
    def release(self) -> EnvironmentRelease | None:
        """Return the release the environment is at; None before the first commit."""
        return self._single(EnvironmentRelease)

    @property
    def given_out(self) -> GivenOut | None:
        return self._single(GivenOut)

    @property
    def leader(self) -> Leader | None:
        return self._single(Leader)

    @property
    def since(self) -> int:
        """Return the oldest version that can still be read as-of."""
        row = self._single(LedgerSince)
        return row.since if row else 0

    @property
    def deployments(self) -> Mapping[Generation, Deployment]:
        return self.rows(Deployment, _generation)

    @property
    def replacements(self) -> Mapping[tuple[CollectionName, Version, Generation], BuildingShard]:
        return self.rows(BuildingShard, _replacement_key)

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
        """Return the progress rows by (collection, stage, generation), all text."""
        return self.rows(Progress, lambda key: tuple(key.split("/")))

    @property
    def pins(self) -> Mapping[tuple[ShardId, str], Pin]:
        return self.rows(Pin, _pin_key)

    @property
    def ahead(self) -> Mapping[tuple[CollectionName, SchemaId], Ahead]:
        """Return all rows on schemas that are ahead of their release.

        Claims, and what releases have caught up with, are among them; ``ahead_of`` returns what is in force.
        """
        return self.rows(Ahead, _schema_key)

    @property
    def elements(self) -> Mapping[tuple[CollectionName, str, str], Element]:
        """Return the elements by (collection, name, spec)."""
        return self.rows(Element, _element_key)

    def ahead_of(self, collection: CollectionName) -> Ahead | None:
        """Return what a collection has that its release does not know of."""
        return self.ahead.get((collection, self.objects[collection].schema_id))

    @property
    def dropped(self) -> Mapping[CollectionName, Ahead]:
        """Return the collections that the release declares and that were dropped outside of one, by the release's names."""
        gone = [self.ahead[key] for key in self.ahead if key[0] not in self.objects]
        return {row.released.name: row for row in gone if not row.declared.fields}

    def released(self, item: Object) -> Mapping[CollectionName, Fingerprint]:
        """Return what the release declares in place of an object: its own name and fingerprint, unless it is ahead. Empty: nothing."""
        ahead = self.ahead.get((item.collection, item.schema_id))
        if ahead is None:
            return {item.collection: item.fingerprint}
        return {ahead.released.name: ahead.released_fingerprint} if ahead.released.fields else {}

    def release_set(self) -> dict[CollectionName, Fingerprint]:
        """Return the collections that the release declares and that were not given back, by its own names for them."""
        found = {name: row.released_fingerprint for name, row in self.dropped.items()}
        for item in self.objects.values():
            found.update(self.released(item))
        return found

    def entry(self, collection: CollectionName) -> SchemaEntry:
        """Return the schema that a collection has now."""
        return self.schemas[collection, self.objects[collection].schema_id]

    def next_schema_id(self, collection: CollectionName) -> SchemaId:
        """Return the id of a collection's next schema. Ids grow by one and are never used again."""
        if self._newest_schema is None:
            self._newest_schema = {}
            for name, schema_id in self.schemas:
                self._newest_schema[name] = max(schema_id, self._newest_schema.get(name, schema_id))
        return SchemaId(self._newest_schema.get(collection, 0) + 1)

    def schemas_of(self, shard: ShardId) -> Sequence[SchemaEntry]:
        """Return the schemas that a table had, oldest first, under whatever name of its collection."""
        if self._schemas_by_shard is None:
            self._schemas_by_shard = {}
            for entry in sorted(self.schemas.values(), key=lambda entry: (entry.since_table_version, entry.schema_id)):
                self._schemas_by_shard.setdefault(entry.shard, []).append(entry)
        return self._schemas_by_shard.get(shard, ())

    def shard_of(self, collection: CollectionName) -> Shard:
        """Return the shard that holds a collection's rows now."""
        return self.shards[self.objects[collection].shard]

    def transition(self, shard: ShardId, kind: IntentKind, generation: Generation) -> TransitionIntent | None:
        """Return a generation's open intent to take a shard to another schema, or back; None: it has none of this kind."""
        found = self.intents.get((shard, kind, generation))
        return found if isinstance(found, TransitionIntent) else None

    def intents_of(self, shard: ShardId) -> tuple[Intent, ...]:
        """Return the open intents on a shard."""
        if self._intents_by_shard is None:
            self._intents_by_shard = {}
            for key in self.intents:
                self._intents_by_shard.setdefault(key[0], []).append(key)
        return tuple(self.intents[key] for key in self._intents_by_shard.get(shard, ()))

    def held_of(self, shard: ShardId) -> Sequence[tuple[Generation, HeldTable]]:
        """Return what all holds have of a table, closed ones too, each by its generation."""
        if self._held_by_shard is None:
            self._held_by_shard = {}
            for generation, hold in self.holds.items():
                for table in hold.tables:
                    self._held_by_shard.setdefault(table.shard, []).append((generation, table))
        return self._held_by_shard.get(shard, ())

    def elements_of(self, shard: ShardId) -> tuple[Element, ...]:
        """Return what online changes added to a shard, are adding or taking away. Decodes all elements: no key has the shard."""
        if self._elements_by_shard is None:
            self._elements_by_shard = {}
            for element in self.elements.values():
                self._elements_by_shard.setdefault(element.shard, []).append(element)
        return tuple(self._elements_by_shard.get(shard, ()))

    def rows(self, row_type: type[R], to_key: Callable[[str], K]) -> Mapping[K, R]:
        """Return the rows of any type, by a key that ``to_key`` makes of the row's ``key`` text (a tuple for keys with ``/`` in them)."""
        collection = collection_of(row_type)
        return Rows(row_type, self._texts.get(collection, {}), self._decoded.setdefault(collection, {}), to_key)

    # -- the stored view -----------------------------------------------------------------------------------------------------------

    @property
    def raw(self) -> Mapping[str, Mapping[str, str]]:
        """Return collection -> stored key -> stored value, in the stored format, with what this software does not know."""
        return self._stored

    def stored(self, collection: str, key: str) -> str | None:
        """Return the stored value of a stored key, or None."""
        return self._stored.get(collection, {}).get(key)

    def after(self, rows: Sequence[RawRow], version: int) -> State:
        """Return the state at ``version``: this one and all rows appended since. What is decoded already stays so.

        Raises LedgerDamaged if the rows do not fit: retract what is not there, or insert beside another value.
        """
        if self._older is not None:  # the steps need all of it
            return State.of(version, (*self._older.rows, *rows), self._uri, self.formats)
        texts = dict(self._texts)
        decoded = {collection: dict(known) for collection, known in self._decoded.items()}
        for collection in {row.collection for row in rows}:
            texts[collection] = dict(texts.get(collection, {}))
        for row in sorted(rows, key=lambda row: (row.ts, row.diff)):  # retractions first: an update is a pair of both
            decoded.get(row.collection, {}).pop(row.key, None)
            apply_row(row, texts[row.collection])
        return State(version, texts, self._uri, decoded=decoded, formats=self.formats)

    def _single(self, row_type: type[R]) -> R | None:
        return self.rows(row_type, str).get(cast(Any, row_type).key)


def check_format(config: Mapping[str, str], uri: str, formats: Formats = FORMATS) -> int:
    """Return the format of a ledger, and refuse a newer or too old one.

    Only the number is read, as all else may have changed its meaning.
    """
    text = config.get(encode_key(EnvironmentConfig.key))
    if text is None:
        raise LedgerDamaged(where=f"the ledger at {uri}", reason="it has no config row")
    try:
        found = json.loads(text)["format_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise LedgerDamaged(where=f"the ledger at {uri}", reason="its config row names no format version") from error
    if type(found) is not int or found > formats.current:
        raise LedgerTooNew(uri=uri, found=str(found), known=formats.current)
    if found < formats.minimum:
        raise LedgerTooOld(uri=uri, found=found, minimum=formats.minimum)
    return found
