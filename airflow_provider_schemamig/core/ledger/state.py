"""What is true at one version of the ledger: the sum of all diffs up to it, decoded only where it is looked at.

An environment of 1,000 collections has to open in milliseconds, so a ``State`` keeps the stored text and decodes a row when it is
first asked for. Damage in one collection therefore never stops a look into another (the frozen ones above all).

A ledger of an older format is read as the current one: the steps between run in memory, on first sight of a collection that they may
change. What is stored stays apart from what is seen; only ``ledger upgrade`` makes them the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

from airflow_provider_schemamig.core.ledger.codec import RawRow, collection_of, encode_key
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged, LedgerFormatOld, LedgerTooNew, LedgerTooOld
from airflow_provider_schemamig.core.ledger.fold import LazySums, Texts, apply_row
from airflow_provider_schemamig.core.ledger.format.compat_view import Older
from airflow_provider_schemamig.core.ledger.format.formats import FORMATS, Formats
from airflow_provider_schemamig.core.ledger.format.migrate import MigratedLedger
from airflow_provider_schemamig.core.ledger.rows import (
    Approval,
    BuildingShard,
    Control,
    Deployment,
    DeploymentState,
    Element,
    EnvironmentConfig,
    EnvironmentRelease,
    GivenOut,
    HeldTable,
    Hold,
    HoldState,
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
    UnreleasedChange,
    oldest_first,
)
from airflow_provider_schemamig.core.ledger.typed_rows import (
    Rows,
    to_element_key,
    to_generation,
    to_intent_key,
    to_pin_key,
    to_replacement_key,
    to_schema_key,
)
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Fingerprint, Generation, SchemaId, ShardId, Version
from airflow_provider_schemamig.core.schema.model import Declaration

K = TypeVar("K")
R = TypeVar("R")


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
        #: The tag of the commit that made it, once it was read from a ledger or appended to one: another ledger may have this version, too.
        self.tag: str | None = None
        self.formats = formats
        self.format = check_format(stored.get("config", {}), uri, formats)
        self._older = older
        self._stored = stored
        self._texts: Mapping[str, Texts] = stored if older is None else older
        self._uri = uri
        self._decoded: dict[str, dict[str, Any]] = dict(decoded or {})
        self._rows: dict[type[Any], Rows[Any, Any]] = {}

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
    def upgrades(self) -> tuple[MigratedLedger, ...]:
        """Return what each step from the stored format to the current one makes of this ledger, in turn. Raises as
        ``migrate.migrate_ledger``."""
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

    def is_before_restore(self, generation: Generation) -> bool:
        """Return whether the ledger was restored or rebuilt since: what it says of the generation may be older than the tables are."""
        return self.given_out is not None and generation <= self.given_out.generation

    @property
    def leader(self) -> Leader | None:
        return self._single(Leader)

    @property
    def since(self) -> int:
        """Return the oldest version that can still be read as-of."""
        row = self._single(LedgerSince)
        return row.since if row else 0

    @cached_property
    def deployments(self) -> Mapping[Generation, Deployment]:
        return self.rows(Deployment, to_generation)

    @property
    def replacements(self) -> Mapping[tuple[CollectionName, Version, Generation], BuildingShard]:
        return self.rows(BuildingShard, to_replacement_key)

    @property
    def approvals(self) -> Mapping[Generation, Approval]:
        return self.rows(Approval, to_generation)

    @cached_property
    def objects(self) -> Mapping[CollectionName, Object]:
        return self.rows(Object, CollectionName)

    @cached_property
    def shards(self) -> Mapping[ShardId, Shard]:
        return self.rows(Shard, ShardId)

    @cached_property
    def schemas(self) -> Mapping[tuple[CollectionName, SchemaId], SchemaEntry]:
        return self.rows(SchemaEntry, to_schema_key)

    @cached_property
    def intents(self) -> Mapping[tuple[ShardId, IntentKind, Generation], Intent]:
        return self.rows(Intent, to_intent_key)

    @cached_property
    def holds(self) -> Mapping[Generation, Hold]:
        return self.rows(Hold, to_generation)

    @property
    def controls(self) -> Mapping[str, Control]:
        return self.rows(Control, str)

    @property
    def progress(self) -> Mapping[tuple[str, ...], Progress]:
        """Return the progress rows by (collection, stage, generation), all text."""
        return self.rows(Progress, lambda key: tuple(key.split("/")))

    @cached_property
    def pins(self) -> Mapping[tuple[ShardId, str], Pin]:
        return self.rows(Pin, to_pin_key)

    @cached_property
    def unreleased(self) -> Mapping[tuple[CollectionName, SchemaId], UnreleasedChange]:
        """Return all rows on schemas that are ahead of their release.

        Claims, and what releases have caught up with, are among them; ``unreleased_of`` returns what is in force.
        """
        return self.rows(UnreleasedChange, to_schema_key)

    @property
    def elements(self) -> Mapping[tuple[CollectionName, str, str], Element]:
        """Return the elements by (collection, name, spec)."""
        return self.rows(Element, to_element_key)

    @property
    def release_version(self) -> Version | None:
        """Return the release that the environment is at; None: at none yet."""
        return None if self.release is None else self.release.version

    @property
    def is_promoted(self) -> bool:
        """Return whether the leader is at work: its deployment is promoted, and neither committed nor given up."""
        return self.leader is not None and self.deployments[self.leader.generation].state is DeploymentState.PROMOTED

    def unreleased_of(self, collection: CollectionName) -> UnreleasedChange | None:
        """Return the unreleased change of a collection, if it has one now."""
        return self.unreleased.get((collection, self.objects[collection].schema_id))

    def names_in_release(self, unreleased: UnreleasedChange) -> Mapping[ColumnPath, str] | None:
        """Return the names in the data files of the release's columns, if they differ; None if no schema tells."""
        known = self.schemas_of(self.entry(unreleased.collection).shard)
        of_release = (entry for entry in known if entry.release is not None and entry.rolled_back is None)
        released = [entry for entry in of_release if entry.declared.fields == unreleased.released.fields]
        return dict(released[-1].stored_names) if released else None

    @property
    def dropped(self) -> Mapping[CollectionName, UnreleasedChange]:
        """Return the collections of the release that were dropped outside of one, by the release's names."""
        gone = [self.unreleased[key] for key in self.unreleased if key[0] not in self.objects]
        return {row.released.name: row for row in gone if not row.declared.fields}

    def released(self, item: Object) -> Mapping[CollectionName, Fingerprint]:
        """Return what the release declares in place of an object: its own name and fingerprint, unless it is ahead. Empty: nothing."""
        unreleased = self.unreleased.get((item.collection, item.schema_id))
        if unreleased is None:
            return {item.collection: item.fingerprint}
        return {unreleased.released.name: unreleased.released_fingerprint} if unreleased.released.fields else {}

    def release_set(self) -> dict[CollectionName, Fingerprint]:
        """Return the collections of the release that were not given back, by its own names for them."""
        found = {name: row.released_fingerprint for name, row in self.dropped.items()}
        for item in self.objects.values():
            found.update(self.released(item))
        return found

    def entry(self, collection: CollectionName) -> SchemaEntry:
        """Return the schema that a collection has now."""
        return self.schemas[collection, self.objects[collection].schema_id]

    def declarations(self) -> dict[CollectionName, Declaration]:
        """Return what each collection declares now."""
        return {name: self.entry(name).declared for name in self.objects}

    def next_schema_id(self, collection: CollectionName) -> SchemaId:
        """Return the id of a collection's next schema. Ids grow by one and are never used again."""
        return SchemaId(self._newest_schemas.get(collection, 0) + 1)

    @cached_property
    def _newest_schemas(self) -> dict[CollectionName, SchemaId]:
        return dict(sorted(self.schemas))  # the last one of a name counts

    def live_collection(self, shard: ShardId) -> CollectionName | None:
        """Return what the table of a shard is called now; None if it is no collection's."""
        return self._collections_by_shard.get(shard)

    @cached_property
    def _collections_by_shard(self) -> dict[ShardId, CollectionName]:
        return {item.shard: name for name, item in reversed(list(self.objects.items()))}

    def schemas_of(self, shard: ShardId) -> Sequence[SchemaEntry]:
        """Return the schemas that a table had, oldest first, under all names of its collection."""
        return self._schemas_by_shard.get(shard, ())

    @cached_property
    def _schemas_by_shard(self) -> dict[ShardId, list[SchemaEntry]]:
        return _grouped((entry.shard, entry) for entry in oldest_first(self.schemas.values(), self._collections_by_shard))

    def shard_of(self, collection: CollectionName) -> Shard:
        """Return the shard that holds a collection's rows now."""
        return self.shards[self.objects[collection].shard]

    def transition(self, shard: ShardId, kind: IntentKind, generation: Generation) -> TransitionIntent | None:
        """Return a generation's open intent to take a shard to another schema, or back; None: it has none of this kind."""
        found = self.intents.get((shard, kind, generation))
        return found if isinstance(found, TransitionIntent) else None

    def intents_of(self, shard: ShardId) -> tuple[Intent, ...]:
        """Return the open intents on a shard."""
        return tuple(self.intents[key] for key in self._intents_by_shard.get(shard, ()))

    @cached_property
    def _intents_by_shard(self) -> dict[ShardId, list[tuple[ShardId, IntentKind, Generation]]]:
        return _grouped((key[0], key) for key in self.intents)

    def held_of(self, shard: ShardId) -> Sequence[tuple[Generation, HeldTable]]:
        """Return what all holds have of a table, closed ones too, each by its generation."""
        return self._held_by_shard.get(shard, ())

    def held_table(self, hold: Generation, collection: CollectionName) -> HeldTable | None:
        """Return what a hold has of a collection, by the source release's name for it."""
        return self._held_by_name.get((hold, collection))

    @cached_property
    def unclosed_holds(self) -> tuple[Hold, ...]:
        """Return all holds that are not closed, the oldest first."""
        return tuple(hold for _, hold in sorted(self.holds.items()) if hold.state is not HoldState.CLOSED)

    @cached_property
    def _held_by_name(self) -> dict[tuple[Generation, CollectionName], HeldTable]:
        return {(hold.generation, table.collection): table for hold in self.holds.values() for table in reversed(hold.tables)}

    @cached_property
    def _held_by_shard(self) -> dict[ShardId, list[tuple[Generation, HeldTable]]]:
        return _grouped((table.shard, (generation, table)) for generation, hold in self.holds.items() for table in hold.tables)

    def elements_of(self, shard: ShardId) -> tuple[Element, ...]:
        """Return what online changes added to a shard, are adding or taking away. Decodes all elements: no key has the shard."""
        return tuple(self._elements_by_shard.get(shard, ()))

    @cached_property
    def _elements_by_shard(self) -> dict[ShardId, list[Element]]:
        return _grouped((element.shard, element) for element in self.elements.values())

    def rows(self, row_type: type[R], to_key: Callable[[str], K]) -> Mapping[K, R]:
        """Return the rows of any type, by a key that ``to_key`` makes of the row's ``key`` text (a tuple for keys with ``/`` in them)."""
        found = self._rows.get(row_type)
        if found is None:
            collection = collection_of(row_type)
            known = self._decoded.setdefault(collection, {})
            found = self._rows[row_type] = Rows(row_type, self._texts.get(collection, {}), known, to_key)
        return found

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
        decoded = {collection: dict(known) for collection, known in list(self._decoded.items())}  # others may decode
        for collection in {row.collection for row in rows}:
            texts[collection] = dict(texts.get(collection, {}))
        for row in sorted(rows, key=lambda row: (row.ts, row.diff)):  # retractions first: an update is a pair of both
            decoded.get(row.collection, {}).pop(row.key, None)
            apply_row(row, texts[row.collection])
        return State(version, texts, self._uri, decoded=decoded, formats=self.formats)

    def know(self, rows: Iterable[Any]) -> None:
        """Keep rows that were just encoded: their texts need not be decoded."""
        for row in rows:
            self._decoded.setdefault(row.COLLECTION, {})[encode_key(row.key)] = row

    def _single(self, row_type: type[R]) -> R | None:
        return self.rows(row_type, str).get(cast(Any, row_type).key)


def _grouped(pairs: Iterable[tuple[K, R]]) -> dict[K, list[R]]:
    found: dict[K, list[R]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


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
