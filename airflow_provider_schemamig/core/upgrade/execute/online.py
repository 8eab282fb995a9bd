"""The online changes of a plan, between expand and cut-over: every element walks its path to PUBLIC.

Per collection the steps are set in rounds (``online.operation.schedule``). A round is at most one metadata commit, the ledger rows of the
elements it took along, and the work on rows that the next round waits for. The last round of columns that change places is the cut-over's
(``rename_swaps``); before it their rows are filled here. Where a killed run was is seen from the table, whose physical
schema belongs to one round, and from the elements; what it had filled is seen from the log. Work that fails for good walks the whole
collection back, in one commit, so that no writer is held to a rule that is not going to come.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pendulum

from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.ledger.rows import Element, IntentKind
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Put, Update
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.online.keys import key_of
from airflow_provider_schemamig.core.online.operation import Enter, Operation, Recluster, Reorg, Round, RowStep, Validate
from airflow_provider_schemamig.core.release.merge.chain import Evolve
from airflow_provider_schemamig.core.schema.element_states import ElementState
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.transfer.throttle import Pace, force_forgotten, forced
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.errors import DriftFound
from airflow_provider_schemamig.core.upgrade.execute.expand import check_expanded
from airflow_provider_schemamig.core.upgrade.execute.online_schedule import (
    OnlineSchedule,
    absent,
    change_intent_of,
    fill_due,
    is_at_least,
    is_changed,
    is_cut_over,
    online_schedule_of,
    tell,
)
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.live_tables import is_in_place, shown, table_store
from airflow_provider_schemamig.core.upgrade.plan.row_checks import check_of
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs, violation_of
from airflow_provider_schemamig.core.upgrade.tables.change_log import ElementEntries
from airflow_provider_schemamig.core.upgrade.tables.clustering import recluster
from airflow_provider_schemamig.core.upgrade.tables.column_swap import SwapBack, fill_old_column, retry_on_new_files
from airflow_provider_schemamig.core.upgrade.tables.errors import ElementTakenBack
from airflow_provider_schemamig.core.upgrade.tables.inverse import column_swaps, inverse_changes
from airflow_provider_schemamig.core.upgrade.tables.seals import unseal_leftovers
from airflow_provider_schemamig.core.upgrade.tables.transitions import Transition, commit_transitions
from airflow_provider_schemamig.core.upgrade.verify.keys import ask, validate_key
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError, raise_refusals


def change_online(leader: LeaderWriter, stages: Sequence[s.Online], jobs: Jobs, collections: Sequence[str] | None = None) -> None:
    """Take the online changes of all collections, or of the named ones, as far as they come before the cut-over. Safe to repeat: what
    is done is found done.

    A refusal of one collection walks that one back; the others go on. Raises DataViolation, DriftFound, WrongState before expand.
    """
    refusals: list[SchemamigError] = []
    steps = {step.old.name: step for step in leader.evolutions()}
    for stage in stages:
        if collections is not None and stage.collection not in set(collections):
            continue
        step = steps[stage.source]
        item = online_schedule_of(leader, step)
        if item is None or is_cut_over(leader, item):
            continue
        check_expanded(leader, step)
        unseal_leftovers(leader, [item.shard])
        found = _change_table(leader, step, item, jobs)
        refusals += found
        if item.swap is None or found:  # else it is not over yet
            _forget_force(leader, item.collection)
    raise_refusals(refusals)


def _change_table(leader: LeaderWriter, step: Evolve, item: OnlineSchedule, jobs: Jobs) -> list[SchemamigError]:
    """Take one collection to the end of its course, or walk it back; return what was refused.

    After a way back that was cut short its course is made once more: that leaves the table elsewhere.
    """
    entries, was_changed = ElementEntries(leader, item.collection, item.shard, item.operations), is_changed(leader, item)
    refusals: list[SchemamigError] = []
    try:
        if column_swaps(item.begin, item.origin, ()):
            _take_back(leader, item, jobs)
            item = online_schedule_of(leader, step) or item
        _Run(leader, item, jobs).to_the_end()
        if not was_changed:
            entries.ended()
    except Refusal as refusal:
        refusal.collection = refusal.collection or item.collection
        refusals.append(refusal)
        try:
            take_back_elements(leader, item, refusal.message, jobs)
            entries.ended(refusal.code, f"walked back: {refusal.message}")
        except Refusal as stuck:  # rows have to be fixed for the way back, too: until then the table stays where it is
            refusals.append(stuck)
            entries.ended(refusal.code, f"stays where it is, {stuck.message} {refusal.message}")
    return refusals


def _forget_force(leader: LeaderWriter, collection: CollectionName) -> None:
    if forced(leader.state, collection):
        leader.append(lambda state: force_forgotten(state, [collection]))


class _Run:
    def __init__(self, leader: LeaderWriter, item: OnlineSchedule, jobs: Jobs) -> None:
        self._leader = leader
        self._schedule = item
        self._jobs = jobs
        self._store = table_store(leader.env, leader.state, item.shard)
        self._pace = Pace(leader.newest, leader.listen, waits=leader.env.waits)

    def to_the_end(self) -> None:
        for number, online_round in enumerate(online_round for online_round in self._schedule.rounds if not online_round.swaps):
            if not self._is_entered(online_round):
                self._pace.begin_step("change", self._schedule.collection)
                if number == self._schedule.last_step and not self._has_reached(number + 1):
                    self._pace.begin_last_step("change", self._schedule.collection)
                self._enter(number, online_round)
            for operation, step in online_round.row_steps:
                if self._element(operation).checked_version is None:
                    self._pace.begin_step("change", self._schedule.collection)
                    self._do(operation, step)

    # -- the ledger's elements --------------------------------------------------------------------------------------------------------

    def _element(self, operation: Operation) -> Element:
        """Return an element as the ledger has it, or as it is before its first step."""
        known = self._leader.state.elements.get((self._schedule.collection, operation.name, operation.spec))
        if known is not None and known.epoch == self._leader.epoch and known.state is not ElementState.ABSENT:
            return known
        return absent(self._leader, self._schedule, operation)

    def _is_entered(self, online_round: Round) -> bool:
        return all(is_at_least(operation, self._element(operation).state, step.state) for operation, step in online_round.entering)

    def _put(self, elements: Mapping[Operation, Element]) -> None:
        """Write elements into the ledger.

        What a twin did meanwhile is never taken back; what it walked back is not begun again. Raises ElementTakenBack.
        """
        seen = self._leader.state.elements

        def decide(state: State) -> Sequence[Update]:
            updates = []
            for operation, element in elements.items():
                key = (element.collection, element.name, element.spec)
                now = state.elements.get(key)
                if now is not None and now.state is ElementState.ABSENT and now != seen.get(key):
                    raise ElementTakenBack(collection=element.collection, element=element.name, reason=now.error or "")
                if now is None or now.epoch != element.epoch or is_at_least(operation, element.state, now.state):
                    updates.append(Put(element))
            return updates

        self._leader.append(decide)
        for operation, element in elements.items():
            before = seen.get((element.collection, element.name, element.spec))
            if before is None or before.state is not element.state:
                tell(self._leader, self._schedule.collection, operation, element.state)

    # -- steps ------------------------------------------------------------------------------------------------------------------------

    def _enter(self, number: int, online_round: Round) -> None:
        """Make the round's commit, and write down the elements that it takes along."""
        version = self._commit(number, online_round) if online_round.changes else None
        now = pendulum.now("UTC")
        elements: dict[Operation, Element] = {}
        for operation, step in online_round.entering:
            known = elements.get(operation, self._element(operation))
            made = version if isinstance(step, Enter) else known.table_version
            elements[operation] = replace(known, state=step.state, since=now, table_version=made)
        self._put(elements)

    def _commit(self, number: int, online_round: Round) -> int:
        item = self._schedule
        begin, origin = item.reached[number], item.origin
        try:
            transition = Transition(item.collection, item.shard, begin, online_round.changes, origin=origin, asked_later=True)
            return commit_transitions(self._leader, IntentKind.CHANGE, [transition])[item.collection]
        except DriftFound:
            self._leader.refresh()
            if not self._is_entered(online_round):
                raise
            return self._element(online_round.entering[-1][0]).table_version or 0  # a twin was here, and has gone on

    def _has_reached(self, number: int) -> bool:
        head = read_head(self._store)
        return any(is_in_place(reached, head) for reached in self._schedule.reached[number:])

    def _do(self, operation: Operation, step: RowStep) -> None:
        element, item = replace(self._element(operation), state=step.state, since=pendulum.now("UTC")), self._schedule
        self._put({operation: element})
        match step:
            case Validate():
                version = self._validate(element, step)
            case Reorg():
                fill = functools.partial(fill_due, self._leader, item, operation, step, self._jobs)
                version = retry_on_new_files(self._leader, item.collection, item.shard, fill)
            case Recluster():
                assert element.table_version is not None  # its columns are in the log since then
                version = recluster(self._leader, item.collection, item.shard, element.table_version, self._jobs)
        self._put({operation: replace(element, checked_version=version)})

    def _validate(self, element: Element, step: Validate) -> int:
        """Validate an element at the newest version, and return that.

        A rule on the table is enforced since an earlier one, so what comes later keeps it. A key is not on the table, so what comes during
        its scan is looked at, too. Raises DataViolation.
        """
        started = time.monotonic()
        key, collection, state = key_of(element), self._schedule.collection, self._leader.state
        if key is not None:
            version = validate_key(self._leader.env, state, self._jobs, collection, key)
        else:
            version = read_head(self._store).version
            check = {**check_of(self._leader.env, state, collection, step.question), "version": version}
            raise_refusals([violation_of(item) for item in ask(self._leader.env, self._jobs, [check])])
        self._leader.report("validate", collection, version, started)
        return version


# --- back ----------------------------------------------------------------------------------------------------------------------------


def take_back_elements(leader: LeaderWriter, item: OnlineSchedule, reason: str, jobs: Jobs) -> None:
    """Move every element of the course back to ABSENT, and the table back in one commit.

    What has to stay (a column that files carry) is hidden. The ledger comes before that commit: after a kill in between, the next try
    begins with what the table has, which the intent, which stays, tells. Before the ledger come the rows, which may refuse: then nothing
    goes back. Raises as ``column_swap.fill_old_column``.
    """
    now = _left_at(leader, item)
    if now is not None:
        fill = functools.partial(fill_old_column, leader, _swap_back_of(leader, item, now), jobs)
        retry_on_new_files(leader, item.collection, item.shard, fill)
    leader.append(lambda state: [Put(absent(leader, item, operation, reason)) for operation in item.operations])
    for operation in item.operations:
        tell(leader, item.collection, operation, ElementState.ABSENT)
    _take_back(leader, item, jobs)


def _left_at(leader: LeaderView, item: OnlineSchedule) -> Declaration | None:
    """Return what the table has; None if nothing was changed yet, or somebody else changed it: the next look tells."""
    intent = change_intent_of(leader, item.shard)
    if intent is None:
        return None
    return shown(intent, read_head(table_store(leader.env, leader.state, item.shard)))


def _swap_back_of(leader: LeaderView, item: OnlineSchedule, now: Declaration) -> SwapBack:
    intent = change_intent_of(leader, item.shard)
    assert intent is not None  # it told what ``now`` is
    return SwapBack(item.collection, item.shard, now, item.origin, (), intent.base_version)


def _take_back(leader: LeaderWriter, item: OnlineSchedule, jobs: Jobs) -> None:
    store = table_store(leader.env, leader.state, item.shard)

    def attempt() -> None:
        now = _left_at(leader, item)
        if now is None:
            return
        swap_back = _swap_back_of(leader, item, now)
        checked_at = fill_old_column(leader, swap_back, jobs)
        head = read_head(store)
        inverse = inverse_changes(store, head, now, item.origin, (), swap_back.since)
        if inverse.changes:
            checked_at = head.version if checked_at is None else checked_at
            transition = Transition(
                item.collection, item.shard, now, inverse.changes, inverse.forget, checked_at, item.origin, stood_before=True
            )
            commit_transitions(leader, IntentKind.CHANGE, [transition])
            leader.notes.extend(f"{item.collection}: {text}" for text in inverse.left_behind)

    retry_on_new_files(leader, item.collection, item.shard, attempt)
