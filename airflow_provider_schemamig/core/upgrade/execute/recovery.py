"""A new leader's first stage: what leaders of lower epochs left open is fenced, looked at, and adopted or undone.

After the fence commit no statement of an older epoch can reach the table any more, neither one in flight nor one that starts late, so
what is seen then is final.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pendulum

from airflow_provider_schemamig.core.delta.commit.append import MetadataMoved
from airflow_provider_schemamig.core.delta.commit.commit import Committed, commit_changes
from airflow_provider_schemamig.core.delta.commit.fence import Fenced, put_fence
from airflow_provider_schemamig.core.delta.commit.seal import seal, seal_name, unseal
from airflow_provider_schemamig.core.delta.log.head import Head, LogTruncated, look_or_none, read_head
from airflow_provider_schemamig.core.ledger.rows import DriftRevertIntent, Element, Intent, IntentKind, ShardState, TransitionIntent
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, Put, Update, one_each
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, ShardId
from airflow_provider_schemamig.core.schema.diff.drift import live_differences
from airflow_provider_schemamig.core.schema.diff.renames import after_changes
from airflow_provider_schemamig.core.schema.model import Declaration, walk
from airflow_provider_schemamig.core.schema.paths import parent_and_name
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.core.transfer.exactly_once import foreign_commits
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.errors import DriftFound
from airflow_provider_schemamig.core.upgrade.plan.column_names import names_kept, names_of, names_recorded
from airflow_provider_schemamig.core.upgrade.plan.columns.added_again import as_on_table
from airflow_provider_schemamig.core.upgrade.plan.holds.open_holds import live_collection
from airflow_provider_schemamig.core.upgrade.plan.live_tables import check_not_exchanged, is_done, is_in_place, shown, table_store
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs, without_spark
from airflow_provider_schemamig.core.upgrade.tables.change_log import record_taken_back
from airflow_provider_schemamig.core.upgrade.tables.column_swap import SwapBack, fill_old_column, retry_on_new_files
from airflow_provider_schemamig.core.upgrade.tables.durable import require_durable
from airflow_provider_schemamig.core.upgrade.tables.errors import NotInvertible
from airflow_provider_schemamig.core.upgrade.tables.half_rolled_back import unfinished, what_is_missing
from airflow_provider_schemamig.core.upgrade.tables.inverse import InverseChanges, after_inverse, inverse_changes
from airflow_provider_schemamig.core.upgrade.tables.pins import keep_pinned
from airflow_provider_schemamig.core.upgrade.tables.transitions import made_at
from airflow_provider_schemamig.exceptions import Refusal, raise_refusals

T = TypeVar("T")

#: What the current plan wants a collection to look like after expand; None: it wants nothing of it.
Wanted = Callable[[CollectionName], Declaration | None]

#: The order in which one deployment makes its moves; undoing goes backwards.
_ORDER = (
    IntentKind.CREATE,
    IntentKind.EVOLVE,
    IntentKind.COMPACT,
    IntentKind.EXPAND,
    IntentKind.CHANGE,
    IntentKind.CUTOVER,
    IntentKind.SEAL,
    IntentKind.CONTRACT,
    IntentKind.ROLLBACK,
    IntentKind.UNSEAL,
    IntentKind.TAKE_BACK,
    IntentKind.REVERT,
)


def settle(leader: LeaderWriter, wanted: Wanted, jobs: Jobs = without_spark, *, for_rollback: bool = False, lossy: bool = False) -> None:
    """Take every open intent of a lower epoch; afterwards there is none. Safe to repeat: each step looks before it acts.

    ``for_rollback``: it is for a rollback, so what half a rollback took back stays so, and is this epoch's: its own goes on from there, one
    of another generation leaves it to that. ``jobs`` only where a change of type had come to its swap, and rows came since. ``lossy``: see
    ``column_swap.SwapBack``. Raises DriftFound, SparkNotGiven, RollbackUnfinished, and what ``column_swap.fill_old_column`` raises.
    """
    began = pendulum.now("UTC")
    how = _How(wanted, jobs, for_rollback, lossy)
    settled = _settle_what_stays(leader, how)
    refused: list[Refusal] = []
    shards = _stale_shards(leader)
    for number, shard in enumerate(shards, start=settled + 1):
        started = time.monotonic()
        try:
            found = _fenced(leader, shard)
            leader.refresh()
            intents = _stale_of(leader, shard)
            updates = _settle_shard(leader, found, intents, how, may_change=True) or [] if intents else []
        except Fenced:
            raise
        except Refusal as refusal:  # others' writers are not to wait behind a seal until somebody has fixed this table
            refused.append(refusal)
            continue
        if intents:  # else a twin settled it, and may have gone on
            keep_pinned(leader, [shard])
            leader.append(functools.partial(_unless_settled, settled=[(intents, updates)]))
            leader.report("settle", intents[0].collection, None, started, number, settled + len(shards))
    raise_refusals(refused)
    if any(element.epoch < leader.epoch for element in leader.state.elements.values()):
        record_taken_back(leader, began)
        leader.append(lambda state: [Drop(Element, element.key) for element in state.elements.values() if element.epoch < leader.epoch])


@dataclass(frozen=True, slots=True)
class _How:
    """What ``settle`` was asked for."""

    wanted: Wanted
    jobs: Jobs
    for_rollback: bool
    lossy: bool


@dataclass(frozen=True, slots=True)
class _Fenced:
    """A table behind this epoch's fence. ``head``: None if there is none, or if another one was made in its place (``is_another``), which
    gets no fence."""

    shard: ShardId
    store: Store
    head: Head | None
    is_another: bool = False
    #: The table version that stands behind the fence.
    version: int = -1


def _fenced(leader: LeaderView, shard: ShardId) -> _Fenced:
    store = table_store(leader.env, leader.state, shard)
    found = look_or_none(store)
    if found is None or found.is_another:
        return _Fenced(shard, store, None, is_another=found is not None)
    version = put_fence(store, leader.fence(shard), leader.tag("fence"))
    return _Fenced(shard, store, read_head(store), version=version)


def _unless_refused(act: Callable[[], T]) -> T | None:
    """Return what ``act`` does; None if it is refused, which is found again when all other tables are settled."""
    try:
        return act()
    except Fenced:
        raise
    except Refusal:
        return None


def _settle_what_stays(leader: LeaderWriter, how: _How) -> int:
    """Settle all tables that need no commit but the fence: looked at side by side, and written down in one append. Return how many."""
    stale = _stale_shards(leader)
    if not stale:
        return 0
    found = [item for item in leader.env.each(lambda shard: _unless_refused(lambda: _fenced(leader, shard)), stale) if item is not None]
    leader.refresh()
    settled: list[tuple[Sequence[Intent], Sequence[Update]]] = []

    def look(item: _Fenced) -> tuple[float, Sequence[Intent], Sequence[Update] | None]:
        started, intents = time.monotonic(), _stale_of(leader, item.shard)
        updates = _unless_refused(functools.partial(_settle_shard, leader, item, intents, how, may_change=False)) if intents else None
        return started, intents, updates

    for started, intents, updates in leader.env.each(look, found):
        if updates is not None:
            settled.append((intents, updates))
            leader.report("settle", intents[0].collection, None, started, len(settled), len(found))
    if settled:
        keep_pinned(leader, [intents[0].shard for intents, _ in settled])
        leader.append(functools.partial(_unless_settled, settled=settled))
    return len(settled)


def _stale_shards(leader: LeaderView) -> list[ShardId]:
    return sorted({intent.shard for intent in _stale(leader, leader.state)})


def _stale_of(leader: LeaderView, shard: ShardId) -> list[Intent]:
    """Return the stale intents on a shard in the order in which they were made."""
    stale = (intent for intent in leader.state.intents_of(shard) if intent.epoch < leader.epoch)
    return sorted(stale, key=lambda intent: _ORDER.index(intent.kind))


def _stale(leader: LeaderView, state: State) -> list[Intent]:
    return [intent for intent in state.intents.values() if intent.epoch < leader.epoch]


def _unless_settled(state: State, settled: Sequence[tuple[Sequence[Intent], Sequence[Update]]]) -> list[Update]:
    """Return the updates of each shard; none if a twin wrote them down already, as it may have gone on from there."""
    found: list[Update] = []
    for intents, updates in settled:
        if any(state.intents.get((i.shard, i.kind, i.generation)) == i for i in intents):
            found += updates
    return one_each(found)


def _settle_shard(leader: LeaderWriter, table: _Fenced, intents: Sequence[Intent], how: _How, *, may_change: bool) -> list[Update] | None:
    """Return what is to be written down of a table, after its commits. None without ``may_change``: it takes a commit."""
    store, shard, head = table.store, table.shard, table.head
    dropped: list[Update] = [Drop(Intent, intent.key) for intent in intents]
    if head is None:
        leader.notes += _other_table(table, intents)
        return dropped  # it was to be made and never was, or is not ours any more
    dropped.append(Put(replace(leader.state.shards[shard], fenced_by=leader.epoch)))
    if not _is_as_recorded(leader.state, shard, intents, head):
        if not may_change:
            return None
        head = _as_recorded(leader, store, head, shard, intents, table.version)
    inverses = [i for i in leader.state.intents_of(shard) if isinstance(i, TransitionIntent) and i.kind is IntentKind.TAKE_BACK]
    dropped += [Drop(Intent, inverse.key) for inverse in inverses if inverse not in intents]
    taken_back = next((inverse for inverse in inverses if is_done(leader.state, inverse, head)), None)
    if taken_back is not None:
        return [*dropped, *_record(leader.state, shard, taken_back.after, head, None)]  # all but this was done
    done = _done(leader.state, head, [intent for intent in intents if intent.kind is not IntentKind.TAKE_BACK])
    if not done:
        return [*dropped, *_drift_reverted(leader.state, shard, intents, head)]
    if done[-1].kind is IntentKind.CONTRACT:
        # What was dropped is gone: the next contract goes on.
        return [*dropped, *_record(leader.state, shard, done[-1].after, head, ())]
    if done[-1].kind is IntentKind.ROLLBACK and how.for_rollback:
        return one_each([*dropped, Put(replace(done[-1], epoch=leader.epoch, done_version=made_at(store, done[-1], head)))])
    collection, last = done[0].collection, done[-1].after
    if len(done) == 1 and done[0].kind is IntentKind.EXPAND and last == how.wanted(collection):
        adopted = replace(done[0], generation=leader.generation, epoch=leader.epoch, done_version=made_at(store, done[0], head))
        return one_each(
            [*dropped, Put(adopted)]
        )  # one of this generation, whose epoch a restore of the ledger has raised, has the same key
    if not may_change:
        return None
    return one_each([*dropped, *_apply_inverse(leader, store, shard, done, table.version, how.jobs, how.lossy)])


def _other_table(table: _Fenced, intents: Sequence[Intent]) -> list[str]:
    if not table.is_another:
        return []
    text = f"somebody made another table at {table.store.location.uri}: what was begun on the one before is abandoned, this one left alone"
    return [f"{intents[0].collection}: {text}"]


def _done(state: State, head: Head, intents: Sequence[Intent]) -> Sequence[TransitionIntent]:
    """Return the intents up to the last one in place on the table. Raises DriftFound if the table is nowhere on the way."""
    announced = [_as_far_as_it_came(intent, head) for intent in intents if isinstance(intent, TransitionIntent)]
    reached = _reached(state, head, announced) if announced else -1
    if reached is None:
        live = head.declaration(announced[0].collection)
        differences = live_differences(announced[0].before, live)
        raise DriftFound(collection=announced[0].collection, differences=tuple(map(str, differences)), under_way=True)
    return announced[: reached + 1]


def _as_far_as_it_came(intent: TransitionIntent, head: Head) -> TransitionIntent:
    """Return the step before one that was announced and never made; else the intent as it is."""
    if intent.reached is None or shown(intent, head) is not intent.reached:
        return intent
    return replace(intent, after=intent.reached, reached=None)


def _is_as_recorded(state: State, shard: ShardId, intents: Sequence[Intent], head: Head) -> bool:
    """Return whether the table is sealed as the ledger says. Only intents of a seal or its end may have changed that."""
    if not any(intent.kind in (IntentKind.SEAL, IntentKind.UNSEAL) for intent in intents):
        return True
    return (head.sealed_for is not None) == (state.shards[shard].state is ShardState.RETIRED)


def _as_recorded(leader: LeaderWriter, store: Store, head: Head, shard: ShardId, intents: Sequence[Intent], fenced: int) -> Head:
    """Set seals back to what the ledger says: a dead leader's table is unsealed, a retired shard that half a rollback opened is closed."""
    recorded = leader.state.shards[shard]
    is_retired = recorded.state is ShardState.RETIRED
    fence, tag, collection = leader.fence(shard), leader.tag("settle"), intents[0].collection
    if not is_retired:
        committed = unseal(store, head, fence, tag, since=fenced)
    else:
        committed = seal(store, head, seal_name(recorded.successor), fence, tag, since=fenced)
        since = max(min(intent.base_version for intent in intents), 0)
        try:
            came = "came" if any(foreign_commits(store, since)) else None
        except LogTruncated:
            came = "may have come"
        if came is not None:
            leader.notes.append(f"{collection}: rows {came} into the retired shard {shard} during a rollback that was not finished")
    require_durable(collection, [committed])
    return committed.head


def _reached(state: State, head: Head, announced: Sequence[TransitionIntent]) -> int | None:
    """Return the index of the last intent in place on the table, -1 if none is; None if the table is nowhere on the way: drift."""
    for index in range(len(announced) - 1, -1, -1):
        if is_done(state, announced[index], head):
            return index
    before = announced[0].before
    if not live_differences(before, head.declaration(before.name)):
        return -1
    return None


def _apply_inverse(
    leader: LeaderWriter, store: Store, shard: ShardId, done: Sequence[TransitionIntent], fenced: int, jobs: Jobs, lossy: bool
) -> list[Update]:
    """Apply the inverse of the changes, the last first, in one commit; what has to stay behind becomes part of the physical schema."""
    first, last = done[0], done[-1]
    now, wanted = last.after, first.before
    renames = tuple(rename for intent in done for rename in intent.renames)
    swap_back = SwapBack(first.collection, shard, now, wanted, renames, first.base_version, lossy)

    def attempt() -> tuple[InverseChanges, Head, Committed | None]:
        checked_at = fill_old_column(leader, swap_back, jobs)
        head = read_head(store)
        if not is_in_place(now, head):
            raise MetadataMoved(collection=first.collection, uri=store.location.uri)
        check_not_exchanged(leader.state, shard, head)
        inverse = inverse_changes(store, head, now, wanted, renames, first.base_version)
        if last.kind is IntentKind.ROLLBACK:
            missing = what_is_missing(store, last, inverse)
            if missing:
                raise unfinished(leader.state, last, missing)
            checked_at = head.version if checked_at is None else checked_at
        if not inverse.changes:
            return inverse, head, None
        _announce(leader, swap_back, done, inverse, head)
        fence, tag = leader.fence(shard), leader.tag(IntentKind.TAKE_BACK.value)
        committed = commit_changes(
            store, head, inverse.changes, fence, tag, since=fenced, forget=inverse.forget, checked_at=checked_at, stood_before=True
        )
        return inverse, committed.head, committed

    try:
        inverse, head, committed = retry_on_new_files(leader, first.collection, shard, attempt)
    except NotInvertible as stays:
        if last.kind is not IntentKind.ROLLBACK:
            raise
        raise unfinished(leader.state, last, (stays.reason,)) from stays
    if committed is not None:
        require_durable(first.collection, [committed])
    leader.notes.extend(f"{first.collection}: {text}" for text in inverse.left_behind)
    own = [intent for intent in leader.state.intents_of(shard) if intent.kind is IntentKind.TAKE_BACK]
    after = after_inverse(now, inverse)
    kept = after_changes({path: path for path, _ in walk(now.fields)}, inverse.changes)
    added = {path for path, _ in walk(after.fields)} - kept.keys()
    return [*(Drop(Intent, intent.key) for intent in own), *_record(leader.state, shard, after, head, added)]


def _announce(leader: LeaderWriter, swap_back: SwapBack, done: Sequence[Intent], inverse: InverseChanges, head: Head) -> None:
    """Announce where taking it back leads to, before it is done.

    What has to stay behind is neither in the ledger nor in what goes, and whoever comes next would take it for somebody else's doing.
    Nothing is announced of what a twin has settled: its commit stops ours.
    """
    before = {path for path, _ in walk(swap_back.wanted.fields)}
    same = tuple((path, parent_and_name(path)[1]) for path, _ in swap_back.renames if path in before)
    announced = TransitionIntent(
        **leader.intent(IntentKind.TAKE_BACK, swap_back.collection, swap_back.shard, head.version),
        before=swap_back.now,
        after=after_inverse(swap_back.now, inverse),
        renames=same,
    )

    def announce(state: State) -> list[Update]:
        if not any(state.intents.get((i.shard, i.kind, i.generation)) is not None for i in done):
            return []
        others = [other for other in state.intents_of(swap_back.shard) if other.kind is IntentKind.TAKE_BACK and other.key != announced.key]
        return [*(Drop(Intent, other.key) for other in others), Put(announced)]

    leader.append(announce)


def _record(state: State, shard: ShardId, physical: Declaration, head: Head, added: Collection[ColumnPath] | None) -> list[Update]:
    """Return the updates that record the physical schema of a live shard, and the names of its fields in the data files.

    ``added``: the fields that we have added again, whose names ``head`` tells; None: any may be such.
    """
    found = live_collection(state, shard)
    if found is None:
        return []
    entry = state.entry(found)
    names = names_of(head) if added is None else names_kept(names_recorded(entry, added), head)
    return as_on_table(state, replace(entry, physical=replace(physical, name=entry.physical.name)), head, names)


def _drift_reverted(state: State, shard: ShardId, intents: Sequence[Intent], head: Head) -> list[Update]:
    """Return the updates after a ``revert`` that died: it may have added again what somebody had dropped."""
    found = live_collection(state, shard)
    if found is None or not any(isinstance(intent, DriftRevertIntent) for intent in intents):
        return []
    return as_on_table(state, state.entry(found), head, names_of(head))
