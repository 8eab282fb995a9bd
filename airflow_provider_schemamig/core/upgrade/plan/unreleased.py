"""A change made outside of a release has to be in the next one, or the next one would take it away again unseen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from airflow_provider_schemamig.core.ledger.rows import HoldState, UnreleasedChange
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Epoch, SchemaId
from airflow_provider_schemamig.core.release.merge.chain import Create, Evolve, MergedStep, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.schema.changes import Change, Cost
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_widening
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.schema.diff.compare import Diff, diff
from airflow_provider_schemamig.core.schema.diff.contained import contains
from airflow_provider_schemamig.core.schema.fingerprint import canonical_type, fingerprint
from airflow_provider_schemamig.core.schema.model import DataType, Declaration, Primitive, walk
from airflow_provider_schemamig.core.schema.paths import field_at, join, parent_and_name, path_in_files, translate
from airflow_provider_schemamig.core.schema.sql import type_sql
from airflow_provider_schemamig.core.upgrade.errors import ChangeNotInRelease, RenamedOutsideRelease
from airflow_provider_schemamig.exceptions import raise_refusals

_CREATION = "the whole table"


def no_table(name: CollectionName) -> Declaration:
    """Return the declaration of a collection without a table."""
    return Declaration(name, ())


def from_here(state: State, steps: Sequence[MergedStep], read: Collection[CollectionName] = ()) -> tuple[MergedStep, ...]:
    """Return the steps of a release over the tables as they are called here.

    What it creates or renames may have been created or renamed already, outside of a release. ``read``: the other collections that its
    queries read. Raises RenamedOutsideRelease for queries over what is not under its released name, or has not the release's columns.
    """
    moved = _moved(state)
    queried = set(read) | {step.old.name for step in steps if isinstance(step, Replace | RewriteStep)}
    gone = {**moved, **dict.fromkeys(state.dropped)}
    raise_refusals([RenamedOutsideRelease(collection=name, now=gone[name]) for name in sorted(queried & gone.keys())])
    rewritten = {step.old.name for step in steps if isinstance(step, RewriteStep)}
    copied = rewritten | {step.old.name for step in steps if isinstance(step, Replace) and step.old.name in read}
    unlike = [(name, tuple(_unlike_release(state, name, is_copied=name in copied))) for name in sorted({*read, *rewritten})]
    raise_refusals([RenamedOutsideRelease(collection=name, now=name, columns=columns) for name, columns in unlike if columns])
    return tuple(sorted((_from_here(state, step, moved) for step in steps), key=lambda step: step.collection))


def _moved(state: State) -> dict[CollectionName, CollectionName]:
    """Return the release's name -> the name here, of what was renamed outside of a release."""
    found = (unreleased for name in state.objects if (unreleased := state.unreleased_of(name)) is not None and unreleased.released.fields)
    return {unreleased.released.name: unreleased.collection for unreleased in found if unreleased.released.name != unreleased.collection}


def _from_here(state: State, step: MergedStep, moved: Mapping[CollectionName, CollectionName]) -> MergedStep:
    match step:
        case Create(collection=name) if name in state.objects and not state.released(state.objects[name]):
            old = state.entry(name).declared
            if step.fill is not None:
                return Replace(name, old, step.new, step.fill, step.snapshot, step.fill_version)
            return Evolve(name, None, old, step.new, {}, diff(old, step.new).dropped)
        case Evolve(collection=name) if moved.get(step.old.name) == name:
            return replace(step, renamed_from=None, old=replace(step.old, name=name))
        case Remove(old=old) if old.name in moved:
            return Remove(moved[old.name], replace(old, name=moved[old.name]))
        case _:
            return step


def not_in_release(state: State, steps: Sequence[MergedStep]) -> Iterator[ChangeNotInRelease]:
    """Yield one refusal for each collection that is ahead of its release by a change missing in the next one.

    ``steps``: those that ``from_here`` returned.
    """
    removed = {step.old.name for step in steps if isinstance(step, Remove)}
    for name in sorted(state.dropped.keys() - removed):
        yield ChangeNotInRelease(collection=name, changes=("its removal",))
    changed = by_source(steps)
    created = {step.collection for step in steps if isinstance(step, Create)}
    for name in sorted(state.objects):
        unreleased, step = state.unreleased_of(name), None if name in created else changed.get(name)
        if unreleased is None or isinstance(step, Remove):
            continue
        missing = missing_in(unreleased, step, _renamed_outside(state, unreleased)) or _renamed_here(state, unreleased, step)
        if missing:
            yield ChangeNotInRelease(collection=name, changes=missing)


def made_outside(state: State, collection: CollectionName) -> tuple[str, ...]:
    """Return, in words, the unreleased changes of a collection; empty: it is as released."""
    unreleased = state.unreleased_of(collection)
    if unreleased is None:
        return ()
    if not unreleased.released.fields:
        return (_CREATION,)
    changes = diff(unreleased.released, unreleased.declared, _renamed_outside(state, unreleased)).changes
    found = [describe(change) for change in changes if change.cost is not Cost.NONE]
    return (*_new_name(unreleased), *found)


def by_source(steps: Sequence[MergedStep]) -> dict[CollectionName, MergedStep]:
    """Return the steps of collections that are there, by their names before."""
    return {step.old.name: step for step in steps if not isinstance(step, Create)}


def _renamed_here(state: State, unreleased: UnreleasedChange, step: MergedStep | None) -> tuple[str, ...]:
    """Return the renames made outside of a release that the step has as a drop and an addition, or not at all: here it would find all in
    place, and any other environment would lose the values."""
    if not (step is None or isinstance(step, Evolve)) or not unreleased.released.fields:
        return ()
    made, told = _renamed_outside(state, unreleased), step.renames if step is not None else {}
    return tuple(f"the rename of {path} to {name}" for path, name in sorted(made.items()) if told.get(path) != name)


def _renamed_outside(state: State, unreleased: UnreleasedChange) -> dict[ColumnPath, str]:
    """Return what was renamed outside of a release: path in the release -> last name now, by the names in the data files.

    Empty also where the ledger does not know the release's columns any more.
    """
    names, entry = state.names_in_release(unreleased), state.entry(unreleased.collection)
    if names is None:
        return {}
    here = {path_in_files(path, dict(entry.stored_names)): path for path, _ in walk(unreleased.declared.fields)}
    now = {path: here.get(path_in_files(path, names)) for path, _ in walk(unreleased.released.fields)}
    found = {path: parent_and_name(there)[1] for path, there in now.items() if there is not None}
    return {path: name for path, name in found.items() if name != parent_and_name(path)[1]}


def _unlike_release(state: State, collection: CollectionName, *, is_copied: bool) -> Iterator[str]:
    """Yield, in words, the columns that a query of a release takes for others or does not find.

    Such a query names the columns of the release before. ``is_copied``: what the query cannot name is lost, too.
    """
    unreleased = state.unreleased_of(collection) if collection in state.objects else None
    if unreleased is None or not unreleased.released.fields:
        return
    made = _renamed_outside(state, unreleased)
    here: dict[ColumnPath, ColumnPath] = {}
    for path, before in walk(unreleased.released.fields):
        here[path] = join(parent_and_name(translate(path, made))[0], made.get(path, parent_and_name(path)[1]))
        now = field_at(unreleased.declared.fields, here[path])
        if path in made:
            yield f"{path} is called {here[path]} here"
        elif now is None:
            yield f"{path} was dropped here"
        elif isinstance(before.type, Primitive) and not _is_as_wide(before.type, now.type):
            yield f"{path} is {type_sql(now.type)} here"
    if is_copied:
        yield from (f"{path} is new here" for path, _ in walk(unreleased.declared.fields) if path not in here.values())


def _is_as_wide(before: DataType, now: DataType) -> bool:
    """Return whether a query finds each value of before: a wider type has them all."""
    return canonical_type(before) == canonical_type(now) or is_widening(before, now)


def declared_now(state: State, step: Evolve) -> Declaration:
    """Return what the collection is declared as before the step: by the release, or by what was changed since outside of it."""
    unreleased = state.unreleased_of(step.old.name)
    return step.old if unreleased is None else unreleased.declared


def renames_left(state: State, step: Evolve) -> Mapping[ColumnPath, str]:
    """Return the step's renames that were not made outside of a release already (``accept``), by the paths the columns have now."""
    unreleased = state.unreleased_of(step.old.name)
    if unreleased is None:
        return step.renames
    done = _renames_done(unreleased, step.renames, _renamed_outside(state, unreleased))
    return {translate(path, done): name for path, name in step.renames.items() if path not in done}


def _renames_done(unreleased: UnreleasedChange, renames: Mapping[ColumnPath, str], made: Mapping[ColumnPath, str]) -> dict[ColumnPath, str]:
    """Return those of a step's ``renames`` that the table has already. ``made``: what was renamed outside of a release.

    By its name alone a column is known only where the release's is gone: two that exchanged their names both have one of the release's.
    """
    done: dict[ColumnPath, str] = {}
    for path, name in sorted(renames.items(), key=lambda item: item[0].count(".")):
        here = translate(path, done)
        there = join(parent_and_name(here)[0], name)
        is_gone = field_at(unreleased.declared.fields, here) is None and field_at(unreleased.declared.fields, there) is not None
        if made.get(path) == name or is_gone:
            done[path] = name
    return done


def unreleased_change(
    state: State, source: CollectionName | None, declared: Declaration, schema_id: SchemaId, epoch: Epoch
) -> UnreleasedChange:
    """Return the row that makes ``declared``, outside of a release, the schema of the collection called ``source`` (None: a new one)."""
    before = None if source is None else state.unreleased_of(source)
    if before is not None:
        released, known = before.released, before.released_fingerprint
    else:
        released = no_table(declared.name) if source is None else state.entry(source).declared
        known = fingerprint(released)
    return UnreleasedChange(
        collection=declared.name,
        schema_id=schema_id,
        epoch=epoch,
        declared=declared,
        released=released,
        released_fingerprint=known,
    )


def dropped_before(state: State, step: Remove, epoch: Epoch) -> UnreleasedChange:
    """Return the row for the way back of a release that removes a collection dropped outside of one before: it is ahead again then."""
    name = step.old.name
    return UnreleasedChange(name, state.next_schema_id(name), epoch, no_table(name), step.old, fingerprint(step.old))


def drop_released(state: State) -> list[Drop]:
    """Return the rows that a release's commit drops, because no way back can need them.

    What is in force now ends with the schema ids that the commit makes; what an open hold goes back to stays until that is over.
    """
    kept: set[tuple[CollectionName, SchemaId]] = set()
    for hold in state.holds.values():
        if hold.state is not HoldState.CLOSED:
            kept |= {*hold.restated, *((table.collection, table.schema_id) for table in hold.tables)}
    return [
        Drop(UnreleasedChange, row.key)
        for row in state.unreleased.values()
        if (row.collection, row.schema_id) not in kept
        and (row.collection not in state.objects or row != state.unreleased_of(row.collection))
    ]


def missing_in(unreleased: UnreleasedChange, step: MergedStep | None, renamed: Mapping[ColumnPath, str]) -> tuple[str, ...]:
    """Return the changes, in words, that the release does not make, or not all of it; what it drops or makes anew needs none.

    ``renamed``: path in the release -> last name now, of what was renamed outside of one.
    """
    if step is None and not unreleased.released.fields:
        return (_CREATION,)
    if step is None and (renamed_table := _new_name(unreleased)):
        return renamed_table
    made = _made(unreleased, step)
    places = {_place(change): change for change in made.changes}
    done = _renames_done(unreleased, step.renames, renamed) if isinstance(step, Evolve) else {}
    wanted = [change for change in diff(unreleased.released, unreleased.declared, done).changes if change.cost is not Cost.NONE]
    found = []
    for change in wanted:
        released = places.get(_place(change))
        if released is None and not _is_dropped(change, made):
            found.append(describe(change))
        elif released is not None and isinstance(step, Evolve) and not contains(released, change):
            found.append(f"{describe(change)} (the release: {describe(released)})")
    return tuple(found)


def _new_name(unreleased: UnreleasedChange) -> tuple[str, ...]:
    """Return that the table was renamed outside of a release, in words; empty: it was not."""
    before = unreleased.released.name
    return () if before == unreleased.collection else (f"its new name (it was {before})",)


def _made(unreleased: UnreleasedChange, step: MergedStep | None) -> Diff:
    match step:
        case Evolve():
            return diff(unreleased.released, step.new, step.renames)
        case Replace() | RewriteStep():
            return diff(unreleased.released, step.new)
        case _:
            return Diff()


def _is_dropped(change: Change, made: Diff) -> bool:
    path = getattr(change, "path", "")
    return any(path == gone or path.startswith(f"{gone}.") for gone in made.dropped)


def _place(change: Change) -> tuple[str, str]:
    for name in ("path", "key", "check", "foreign_key"):
        value = getattr(change, name, None)
        if value is not None:
            return change.op, str(value)
    return change.op, ""
