"""Make the plan: by a function that can only read, which collects all that stands against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pendulum

from airflow_provider_schemamig.core.delta.commit.create import checked
from airflow_provider_schemamig.core.delta.features import check_writable
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.delta.metadata.errors import CannotCluster, ColumnInUse
from airflow_provider_schemamig.core.delta.metadata.forbidden import RefusedByDelta
from airflow_provider_schemamig.core.delta.metadata.validate import TableState
from airflow_provider_schemamig.core.ledger.objects.nodes import Node
from airflow_provider_schemamig.core.ledger.rows import Hold, HoldState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.online.errors import NotOnline
from airflow_provider_schemamig.core.online.nested_types import check_beside, joined
from airflow_provider_schemamig.core.online.operation import Chain
from airflow_provider_schemamig.core.online.operations import check_on_head, operations_of
from airflow_provider_schemamig.core.release.merge.chain import Create as CreateStep
from airflow_provider_schemamig.core.release.merge.chain import Evolve, MergedStep, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.release.merge.errors import StopInBetween
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import AddColumn, Change, DropColumn, SetProperty
from airflow_provider_schemamig.core.schema.delta_rules.property_values import check_retentions
from airflow_provider_schemamig.core.schema.delta_rules.retention import FILES, LOG
from airflow_provider_schemamig.core.schema.diff.phases import Phases
from airflow_provider_schemamig.core.schema.errors import NotApplicable
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.schema.unusable import UnusableExpression, newly_unusable, unusable_in
from airflow_provider_schemamig.core.upgrade.errors import DeploymentOpen, ShardMissing
from airflow_provider_schemamig.core.upgrade.plan.errors import HoldKeeps, NoRowsBack
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import (
    KEEP_HOLDS,
    HoldOptions,
    begun_rollbacks,
    droppable,
    kept_fields,
    open_holds,
    physical_after,
    unclosed_holds,
)
from airflow_provider_schemamig.core.upgrade.plan.holds.rules import holds_in_use, kept_of_table, refused_by_holds
from airflow_provider_schemamig.core.upgrade.plan.live_tables import drift_found
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.row_checks import check_referenced
from airflow_provider_schemamig.core.upgrade.plan.stage_list import (
    Checks,
    OnlineChanges,
    TableEvolution,
    stages,
)
from airflow_provider_schemamig.core.upgrade.plan.target import Target
from airflow_provider_schemamig.core.upgrade.plan.unreleased import declared_now, not_in_release
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError


@dataclass(frozen=True)
class Planned:
    """A plan with every refusal at once; a plan with refusals is for reading only.

    ``online``: the source collections of evolutions that need more than a commit; ``asked``: the elements that they go through over the
    table as it is before expand, of which rows are asked now.
    """

    plan: Plan
    refusals: tuple[SchemamigError, ...]
    pending: tuple[Hold, ...]
    online: Mapping[CollectionName, OnlineChanges]
    asked: Mapping[CollectionName, tuple[Chain, ...]]

    def noted(self, *notes: str) -> Planned:
        """Return the plan with these notes besides its own."""
        return replace(self, plan=replace(self.plan, notes=(*self.plan.notes, *notes))) if notes else self


@dataclass(frozen=True)
class View:
    """What planning looks at: the ledger's state, the live tables' heads (None: no table there), live nodes, the time."""

    state: State | None
    heads: Mapping[CollectionName, Head | None]
    nodes: Sequence[Node]
    now: pendulum.DateTime
    #: The holds that are not closed, for documents, with what they cost.
    holds: tuple[dict[str, Any], ...] = ()
    #: The deployment that leads, and is not committed, brings nothing: it only settles what others left.
    only_settles: bool = False


#: Said where nothing but the end of a hold was asked for.
NO_HOLD_ENDS = "no hold is ended: --end-hold does so only with a newer release; `schemamig contract --now` ends them without one"


def build_plan(target: Target, view: View, holds: HoldOptions = KEEP_HOLDS) -> Planned:
    """Plan ``target`` over what ``view`` shows. Pure: writes nothing, raises nothing that it can report as a refusal."""
    pending = unclosed_holds(view.state)
    ending = pending if holds.end_hold and target.is_deployed else ()
    planned = _Planner(target, view, ending).plan()
    in_use = () if holds.ignore_nodes else tuple(holds_in_use(ending, view.nodes))
    if holds.end_hold and planned.plan.is_empty and any(hold.state is HoldState.OPEN for hold in pending):
        planned = planned.noted(NO_HOLD_ENDS)
    return replace(planned, refusals=(*planned.refusals, *in_use), pending=pending)


@dataclass
class _Asking:
    """What rows of one table are asked now, while it is as it was before expand: a struct that gets a field has it not yet."""

    table: Declaration | None = None
    #: The online changes, ``joined`` over that table.
    changes: tuple[Change, ...] = ()
    chains: list[Chain] = field(default_factory=list)
    declared: Declaration | None = None

    def add(self, number: int) -> None:
        assert self.table is not None  # there are online changes
        self.chains.append(operations_of(self.changes[number], self.table, self.changes, self.declared))


class _Planner(Checks):
    """The stages of ``stage_list.stages``, with all that stands against them."""

    def __init__(self, target: Target, view: View, ending: Sequence[Hold]) -> None:
        self._target = target
        self._ending = ending
        self._ended = frozenset(hold.generation for hold in ending)
        self._view = view
        self._refusals: list[SchemamigError] = []
        self._online: dict[CollectionName, OnlineChanges] = {}
        self._asked: dict[CollectionName, tuple[Chain, ...]] = {}
        #: Of the evolution at hand.
        self._asking = _Asking()
        self._notes: list[str] = []

    def plan(self) -> Planned:
        self._look_for_drift()
        self._check_open_deployment()
        self._notes += [f"{name}: given back by `unmanage`; nothing is done about it" for name in self._target.unmanaged]
        if self._target.is_deployed:
            self._refusals += self._not_in_release()
        found = stages(self._target, self._view.state, self._ending, self)
        plan = Plan(self._target, found, tuple(self._notes))
        return Planned(plan, tuple(self._refusals), (), self._online, self._asked)

    @property
    def _staying(self) -> Sequence[Hold]:
        """Return the open holds that the plan does not end."""
        return [hold for hold in open_holds(self._view.state) if hold.generation not in self._ended]

    def _kept(self, step: MergedStep, found: Phases | None = None) -> None:
        """Refuse a step that would lose something kept by a hold."""
        if self._view.state is not None:
            self._refusals += refused_by_holds(self._view.state, step, found, self._staying)

    def _not_in_release(self) -> Iterator[SchemamigError]:
        if self._view.state is not None and not self._target.ahead:
            yield from not_in_release(self._view.state, self._target.steps)

    def _check_open_deployment(self) -> None:
        """Refuse to plan at the environment's own version while a deployment is open, which must finish first.

        One to this version goes on if it takes back a rollback which died, or only settles; another one is an ``alter``.
        """
        state = self._view.state
        if state is None or not state.intents or self._target.is_deployed or state.leader is None:
            return
        is_back = state.deployments[state.leader.generation].target == self._target.version and begun_rollbacks(state)
        if state.is_promoted and not is_back and not self._view.only_settles:
            self._refusals.append(DeploymentOpen(generation=state.leader.generation))

    def _look_for_drift(self) -> None:
        state = self._view.state
        if state is None:
            return
        for name in sorted(state.objects):
            head = self._view.heads.get(name)
            if head is None:
                uri = state.shard_of(name).uri
                self._notes.append(f"{name}: there is no Delta table at {uri} any more, and nothing is done to it: see `schemamig status`")
                continue
            found = drift_found(state, name, head)
            self._refusals += [found] if found is not None else []

    def only_settles(self) -> bool:
        return self._view.only_settles

    def admits(self, step: MergedStep) -> bool:
        """Return whether the step's stages can be made; what stands against it is a refusal each."""
        match step:
            case CreateStep():
                self._check_new(step.new)
            case Replace():
                self._check_new(step.new)
                self._kept(step)
                self._check_writable(step.old.name)
            case Remove() if self._view.state is None or step.old.name not in self._view.state.dropped:
                self._kept(step)
                self._check_writable(step.old.name)
            case RewriteStep():
                if not self._is_there(step.collection, step.old.name):
                    return False
                self._check_new(step.new)
                self._kept(step)
                self._check_writable(step.old.name)
                self._check_takes_rows(step)
            case Evolve():
                return self._is_there(step.collection, step.old.name) and self._is_writable(step)
        return True

    def _is_there(self, collection: CollectionName, source: CollectionName) -> bool:
        """Return whether the collection's rows can be worked on: a new environment has none, a missing table is a refusal."""
        state = self._view.state
        if state is not None and self._view.heads.get(source) is not None:
            return True
        if state is not None and self._target.source is not None and source in state.objects:  # else ``not_in_release`` says why
            self._refusals.append(ShardMissing(collection=collection, uri=state.shard_of(source).uri))
        return False

    def _check_new(self, declaration: Declaration) -> None:
        """Refuse now what the committer would refuse to make."""
        unusable = list(unusable_in(declaration))
        self._refusals += unusable
        try:
            if not unusable:
                checked(declaration, declaration.name, declaration.name)
        except Refusal as refusal:
            refusal.collection = declaration.name
            self._refusals.append(refusal)

    def _check_writable(self, collection: CollectionName) -> None:
        """Refuse a table that cannot be written to: the seal is a commit, too."""
        head = self._view.heads.get(collection)
        try:
            if head is not None:
                check_writable(head.protocol, head.location.uri)
        except Refusal as refusal:
            refusal.collection = collection
            self._refusals.append(refusal)

    def _check_takes_rows(self, step: RewriteStep) -> None:
        """Refuse a way back for rows that the old table would not take: the rollback would be refused then, with rows in the new one."""
        head = self._view.heads.get(step.old.name)
        if step.down is not None and head is not None and head.identities_always:
            self._refusals.append(NoRowsBack(collection=step.collection, columns=", ".join(head.identities_always)))

    def _is_writable(self, step: Evolve) -> bool:
        head = self._head(step)
        try:
            check_writable(head.protocol, head.location.uri)
        except Refusal as refusal:
            self.refuse(step, refusal)
            return False
        return True

    def check_phases(self, step: Evolve, found: Phases) -> None:
        """Refuse what a hold stands against."""
        self._kept(step, found)
        self._asking = _Asking()
        if found.online:
            early = [change for change in found.expand if not isinstance(change, AddColumn)]
            before = apply(physical_after(self._state, step.old.name, self._ended), early)
            self._asking = _Asking(before, joined(found.online, before), declared=declared_now(self._state, step))

    def check_element(self, step: Evolve, found: Phases, number: int, change: Change, chain: Chain) -> None:
        """Refuse an online change beside which another one, the release or the table stands."""
        self._asking.add(number)
        check_beside(change, found.cutover)
        check_referenced(self._state, self._target.steps, step.collection, chain)
        try:
            check_on_head(self._head(step), change)
        except (NotOnline, CannotCluster) as refusal:  # its elements are shown all the same
            self.refuse_element(step, refusal)

    def check_evolution(self, evolution: TableEvolution) -> None:
        """Refuse what the commits of the evolution would refuse on the table as it is."""
        step, found = evolution.step, evolution.phases
        before, after = dict(step.old.properties), dict(step.new.properties)
        if FILES in after and before.get(LOG) != after.get(LOG):  # the committer would keep the log as long as these files, unasked
            check_retentions(after)
        if evolution.online is not None:
            self._online[step.old.name] = evolution.online
            self._asked[step.old.name] = tuple(self._asking.chains)
        # Else recovery comes before, or the table has a field of the name in the way, which the hold's refusal says.
        if not self._state.intents_of(self._state.objects[step.old.name].shard) and not found.taken:
            self._check_on_the_head(evolution)

    def refuse_element(self, step: Evolve, refusal: Refusal) -> None:
        """Collect what stands against one online change."""
        refusal.collection = step.collection
        self._refusals.append(self._with_stop(refusal))

    def refuse(self, step: Evolve, refusal: Refusal) -> None:
        """Collect what stands against an evolution; of unusable expressions all, as ``refusal`` is the first of several, maybe."""
        unusable = list(newly_unusable(step.old, step.new)) if isinstance(refusal, UnusableExpression) else []
        refusal.collection = step.collection if isinstance(refusal, UnusableExpression) else refusal.collection or step.collection
        self._refusals += unusable or [self._with_stop(refusal)]

    def _with_stop(self, refusal: Refusal) -> Refusal:
        """Name the release before the last one, if there are several: one by one they may go."""
        target = self._target
        between = [version for version, _ in target.passed if target.source is not None and target.source < version < target.version]
        if not between:
            return refusal
        if isinstance(refusal, NotOnline):
            refusal.stop = str(max(between))
        elif target.source is not None and isinstance(refusal, ColumnInUse | CannotCluster | NotApplicable | RefusedByDelta):
            reason = f"{refusal.collection}: {refusal.message.rstrip('.')}"
            return StopInBetween(source=target.source, target=target.version, stop=max(between), reason=reason)
        return refusal

    @property
    def _state(self) -> State:
        assert self._view.state is not None  # a live table changes
        return self._view.state

    def _head(self, step: Evolve) -> Head:
        head = self._view.heads[step.old.name]
        assert head is not None  # ``admits`` saw it
        return head

    def _held_drops(self, collection: CollectionName, holds: Sequence[Hold]) -> tuple[DropColumn, ...]:
        """Return what the end of the holds drops from a collection."""
        physical, kept = self._state.entry(collection).physical, kept_fields(self._state, collection, holds)
        return tuple(map(DropColumn, droppable(physical, kept)))

    def _check_on_the_head(self, evolution: TableEvolution) -> None:
        """Refuse what the commit would refuse; name the hold if it is a dropped column that one keeps."""
        collection, head = evolution.step.old.name, self._head(evolution.step)
        try:
            self._try_on_the_head(head, self._held_drops(collection, self._ending), evolution)
        except Refusal as refusal:
            asks = f"the release asks for what a dropped column stands against ({refusal.message.rstrip('.')})"
            kept = list(kept_of_table(self._state, collection, self._staying, asks))
            if not kept or not self._goes_without(head, self._held_drops(collection, unclosed_holds(self._state)), evolution):
                raise
            if not any(isinstance(known, HoldKeeps) and known.collection == collection for known in self._refusals):
                self._refusals += kept

    def _goes_without(self, head: Head, held: Sequence[Change], evolution: TableEvolution) -> bool:
        try:
            self._try_on_the_head(head, held, evolution)
        except Refusal:
            return False
        return True

    @staticmethod
    def _try_on_the_head(head: Head, held: Sequence[Change], evolution: TableEvolution) -> None:
        """Run the committer's own edits in memory, so that its refusals come now, not later."""
        found, rounds = evolution.phases, () if evolution.online is None else evolution.online.rounds
        now: TableState | None = None
        online = [online_round.changes for online_round in rounds]
        cutover = (*online.pop(), *found.cutover) if rounds and rounds[-1].swaps else found.cutover
        if held:
            now = head.edited(tuple(held), stood_before=True)
        for changes in (found.expand, *online, cutover, evolution.dropped):
            if changes:
                asked = tuple(changes)
                now = head.edited(asked) if now is None else edit(now.protocol, now.metadata, asked, clustering=now.clustering or ())
                inverses = [SetProperty(change.key, change.new, change.old) for change in changes if isinstance(change, SetProperty)]
                if inverses:
                    edit(now.protocol, now.metadata, inverses, clustering=now.clustering or ())
