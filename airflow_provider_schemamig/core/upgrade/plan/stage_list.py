"""``stages``: everything that leads from what the ledger says to a target.

The planner asks for it with its ``Checks``, and preflight shows and digests what it gets; promotion asks again, and compares. The tasks ask
again for what becomes of live tables (``EvolutionMemo``), as recovery may have changed what is left to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from airflow_provider_schemamig.core.ledger.rows import Hold, IntentKind
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Generation
from airflow_provider_schemamig.core.online.errors import NotOnline
from airflow_provider_schemamig.core.online.nested_types import joined
from airflow_provider_schemamig.core.online.operation import Chain, Round, schedule
from airflow_provider_schemamig.core.online.operations import operations_of
from airflow_provider_schemamig.core.release.merge.chain import Create, Evolve, MergedStep, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import Change, DropColumn
from airflow_provider_schemamig.core.schema.diff.phases import Phases, phases
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import begun_rollbacks, kept_fields, open_holds, physical_after
from airflow_provider_schemamig.core.upgrade.plan.holds.rules import end_of
from airflow_provider_schemamig.core.upgrade.plan.target import Target
from airflow_provider_schemamig.core.upgrade.plan.unreleased import declared_now, renames_left
from airflow_provider_schemamig.exceptions import Refusal

S = TypeVar("S", bound=s.EvolutionStage)

#: All that the stages of an evolution depend on: the arguments of ``phases``.
EvolutionInputs = tuple[Declaration, Declaration, Declaration, Mapping[ColumnPath, str], frozenset[ColumnPath]]


class Checks:
    """Say what else must hold while stages are made. These ask for nothing more, and raise what cannot be made.

    The planner's ask the live tables and the holds, and collect every refusal.
    """

    def only_settles(self) -> bool:
        """Return whether a deployment leads that only settles: it has to be taken up though nothing is to be deployed."""
        return False

    def admits(self, step: MergedStep) -> bool:
        """Return whether the step can have stages."""
        return True

    def check_phases(self, step: Evolve, found: Phases) -> None:
        """Check an evolution before its online changes become elements."""

    def check_element(self, step: Evolve, found: Phases, number: int, change: Change, chain: Chain) -> None:
        """Check what one of the online changes, ``joined``, consists of. What raises NotOnline is left out, if that is collected."""

    def check_evolution(self, evolution: TableEvolution) -> None:
        """Check an evolution as a whole."""

    def refuse_element(self, step: Evolve, refusal: Refusal) -> None:
        """Take what was raised about one online change."""
        raise refusal

    def refuse(self, step: Evolve, refusal: Refusal) -> None:
        """Take the refusal of an evolution, which has no stages then."""
        raise refusal


_NO_CHECKS = Checks()


def stages(target: Target, state: State | None, ending: Sequence[Hold] = (), checks: Checks = _NO_CHECKS) -> tuple[s.Stage, ...]:
    """Return all stages in the order in which they run. ``ending``: the holds that are to end before their time. Pure.

    Raises what ``checks`` raise: without them the first Refusal of an evolution that cannot be made.
    """
    found: list[s.Stage] = [*_settle_stages(target, state, checks)]
    if target.is_deployed:
        ended = frozenset(hold.generation for hold in ending)
        found += [stage for hold in ending for stage in end_of(state, hold)]
        found += [stage for step in target.steps if checks.admits(step) for stage in _step_stages(target, step, state, ended, checks)]
    if found or target.is_deployed:
        found.append(s.Commit(target.source, target.version, target.restated))
    return in_order(found)


def in_order(found: Iterable[s.Stage]) -> tuple[s.Stage, ...]:
    """Return the stages as they run; one that ends a hold comes after those of older holds."""

    def place(stage: s.Stage) -> tuple[int, int, str]:
        number = stage.generation if isinstance(stage, s.EndHold) else 0
        return s.PLAN_KINDS.index(stage.kind), number, stage.collection or ""

    return tuple(sorted(found, key=place))


def _settle_stages(target: Target, state: State | None, checks: Checks) -> tuple[s.Settle, ...]:
    """Return the stage that takes up the work left open by others.

    A compaction at work, or killed, is no reason to deploy anything: it changes no schema, and its next run goes on. A rollback that was
    begun and has announced nothing left its hold neither open nor over.
    """
    if state is None:
        return ()
    names = {intent.collection for intent in state.intents.values() if target.is_deployed or intent.kind is not IntentKind.COMPACT}
    is_begun = not target.is_deployed and (bool(begun_rollbacks(state)) or checks.only_settles())
    return (s.Settle(tuple(sorted(names))),) if names or is_begun else ()


def _step_stages(
    target: Target, step: MergedStep, state: State | None, ended: Collection[Generation], checks: Checks
) -> tuple[s.Stage, ...]:
    """Return the stages of one collection. ``ended``: generations whose holds have ended before. Raises as ``evolved``."""
    match step:
        case Create(collection=collection, new=new, fill=None):
            return (s.CreateShard(collection, new),)
        case Create():
            return (_build(target, step),)
        case Replace():
            return (_build(target, step), s.Seal(step.old.name), s.Retire(step.old.name))
        case Remove(old=old) if state is not None and old.name in state.dropped:
            return ()
        case Remove(old=old):
            return (s.Seal(old.name), s.Retire(old.name))
        case RewriteStep():
            return (_copy(target, step), s.Seal(step.old.name), s.Retire(step.old.name)) if state is not None else ()
        case Evolve():
            evolution = evolved(step, state, ended, checks) if state is not None else None
            return evolution.stages if evolution is not None else ()


def _build(target: Target, step: Create | Replace) -> s.Build:
    return s.Build(step.collection, step.new, step.fill, target.inputs_of(step.collection), step.snapshot)


def _copy(target: Target, step: RewriteStep) -> s.Copy:
    return s.Copy(
        collection=step.collection,
        source=step.old.name,
        declaration=step.new,
        up=step.up,
        down=step.down,
        projection=target.projection_of(step.collection),
        lookups=target.inputs_of(step.collection),
        any_cardinality=step.cardinality == "any",
        no_way_back=step.no_way_back,
        lost_on_way_back=step.lost_on_way_back,
    )


# --- evolutions ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnlineChanges:
    """The changes of one table in ``change``, and those of them that wait for the cut-over. ``table``: as expand leaves it."""

    table: Declaration
    #: Each change with the elements that it goes through.
    changes: tuple[tuple[Change, Chain], ...]

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        return schedule(self.chains)

    @property
    def chains(self) -> tuple[Chain, ...]:
        return tuple(chain for _, chain in self.changes)

    @property
    def commits(self) -> tuple[tuple[Change, ...], ...]:
        """Return the changes of each metadata commit; what the table has already (a rollback left it there) needs none."""
        found, table = [], self.table
        for online_round in self.rounds:
            after = apply(table, online_round.changes)
            if not online_round.swaps and after != table:
                found.append(online_round.changes)
            table = after
        return tuple(found)

    @property
    def swapped(self) -> tuple[Change, ...]:
        """Return the changes by which columns change places in the cut-over's commit."""
        return tuple(change for online_round in self.rounds if online_round.swaps for change in online_round.changes)

    def swaps(self) -> Iterator[ColumnPath]:
        """Yield the columns that change places with the cut-over."""
        for operation in (operation for chain in self.chains for operation in chain):
            if operation.swaps and operation.fills:
                yield from operation.columns

    def leaves(self) -> Iterator[DropColumn]:
        """Yield the drops of columns that stay behind for the way back."""
        for operation in (operation for chain in self.chains for operation in chain):
            yield from map(DropColumn, operation.leaves)


@dataclass(frozen=True)
class TableEvolution:
    """What becomes of one live table. ``online``: None if a commit of each phase is enough."""

    step: Evolve
    phases: Phases
    online: OnlineChanges | None

    @property
    def dropped(self) -> tuple[Change, ...]:
        """Return what contract drops."""
        return (*self.phases.contract, *(() if self.online is None else self.online.leaves()))

    @cached_property
    def stages(self) -> tuple[s.EvolutionStage, ...]:
        """Return one stage for each phase that has something to do."""
        return tuple(self._stages())

    def _stages(self) -> Iterator[s.EvolutionStage]:
        collection, source, found = self.step.collection, self.step.old.name, self.phases
        if found.expand:
            yield s.Expand(collection, source, found.expand)
        if found.online:
            yield s.Online(collection, source, found.online)
        swaps = () if self.online is None else tuple(self.online.swaps())
        if found.cutover or swaps:
            yield s.CutOver(collection, source, found.cutover, swaps)
        if self.dropped:
            yield s.Contract(collection, source, self.dropped)

    def stage(self, kind: type[S]) -> S | None:
        """Return its stage of ``kind``, if it has one."""
        return next((stage for stage in self.stages if isinstance(stage, kind)), None)

    def changes(self, kind: type[s.EvolutionStage]) -> tuple[Change, ...]:
        """Return the changes of its stage of ``kind``; none if it has no such stage."""
        stage = self.stage(kind)
        return () if stage is None else stage.changes


def evolved(step: Evolve, state: State, ended: Collection[Generation], checks: Checks = _NO_CHECKS) -> TableEvolution | None:
    """Return what becomes of one live table. ``ended``: generations whose holds have ended before.

    Raises UnknownRename, NameTaken, RenameInLambda, HiddenConflict, NotOnline; None where ``checks`` collect them.
    """
    return _evolved(step, _inputs_of(step, state, ended), checks)


def _inputs_of(step: Evolve, state: State, ended: Collection[Generation]) -> EvolutionInputs:
    """Return the table's physical schema after the holds in ``ended``, its declaration now, and its declaration afterwards."""
    source = step.old.name
    kept = frozenset(kept_fields(state, source, [hold for hold in open_holds(state) if hold.generation not in ended]))
    return physical_after(state, source, ended), declared_now(state, step), step.new, renames_left(state, step), kept


def _evolved(step: Evolve, inputs: EvolutionInputs, checks: Checks) -> TableEvolution | None:
    try:
        found = phases(*inputs)
        checks.check_phases(step, found)
        online = _online(step, found, apply(inputs[0], found.expand), inputs[1], checks) if found.online else None
        evolution = TableEvolution(step, found, online)
        checks.check_evolution(evolution)
    except Refusal as refusal:
        checks.refuse(step, refusal)
        return None
    return evolution


def _online(step: Evolve, found: Phases, table: Declaration, declared: Declaration, checks: Checks) -> OnlineChanges:
    """Return the online changes of ``table``, in their order, each with its elements. ``declared``: its declaration before."""
    changes = []
    together = joined(found.online, table)
    for number, change in enumerate(together):
        try:
            chain = operations_of(change, table, together, declared)
            checks.check_element(step, found, number, change, chain)
        except NotOnline as refusal:
            checks.refuse_element(step, refusal)
        else:
            changes.append((change, chain))
    return OnlineChanges(table, tuple(changes))


class EvolutionMemo:
    """Remember the evolution of each live table until its inputs change: the tasks of a process ask again."""

    def __init__(self, ended: Collection[Generation]) -> None:
        self._ended = ended
        self._known: dict[CollectionName, tuple[State, EvolutionInputs, TableEvolution]] = {}

    def evolution(self, step: Evolve, state: State) -> TableEvolution:
        known = self._known.get(step.collection)
        if known is not None and known[0] is state:
            return known[2]
        inputs = _inputs_of(step, state, self._ended)
        found = known[2] if known is not None and known[1] == inputs else _evolved(step, inputs, _NO_CHECKS)
        assert found is not None  # else it was raised
        self._known[step.collection] = state, inputs, found
        return found
