"""What ``accept`` takes over of a drifted table, and the version of the release with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.ledger.rows import UnreleasedChange
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Version
from airflow_provider_schemamig.core.release.authoring.draft import DraftStep
from airflow_provider_schemamig.core.release.authoring.next_version import KnownFolder, NextVersion, next_version
from airflow_provider_schemamig.core.release.merge.chain import Create, Evolve, MergedStep
from airflow_provider_schemamig.core.release.merge.errors import StopInBetween
from airflow_provider_schemamig.core.schema.changes import AddColumn, Change, DropColumn, RenameColumn, ReorderColumns
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.paths import field_at, join, parent_and_name
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.drift.changes import Foreign, began_at
from airflow_provider_schemamig.core.upgrade.drift.errors import CannotAccept, NotInVersions
from airflow_provider_schemamig.core.upgrade.drift.release_step import ReleaseStep, step_from_release, step_over
from airflow_provider_schemamig.core.upgrade.errors import RenamedOutsideRelease
from airflow_provider_schemamig.core.upgrade.plan.live_tables import look_at_tables, table_store
from airflow_provider_schemamig.core.upgrade.plan.target import Target, target_of
from airflow_provider_schemamig.core.upgrade.plan.unreleased import by_source, missing_in, no_table, unreleased_change
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError, error_of, raise_refusals, refusals_of


@dataclass(frozen=True)
class Taken:
    """A drifted collection, and what the release will declare of it."""

    foreign: Foreign
    declared: Declaration
    physical: Declaration
    changes: tuple[Change, ...]
    step: ReleaseStep

    @property
    def is_for_release(self) -> bool:
        """Return whether the release has something to say of it: not if only a hidden column changed, or an earlier change was undone."""
        return bool(self.changes) and self.step.is_needed

    @property
    def name(self) -> CollectionName:
        return self.foreign.entry.collection

    @property
    def has_id_alone(self) -> bool:
        """Return whether the table is as recorded but for its id, of which no release says anything."""
        return self.foreign.has_other_id and not self.foreign.changes and not self.foreign.again

    @property
    def id_text(self) -> str:
        return f"the ledger knows the table by its new id {self.foreign.head.table_id}"


def unreleased_after(state: State, item: Taken) -> UnreleasedChange:
    """Return the row that makes the accepted declaration the collection's schema."""
    assert state.leader is not None  # who has collections had a leader
    return unreleased_change(state, item.name, item.declared, state.next_schema_id(item.name), state.leader.epoch)


def target_from_here(folder: KnownFolder, state: State, taken: Sequence[Taken]) -> Target:
    """Return what the folder's head makes of the environment. Raises CannotAccept where an upgrade to it is refused, so that none would
    take a version on top, and what is wrong with the folder."""
    try:
        return target_of(folder.release, state)
    except SchemamigError as error:
        against = refusals_of(error)
        if not all(isinstance(refusal, StopInBetween | RenamedOutsideRelease) for refusal in against):
            raise
        told = "; ".join(f"{refusal.collection}: {refusal.message.rstrip('.')}" for refusal in against)
        reason = f"the upgrade from here to {folder.release.version} would be refused as it is ({told})"
        refused = [CannotAccept(collection=item.name, reasons=(reason,)) for item in taken if item.is_for_release]
        raise error_of(refused) from error


def in_release(
    env: EnvironmentRoot, folder: KnownFolder, state: State, taken: Sequence[Taken], target: Target
) -> tuple[Version, tuple[str, ...]]:
    """Return the version that contains the drift, and the files written for it. Raises NotInVersions.

    ``target``: the folder's head, from here.
    """
    refusals = list(_missing(state, taken, target.steps))
    if _is_at_head(folder, state) or (refusals and _can_follow(folder, state, taken, target)):
        made = _next(env, folder, state, taken, target)
        return made.version, made.write()
    raise_refusals(refusals)
    return folder.checked().version, ()


def _is_at_head(folder: KnownFolder, state: State) -> bool:
    return state.release is not None and folder.release.version == state.release.version


def _next(env: EnvironmentRoot, folder: KnownFolder, state: State, taken: Sequence[Taken], target: Target) -> NextVersion:
    is_at_head = _is_at_head(folder, state)
    found = [(item, item.step if is_at_head else step_over(item.foreign, item.declared)) for item in taken if item.is_for_release]
    why = [f"{item.name} ({'; '.join(map(describe, item.changes))}) {_who(env, state, item)}" for item, _ in found]
    before = _before(env, state, taken, target)
    dropped = _dropped(folder, state, target, [*(step for _, step in found), *before])
    why += [f"{step.declared.name} before, which no version had yet" for step in before]
    why += [f"{step.released.name} dropped before, which no version had yet" for step in dropped]
    steps = [*(step for _, step in found), *before, *dropped]
    schema = folder.release.snapshots[folder.release.version].text
    for step in steps:
        schema = step.in_schema(schema)
    reason = f"The tables were changed outside of a release: {', '.join(why)}. `schemamig accept` inferred these steps from them."
    title = f"Take over what was done to {', '.join(step.declared.name for step in steps)}"
    return next_version(folder, schema, title, reason, [DraftStep(step.step) for step in steps if step.step is not None])


def _before(env: EnvironmentRoot, state: State, taken: Sequence[Taken], target: Target) -> list[ReleaseStep]:
    """Return the steps of the tables that were ahead of their release before. No upgrade takes the version without them.

    None for one that the folder's versions change, or whose change no step says: the upgrade tells of those.
    """
    known = {item.name for item in taken}
    left = [name for name in state.objects if state.unreleased_of(name) is not None and name not in known]
    changed = by_source(target.steps)
    found = [item.step for item in taken if not item.changes and item.step.is_needed and item.name not in changed]  # another id alone
    for name, head in sorted(look_at_tables(env, state, left).items()) if left else ():
        unreleased = state.unreleased_of(name)
        if unreleased is None or isinstance(head, str) or head.is_another or name in changed:
            continue
        with contextlib.suppress(Refusal):  # names that change hands, a CHECK nobody can follow
            step = step_from_release(state, unreleased, unreleased.declared, head)
            if not step.untold and step.is_needed:
                step.check()
                found.append(step)
    return found


def _dropped(folder: KnownFolder, state: State, target: Target, steps: Sequence[ReleaseStep]) -> list[ReleaseStep]:
    """Return the steps of the tables that were dropped outside of a release (``alter``), as ``_before`` does of the others.

    None for one that a key refers to which the folder has after the other ``steps``.
    """
    changed, head = by_source(target.steps), folder.head
    left = {name for name in state.dropped if name in head and name not in changed}
    while True:  # one that stays keeps what its own keys refer to
        gone = {*left, *(step.released.name for step in steps)}
        after = [*(declared for name, declared in head.items() if name not in gone), *(step.declared for step in steps)]
        referred = left & {key.references for declared in after for key in declared.foreign_keys}
        if not referred:
            return [ReleaseStep(state.dropped[name].released, no_table(name), {}) for name in sorted(left)]
        left -= referred


def _who(env: EnvironmentRoot, state: State, item: Taken) -> str:
    """Describe by which statements the changes were made, as far as the log still tells."""
    store = table_store(env, state, item.foreign.entry.shard)
    began = began_at(store, item.foreign)
    if began is None:
        return "some time ago"
    found = [commit for commit in commits(store, began - 1, item.foreign.head.version) if commit.metadata is not None]
    return "at " + ", ".join(f"version {commit.version} ({commit.info.get('operation', 'unknown')})" for commit in found[-3:])


def _missing(state: State, taken: Sequence[Taken], steps: Sequence[MergedStep]) -> Iterator[NotInVersions]:
    """Yield a refusal for each table whose drift is not in the folder's steps from here to its head."""
    changed = by_source(steps)
    for item in taken:
        missing = missing_in(unreleased_after(state, item), changed.get(item.name), item.step.renames)
        if missing:
            yield NotInVersions(collection=item.name, changes=missing)


def _can_follow(folder: KnownFolder, state: State, taken: Sequence[Taken], target: Target) -> bool:
    """Return whether a version with the drift can follow a head that is not deployed here.

    The head declares the tables as they were before. Of a table that it changes or reads only columns may have come that the environment's
    release does not have: an upgrade makes all versions as one step, in which a column that goes and comes is two.
    """
    head = folder.release.declarations(folder.release.version)
    changed = by_source(target.steps)
    copied = {step.old.name for step in target.steps if not isinstance(step, Create | Evolve)}
    read = {found.collection for _, inputs in target.fill_inputs for found in inputs}
    for item in taken:
        unreleased = state.unreleased_of(item.name)
        if not item.is_for_release:
            continue
        if head.get(item.name) != item.foreign.entry.declared or item.name in copied or (unreleased is None and item.name in changed):
            return False
        released = item.foreign.entry.declared if unreleased is None else unreleased.released
        if (unreleased is not None or item.name in read) and not all(_is_new(change, released) for change in item.changes):
            return False
    return True


def _is_new(change: Change, released: Declaration) -> bool:
    return isinstance(change, AddColumn) and field_at(released.fields, change.path) is None


def taken_back(folder: KnownFolder, taken: Sequence[Taken]) -> Iterator[str]:
    """Say how the folder's head, which is not deployed here, differs from the drift: it was made when the table was another one."""
    head, version = folder.release.declarations(folder.release.version), folder.release.version
    for item in taken:
        known = head.get(item.declared.name)
        if known is None:
            continue
        for path in sorted(set(_touched(item.changes))):
            here = field_at(item.declared.fields, path) is not None
            if here != (field_at(known.fields, path) is not None):
                does = (
                    f"does not have {path}, and the upgrade to it takes it away" if here else f"has {path}, and the upgrade to it adds it"
                )
                yield f"{item.name}: {version}, which is not deployed here, {does}; {_unless_meant(version)}"
        for change in _done_again(item, known):
            text = f"the upgrade to {version}, which is not deployed here, does again what was taken back: {describe(change)}"
            yield f"{item.name}: {text}; {_unless_meant(version)}"


def _unless_meant(version: Version) -> str:
    return f"if that is not meant, take the versions up to {version} out of the folder"


def _done_again(item: Taken, known: Declaration) -> Iterator[Change]:
    """Yield what leads to the folder's head only since this was taken over; columns are told apart, and their order is no drift."""
    with contextlib.suppress(Refusal):  # names that change hands
        before = diff(replace(item.foreign.entry.declared, name=known.name), known).changes
        for change in diff(replace(item.declared, name=known.name), known).changes:
            if change not in before and not isinstance(change, AddColumn | DropColumn | RenameColumn | ReorderColumns):
                yield change


def _touched(changes: Iterable[Change]) -> Iterator[ColumnPath]:
    for change in changes:
        if isinstance(change, AddColumn | DropColumn | RenameColumn):
            yield change.path
        if isinstance(change, RenameColumn):
            yield join(parent_and_name(change.path)[0], change.name)
