"""Taking existing Delta tables under management: the release folder says what they are, one ledger append says that they are ours.

No table gets a commit or a byte. Everything is looked at and compared first; then the folder is written (release.toml last), then the
ledger. A process that dies in between has left a folder that declares these tables, and the same command goes on from there.

An adoption is a deployment: it takes the environment from its release to the one that declares the tables, under a generation and an epoch
of its own, so that whoever was at work under the old one is fenced.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pendulum

from airflow_provider_schemamig.core.delta.features import check_writable
from airflow_provider_schemamig.core.delta.log.head import another_table, look_or_none
from airflow_provider_schemamig.core.ledger.existence import require_environment
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.numbers import next_epoch, next_generation
from airflow_provider_schemamig.core.ledger.objects.known_heads import store_heads
from airflow_provider_schemamig.core.ledger.objects.plan_store import write_plan
from airflow_provider_schemamig.core.ledger.rows import (
    Deployment,
    DeploymentState,
    EnvironmentRelease,
    Leader,
    Object,
    SchemaEntry,
    Shard,
    ShardState,
)
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Generation, ShardId, Version
from airflow_provider_schemamig.core.release.authoring.next_version import KnownFolder, NextVersion, first_version, known, next_version
from airflow_provider_schemamig.core.release.merge.chain import Create
from airflow_provider_schemamig.core.release.sql.render import create_table_text, sayable, with_more_statements
from airflow_provider_schemamig.core.schema.diff.drift import ABSENT, live_differences
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint, set_fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration, ForeignKey, Key
from airflow_provider_schemamig.core.storage import Location, place_of, probe_put_if_absent, require_safe_log_store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.adopt import errors as e
from airflow_provider_schemamig.core.upgrade.adopt.adoptable import (
    FoundTable,
    given_tables,
    is_managed,
    look,
    refuse_place,
    shard_places,
    tables_below,
)
from airflow_provider_schemamig.core.upgrade.context.context import no_open_deployment, no_open_hold
from airflow_provider_schemamig.core.upgrade.plan.column_names import names_of
from airflow_provider_schemamig.core.upgrade.plan.live_tables import live_places, table_store
from airflow_provider_schemamig.core.upgrade.plan.notes.unasked_keys import unasked_keys
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.stages import Commit
from airflow_provider_schemamig.core.upgrade.plan.target import Target, passed, target_of
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError, raise_refusals


@dataclass(frozen=True, slots=True)
class AdoptedTable:
    """A table as it was taken. ``read_only``: it has table features that schemamig does not know, so it will not be changed."""

    collection: CollectionName
    uri: str
    shard: ShardId
    table_version: int
    read_only: bool


@dataclass(frozen=True)
class Adoption:
    """``generation`` None: all of it was managed already. ``files``: what was written of the release folder."""

    version: Version
    generation: Generation | None
    files: tuple[str, ...]
    tables: tuple[AdoptedTable, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return what ``schemamig adopt`` prints."""
        return {
            "version": str(self.version),
            "generation": self.generation,
            "files": list(self.files),
            "tables": [asdict(table) for table in self.tables],
            "notes": list(self.notes),
        }


def adopt(
    env: EnvironmentRoot, release_dir: Path, tables: Sequence[tuple[str, str]], *, below: Sequence[str] = (), create: bool = False
) -> Adoption:
    """Take ``tables`` (name, URI or path), and those right ``below`` folders, under management at the release that declares them as they
    are.

    A folder without a release gets version 1.0.0; collections that the folder's head does not declare become its next minor version. The
    environment has to be at that head or empty, or between it and the head nothing but these tables may come. It is made only with
    ``create`` (NoEnvironment).

    Raises every reason against it at once (``adopt.errors``, NotDeclarable, UnknownDeltaType, InvalidName, CatalogManagedTable, the
    folder's own refusals); DeploymentOpen, HoldOpen, Overtaken.
    """
    ledger = LedgerWriter(env)
    require_environment(env, create=create)
    state = ledger.state_or_none()
    if state is not None:
        state.require_current("adopt")
        no_open_deployment(state)
    named = given_tables([*tables, *tables_below(env, state, below, given_tables(tables))])
    _refuse_made_anew(env, state, named)
    given = [table for table in named if not is_managed(env, state, *table)]
    if not given:
        assert state is not None and state.release is not None  # it manages them
        return Adoption(state.release.version, None, (), (), ())
    found = look(env, state, given)
    release = _release(release_dir, state, found)
    if state is None:  # a place where no ledger can be is refused before the release folder gets a file
        require_safe_log_store(env.store())
        probe_put_if_absent(env.store(), env.SYSTEM_FOLDER)
    files = release.written.write() if release.written is not None else ()
    return _record(env, ledger, state, release, found, files)


def _refuse_made_anew(env: EnvironmentRoot, state: State | None, named: Sequence[tuple[CollectionName, Location]]) -> None:
    """Raise AnotherTable if another, unmanaged table lies at the place of a managed one."""
    if state is None:
        return

    def refused(collection: CollectionName) -> SchemamigError | None:
        store = table_store(env, state, state.objects[collection].shard)
        head = look_or_none(store)
        return another_table(store, head, collection) if head is not None and head.is_another else None

    managed = [collection for collection, location in named if is_managed(env, state, collection, location)]
    raise_refusals([refusal for refusal in env.each(refused, managed) if refusal is not None])


# --- the release ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AdoptedRelease:
    """The release that the environment will be at. ``written``: the version that has to be written for it first."""

    name: str
    version: Version
    source: Version | None
    declared: dict[CollectionName, Declaration]
    written: NextVersion | None = None
    passed: tuple[tuple[Version, str], ...] = ()


def _release(path: Path, state: State | None, found: Sequence[FoundTable]) -> AdoptedRelease:
    folder = known(path)
    source = state.release_version if state is not None else None
    if state is not None:
        no_open_hold(state)
    if folder.is_new and source is None:
        made = first_version(path, "\n".join(_statement(table) for table in found))
        return AdoptedRelease(made.name, made.version, None, dict(made.snapshot.declarations), made)
    if source is not None and (before := _managed_before(folder, state, source, found)) is not None:
        return before
    head = dict(folder.head)
    new = [table for table in found if table.collection not in head]
    raise_refusals(_differences(folder.release.version, head, found))
    _refuse_more(folder, state, found)
    if not new:
        release = folder.checked()
        return AdoptedRelease(release.name, release.version, source, head, passed=passed(release, state))
    made = _next(folder, new)
    return AdoptedRelease(made.name, made.version, source, dict(made.snapshot.declarations), made, passed(folder.release, state))


def _managed_before(folder: KnownFolder, state: State | None, source: Version, found: Sequence[FoundTable]) -> AdoptedRelease | None:
    """Return the environment's own release, if it declares all of these tables, because they were given back before; else None."""
    release = folder.release
    declared = release.declarations(source) if source in release.snapshots else {}
    if not all(table.collection in declared for table in found):
        return None
    target_of(replace(folder.checked(), version=source), state)  # refused if it is another product's, or the release was edited since
    raise_refusals(_differences(source, declared, found))
    return AdoptedRelease(release.name, source, source, dict(declared), passed=passed(replace(release, version=source), state))


def _statement(table: FoundTable) -> str:
    return create_table_text(sayable(table.live), table.remarks)


def _next(folder: KnownFolder, new: Sequence[FoundTable]) -> NextVersion:
    schema = folder.release.snapshots[folder.release.version].text
    names = ", ".join(table.collection for table in new)
    why = f"These tables were there before they were managed: {names}. `schemamig adopt` declares them as they are."
    text = with_more_statements(schema, "\n".join(map(_statement, new)))
    return next_version(folder, text, f"Take over {len(new)} existing table(s)", why)


def _differences(version: Version, head: Mapping[CollectionName, Declaration], found: Sequence[FoundTable]) -> list[SchemamigError]:
    """Return a refusal for each table that the release declares otherwise than it is."""
    refusals: list[SchemamigError] = []
    for table in found:
        declared = head.get(table.collection)
        differences = [] if declared is None else list(_differences_of(declared, sayable(table.live)))
        if differences:
            uri = table.location.uri
            refusals.append(e.TableDiffers(collection=table.collection, uri=uri, version=str(version), differences=tuple(differences)))
    return refusals


def _differences_of(declared: Declaration, live: Declaration) -> Iterator[str]:
    for difference in live_differences(declared, live):
        yield str(difference)
    if declared.clustered_by != live.clustered_by:
        yield f"clustering: expected {', '.join(declared.clustered_by) or ABSENT}, found {', '.join(live.clustered_by) or ABSENT}"
    keys: list[Key | ForeignKey] = [*([declared.primary_key] if declared.primary_key else []), *declared.uniques, *declared.foreign_keys]
    for key in keys:
        yield f"key ({', '.join(key.columns)}): expected it, and nothing on a Delta table says that its rows keep one"


def _refuse_more(folder: KnownFolder, state: State | None, found: Sequence[FoundTable]) -> None:
    """Refuse more than these tables between where the environment is and the folder's head."""
    release = folder.release
    names = {table.collection for table in found}
    declared = release.declarations(release.version)
    if state is None or state.release is None:
        missing = sorted(set(declared) - names)
        if missing:
            raise e.TablesMissing(version=str(release.version), names=missing)
        return
    target = target_of(release, state)
    brought = {step.collection for step in target.steps if isinstance(step, Create) and step.collection in names}
    others = [step.collection for step in target.steps if step.collection not in brought]
    others += [declaration.name for declaration in target.restated]
    if others:
        raise e.MoreThanAdopted(source=str(target.source), target=str(target.version), others=sorted(others), brings=bool(brought))


# --- the ledger ----------------------------------------------------------------------------------------------------------------------


def _record(
    env: EnvironmentRoot,
    ledger: LedgerWriter,
    seen: State | None,
    release: AdoptedRelease,
    found: Sequence[FoundTable],
    files: tuple[str, ...],
) -> Adoption:
    """Write all tables down in ONE append; nothing more happens if a twin did it meanwhile."""
    started = pendulum.now("UTC")
    taken: list[AdoptedTable] = []
    generation = Generation(0)

    def decide(state: State) -> Sequence[Update]:
        nonlocal generation
        taken.clear()
        state.require_current("adopt")
        no_open_deployment(state)
        no_open_hold(state)
        if all(is_managed(env, state, table.collection, table.location) for table in found):
            return ()
        if state.release != (seen.release if seen is not None else None):
            raise e.Overtaken()
        places = shard_places(env, state)
        for table in found:
            refuse_place(env, state, places, table.collection, table.location)
        generation = next_generation(state)
        shards = _shards(state, found, generation)
        taken.extend(_taken(table, shard) for table, shard in zip(found, shards, strict=True))
        return adopted_rows(env, state, release, found, shards, generation, next_epoch(state), started, "adopt")

    env_id = str(uuid.uuid4())
    if seen is not None or ledger.create(env_id, decide).config.env_id != env_id:  # else it is there with these rows, in one commit
        ledger.transact(decide)
    if not taken:
        return Adoption(release.version, None, files, (), ())
    now = ledger.state()
    store_heads(env, live_places(env, now))
    remarks = [(table.collection, remark) for table in found for remark in (*table.remarks, *_remarks_on_place(env, table))]
    unasked = unasked_keys(now, {table.collection: None for table in found})
    notes = tuple(f"{name}: {remark}" for name, remark in (*remarks, *unasked))
    return Adoption(release.version, generation, files, tuple(taken), notes + _remember(env, taken, generation, started))


def _remarks_on_place(env: EnvironmentRoot, table: FoundTable) -> Iterator[str]:
    """Yield what a table's place keeps it from: ``build.inside_tables`` refuses to make a new table in its folder."""
    if place_of(table.location) == place_of(env.location.child(table.collection)):
        yield (
            "it lies where its rewrite or replacement would go, which will be refused (inside_table); with the environment's root in a "
            "folder of its own it would not"
        )


def adopted_rows(
    env: EnvironmentRoot,
    state: State,
    release: AdoptedRelease,
    found: Sequence[FoundTable],
    shards: Sequence[Shard],
    generation: Generation,
    epoch: Epoch,
    now: pendulum.DateTime,
    verb: str,
) -> list[Update]:
    """Return the rows of the collections ``found`` as they are, in ``shards``, at ``release``, by a committed deployment of ``verb``."""
    fingerprints = state.release_set()
    updates: list[Update] = []
    for table, shard in zip(found, shards, strict=True):
        declared = release.declared[table.collection]
        declares = fingerprints[table.collection] = fingerprint(declared)
        schema_id = state.next_schema_id(table.collection)
        entry = SchemaEntry(
            collection=table.collection,
            schema_id=schema_id,
            shard=shard.shard,
            declared=declared,
            physical=recorded(table.live, declared),
            since_table_version=table.head.version,
            release=release.version,
            stored_names=names_of(table.head),
        )
        updates += [Put(shard), Put(entry), Put(Object(table.collection, shard.shard, schema_id, declares))]
    goal = set_fingerprint(fingerprints)
    plan = Plan(Target(release.name, release.source, release.version, goal, ()), (Commit(release.source, release.version),))
    write_plan(env, plan.text)
    deployment = Deployment(
        generation=generation,
        claim_id=f"{verb}-{generation}",
        source=release.source,
        target=release.version,
        plan_digest=plan.digest,
        state=DeploymentState.COMMITTED,
        created_at=now,
        hold_seconds=0,
    )
    reached = EnvironmentRelease(release.name, release.version, goal, release.passed)
    return [*updates, Put(reached), Put(deployment), Put(Leader(generation, epoch, now))]


def recorded(live: Declaration, declared: Declaration) -> Declaration:
    """Return the physical schema as the ledger keeps it: of properties those that are declared, and the keys, which no table holds."""
    known = dict(declared.properties)
    return replace(
        live,
        properties=tuple((key, value) for key, value in live.properties if key in known),
        primary_key=declared.primary_key,
        uniques=declared.uniques,
        foreign_keys=declared.foreign_keys,
    )


def _shards(state: State, found: Sequence[FoundTable], generation: Generation) -> list[Shard]:
    shards = []
    for table in found:
        digest = hashlib.sha256(f"{state.config.env_id}/{table.collection}/{table.uri}/{generation}".encode()).hexdigest()
        shard = ShardId(f"a{generation}-{digest[:12]}")
        shards.append(Shard(shard, table.collection, table.uri, table.head.table_id, generation, ShardState.LIVE, adopted=True))
    return shards


def _taken(table: FoundTable, shard: Shard) -> AdoptedTable:
    try:
        check_writable(table.head.protocol, table.location.uri)
        read_only = False
    except Refusal:
        read_only = True
    return AdoptedTable(table.collection, table.location.uri, shard.shard, table.head.version, read_only)


def _remember(env: EnvironmentRoot, taken: Sequence[AdoptedTable], generation: Generation, started: pendulum.DateTime) -> tuple[str, ...]:
    """Write one line of audit a table; the adoption does not fail because of it."""
    entries = [
        HistoryEntry.ended("adopt", started, collection=table.collection, generation=generation, detail=table.uri) for table in taken
    ]
    note = append_history(env, *entries)
    return (note,) if note else ()
