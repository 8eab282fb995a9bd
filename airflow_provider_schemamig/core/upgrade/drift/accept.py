"""Drift, first way on: what somebody did to a table becomes part of the release (docs/adopting.md).

The step is inferred from the table: columns added, widened, dropped, renamed (by their identity), NOT NULL, defaults, CHECKs, properties.
The release folder gets a next version with it. The ledger records the table as *ahead* of its release, as for every change outside of one
(``UnreleasedChange``): from then on it is no drift, the next release has to contain it, and its upgrade finds the table as it wants it.

The folder is written first, release.toml last; a process that dies in between is followed by one that finds there what it would write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pendulum

from airflow_provider_schemamig.core.delta.log.head import Head, another_table
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history, detail_of_accept
from airflow_provider_schemamig.core.ledger.leadership import Leadership
from airflow_provider_schemamig.core.ledger.rows import Object, SchemaEntry, UnreleasedChange
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, SchemaId, Version
from airflow_provider_schemamig.core.release.authoring.next_version import KnownFolder, known
from airflow_provider_schemamig.core.release.sql.alter.paths import foreign_key_text, referring
from airflow_provider_schemamig.core.release.sql.parse import wrong_reference
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.schema.describe import change_json, describe
from airflow_provider_schemamig.core.schema.diff.renames import net_renames
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.adopt.adopt import recorded
from airflow_provider_schemamig.core.upgrade.adopt.errors import CollectionInUse, Overtaken
from airflow_provider_schemamig.core.upgrade.context.context import close_expired_holds, no_open_deployment
from airflow_provider_schemamig.core.upgrade.drift.accepted import Taken, in_release, taken_back, target_from_here, unreleased_after
from airflow_provider_schemamig.core.upgrade.drift.changes import (
    Foreign,
    dropped,
    foreign_changes,
    refuse_lost_seal,
    refused_by_evolution,
    reversal,
    taken_over,
)
from airflow_provider_schemamig.core.upgrade.drift.errors import CannotAccept
from airflow_provider_schemamig.core.upgrade.drift.release_step import step_to
from airflow_provider_schemamig.core.upgrade.errors import ShardMissing, UnknownCollection
from airflow_provider_schemamig.core.upgrade.plan.column_names import names_of
from airflow_provider_schemamig.core.upgrade.plan.columns.uses import uses_kept
from airflow_provider_schemamig.core.upgrade.plan.holds.rules import why_held
from airflow_provider_schemamig.core.upgrade.plan.live_tables import NO_TABLE, consistent_look, look_at_tables, read_heads, table_store
from airflow_provider_schemamig.core.upgrade.plan.notes.unasked_keys import unasked_keys
from airflow_provider_schemamig.core.upgrade.plan.target import check_product
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError, raise_refusals


@dataclass(frozen=True)
class AcceptedDrift:
    """``version``: the release that contains the changes, None if there was no drift. ``changes``: what was taken over, by collection."""

    version: Version | None
    files: tuple[str, ...]
    changes: tuple[tuple[CollectionName, tuple[Change, ...]], ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what ``schemamig accept`` prints."""
        return {
            "version": str(self.version) if self.version else None,
            "files": list(self.files),
            "accepted": [{"collection": name, "changes": [change_json(change) for change in changes]} for name, changes in self.changes],
            "notes": list(self.notes),
        }


def accept(env: EnvironmentRoot, release_dir: Path, collections: Sequence[str] = ()) -> AcceptedDrift:
    """Take over the drift of the named collections, or of all whose drift can be taken over. No drift: nothing happens.

    The folder's next minor version is written, over the environment's release, or over a later one that can be followed (``_can_follow``:
    an earlier ``accept`` wrote it). None is written where a later one contains these very changes already (another environment's
    ``accept`` wrote it, or a person did). No table gets a commit.

    An id of its own that somebody gave a table concerns the ledger alone: no release is written for it.

    Raises UnknownCollection, ShardMissing, AnotherTable, CannotAccept, NotInVersions, DeploymentOpen, HoldOpen (its way back would not
    know of the change; one whose time is over is closed, and contract goes on from there), CollectionInUse, Overtaken, and what is wrong
    with the folder.
    """
    started = pendulum.now("UTC")
    ledger, folder = LedgerWriter(env), known(release_dir)

    def look(state: State) -> tuple[State, list[Taken], list[str]]:
        state.require_current("accept")
        check_product(folder.release, state)
        no_open_deployment(state)
        return (state, *_drifted(env, state, collections, _given_back(folder, state)))

    state, taken, left = consistent_look(ledger.state, look, lambda found: found[1] or found[2])
    if not taken:
        return AcceptedDrift(None, (), (), tuple(left))
    close_expired_holds(state)  # or refuse, before a file is written
    assert state.release is not None  # it has tables
    version: Version = state.release.version
    files: tuple[str, ...] = ()
    if any(item.is_for_release for item in taken):
        version, files = in_release(env, folder, state, taken, target_from_here(folder, state, taken))
    _record(ledger, state, taken)
    notes = (*_remember(env, state, taken, version, started), *(() if files else taken_back(folder, taken)), *left)
    return AcceptedDrift(version, files, tuple((item.name, item.changes) for item in taken), notes)


# --- what was done -------------------------------------------------------------------------------------------------------------------


def _given_back(folder: KnownFolder, state: State) -> Mapping[CollectionName, Declaration]:
    """Return what the folder's head declares and the environment does not manage, also by no other name."""
    ours = state.objects.keys() | state.release_set().keys()
    return {name: declared for name, declared in folder.head.items() if name not in ours}


def _drifted(
    env: EnvironmentRoot, state: State, collections: Sequence[str], others: Mapping[CollectionName, Declaration]
) -> tuple[list[Taken], list[str]]:
    """Return the drift that can be taken over, and notes on the rest: nothing else waits for the rest, unless it was asked for by name.

    ``others``: what the release declares of tables that are not managed.
    """
    unknown = [name for name in collections if name not in state.objects]
    raise_refusals([UnknownCollection(collection=name) for name in unknown])
    refusals: list[SchemamigError] = []
    left: list[CannotAccept] = []
    found: list[Taken] = []
    named = [CollectionName(name) for name in collections]
    heads: Mapping[CollectionName, Head | str | None] = read_heads(env, state, named) if named else look_at_tables(env, state)
    for name, seen in sorted(heads.items()):
        head = None if isinstance(seen, str) else seen
        try:
            taken = _taken(env, state, name, head, named=bool(collections))
            if collections and taken is None and head is not None:
                refuse_lost_seal(state, name, head)
        except CannotAccept as refusal:
            left.append(refusal)
        except Refusal as refusal:
            refusals.append(refusal)
        else:
            found += [taken] if taken is not None else []
    found, mistyped = _without_mistyped(env, state, found, others)
    left += mistyped
    if refusals or collections or not found:
        raise_refusals([*refusals, *left])
    notes = [f"{refusal.collection} is left as it is: {refusal.message} {refusal.next_action}" for refusal in left]
    gone = [(name, why) for name, seen in sorted(heads.items()) if not named and (why := _why_gone(seen)) is not None]
    return found, [*notes, *(f"{name} is left as it is: {why} (`schemamig status`)" for name, why in gone)]


def _why_gone(seen: Head | str | None) -> str | None:
    """Return why there is nothing to take over of a collection, as its own table cannot be seen."""
    if isinstance(seen, Head):
        return "another table is in its place" if seen.is_another else None
    return seen or NO_TABLE


def _without_mistyped(
    env: EnvironmentRoot, state: State, found: Sequence[Taken], others: Mapping[CollectionName, Declaration]
) -> tuple[list[Taken], list[CannotAccept]]:
    """Take out what would leave the two sides of a foreign key with different types; both at once may have got another one."""
    kept, left = list(found), list[CannotAccept]()
    while True:
        wrong = _mistyped(state, {**others, **state.declarations(), **{item.declared.name: item.declared for item in kept}})
        if not any(item.declared.name in wrong for item in kept):
            return kept, left
        left += [_cannot(env, state, item.foreign, wrong[item.declared.name]) for item in kept if item.declared.name in wrong]
        kept = [item for item in kept if item.declared.name not in wrong]


def _mistyped(state: State, declarations: Mapping[CollectionName, Declaration]) -> Mapping[CollectionName, Sequence[str]]:
    """Return what is wrong with foreign keys, in words, by both of their collections."""
    found: dict[CollectionName, list[str]] = {}
    for declared in declarations.values():
        for key in declared.foreign_keys:
            referred = declarations.get(key.references) or _last_declared(state, key.references)  # the latter: it was given back
            reason = None if referred is None else wrong_reference(declared, key, referred)
            for name in dict.fromkeys((declared.name, key.references)) if reason is not None else ():
                found.setdefault(name, []).append(f"{foreign_key_text(key)} of {declared.name}: {reason}")
    return found


def _last_declared(state: State, name: CollectionName) -> Declaration | None:
    newest = state.schemas.get((name, SchemaId(state.next_schema_id(name) - 1)))
    return None if newest is None else newest.declared


def _taken(env: EnvironmentRoot, state: State, name: CollectionName, head: Head | None, *, named: bool) -> Taken | None:
    if head is None or head.is_another:
        if not named:
            return None  # nothing to take over: `status` shows it
        store = table_store(env, state, state.objects[name].shard)
        raise another_table(store, head, name) if head is not None else ShardMissing(collection=name, uri=store.location.uri)
    foreign = _foreign(state, name, head)
    if foreign is None:
        return None
    for intent in state.intents_of(state.objects[name].shard):
        first = "Run the command that was cut short again, or the next upgrade: it may put the table right."
        raise CollectionInUse(collection=name, what=f"a change of its table was begun and not ended ({intent.kind.value})", first=first)
    try:
        reasons = refused_by_evolution(foreign)
        if reasons:
            raise _cannot(env, state, foreign, reasons)
        step = step_to(state, foreign, taken_over(foreign))
        if step.untold:
            raise _cannot(env, state, foreign, step.untold)
        step.check()
        if referred := tuple(_referred(state, foreign)):
            raise _cannot(env, state, foreign, referred)
        live = replace(head.declaration(name), properties=foreign.live.properties)  # what a pin asks for is not the release's
        return Taken(foreign, step.result, recorded(live, step.result), foreign.visible, step)
    except CannotAccept:
        raise
    except Refusal as refusal:  # names that change hands, a CHECK nobody can follow: no single step says that
        raise _cannot(env, state, foreign, (refusal.message.rstrip("."),)) from refusal


def _foreign(state: State, name: CollectionName, head: Head) -> Foreign | None:
    try:
        return foreign_changes(state, name, head)
    except Refusal as refusal:  # a type that no declaration has
        raise CannotAccept(collection=name, reasons=(refusal.message.rstrip("."),), undoable=False, held=why_held(state)) from refusal


def _referred(state: State, foreign: Foreign) -> Iterator[str]:
    """Yield which other collections' foreign keys would be other ones: those steps nobody can infer from this table."""
    declared = state.declarations()
    for path in (*foreign.renames, *dropped(foreign)):
        yield from (f"{path} is used by {key}" for key in referring(foreign.entry.declared, path, declared))


def _cannot(env: EnvironmentRoot, state: State, foreign: Foreign, reasons: Sequence[str]) -> CannotAccept:
    undoable, held = _is_revertible(env, state, foreign), why_held(state)
    return CannotAccept(collection=foreign.entry.collection, reasons=reasons, undoable=undoable, held=held)


def _is_revertible(env: EnvironmentRoot, state: State, foreign: Foreign) -> bool:
    try:
        return not reversal(table_store(env, state, foreign.entry.shard), foreign).impossible
    except Refusal:
        return False


def why_not(env: EnvironmentRoot, state: State, collection: CollectionName, head: Head) -> tuple[str, ...]:
    """Return the reasons that ``accept`` would give for the table itself, for ``status``."""
    try:
        taken = _taken(env, state, collection, head, named=True)
        if taken is not None:
            after = {**state.declarations(), taken.declared.name: taken.declared}
            return tuple(_mistyped(state, after).get(taken.declared.name, ()))
    except CannotAccept as error:
        return tuple(error.reasons)
    except Refusal as refusal:
        return (refusal.message.rstrip("."),)
    return ()


# --- the ledger ----------------------------------------------------------------------------------------------------------------------


def _record(ledger: LedgerWriter, seen: State, taken: Sequence[Taken]) -> None:
    """Write what was taken over in ONE append; if a twin took over the very same, nothing is left to do."""

    def decide(state: State) -> Sequence[Update]:
        no_open_deployment(state)
        ended = close_expired_holds(state)
        if state.version != seen.version:
            _check_not_reverted(ledger.env, state, taken)
        updates: list[Update] = []
        for item in taken:
            if item.name in state.objects and _is_recorded(state, item):
                continue
            if item.name not in state.objects or state.entry(item.name) != item.foreign.entry or state.release != seen.release:
                raise Overtaken(collection=item.name)
            updates += _accepted(state, item)
        return [*updates, *ended] if updates else []

    assert seen.leader is not None  # who has collections had a leader
    ledger.transact(decide, Leadership(seen.leader.generation, seen.leader.epoch))


def _check_not_reverted(env: EnvironmentRoot, state: State, taken: Sequence[Taken]) -> None:
    """Raise Overtaken where a table is not as it was seen, or is about to be: somebody may revert the drift meanwhile."""
    for item in taken:
        if state.intents_of(item.foreign.entry.shard):
            raise Overtaken(collection=item.name)
    heads = read_heads(env, state, [item.name for item in taken if item.name in state.objects])
    for item in taken:
        head, seen = heads.get(item.name), item.foreign.head
        if head is not None and not head.is_another and head.metadata != seen.metadata:
            raise Overtaken(collection=item.name)


def _is_recorded(state: State, item: Taken) -> bool:
    entry, head = state.entry(item.name), item.foreign.head
    return (entry.physical, entry.stored_names, state.shard_of(item.name).table_id) == (item.physical, names_of(head), head.table_id)


def _accepted(state: State, item: Taken) -> list[Update]:
    entry, head = item.foreign.entry, item.foreign.head
    known = [Put(replace(state.shards[entry.shard], table_id=head.table_id))] if item.foreign.has_other_id else []
    if item.has_id_alone:
        return list(known)
    ahead, before = unreleased_after(state, item) if item.step.is_needed else None, state.unreleased_of(item.name)
    assert state.release is not None  # it has tables
    schema_id = state.next_schema_id(item.name)
    made = SchemaEntry(
        collection=item.name,
        schema_id=schema_id,
        shard=entry.shard,
        declared=item.declared,
        physical=item.physical,
        since_table_version=head.version,
        release=None if ahead is not None else state.release.version,
        stored_names=names_of(head),
        uses=uses_kept(entry, item.physical, names_of(head)),
    )
    updates: list[Update] = [Put(made), Put(Object(item.name, entry.shard, schema_id, fingerprint(item.declared)))]
    return [
        *updates,
        *known,
        *([Put(ahead)] if ahead is not None else []),
        *([Drop(UnreleasedChange, before.key)] if before is not None else []),
    ]


def _names_of_renamed(state: State, item: Taken) -> set[str]:
    """Return all names of a collection of which columns were renamed; none of another one."""
    return {item.name, *state.released(state.objects[item.name])} if net_renames(item.changes) else set()


def _remember(env: EnvironmentRoot, state: State, taken: Sequence[Taken], version: Version, started: pendulum.DateTime) -> tuple[str, ...]:
    """Write one line of audit a collection, and return the notes."""
    generation = state.leader.generation if state.leader is not None else None
    ids = {item.name: item.id_text for item in taken if item.foreign.has_other_id}
    told = {item.name: f"into {version}: {'; '.join(map(describe, item.changes)) or ids.get(item.name, '')}" for item in taken}
    details = {item.name: detail_of_accept(told[item.name], _names_of_renamed(state, item)) for item in taken}
    entries = [HistoryEntry.ended("accept", started, collection=name, generation=generation, detail=text) for name, text in details.items()]
    note = append_history(env, *entries)
    for item in taken:
        if item.foreign.again:
            ids.setdefault(item.name, f"{', '.join(item.foreign.again)}: what was added since is the release's column now")
    again = [item.name for item in taken if item.changes and not item.step.is_needed]
    ids |= dict.fromkeys(again, f"the table is again as release {version} declares it, and no longer ahead of it")
    unasked = unasked_keys(state, {item.name: item.foreign.again for item in taken})
    return (*(f"{name}: {text}" for name, text in (*ids.items(), *unasked)), *((note,) if note else ()))
