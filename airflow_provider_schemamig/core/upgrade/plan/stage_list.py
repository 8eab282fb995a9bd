"""``stages``: everything that leads from what the ledger says to a target. It is what preflight shows and digests, what promotion compares,
and what the tasks run: they ask for it again, as recovery may have changed what is left to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from airflow_provider_schemamig.core.ledger.rows import Hold, IntentKind
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Generation
from airflow_provider_schemamig.core.online.operation import Chain
from airflow_provider_schemamig.core.online.operations import chains_of
from airflow_provider_schemamig.core.release.merge.chain import Create, Evolve, MergedStep, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import DropColumn
from airflow_provider_schemamig.core.schema.diff.phases import Phases, phases
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.hold_rules import end_of
from airflow_provider_schemamig.core.upgrade.plan.open_holds import kept_fields, open_holds, physical_after
from airflow_provider_schemamig.core.upgrade.plan.target import Target
from airflow_provider_schemamig.core.upgrade.plan.unreleased import declared_now, renames_left

#: All that the stages of an evolution depend on: the arguments of ``phases``.
EvolutionInputs = tuple[Declaration, Declaration, Declaration, Mapping[ColumnPath, str], frozenset[ColumnPath]]


def stages(target: Target, state: State | None, ending: Sequence[Hold] = ()) -> tuple[s.Stage, ...]:
    """Return all stages in the order in which they run. ``ending``: the holds that are to end before their time. Pure.

    Raises the first Refusal of an evolution that cannot be made (``planner.build_plan`` reports all of them).
    """
    found: list[s.Stage] = [*settle_stages(target, state)]
    if target.is_deployed:
        ended = frozenset(hold.generation for hold in ending)
        found += [stage for hold in ending for stage in end_of(state, hold)]
        found += [stage for step in target.steps for stage in step_stages(target, step, state, ended)]
    return in_order(target, found)


def in_order(target: Target, found: Iterable[s.Stage]) -> tuple[s.Stage, ...]:
    """Return the stages as they run, with the commit that they need; one that ends a hold comes after those of older holds."""

    def place(stage: s.Stage) -> tuple[int, int, str]:
        number = stage.generation if isinstance(stage, s.EndHold) else 0
        return s.PLAN_KINDS.index(stage.kind), number, stage.collection or ""

    listed = list(found)
    if listed or target.is_deployed:
        listed.append(s.Commit(target.source, target.version, target.restated))
    return tuple(sorted(listed, key=place))


def settle_stages(target: Target, state: State | None) -> tuple[s.Settle, ...]:
    """Return the stage that takes up what others left open.

    A compaction at work, or killed, is no reason to deploy anything: it changes no schema, and its next run goes on.
    """
    intents = () if state is None else state.intents.values()
    names = {intent.collection for intent in intents if target.is_deployed or intent.kind is not IntentKind.COMPACT}
    return (s.Settle(tuple(sorted(names))),) if names else ()


def step_stages(target: Target, step: MergedStep, state: State | None, ended: Collection[Generation]) -> tuple[s.Stage, ...]:
    """Return the stages of one collection. ``ended``: generations whose holds have ended before. Raises as ``evolution_stages``."""
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
            return evolution_stages(step, evolution_inputs(state, step, ended)) if state is not None else ()


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


def evolution_inputs(state: State, step: Evolve, ended: Collection[Generation]) -> EvolutionInputs:
    """Return what the table has once the holds in ``ended`` have ended, what it is declared as, and what it is to become."""
    source = step.old.name
    kept = frozenset(kept_fields(state, source, [hold for hold in open_holds(state) if hold.generation not in ended]))
    return physical_after(state, source, ended), declared_now(state, step), step.new, renames_left(state, step), kept


def evolution_stages(step: Evolve, inputs: EvolutionInputs) -> tuple[s.Stage, ...]:
    """Return the stages of an evolution. Raises UnknownRename, NameTaken, RenameInLambda, HiddenConflict, NotOnline."""
    found = phases(*inputs)
    chains = chains_of(found.online, apply(inputs[0], found.expand)) if found.online else ()
    return tuple(stages_in_phases(step, found, chains))


def stages_in_phases(step: Evolve, found: Phases, chains: Sequence[Chain]) -> Iterator[s.Stage]:
    """Return one stage for each phase that has something to do. ``chains``: what ``found.online`` consists of."""
    collection, source = step.collection, step.old.name
    if found.expand:
        yield s.Expand(collection, source, found.expand)
    if found.online:
        yield s.Online(collection, source, found.online)
    swaps = tuple(_swapped_by(chains))
    if found.cutover or swaps:
        yield s.CutOver(collection, source, found.cutover, swaps)
    dropped = (*found.contract, *left_by(chains))
    if dropped:
        yield s.Contract(collection, source, dropped)


def left_by(chains: Sequence[Chain]) -> Iterator[DropColumn]:
    """Return the drops of columns that online changes leave behind for their way back."""
    for operation in (operation for chain in chains for operation in chain):
        yield from map(DropColumn, operation.leaves)


def _swapped_by(chains: Sequence[Chain]) -> Iterator[ColumnPath]:
    """Return the columns that change places with the cut-over."""
    for operation in (operation for chain in chains for operation in chain):
        if operation.swaps and operation.fills:
            yield from operation.columns


class EvolutionMemo:
    """Remember each evolution's stages until something that they depend on is another one: the tasks of a process ask again and again."""

    def __init__(self, ended: Collection[Generation]) -> None:
        self._ended = ended
        self._known: dict[CollectionName, tuple[EvolutionInputs, tuple[s.Stage, ...]]] = {}

    def stages(self, step: Evolve, state: State) -> tuple[s.Stage, ...]:
        inputs = evolution_inputs(state, step, self._ended)
        known = self._known.get(step.collection)
        if known is None or known[0] != inputs:
            known = self._known[step.collection] = (inputs, evolution_stages(step, inputs))
        return known[1]
