"""What a release declares of a collection, by nothing but the ledger; and which table has that collection's rows now."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.access.errors import NotInRelease, UnknownRelease
from airflow_provider_schemamig.core.access.field_ids import Shape
from airflow_provider_schemamig.core.jsonable import from_json
from airflow_provider_schemamig.core.ledger.errors import NoEnvironment
from airflow_provider_schemamig.core.ledger.objects.plan_store import read_plan
from airflow_provider_schemamig.core.ledger.rows import Deployment, DeploymentState, SchemaEntry, Shard
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Generation, ShardId, Version
from airflow_provider_schemamig.core.release.columns import match
from airflow_provider_schemamig.core.release.merge.merged import Create, Evolve, MergedStep, Remove, RewriteStep
from airflow_provider_schemamig.core.release.merge.merged import Replace as ReplaceStep
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

_OPEN = (DeploymentState.CLAIMED, DeploymentState.PROMOTED)


@dataclass(frozen=True, slots=True)
class PlannedShape:
    """A step of the open deployment that leads to the release; what is stored with it, so that no release folder is needed."""

    deployment: Deployment
    step: MergedStep
    #: For a rewrite: the SELECT list that shows the old table to ``up``, and those of its lookups.
    projection: str | None = None
    lookups: tuple[tuple[CollectionName, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Declared:
    """What ``release`` declares of a collection. ``shard``: the table it was declared for, or that its own will be made of; None if its
    own will be made of nothing."""

    release: Version
    current: Version
    shape: Shape
    shard: ShardId | None
    #: From the ledger; None for a release that the environment is not at yet and that changes the collection.
    entry: SchemaEntry | None = None
    planned: PlannedShape | None = None
    #: What the table need not have, as the release is not there yet, or no more; None: nothing of that is known.
    lacking: frozenset[ColumnPath] | None = None

    @property
    def is_later(self) -> bool:
        return self.release > self.current

    @property
    def awaits_table(self) -> bool:
        """Return whether the release will have a table of its own for the collection, which is not in place."""
        return self.planned is not None and not isinstance(self.planned.step, Evolve)


def declared_by(env: EnvironmentRoot, state: State, collection: CollectionName, release: Version | None) -> Declared:
    """Return a release's declaration; ``release`` None: what the environment has. Raises UnknownRelease, NotInRelease, NoEnvironment."""
    if state.release is None:
        raise NoEnvironment(uri=env.location.uri)
    current = state.release.version
    if release is None:
        if collection not in state.objects:
            raise NotInRelease(collection=collection, release=current)
        entry = state.entry(collection)
        return Declared(current, current, shape_of(entry), entry.shard, entry)
    coming = _coming(state, release, current)
    if coming is not None:
        return _planned(env, state, collection, coming, current)
    if not _was_here(state, release):
        raise UnknownRelease(collection=collection, release=release, current=current)
    if release == current and collection not in state.objects and collection not in state.release_set():
        raise NotInRelease(collection=collection, release=release)
    return _recorded(state, collection, release, current)


def shape_of(entry: SchemaEntry) -> Shape:
    """Return the shape whose fields have their names in the data files."""
    return Shape(entry.declared, dict(entry.stored_names))


def physical_shape_of(entry: SchemaEntry) -> Shape:
    """Return the shape that the table has by this row of the ledger, hidden columns included."""
    return Shape(entry.physical, dict(entry.stored_names))


def live_shard(state: State, collection: CollectionName, shard: ShardId | None) -> Shard | None:
    """Return the table with the rows of the collection that ``shard`` held: the same one under whatever name, else its successor.

    None if there is none: removed, or not yet there.
    """
    known = None if shard is None else state.shards.get(shard)
    while known is not None and known.successor is not None and known.successor in state.shards:
        known = state.shards[known.successor]
    names = [collection] if known is None else [known.collection, collection]
    for name in names:
        if name in state.objects:
            return state.shard_of(name)
    return None


# --- releases the environment was at -------------------------------------------------------------------------------------------------


def _recorded(state: State, collection: CollectionName, release: Version, current: Version) -> Declared:
    entry = entry_of_release(state, collection, release)
    if entry is None:
        raise NotInRelease(collection=collection, release=release)
    swapped = {name for _, table in state.held_of(entry.shard) for name in table.swapped}
    shape = shape_of(entry)
    retyped = (ColumnPath(field.name) for field in entry.declared.fields)
    shape = replace(shape, retyped=frozenset(path for path in retyped if shape.name_in_files(path) in swapped))
    if entry.rolled_back is not None:
        shape = replace(shape, doubtful=_doubtful(state, entry))
    return Declared(release, current, shape, entry.shard, entry, lacking=_taken_along(state, entry))


def _doubtful(state: State, entry: SchemaEntry) -> frozenset[ColumnPath]:
    """Return the fields that a rolled-back schema brought, if other fields came beside them since.

    The others came by a release or outside of one, under whatever names. A release in between may have been made for the first time since:
    what this one calls ``a`` is then what that one calls ``e``, and the ledger does not have the steps from there to here.
    """
    known = _known_before(state, entry)
    if known is None:
        return frozenset()
    since = [later for later in state.schemas_of(entry.shard) if entry.may_precede(later)]
    structs = {names[:-1] for later in since for names in shape_of(later).in_files.values() if names not in known}
    return frozenset(path for path, names in shape_of(entry).in_files.items() if names not in known and names[:-1] in structs)


def _taken_along(state: State, entry: SchemaEntry) -> frozenset[ColumnPath] | None:
    """Return the fields that came and went with a rolled-back schema; None if nobody knows which.

    Not what stayed on the table with its values: where that is gone, somebody dropped it. Nothing where the rows are in another table:
    what filled that may have brought such a column again, under the same name or another one.
    """
    live = None if entry.rolled_back is None else live_shard(state, entry.collection, entry.shard)
    if entry.rolled_back is None or (live is not None and live.shard != entry.shard):
        return frozenset()
    known = _known_before(state, entry)
    if known is None:
        return None
    later = [found for found in state.schemas_of(entry.shard) if entry.may_precede(found)]
    stayed = {names for found in later for names in physical_shape_of(found).in_files.values()}
    return frozenset(path for path, names in shape_of(entry).in_files.items() if names not in known and names not in stayed)


def _known_before(state: State, entry: SchemaEntry) -> set[tuple[str, ...]] | None:
    """Return the fields, by their names in the data files, of the newest schema before a rolled-back one that was not rolled back."""
    earlier = [known for known in state.schemas_of(entry.shard) if known.rolled_back is None and known.may_precede(entry)]
    return set(shape_of(earlier[-1]).in_files.values()) if earlier else None


def entry_of_release(state: State, collection: CollectionName, release: Version) -> SchemaEntry | None:
    """Return the newest schema of the release, or of the last one before it that changed the collection.

    What was rolled back counts for the programs of that very release alone, and of those that were made upon it and rolled back, too; as
    long as no other release took the number.
    """
    stands, withdrawn = _way_to(state, release)
    found = [
        (entry.release, entry.schema_id, entry)
        for key, entry in state.schemas.items()
        if key[0] == collection
        and entry.release is not None
        and (entry.release <= stands if entry.rolled_back is None else entry.rolled_back in withdrawn)
    ]
    return max(found, key=lambda item: item[:2])[2] if found else None


def _way_to(state: State, release: Version) -> tuple[Version, frozenset[Generation]]:
    """Return the last release in force on the way to this one (itself if it is), and the deployments from there on, which were rolled back.

    If the number was rolled back more than once, the way is that of the last time.
    """
    withdrawn: set[Generation] = set()
    made = None if _stands(state, release) else _last_to(state, release, None)
    while made is not None and made.state is not DeploymentState.COMMITTED and made.source is not None:
        withdrawn.add(made.generation)
        release, made = made.source, _last_to(state, made.source, made.generation)
    return release, frozenset(withdrawn)


def _last_to(state: State, release: Version, before: Generation | None) -> Deployment | None:
    """Return the last deployment that brought the environment to the release, of those before ``before``.

    It was committed, though it may have been rolled back since.
    """
    found = (d for d in state.deployments.values() if d.target == release != d.source and (before is None or d.generation < before))
    came = (d for d in found if d.state is DeploymentState.COMMITTED or d.generation in state.holds)
    return max(came, key=lambda deployment: deployment.generation, default=None)


def _stands(state: State, release: Version) -> bool:
    """Return whether the environment is at the release, or came through it to where it is."""
    committed = [found for found in state.deployments.values() if found.state is DeploymentState.COMMITTED]
    is_current = state.release is not None and state.release.version == release
    # One that goes nowhere opened a hold again, whose release may have been rolled back since.
    return is_current or any(release in (found.source, found.target) for found in committed if found.source != found.target)


def _was_here(state: State, release: Version) -> bool:
    return _stands(state, release) or any(release in (hold.source, hold.target) for hold in state.holds.values())


# --- a release in preparation --------------------------------------------------------------------------------------------------------


def _coming(state: State, release: Version, current: Version) -> Deployment | None:
    """Return the newest open deployment from the environment's release to ``release``."""
    found = [d for d in state.deployments.values() if d.state in _OPEN and d.target == release and d.source == current != release]
    return max(found, key=lambda deployment: deployment.generation, default=None)


def _planned(env: EnvironmentRoot, state: State, collection: CollectionName, deployment: Deployment, current: Version) -> Declared:
    release = deployment.target
    stored = _stored(env, deployment.plan_digest)
    for planned in planned_steps(env, deployment):
        step = planned.step
        if isinstance(step, Remove):
            if step.collection == collection:
                raise NotInRelease(collection=collection, release=release)
        elif step.collection == collection:
            return _after(state, step, planned, current)
        elif not isinstance(step, Create) and step.old.name == collection:
            raise NotInRelease(collection=collection, release=release)  # it will go by another name
    if collection not in state.objects:
        raise NotInRelease(collection=collection, release=release)
    entry = state.entry(collection)
    shape = shape_of(entry)
    restated = next((declaration for declaration in stored.restated if declaration.name == collection), shape.declaration)
    return Declared(release, current, replace(shape, declaration=restated), entry.shard, entry, lacking=frozenset())


def _after(state: State, step: Create | Evolve | ReplaceStep | RewriteStep, planned: PlannedShape, current: Version) -> Declared:
    release = planned.deployment.target
    paths = frozenset(path for path, _ in walk(step.new.fields))
    if not isinstance(step, Evolve):
        source = None if isinstance(step, Create) else state.objects[step.old.name].shard
        return Declared(release, current, Shape(step.new, {}, paths), source, None, planned, paths)
    before = state.entry(step.old.name)
    known = _of_release(state, before, step.old)
    origins = {new: old for new, old in match(step.old, step.new, step.renames).items() if old not in known.new}
    names = {new: known.name_in_files(old) for new, old in origins.items()}
    lacking = paths - names.keys()
    held = frozenset(field for _, table in state.held_of(before.shard) for field in table.dropped)
    return Declared(release, current, Shape(step.new, names, lacking, held=held), before.shard, None, planned, lacking)


def _of_release(state: State, entry: SchemaEntry, released: Declaration) -> Shape:
    """Return the collection's shape in the release before, which a change outside of a release may have replaced since."""
    unreleased = state.unreleased_of(entry.collection)
    names = None if unreleased is None else state.names_in_release(unreleased)
    return shape_of(entry) if names is None else Shape(released, names)


def planned_steps(env: EnvironmentRoot, deployment: Deployment) -> tuple[PlannedShape, ...]:
    """Return the merged steps stored with a deployment. Raises PlanMissing."""
    stored = _stored(env, deployment.plan_digest)
    projections, inputs = dict(stored.projections), dict(stored.inputs)
    return tuple(PlannedShape(deployment, step, projections.get(step.collection), inputs.get(step.collection, ())) for step in stored.steps)


@dataclass(frozen=True, slots=True)
class _Stored:
    """Of a stored plan, what concerns handles; its whole form belongs to the layer above."""

    steps: tuple[MergedStep, ...]
    restated: tuple[Declaration, ...]
    projections: tuple[tuple[CollectionName, str], ...]
    inputs: tuple[tuple[CollectionName, tuple[tuple[CollectionName, str], ...]], ...]


@functools.lru_cache(maxsize=4)
def _stored(env: EnvironmentRoot, digest: str) -> _Stored:
    """Read a stored plan. A plan never changes: it is found by its content (``ledger.objects.plan_store``)."""
    target = read_plan(env, digest)["target"]
    inputs = ((name, tuple((item["collection"], item["projection"]) for item in found)) for name, found in target.get("fill_inputs", ()))
    return _Stored(
        from_json(tuple[MergedStep, ...], target["steps"]),
        from_json(tuple[Declaration, ...], target.get("restated", ())),
        from_json(tuple[tuple[CollectionName, str], ...], target.get("projections", ())),
        tuple(inputs),
    )
