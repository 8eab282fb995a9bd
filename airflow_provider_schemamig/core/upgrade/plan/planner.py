"""The plan: one closed list of stages, made by a function that can only read.

``digest`` binds promotion to what preflight checked and a person approved. It covers everything that changes tables or the ledger for
this release, also what ``--end-hold`` deletes; not the generation (the same plan may be claimed twice), nor the settling of what an
earlier leader, or this one before it was killed, began. A hold that maintenance ended meanwhile is no change of plan (``still_is``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import pendulum

from airflow_provider_schemamig.core.delta.commit.create import checked
from airflow_provider_schemamig.core.delta.features import check_writable
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.delta.metadata.errors import CannotCluster
from airflow_provider_schemamig.core.delta.metadata.validate import TableState
from airflow_provider_schemamig.core.jsonable import from_json, to_json
from airflow_provider_schemamig.core.ledger import plan_store
from airflow_provider_schemamig.core.ledger.nodes import Node
from airflow_provider_schemamig.core.ledger.rows import DeploymentState, Hold, HoldState, IntentKind
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Generation
from airflow_provider_schemamig.core.online.errors import NotOnline
from airflow_provider_schemamig.core.online.nested_types import check_beside, joined
from airflow_provider_schemamig.core.online.operation import Chain, Round, schedule
from airflow_provider_schemamig.core.online.operations import check_on_head, operations_of
from airflow_provider_schemamig.core.release.merge.chain import Create as CreateStep
from airflow_provider_schemamig.core.release.merge.chain import Evolve, MergedStep, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import AddColumn, Change, DropColumn, SetProperty
from airflow_provider_schemamig.core.schema.diff.phases import Phases, phases
from airflow_provider_schemamig.core.schema.expressions.rules import UnusableExpression, newly_unusable, unusable_in
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.upgrade.errors import DeploymentOpen, DriftFound, ShardMissing
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.evolution_phases import PhasesOf, evolution_phases, phases_of
from airflow_provider_schemamig.core.upgrade.plan.hold_rules import end_of, holds_in_use, refused_by_holds
from airflow_provider_schemamig.core.upgrade.plan.live_tables import drift_of
from airflow_provider_schemamig.core.upgrade.plan.open_holds import (
    KEEP_HOLDS,
    HoldOptions,
    kept_fields,
    open_holds,
    physical_after,
    unclosed_holds,
)
from airflow_provider_schemamig.core.upgrade.plan.row_checks import check_referenced
from airflow_provider_schemamig.core.upgrade.plan.target import Target
from airflow_provider_schemamig.core.upgrade.plan.unreleased import not_in_release
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError

S = TypeVar("S", bound=s.Stage)


@dataclass(frozen=True)
class Plan:
    target: Target
    stages: tuple[s.Stage, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def _phases(self) -> dict[CollectionName, tuple[PhasesOf, Phases]]:
        return {}

    def phases_of(self, step: Evolve, state: State) -> Phases:
        """Return ``evolution_phases``, worked out again only where something that they depend on is another one."""
        wanted = phases_of(state, step, self.ends)
        known = self._phases.get(step.collection)
        if known is None or known[0] != wanted:
            known = self._phases[step.collection] = (wanted, phases(*wanted))
        return known[1]

    @cached_property
    def ends(self) -> frozenset[Generation]:
        """Return the generations whose holds it ends before their time."""
        return frozenset(stage.generation for stage in self.of_kind(s.EndHold))

    def still_is(self, approved: Plan, state: State) -> bool:
        """Return whether it does what ``approved`` does, but for holds that were ended, or begun to be, since."""
        if self.digest == approved.digest:
            return True
        left = approved.ends - self.ends
        if any(generation in state.holds and state.holds[generation].state is not HoldState.CLOSED for generation in left):
            return False
        return self._takes <= approved._takes and self._but_holds == approved._but_holds

    @cached_property
    def _takes(self) -> frozenset[tuple[Generation, str]]:
        """Return all that the holds which it ends are ended for."""
        stages = self.of_kind(s.EndHold)
        paths = {(stage.generation, f"{stage.collection}: {change.path}") for stage in stages for change in stage.changes}
        return frozenset(paths | {(stage.generation, shard) for stage in stages for shard in stage.shards})

    @cached_property
    def _but_holds(self) -> str:
        return replace(self, stages=tuple(stage for stage in self.stages if not isinstance(stage, s.EndHold))).digest

    @cached_property
    def digest(self) -> str:
        return plan_store.digest(self.document)

    @cached_property
    def document(self) -> dict[str, Any]:
        """Return what is stored with the deployment, and digested."""
        bound = tuple(stage for stage in self.stages if not isinstance(stage, s.Settle))
        data: dict[str, Any] = to_json(replace(self, stages=bound, notes=()))
        return data

    @classmethod
    def from_document(cls, data: Mapping[str, Any]) -> Plan:
        plan: Plan = from_json(cls, data)
        return plan

    def of_kind(self, kind: type[S]) -> tuple[S, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, kind))

    @property
    def is_empty(self) -> bool:
        return not self.stages


@dataclass(frozen=True)
class Planned:
    """A plan with every refusal at once; a plan with refusals is for reading only.

    ``online``: the source collections of evolutions that need more than a commit, and the elements that they need.
    """

    plan: Plan
    refusals: tuple[SchemamigError, ...]
    pending: tuple[Hold, ...]
    online: Mapping[CollectionName, tuple[Chain, ...]]


@dataclass(frozen=True)
class View:
    """What planning looks at: the ledger's state, the live tables' heads (None: no table there), live nodes, the time."""

    state: State | None
    heads: Mapping[CollectionName, Head | None]
    nodes: Sequence[Node]
    now: pendulum.DateTime
    #: The holds that are not closed, for documents, with what they cost.
    holds: tuple[dict[str, Any], ...] = ()


def build_plan(target: Target, view: View, holds: HoldOptions = KEEP_HOLDS) -> Planned:
    """Plan ``target`` over what ``view`` shows. Pure: writes nothing, raises nothing that it can report as a refusal."""
    pending = unclosed_holds(view.state)
    ending = pending if holds.end_hold and target.is_deployed else ()
    planned = _Planner(target, view, ending).plan()
    in_use = () if holds.ignore_nodes else tuple(holds_in_use(ending, view.nodes))
    return replace(planned, refusals=(*planned.refusals, *in_use), pending=pending)


def _in_order(stages: Iterable[s.Stage]) -> tuple[s.Stage, ...]:
    """As they run; one that ends a hold after those of older holds."""

    def place(stage: s.Stage) -> tuple[int, int, str]:
        number = stage.generation if isinstance(stage, s.EndHold) else 0
        return s.PLAN_KINDS.index(stage.kind), number, stage.collection or ""

    return tuple(sorted(stages, key=place))


class _Planner:
    def __init__(self, target: Target, view: View, ending: Sequence[Hold]) -> None:
        self._target = target
        self._ending = ending
        self._ended = frozenset(hold.generation for hold in ending)
        self._view = view
        self._refusals: list[SchemamigError] = []
        self._online: dict[CollectionName, tuple[Chain, ...]] = {}
        self._notes: list[str] = []

    def plan(self) -> Planned:
        self._look_for_drift()
        self._notes += [f"{name}: given back by `unmanage`; nothing is done about it" for name in self._target.unmanaged]
        stages: list[s.Stage] = self._settle()
        if self._target.is_deployed:
            stages += [stage for hold in self._ending for stage in end_of(self._view.state, hold)]
            self._refusals += self._not_in_release()
            for step in self._target.steps:
                stages += self._stages_of(step)
        if stages or self._target.is_deployed:
            stages.append(s.Commit(self._target.source, self._target.version, self._target.restated))
        plan = Plan(self._target, _in_order(stages), tuple(self._notes))
        return Planned(plan, tuple(self._refusals), (), self._online)

    def _kept(self, step: MergedStep, found: Phases | None = None) -> None:
        """Refuse what would lose something that a hold keeps."""
        if self._view.state is not None:
            staying = [hold for hold in open_holds(self._view.state) if hold.generation not in self._ended]
            self._refusals += refused_by_holds(self._view.state, step, found, staying)

    def _not_in_release(self) -> Iterator[SchemamigError]:
        if self._view.state is not None and not self._target.ahead:
            yield from not_in_release(self._view.state, self._target.steps)

    def _settle(self) -> list[s.Stage]:
        """Open intents belong to somebody who died, or, at the environment's own version, to a deployment that must finish first."""
        state = self._view.state
        if state is None or not state.intents:
            return []
        leader = state.leader
        at_target = not self._target.is_deployed
        if at_target and leader is not None and state.deployments[leader.generation].state is DeploymentState.PROMOTED:
            self._refusals.append(DeploymentOpen(generation=leader.generation))
        # A compaction at work, or killed, is no reason to deploy anything: it changes no schema, and its next run goes on.
        open_ones = {intent.collection for intent in state.intents.values() if not at_target or intent.kind is not IntentKind.COMPACT}
        return [s.Settle(tuple(sorted(open_ones)))] if open_ones else []

    def _look_for_drift(self) -> None:
        state = self._view.state
        if state is None:
            return
        for name in sorted(state.objects):
            head = self._view.heads.get(name)
            if head is None:
                self._notes.append(f"{name}: its shard {state.objects[name].shard} has no table yet or any more; skipped")
                continue
            found = drift_of(state, name, head)
            if found:
                self._refusals.append(DriftFound(collection=name, differences=found))

    def _stages_of(self, step: MergedStep) -> list[s.Stage]:
        match step:
            case CreateStep(collection=collection, new=new):
                self._check_new(new)
                return [s.CreateShard(collection, new)]
            case Replace():
                self._check_new(step.new)
                self._kept(step)
                self._check_writable(step.old.name)
                build = s.Build(step.collection, step.new, step.fill, self._target.inputs_of(step.collection), step.snapshot)
                return [build, s.Seal(step.old.name), s.Retire(step.old.name)]
            case Remove(old=old) if self._view.state is not None and old.name in self._view.state.dropped:
                return []
            case Remove(old=old):
                self._kept(step)
                self._check_writable(old.name)
                return [s.Seal(old.name), s.Retire(old.name)]
            case RewriteStep():
                return self._rewrite(step)
            case Evolve():
                return self._evolve(step)

    def _rewrite(self, step: RewriteStep) -> list[s.Stage]:
        if not self._is_there(step.collection, step.old.name):
            return []
        self._check_new(step.new)
        self._kept(step)
        self._check_writable(step.old.name)
        copy = s.Copy(
            collection=step.collection,
            source=step.old.name,
            declaration=step.new,
            up=step.up,
            down=step.down,
            projection=self._target.projection_of(step.collection),
            lookups=self._target.inputs_of(step.collection),
            any_cardinality=step.cardinality == "any",
            no_way_back=step.no_way_back,
            lost_on_way_back=step.lost_on_way_back,
        )
        return [copy, s.Seal(step.old.name), s.Retire(step.old.name)]

    def _is_there(self, collection: CollectionName, source: CollectionName) -> bool:
        """Return whether the collection's rows can be worked on: a new environment has none, a missing table is a refusal."""
        state = self._view.state
        if state is not None and self._view.heads.get(source) is not None:
            return True
        if state is not None and self._target.source is not None and source in state.objects:  # else ``not_in_release`` says why
            self._refusals.append(ShardMissing(collection=collection, uri=state.shard_of(source).uri))
        return False

    def _check_new(self, declaration: Declaration) -> None:
        """What the committer would refuse to make is refused now."""
        unusable = list(unusable_in(declaration))
        self._refusals += unusable
        try:
            if not unusable:
                checked(declaration, declaration.name, declaration.name)
        except Refusal as refusal:
            refusal.collection = declaration.name
            self._refusals.append(refusal)

    def _check_writable(self, collection: CollectionName) -> None:
        """The seal is a commit, too."""
        head = self._view.heads.get(collection)
        try:
            if head is not None:
                check_writable(head.protocol, head.location.uri)
        except Refusal as refusal:
            refusal.collection = collection
            self._refusals.append(refusal)

    def _evolve(self, step: Evolve) -> list[s.Stage]:
        collection, source_name = step.collection, step.old.name
        head = self._view.heads.get(source_name)
        if not self._is_there(collection, source_name) or head is None or self._view.state is None:
            return []
        try:
            check_writable(head.protocol, head.location.uri)
            found = evolution_phases(self._view.state, step, self._ended)
            self._kept(step, found)
            courses = self._elements(step, found, head)
            found = replace(found, contract=(*found.contract, *_left_by(courses)))
            if not self._view.state.intents_of(self._view.state.objects[source_name].shard):  # else settle comes before
                self._try_on_the_head(head, self._held_drops(source_name), found, schedule(courses))
        except UnusableExpression as refusal:  # one of several, maybe
            unusable = list(newly_unusable(step.old, step.new))
            refusal.collection = collection
            self._refusals += unusable or [refusal]
            return []
        except Refusal as refusal:
            refusal.collection = refusal.collection or collection
            self._refusals.append(refusal)
            return []
        result: list[s.Stage] = []
        if found.expand:
            result.append(s.Expand(collection, found.expand))
        if found.online:
            result.append(s.Online(collection, found.online))
        swaps = _swapped_by(courses)
        if found.cutover or swaps:
            result.append(s.CutOver(collection, found.cutover, swaps))
        if found.contract:
            result.append(s.Contract(collection, found.contract))
        return result

    def _elements(self, step: Evolve, found: Phases, head: Head) -> tuple[Chain, ...]:
        """Return what the online changes of an evolution consist of. What none is made of is a refusal each."""
        if not found.online or self._view.state is None:
            return ()
        physical = physical_after(self._view.state, step.old.name, self._ended)
        table = apply(physical, found.expand)
        # Rows are asked before expand: a struct that gets a field has it not yet.
        before = apply(physical, [change for change in found.expand if not isinstance(change, AddColumn)])
        chains, asking = [], []
        together, asked = joined(found.online, table), joined(found.online, before)
        for change, now in zip(together, asked, strict=True):
            try:
                chain = operations_of(change, table, together)
                asking.append(operations_of(now, before, asked))
                check_beside(change, found.cutover)
                check_referenced(self._view.state, chain)
                chains.append(chain)
                check_on_head(head, change)
            except (NotOnline, CannotCluster) as refusal:
                refusal.collection = step.collection
                self._refusals.append(refusal)
        self._online[step.old.name] = tuple(asking)
        return tuple(chains)

    def _held_drops(self, collection: CollectionName) -> tuple[DropColumn, ...]:
        """Return what the end of the holds drops from a collection."""
        assert self._view.state is not None  # it has holds
        return tuple(map(DropColumn, sorted(kept_fields(self._view.state, collection, self._ending))))

    @staticmethod
    def _try_on_the_head(head: Head, held: Sequence[Change], found: Phases, turns: Sequence[Round]) -> None:
        """Run the committer's own edits in memory, so that what it would refuse later is refused now."""
        table = TableState(head.protocol, head.metadata, head.clustering)
        online = [turn.changes for turn in turns]
        cutover = (*online.pop(), *found.cutover) if turns and turns[-1].swaps else found.cutover
        for changes in (held, found.expand, *online, cutover, found.contract):
            if changes:
                table = edit(table.protocol, table.metadata, changes, clustering=table.clustering or ())
                set_back = [SetProperty(change.key, change.new, change.old) for change in changes if isinstance(change, SetProperty)]
                if set_back:
                    edit(table.protocol, table.metadata, set_back, clustering=table.clustering or ())


def _left_by(chains: Sequence[Chain]) -> Iterator[DropColumn]:
    """Columns that the online changes leave behind for their way back."""
    for operation in (operation for chain in chains for operation in chain):
        yield from map(DropColumn, operation.leaves)


def _swapped_by(chains: Sequence[Chain]) -> tuple[ColumnPath, ...]:
    """Return the columns that change places with the cut-over."""
    operations = (operation for chain in chains for operation in chain)
    return tuple(path for operation in operations if operation.swaps and operation.fills for path in operation.columns)
