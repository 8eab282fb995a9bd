"""What a deployment's commit, or its rollback, made of each collection: for those who are told of it, in events and in lineage.

Read from the stored plan and the ledger; no table is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from airflow_provider_schemamig.core.ledger.rows import DeploymentState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Fingerprint, Generation, Version
from airflow_provider_schemamig.core.release.merge.merged import Create, Evolve, MergedStep, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.release.queries.origins import ColumnOrigin, column_origins
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration, Field, walk
from airflow_provider_schemamig.core.schema.paths import translate
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import deployment_of, plan_of
from airflow_provider_schemamig.core.upgrade.plan.target import Target

CREATED, ALTERED, RENAMED, REWRITTEN, REPLACED, REMOVED = "created", "altered", "renamed", "rewritten", "replaced", "removed"

Origins = Mapping[str, tuple[ColumnOrigin, ...]]


@dataclass(frozen=True)
class TableChange:
    """One collection: as it was (``old``, at ``old_uri``) and as it is. Of one that is new, or gone, one side is None.

    ``table_version``: the version of its table that began the schema.
    """

    kind: str
    old: Declaration | None
    new: Declaration | None
    old_uri: str | None = None
    uri: str | None = None
    table_version: int | None = None
    step: MergedStep | None = None
    target: Target | None = None
    #: The step was taken back.
    is_rolled_back: bool = False

    @property
    def collection(self) -> CollectionName:
        """Return what it is called now, or was called last."""
        declaration = self.new or self.old
        assert declaration is not None  # one of both is there
        return declaration.name

    @property
    def fingerprint(self) -> Fingerprint | None:
        return None if self.new is None else fingerprint(self.new)

    @cached_property
    def origins(self) -> Origins:
        """Return for each path of ``new`` the columns before that it comes from; those that come from none are left out."""
        match self.step:
            case Evolve() as step:
                return _evolved(step, is_rolled_back=self.is_rolled_back)
            case RewriteStep() as step if self.is_rolled_back:
                return column_origins(step.down) if step.down is not None else {}
            case RewriteStep() as step if self.target is not None:
                return _through(column_origins(step.up), {step.old.name: self.target.projection_of(step.collection)})
            case Create(fill=str(query)) | Replace(fill=str(query)) if self.target is not None and not self.is_rolled_back:
                shapes = {item.collection: item.projection for item in self.target.inputs_of(self.collection)}
                return _through(column_origins(query), shapes)
            case _:
                return {}


@dataclass(frozen=True, slots=True)
class DeploymentChanges:
    """What a deployment changed: from ``source`` to ``target``, which are the other way round after its rollback."""

    generation: Generation
    source: Version | None
    target: Version | None
    approved_by: str | None
    is_rolled_back: bool
    tables: tuple[TableChange, ...]


def table_changes(env: EnvironmentRoot, generation: Generation) -> DeploymentChanges:
    """Return what the commit of a generation, or the rollback after its commit, changed. Comments and order alone change no collection."""
    state = LedgerReader(env).state()
    deployment = deployment_of(state, generation)
    is_rolled_back = deployment.state is DeploymentState.ROLLED_BACK
    source, target = (deployment.target, deployment.source) if is_rolled_back else (deployment.source, deployment.target)
    was_committed = deployment.state is DeploymentState.COMMITTED or (is_rolled_back and generation in state.holds)
    tables: tuple[TableChange, ...] = ()
    if was_committed:
        wanted = plan_of(env, deployment).target
        retired = {row.collection: row.uri for row in state.shards.values() if row.retired_by == generation}
        places = _Places(env, state, retired)
        tables = tuple(places.change(step, wanted, is_rolled_back=is_rolled_back) for step in wanted.steps)
    return DeploymentChanges(generation, source, target, deployment.promoted_by, is_rolled_back, tables)


def tables_now(env: EnvironmentRoot, collections: Sequence[str]) -> tuple[TableChange, ...]:
    """Return the named collections as they are, those that are not there left out."""
    state = LedgerReader(env).state()
    places = _Places(env, state, {})
    known = [CollectionName(name) for name in dict.fromkeys(collections) if name in state.objects]
    return tuple(places.found(ALTERED, state.entry(name).declared, state.entry(name).declared) for name in known)


@dataclass(frozen=True, slots=True)
class _Places:
    env: EnvironmentRoot
    state: State
    #: What the deployment retired, by collection: URIs as the ledger has them.
    retired: Mapping[CollectionName, str]

    def change(self, step: MergedStep, target: Target, *, is_rolled_back: bool) -> TableChange:
        old = None if isinstance(step, Create) else step.old
        new = None if isinstance(step, Remove) else step.new
        before, after = (new, old) if is_rolled_back else (old, new)
        return self.found(_kind(step, before, after), before, after, step, target, is_rolled_back)

    def found(
        self,
        kind: str,
        old: Declaration | None,
        new: Declaration | None,
        step: MergedStep | None = None,
        target: Target | None = None,
        is_rolled_back: bool = False,
    ) -> TableChange:
        uri = version = None
        if new is not None and new.name in self.state.objects:
            entry = self.state.entry(new.name)
            uri, version = self._uri(self.state.shards[entry.shard].uri), entry.since_table_version
        old_uri = self.retired.get(old.name) if old is not None else None
        before = uri if old_uri is None and old is not None and kind in (ALTERED, RENAMED) else old_uri and self._uri(old_uri)
        return TableChange(kind, old, new, before, uri, version, step, target, is_rolled_back)

    def _uri(self, uri: str) -> str:
        return self.env.table_location(uri).uri


def _kind(step: MergedStep, before: Declaration | None, after: Declaration | None) -> str:
    if before is None:
        return CREATED
    if after is None:
        return REMOVED
    if isinstance(step, Replace | RewriteStep):
        return REWRITTEN if isinstance(step, RewriteStep) else REPLACED
    return ALTERED if before.name == after.name else RENAMED


# --- where columns come from ---------------------------------------------------------------------------------------------------------


def _evolved(step: Evolve, *, is_rolled_back: bool) -> Origins:
    """Return the origins of all columns and fields of an evolution, by their paths."""
    old, new = dict(_fields(step.old)), dict(_fields(step.new))
    pairs = [(before, translate(before, step.renames)) for before in old if not _is_dropped(before, step.drops)]
    name = step.new.name if is_rolled_back else step.old.name
    found: dict[str, tuple[ColumnOrigin, ...]] = {}
    for before, after in pairs:
        if after in new:
            was, now = (after, before) if is_rolled_back else (before, after)
            found[now] = (ColumnOrigin(name, was, old[before].type == new[after].type),)
    return found


def _fields(declaration: Declaration) -> Iterator[tuple[ColumnPath, Field]]:
    return walk(declaration.fields)


def _is_dropped(path: str, drops: Sequence[str]) -> bool:
    return any(path == dropped or path.startswith(f"{dropped}.") for dropped in drops)


def _through(origins: Origins, projections: Mapping[CollectionName, str]) -> Origins:
    """Return origins in the tables themselves: a query sees some of them in another shape, which a SELECT list of theirs gives."""
    shapes = {name: column_origins(f"SELECT {projection} FROM {{{name}}}") for name, projection in projections.items()}

    def own(origin: ColumnOrigin) -> tuple[ColumnOrigin, ...]:
        shape = shapes.get(origin.collection)
        if shape is None:
            return (origin,)
        inner = shape.get(origin.column, ())
        return tuple(ColumnOrigin(item.collection, item.column, item.is_copy and origin.is_copy) for item in inner)

    found = {name: tuple(dict.fromkeys(item for origin in listed for item in own(origin))) for name, listed in origins.items()}
    return {name: listed for name, listed in found.items() if listed}
