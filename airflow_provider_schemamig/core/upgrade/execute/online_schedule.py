"""The way of one table through its online changes: round after round in ``change``, and columns that change places in the cut-over."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pendulum

from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.ledger.rows import Element, IntentKind, TransitionIntent
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.online.errors import CannotBackfill
from airflow_provider_schemamig.core.online.operation import Operation, Reorg, Round, RowStep, Swap, schedule
from airflow_provider_schemamig.core.online.operations import chains_of
from airflow_provider_schemamig.core.online.unfilled import Fill
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.release.merge.chain import Evolve
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import AddColumn
from airflow_provider_schemamig.core.schema.element_states import PATHS, ElementState
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.plan.columns.uses import past_of
from airflow_provider_schemamig.core.upgrade.plan.live_tables import shown, table_store
from airflow_provider_schemamig.core.upgrade.plan.stages import Expand, Online
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.core.upgrade.tables.backfill import backfill
from airflow_provider_schemamig.core.upgrade.tables.batches import Rush


@dataclass(frozen=True)
class OnlineSchedule:
    """All that is to happen to one table: ``begin`` is its physical schema before the first round."""

    collection: CollectionName
    shard: ShardId
    begin: Declaration
    rounds: tuple[Round, ...]
    #: Where going back leads: the same, unless an attempt before this one was walked back.
    origin: Declaration

    @cached_property
    def reached(self) -> tuple[Declaration, ...]:
        """Return the physical schema before the first round, and after the commit of each."""
        found = [self.begin]
        for online_round in self.rounds:
            found.append(apply(found[-1], online_round.changes))
        return tuple(found)

    @property
    def end(self) -> Declaration:
        return self.reached[-1]

    @property
    def swap(self) -> Round | None:
        """Return the round in which columns change places: the cut-over's, all others are those of ``change``."""
        return self.rounds[-1] if self.rounds and self.rounds[-1].swaps else None

    @property
    def changed(self) -> Declaration:
        """Return the physical schema at the end of ``change``."""
        return self.reached[-2] if self.swap is not None else self.end

    @cached_property
    def last_step(self) -> int | None:
        """Return the round of ``change`` whose commit comes after all work on rows. That commit may be postponed.

        None: no commit comes after work on rows, or it is the cut-over's.
        """
        made = [number for number, online_round in enumerate(self.rounds) if online_round.changes]
        found = made[-1] if made and any(online_round.row_steps for online_round in self.rounds[: made[-1]]) else None
        return None if self.swap is not None else found

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """Return each operation once, in the order in which they begin."""
        found = {(operation.name, operation.spec): operation for online_round in self.rounds for operation, _ in online_round.entering}
        return tuple(found.values())


def online_schedule_of(leader: LeaderView, step: Evolve) -> OnlineSchedule | None:
    """Return the way of an evolved collection through its online changes; None if it has none. To be made once a task, and handed on.

    Its rounds are those of the plan's own derivation, over the table as expand leaves it. They are made anew where an attempt that was
    walked back left the table otherwise (a filled column stays, hidden): that is seen from the table alone.
    """
    evolution = leader.evolution(step)
    if evolution.online is None:
        return None
    source = step.old.name
    shard = leader.state.objects[source].shard
    begin = expanded(leader, step)
    intent = change_intent_of(leader, shard)
    states = {element.state for element in elements_of(leader, shard)}
    if intent is not None and states == {ElementState.ABSENT}:
        head = read_head(table_store(leader.env, leader.state, shard))
        begin = shown(intent, head) or begin
    is_planned = begin == evolution.online.table
    rounds = evolution.online.rounds if is_planned else schedule(chains_of(evolution.changes(Online), begin))
    return OnlineSchedule(source, shard, begin, rounds, begin if intent is None else intent.before)


def expanded(leader: LeaderView, step: Evolve) -> Declaration:
    """Return what the table looks like at the end of expand."""
    return apply(leader.state.entry(step.old.name).physical, leader.changes(Expand, step))


def change_intent_of(leader: LeaderView, shard: ShardId) -> TransitionIntent | None:
    intent = leader.state.transition(shard, IntentKind.CHANGE, leader.generation)
    return intent if intent is not None and intent.epoch == leader.epoch else None


def elements_of(leader: LeaderView, shard: ShardId) -> tuple[Element, ...]:
    return tuple(element for element in leader.state.elements_of(shard) if element.epoch == leader.epoch)


def absent(leader: LeaderView, item: OnlineSchedule, operation: Operation, error: str | None = None) -> Element:
    """Return an element before its first step, or walked back because of ``error``."""
    return Element(
        collection=item.collection,
        name=operation.name,
        spec=operation.spec,
        op=operation.change.op,
        state=ElementState.ABSENT,
        adding=True,
        shard=item.shard,
        generation=leader.generation,
        epoch=leader.epoch,
        since=pendulum.now("UTC"),
        table_version=None,
        checked_version=None,
        columns=operation.columns,
        refers=operation.refers,
        refers_columns=operation.refers_columns,
        error=error,
    )


def tell(leader: LeaderWriter, collection: CollectionName, operation: Operation, state: ElementState) -> None:
    """Tell the listener that an element has reached a state."""
    measures = {"element_state": list(ElementState).index(state)}
    leader.listen(Event("change", collection, note=f"{operation.name} is {state.name}", element=operation.name, measures=measures))


def is_changed(leader: LeaderView, item: OnlineSchedule) -> bool:
    """Return whether every element of the course is PUBLIC, or has come as far as it can before the cut-over makes it so."""
    known = {(element.name, element.spec): element for element in elements_of(leader, item.shard)}
    return all(_is_at_its_end(operation, known.get((operation.name, operation.spec))) for operation in item.operations)


def _is_at_its_end(operation: Operation, element: Element | None) -> bool:
    if element is None or element.state is ElementState.ABSENT:
        return False
    last = [step for step in operation.steps if not isinstance(step, Swap)][-1]
    return is_at_least(operation, element.state, last.state) and (not isinstance(last, RowStep) or element.checked_version is not None)


def fill_due(leader: LeaderWriter, item: OnlineSchedule, operation: Operation, step: Reorg, jobs: Jobs, rush: Rush | None = None) -> int:
    """Return the version at which no row lacked its value of ``step.column``. ``rush``: see ``Batches``. Raises as ``backfill``."""
    element = leader.state.elements[item.collection, operation.name, operation.spec]
    assert element.table_version is not None  # its column is there
    change = operation.change
    past = past_of(leader.state, item.collection, change.field) if isinstance(change, AddColumn) else None
    fill = Fill(step.column, step.expression, element.table_version, step.files, past)
    try:
        return backfill(leader, item.collection, item.shard, fill, jobs, rush=rush)
    except CannotBackfill:
        leader.refresh()
        head = read_head(table_store(leader.env, leader.state, item.shard))
        gone = all(column["name"] != step.column for column in head.schema["fields"])
        if not gone or not is_cut_over(leader, item):
            raise
        return head.version  # a twin was here: all was filled, and it has gone on


def is_cut_over(leader: LeaderView, item: OnlineSchedule) -> bool:
    """Return whether the table has gone on from the end of ``change``, or is about to: by an earlier run, or by a twin."""
    intent = leader.state.intents.get((item.shard, IntentKind.CUTOVER, leader.generation))
    return intent is not None and intent.epoch == leader.epoch


def is_at_least(operation: Operation, state: ElementState, wanted: ElementState) -> bool:
    """Return whether an element in ``state`` has come as far as ``wanted`` on its way to PUBLIC."""
    path = PATHS[operation.cls]
    return path.index(state) >= path.index(wanted)
