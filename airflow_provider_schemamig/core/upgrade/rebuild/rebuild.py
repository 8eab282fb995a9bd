"""Make a ledger that was lost without a backup anew, from the tables and the release folder (``ledger rebuild``).

What a ledger says of tables can be seen on them: which environment they are of (their fences), which shard each is (its folder), what
columns it has and by which names in the files. What it says of work cannot: the way back, plans, what is in progress. That is told.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pendulum

from airflow_provider_schemamig.core.delta.log.head import Head, head_or_none
from airflow_provider_schemamig.core.ledger.errors import NumbersExhausted
from airflow_provider_schemamig.core.ledger.existence import require_free_place
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history, detail_of
from airflow_provider_schemamig.core.ledger.numbers import Numbers, fences, highest_numbers, shard_folders
from airflow_provider_schemamig.core.ledger.objects.known_heads import store_heads
from airflow_provider_schemamig.core.ledger.rows import GivenOut, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation, ShardId, Version, collection_name
from airflow_provider_schemamig.core.release.check import load_checked
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.sql.render import sayable
from airflow_provider_schemamig.core.release.steps import Evolution
from airflow_provider_schemamig.core.schema.diff.drift import live_differences
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage import Location
from airflow_provider_schemamig.core.storage.own_places import is_shard_folder
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.adopt.adopt import AdoptedRelease, adopted_rows
from airflow_provider_schemamig.core.upgrade.adopt.adoptable import FoundTable, given_tables
from airflow_provider_schemamig.core.upgrade.errors import UnknownCollection
from airflow_provider_schemamig.core.upgrade.plan.live_tables import live_places
from airflow_provider_schemamig.core.upgrade.rebuild import errors as e
from airflow_provider_schemamig.core.upgrade.rebuild.ends import AuditedEnds, CleanedUp, ReleaseCommit, last_release_commit, shown_ends
from airflow_provider_schemamig.exceptions import SchemamigError, raise_refusals
from airflow_provider_schemamig.visible import visible

UNKNOWN = (
    "not known any more: the way back of the last upgrade (no rollback; what it hides or retired stays), deployments and approvals, "
    "what was in progress, the steps it went through, pins, pauses and throttles"
)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """``generation`` and ``epoch``: up to these nothing is given out any more. ``notes``: what could not be known."""

    env_id: str
    version: Version
    generation: Generation
    epoch: Epoch
    tables: tuple[Shard, ...]
    notes: tuple[str, ...]

    def to_json(self, env: EnvironmentRoot) -> dict[str, Any]:
        return {
            "env_id": self.env_id,
            "version": str(self.version),
            "generation": self.generation,
            "epoch": self.epoch,
            "tables": [
                {
                    "collection": shard.collection,
                    "uri": env.table_location(shard.uri).uri,
                    "shard": shard.shard,
                    "adopted": shard.adopted,
                }
                for shard in self.tables
            ],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class _Place:
    """A table that may be a collection's. ``uri``: as the ledger will have it; ``is_named``: by a person."""

    collection: CollectionName
    uri: str
    head: Head
    is_named: bool = False


def rebuild(env: EnvironmentRoot, release_dir: Path, tables: Sequence[tuple[str, str]] = (), as_they_are: Collection[str] = ()) -> Rebuilt:
    """Write the ledger of an environment that has none, at the release in ``release_dir``. The environment has to have been at it.

    Each collection's table is the one below ``<root>/<collection>`` that is not sealed, or the one named in ``tables`` (name, URI or path),
    sealed or not. Where a leader may have died on the way it is refused, but for the collections ``as_they_are``: a person has looked.
    Columns that a table has beside the declared ones count as hidden. No table gets a commit, nothing is deleted. Killed, it may be run
    again. Raises LedgerThere; NoEnvironment where a table or another environment is; every reason against it at once (``rebuild.errors``);
    and what reading the tables raises.
    """
    started = pendulum.now("UTC")
    require_free_place(env)
    ledger = LedgerReader(env)
    state = ledger.state_or_none()
    if state is not None and (state.release is not None or state.deployments):
        raise e.LedgerThere(uri=env.location.uri)
    release = load_checked(release_dir)
    declared = {CollectionName(item.name): item for item in release.declarations(release.version).values()}
    given = given_tables(tables)
    unknown = sorted({collection_name(name) for name in (*as_they_are, *(name for name, _ in given))} - declared.keys())
    raise_refusals([UnknownCollection(collection=name, release=str(release.version)) for name in unknown])
    places = _places(env, given)
    ends = shown_ends(env)
    found, left = _match(env, release, places, as_they_are, ends)
    uris = [place.uri for place in places]
    stores = dict(zip(uris, env.each(lambda uri: fences(env.table_store(uri)), uris), strict=True))
    env_id = _env_id(stores, state)
    numbers = highest_numbers(env, (), [place.uri for place in places])
    if numbers.is_exhausted:
        raise NumbersExhausted(uri=env.location.uri, epoch=numbers.epoch)
    shards = [_shard(table, env_id, numbers, given_back=ends.was_given_back(env, table.uri)) for table in found]
    notes = (*_notes(declared, found, left, any(stores.values())), *numbers.notes)
    target = AdoptedRelease(release.name, release.version, None, declared)
    generation, epoch = numbers.raised

    def rows(state: State) -> Sequence[Update]:
        if state.release is not None:
            raise e.LedgerThere(uri=env.location.uri)
        made = adopted_rows(env, state, target, found, shards, generation, epoch, started, "rebuild")
        return [*made, Put(GivenOut(generation, epoch))]

    writer = LedgerWriter(env)
    made = writer.create(env_id, rows)  # in one commit: an empty ledger would give all numbers out again
    if made.release is None:
        made = writer.transact(rows)
    if (made.config.env_id, made.given_out) != (env_id, GivenOut(generation, epoch)):  # another one came first
        raise e.LedgerThere(uri=env.location.uri)
    store_heads(env, live_places(env, made))
    note = append_history(
        env, HistoryEntry.ended("ledger rebuild", started, generation=generation, detail="; ".join((detail_of(release.version), *notes)))
    )
    return Rebuilt(env_id, release.version, generation, epoch, tuple(shards), (*notes, *([] if note is None else [note])))


def _places(env: EnvironmentRoot, given: Sequence[tuple[CollectionName, Location]]) -> tuple[_Place, ...]:
    """Return all tables in folders with a name of ours, and those in ``given``."""
    folders = tuple(shard_folders(env))
    heads = env.each(lambda folder: head_or_none(env.table_store(folder)), folders)
    looked = zip(folders, heads, strict=True)
    found = [_Place(CollectionName(folder.partition("/")[0]), folder, head) for folder, head in looked if head is not None]
    refusals: list[SchemamigError] = []
    for collection, location in given:
        uri = _below(env, location)
        head = head_or_none(env.table_store(uri))
        if head is None:
            refusals.append(e.CollectionWithoutTable(collection=collection))
            continue
        found = [place for place in found if place.uri != uri and place.collection != collection]
        found.append(_Place(collection, uri, head, is_named=True))
    raise_refusals(refusals)
    return tuple(found)


def _below(env: EnvironmentRoot, location: Location) -> str:
    """Return the key of a place below the root, by whatever link it is named; its URI if it lies elsewhere."""
    root, path = env.location.local_path, location.local_path
    if root is not None and path is not None and path.resolve().is_relative_to(root.resolve()):
        return path.resolve().relative_to(root.resolve()).as_posix()
    return location.uri.removeprefix(f"{env.location.uri}/")


def _match(
    env: EnvironmentRoot, release: Release, places: Sequence[_Place], as_they_are: Collection[str], ends: AuditedEnds
) -> tuple[list[FoundTable], list[_Place]]:
    """Match collections with tables, as ``adopt`` has them; return tables that are none's, too. Raises all that stands against it."""
    refusals: list[SchemamigError] = []
    found: list[FoundTable] = []
    lasts = env.each(lambda place: last_release_commit(env.table_store(place.uri), place.head), places)
    last = {place.uri: commit for place, commit in zip(places, lasts, strict=True)}
    taken, renamed = set(), {**_exchangeable(release, places, ends), **_renamed(release)}
    for collection, declaration in sorted((CollectionName(name), item) for name, item in release.declarations(release.version).items()):
        own = [place for place in places if place.collection == collection]
        open_ones = [place for place in own if place.is_named or place.head.sealed_for is None]
        is_seen = collection in as_they_are
        unknown = [] if is_seen else [error for place in own if (error := _end_unknown(place, last[place.uri], ends)) is not None]
        if unknown:
            refusals += unknown
            continue
        if len(open_ones) != 1:
            uris = tuple(place.uri for place in open_ones)
            refusals.append(e.SeveralTables(collection=collection, uris=uris) if uris else e.CollectionWithoutTable(collection=collection))
            continue
        (place,) = open_ones
        other = None if is_seen else ends.other_release(release.version) or ends.renamed_beyond(collection)
        other = other or (None if is_seen or place.is_named else ends.against(env, collection, place.uri) or renamed.get(collection))
        if other is not None:
            refusals.append(e.EndUnknown(collection=collection, uri=place.uri, reason=other))
            continue
        live = place.head.declaration(collection)
        differences = tuple(_differences(declaration, live))
        if differences:
            refusals.append(e.NotAsDeclared(collection=collection, uri=place.uri, differences=differences))
        found.append(FoundTable(collection, env.table_location(place.uri), place.uri, place.head, live, ()))
        taken.add(place.uri)
    raise_refusals(refusals)
    return found, [place for place in places if place.uri not in taken]


def _renamed(release: Release) -> Mapping[CollectionName, str]:
    """Return, for each name got or given up in a rename, why the folder does not tell whose table it is: a table stays where it is."""
    found: dict[CollectionName, str] = {}
    for version in release.versions[1:]:
        for step in release.steps(version):
            if isinstance(step, Evolution) and step.renamed_from is not None:
                why = (
                    f"release {version} renames {step.renamed_from} to {step.collection}, and a table stays in the folder of its first name"
                )
                found |= dict.fromkeys((step.collection, step.renamed_from), why)
    return found


def _exchangeable(release: Release, places: Sequence[_Place], ends: AuditedEnds) -> Mapping[CollectionName, str]:
    """Return, for each of several tables with the same columns, older than the release's chain, why the folder does not tell whose it is:
    renames of before the chain are not known."""
    oldest = release.versions[0]
    since = {place.collection: ends.was_named_at(place.uri) for place in places if place.head.sealed_for is None}
    alike: dict[object, list[CollectionName]] = {}
    for name, declaration in release.declarations(release.version).items():
        if CollectionName(name) in since and ((known := since[CollectionName(name)]) is None or known < oldest):
            columns = frozenset((field.name, field.type, field.nullable) for field in declaration.fields)
            alike.setdefault(columns, []).append(CollectionName(name))
    return {
        name: f"the folder knows renames since {oldest} only, and before that the collection may have changed names with {other}, whose "
        f"columns are the same: a table stays in the folder of its first name"
        for names in alike.values()
        for name, other in zip(names, [*names[1:], names[0]], strict=True)
        if len(names) > 1
    }


def _end_unknown(place: _Place, last: ReleaseCommit | CleanedUp | None, ends: AuditedEnds) -> e.EndUnknown | None:
    """Return whether it may be on its way between two releases. ``last``: what brought it to one."""
    ended = "the audit log does not show that this deployment, or its rollback, came to its end"
    match last:
        case ReleaseCommit() if not ends.show(last, place.collection):
            sealed = "" if place.head.sealed_for is None else f", and it is sealed in favour of {place.head.sealed_for}"
            reason = f"version {last.version} of {place.uri} is a {last.action} of generation {last.generation}{sealed}; {ended}"
            return e.EndUnknown(collection=place.collection, uri=place.uri, reason=reason, action=last.action, generation=last.generation)
        case CleanedUp() if not ends.cover(last):
            reason = f"the log of {place.uri} was cleaned up to version {last.version}, and the audit log does not show that "
            return e.EndUnknown(
                collection=place.collection, uri=place.uri, reason=f"{reason}every deployment or rollback of before came to its end"
            )
        case _:
            return None


def _differences(declared: Declaration, live: Declaration) -> Iterator[str]:
    """Yield the differences that count.

    Columns that only the table has are what an upgrade has hidden, if nobody has to fill them. All else that only the table has binds who
    writes to it, and no release would know: a CHECK that a later one brings would count as looked at.
    """
    yield from (str(item) for item in live_differences(declared, sayable(live)) if not item.is_spare)


def _env_id(stores: Mapping[str, Mapping[str, int]], state: State | None) -> str:
    """Return the environment's id as the tables' fences have it; else another one. Raises SeveralEnvironments."""
    known = sorted({env_id for found in stores.values() for env_id in found})
    if len(known) > 1:
        raise e.SeveralEnvironments(env_ids=tuple(known))
    if known:
        return known[0]
    return state.config.env_id if state is not None else str(uuid4())


def _shard(table: FoundTable, env_id: str, numbers: Numbers, *, given_back: bool) -> Shard:
    """Return the shard of a table: one of ours by its folder, unless it was ``given_back`` since; another one as an adopted one."""
    generation, epoch = numbers.raised
    name = ShardId(table.uri.rpartition("/")[2])
    ours = is_shard_folder(table.uri, name) and not given_back
    if not ours:
        digest = hashlib.sha256(f"{env_id}/{table.collection}/{table.uri}/{generation}".encode()).hexdigest()
        name = ShardId(f"a{generation}-{digest[:12]}")
    return Shard(name, table.collection, table.uri, table.head.table_id, generation, ShardState.LIVE, adopted=not ours, fenced_by=epoch)


def _notes(
    declared: Mapping[CollectionName, Declaration], found: Sequence[FoundTable], left: Sequence[_Place], fenced: bool
) -> Iterator[str]:
    yield UNKNOWN
    if not fenced:
        yield "no table has a fence, so the environment has another id than before: streams from it count as those of another origin"
    for table in found:
        hidden = [visible(item.path) for item in live_differences(declared[table.collection], table.live) if item.is_spare]
        if hidden:
            stay = (
                "they stay hidden, nothing drops them, and when a release had them is not known: one that declares such a name again shows "
            )
            stay += "the values that are there, and its plan says so"
            yield f"{table.collection}: {', '.join(hidden)} are on the table and not declared: {stay}"
    for name, item in sorted(declared.items()):
        if item.primary_key is not None or item.uniques or item.foreign_keys:
            yield f"{name}: whether rows kept its keys is not known; `schemamig verify` looks"
    for table in found:
        if table.head.sealed_for is not None:
            yield f"{table.uri} is sealed, and every write to it is refused: `schemamig ledger verify` says how to open it"
    for place in left:
        yield f"{place.uri} is no collection's table now (retired, or never finished): nothing deletes it"
