"""What ``accept`` takes over of a drifted table, and the version of the release that contains it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.ledger.rows import UnreleasedChange
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.authoring.draft import DraftStep
from airflow_provider_schemamig.core.release.authoring.next_version import KnownFolder, NextVersion, next_version
from airflow_provider_schemamig.core.release.merge.chain import Create, Evolve, MergedStep
from airflow_provider_schemamig.core.schema.changes import AddColumn, Change
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.paths import field_at, translate
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.drift.changes import Foreign, began_at
from airflow_provider_schemamig.core.upgrade.drift.errors import NotInVersions
from airflow_provider_schemamig.core.upgrade.drift.release_step import ReleaseStep, step_over
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from airflow_provider_schemamig.core.upgrade.plan.unreleased import missing_in, unreleased_change
from airflow_provider_schemamig.exceptions import raise_refusals


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
    """Return the row that makes what was taken over the collection's schema."""
    assert state.leader is not None  # who has collections had a leader
    return unreleased_change(state, item.name, item.declared, state.next_schema_id(item.name), state.leader.epoch)


def in_release(
    env: EnvironmentRoot, folder: KnownFolder, state: State, taken: Sequence[Taken], steps: Sequence[MergedStep]
) -> tuple[Version, tuple[str, ...]]:
    """Return the version that contains what was done, and the files that were written for it. Raises NotInVersions."""
    assert state.release is not None  # it has tables
    refusals = list(_missing(state, taken, steps))
    if folder.release.version == state.release.version or (refusals and _can_follow(folder, state, taken, steps)):
        made = _next(env, folder, state, taken)
        return made.version, made.write()
    raise_refusals(refusals)
    return folder.checked().version, ()


def _next(env: EnvironmentRoot, folder: KnownFolder, state: State, taken: Sequence[Taken]) -> NextVersion:
    schema = folder.release.snapshots[folder.release.version].text
    steps: list[DraftStep] = []
    names: list[str] = []
    why: list[str] = []
    for item in taken:
        if not item.is_for_release:
            continue  # the ledger takes note
        is_at_head = state.release is not None and folder.release.version == state.release.version
        step = item.step if is_at_head else step_over(item.foreign, item.declared)
        schema = step.in_schema(schema)
        steps += [] if step.evolution is None else [DraftStep(step.evolution)]
        names.append(item.name)
        why.append(f"{item.name} ({'; '.join(map(describe, item.changes))}) {_who(env, state, item)}")
    reason = f"The tables were changed outside of a release: {', '.join(why)}. `schemamig accept` inferred these steps from them."
    return next_version(folder, schema, f"Take over what was done to {', '.join(names)}", reason, steps)


def _who(env: EnvironmentRoot, state: State, item: Taken) -> str:
    """Describe by which statements the changes were made, as far as the log still tells."""
    store = table_store(env, state, item.foreign.entry.shard)
    began = began_at(store, item.foreign)
    if began is None:
        return "some time ago"
    found = [commit for commit in commits(store, began - 1, item.foreign.head.version) if commit.metadata is not None]
    return "at " + ", ".join(f"version {commit.version} ({commit.info.get('operation', 'unknown')})" for commit in found[-3:])


def _missing(state: State, taken: Sequence[Taken], steps: Sequence[MergedStep]) -> Iterator[NotInVersions]:
    """Yield a refusal for each table of which the folder's steps from here to its head do not contain what was done."""
    by_source = _by_source(steps)
    for item in taken:
        missing = missing_in(unreleased_after(state, item), by_source.get(item.name), item.step.renames)
        if missing:
            yield NotInVersions(collection=item.name, changes=missing)


def _can_follow(folder: KnownFolder, state: State, taken: Sequence[Taken], steps: Sequence[MergedStep]) -> bool:
    """Return whether a version with what was done can stand on a head that is not deployed here.

    The head declares the tables as they were before. Of a table that it changes only columns may have come that the environment's release
    does not have: an upgrade makes all versions as one step, in which a column that goes and comes is two.
    """
    head, changed = folder.release.declarations(folder.release.version), _by_source(steps)
    for item in taken:
        unreleased = state.unreleased_of(item.name)
        if not item.is_for_release:
            continue
        if head.get(item.name) != item.foreign.entry.declared or (unreleased is None and item.name in changed):
            return False
        if unreleased is not None and not all(_is_new(change, unreleased.released) for change in item.changes):
            return False
    return True


def _is_new(change: Change, released: Declaration) -> bool:
    return isinstance(change, AddColumn) and field_at(released.fields, change.path) is None


def taken_back(folder: KnownFolder, taken: Sequence[Taken], steps: Sequence[MergedStep]) -> Iterator[str]:
    """Say which of the columns that came the folder's versions drop or rename: they were made when a column of that name had gone."""
    by_source, version = _by_source(steps), folder.release.version
    for item in taken:
        step = by_source.get(item.name)
        if not isinstance(step, Evolve):
            continue
        for change in item.changes:
            if not isinstance(change, AddColumn) or field_at(step.old.fields, change.path) is None:
                continue
            now = translate(change.path, step.renames)
            if now != change.path or field_at(step.new.fields, now) is None:
                does = f"calls {change.path} {now}" if now != change.path else f"drops {change.path}"
                not_meant = f"if that is not meant, take the versions up to {version} out of the folder, or give {change.path} another name"
                yield f"{item.name}: {version}, which is not deployed here, {does}, and the upgrade to it will; {not_meant}"


def _by_source(steps: Sequence[MergedStep]) -> dict[CollectionName, MergedStep]:
    return {step.old.name: step for step in steps if not isinstance(step, Create)}
