"""The tables that are to be adopted: where they lie, what they say of themselves, and whether they may be taken at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from airflow_provider_schemamig.core.delta.features import UnsupportedFeature, check_writable
from airflow_provider_schemamig.core.delta.log.files import absolute_paths
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.delta.metadata.forbidden import check_keeps_rows
from airflow_provider_schemamig.core.delta.names import fields_in, unenforced_not_nulls
from airflow_provider_schemamig.core.ledger.rows import Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, InvalidName, collection_name
from airflow_provider_schemamig.core.schema.delta_rules.properties import FORGETS
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage import Location, ReadStore, open_store, place_of, spark_uri
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.adopt import errors as e
from airflow_provider_schemamig.core.upgrade.adopt.places import Places
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError, raise_refusals

T = TypeVar("T")


@dataclass(frozen=True)
class FoundTable:
    """A table that is to be adopted. ``live``: what it says of itself, ``uri``: as the ledger will have it."""

    collection: CollectionName
    location: Location
    uri: str
    head: Head
    live: Declaration
    remarks: tuple[str, ...]


def given_tables(tables: Sequence[tuple[str, str]]) -> list[tuple[CollectionName, Location]]:
    refusals: list[SchemamigError] = []
    found: dict[CollectionName, Location] = {}
    owners: dict[str, CollectionName] = {}
    for name, uri in tables:
        try:
            collection, location = collection_name(name), Location.parse(uri)
        except Refusal as refusal:
            refusal.collection = refusal.collection or (None if isinstance(refusal, InvalidName) else name)
            refusals.append(refusal)
            continue
        owner = owners.setdefault(place_of(location), collection)
        if collection in found:
            refusals.append(e.RepeatedCollection(collection=collection))
        elif owner != collection:
            refusals.append(e.SameTable(collection=collection, uri=location.uri, other=owner))
        found.setdefault(collection, location)
    raise_refusals(refusals)
    return list(found.items())


def tables_below(
    env: EnvironmentRoot, state: State | None, folders: Sequence[str], named: Sequence[tuple[CollectionName, Location]]
) -> Iterator[tuple[str, str]]:
    """Yield name and URI of each Delta table right below the folders, called like its folder, but for those that are managed or named.

    Raises NoTables, InvalidLocation.
    """
    managed, given = shard_places(env, state), Places(named)
    for folder in folders:
        location = Location.parse(folder)
        store = open_store(location, env.options)
        names = sorted(store.folders(""))
        are_tables = env.each(partial(_is_table, store), names)
        found = [name for name, is_table in zip(names, are_tables, strict=True) if is_table]
        if not found:
            raise e.NoTables(uri=location.uri)
        for name in found:
            place = place_of(Location.parse(uri := f"{location.uri}/{name}"))
            if managed.at(place) is None and given.at(place) is None:
                yield name, uri


def _is_table(store: ReadStore, folder: str) -> bool:
    return "_delta_log" in store.folders(folder)


def is_managed(env: EnvironmentRoot, state: State | None, collection: CollectionName, location: Location) -> bool:
    """Return whether this very table is the collection's already."""
    if state is None or collection not in state.objects:
        return False
    return place_of(env.table_location(state.shard_of(collection).uri)) == place_of(location)


def shard_places(env: EnvironmentRoot, state: State | None) -> Places[Shard]:
    """Return the places of all tables in the ledger."""
    return Places((shard, env.table_location(shard.uri)) for shard in (state.shards.values() if state is not None else ()))


def look(env: EnvironmentRoot, state: State | None, given: Sequence[tuple[CollectionName, Location]]) -> list[FoundTable]:
    """Return the tables as they are. Raises all refusals at once."""
    shards, named = shard_places(env, state), Places(given)

    def at(table: tuple[CollectionName, Location]) -> FoundTable | Refusal:
        collection, location = table
        try:
            refuse_place(env, state, shards, collection, location)
            _refuse_nested(location, named, str)
            found = _look_at(env, collection, location)
            _refuse_borrowed(env, shards, found)
        except Refusal as refusal:
            refusal.collection = refusal.collection or collection
            return refusal
        return found

    found = list(env.each(at, given))
    raise_refusals([item for item in found if isinstance(item, Refusal)])
    return [item for item in found if isinstance(item, FoundTable)]


def refuse_place(env: EnvironmentRoot, state: State | None, shards: Places[Shard], collection: CollectionName, location: Location) -> None:
    """Refuse a table in a place that is not allowed, a table of another collection, and a second table for a collection.

    ``shards``: ``shard_places`` of that state.
    """
    root, place = place_of(env.location), place_of(location)
    if env.SYSTEM_FOLDER in place.split("/"):  # of this environment or of another one, whose ledger a change of it would damage
        remedy = f"Leave what lies in {env.SYSTEM_FOLDER} alone, and adopt the tables beside it."
        raise e.WrongPlace(uri=location.uri, reason="it is part of an environment's own records", remedy=remedy)
    if (root + "/").startswith(place + "/"):
        raise e.WrongPlace(
            uri=location.uri, reason="the environment lies inside of the table's folder, and a VACUUM of the table would empty it"
        )
    if (shard := shards.at(place)) is not None:
        raise _known(shard, location)
    _refuse_nested(location, shards, lambda shard: shard.collection)
    if state is not None and collection in state.objects:
        raise e.AlreadyManaged(uri=env.table_location(state.shard_of(collection).uri).uri, owner=collection)


def _known(shard: Shard, location: Location) -> Refusal:
    match shard.state:
        case ShardState.LIVE:
            return e.AlreadyManaged(uri=location.uri, owner=shard.collection)
        case ShardState.BUILDING:
            why = f"generation {shard.generation} is building it, or was"
        case ShardState.RETIRED:
            why = f"generation {shard.retired_by} retired it"
    return e.TableNotLive(uri=location.uri, owner=shard.collection, why=why, adopted=shard.adopted)


def _refuse_borrowed(env: EnvironmentRoot, shards: Places[Shard], found: FoundTable) -> None:
    """Refuse a SHALLOW CLONE of a table that we made: its rows are in files that go with that one."""
    if all(shard.adopted for shard in shards.owners):
        return
    paths = absolute_paths(env.table_store(found.location.uri), found.head.version)
    for folder in sorted({_folder_of(path) for path in paths}):
        shard = shards.at(folder) or shards.around(folder)
        if shard is not None and not shard.adopted:
            reason = f"its rows are in files of {shard.collection} (SHALLOW CLONE), which are deleted with that table"
            remedy = "Make a table with files of its own (CREATE TABLE ... AS SELECT), and adopt that."
            raise e.WrongPlace(uri=found.location.uri, reason=reason, remedy=remedy)


def _folder_of(path: str) -> str:
    """Return the folder of a file, by its absolute path as logs have it, as ``place_of`` has folders."""
    text = unquote(path).rpartition("/")[0]
    parts = urlsplit(text)
    return os.path.realpath(parts.path) if parts.scheme in ("", "file") else spark_uri(text)


def _refuse_nested(location: Location, others: Places[T], name_of: Callable[[T], str]) -> None:
    """Refuse a table inside of another one's folder, or around it.

    A VACUUM of a table removes what lies in its folder and is not its own, another table's files, too.
    """
    remedy = "Move the inner table to a folder of its own."
    place = place_of(location)
    if (around := others.around(place)) is not None:
        reason = f"it lies inside of the folder of {name_of(around)}, and a VACUUM of that table would empty it"
        raise e.WrongPlace(uri=location.uri, reason=reason, remedy=remedy)
    if (inside := others.inside(place)) is not None:
        reason = f"{name_of(inside)} lies inside of its folder, and its VACUUM would empty that"
        raise e.WrongPlace(uri=location.uri, reason=reason, remedy=remedy)


def _look_at(env: EnvironmentRoot, collection: CollectionName, location: Location) -> FoundTable:
    head = read_head(env.table_store(location.uri))
    if head.sealed_for is not None:
        raise e.TableSealed(uri=location.uri, moved_to=head.sealed_for)
    if FORGETS in head.properties:
        raise e.ForgetsTransactions(uri=location.uri, value=head.properties[FORGETS])
    check_keeps_rows(json.loads(head.metadata["schemaString"]), head.metadata)
    below = f"{env.location.uri}/"
    uri = location.uri.removeprefix(below)  # a shard below the root moves with it
    return FoundTable(collection, location, uri, head, head.declaration(collection), remarks_on(head))


_IDENTITY = "delta.identity."


def remarks_on(head: Head) -> tuple[str, ...]:
    """Return remarks, one line each: identity columns, NOT NULL where Delta does not enforce it, table features we do not know."""
    found: list[str] = []
    for path, field in fields_in(head.schema):
        metadata = field.get("metadata") or {}
        if any(key.startswith(_IDENTITY) for key in metadata):
            found.append(f"{path} is an identity column: so it stays on this table, a new one would not have it")
    for field in head.schema["fields"]:
        for place in unenforced_not_nulls(field):
            found.append(f"{place} is NOT NULL on this table, inside an array or map, where Delta does not enforce it")
    try:
        check_writable(head.protocol, head.location.uri)
    except UnsupportedFeature as error:
        found.append(f"the table has features that schemamig does not know ({', '.join(error.features)}): it is read, never changed")
    return tuple(found)
