"""Moving live tables from one physical schema to the next: intents first, one metadata commit a table, results after.

All leader stages that touch tables go through ``move_all``, so there is one answer to "the process died right here":
before the intents nothing happened; after them the next run finds each table at ``before`` or ``after`` and goes on; and the fence makes
sure that nobody of an older epoch commits behind our back.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.delta.commit.commit import Committed, MetadataMoved, commit_changes
from airflow_provider_schemamig.core.delta.log.commits import first_metadata_version, last_metadata_version
from airflow_provider_schemamig.core.delta.log.head import Head, LogTruncated
from airflow_provider_schemamig.core.ledger.rows import IntentKind, TransitionIntent
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Put, Update
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, ShardId
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.schema.diff.drift import live_differences
from airflow_provider_schemamig.core.schema.diff.renames import net_renames
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage import Store, WriteReceipt, confirm
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, Work
from airflow_provider_schemamig.core.upgrade.context.pausing import Allow, always
from airflow_provider_schemamig.core.upgrade.errors import CommitLost, DriftFound, ShardMissing
from airflow_provider_schemamig.core.upgrade.plan.live_tables import head_or_none, is_done, shown, table_store

#: A local disk's overwritten commits are rare (rewrite.md section 8); after this many rounds something else is wrong.
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Move:
    """Take ``shard`` from ``before`` by ``changes``; ``forget`` lists columns no file carries, removed without column mapping."""

    collection: CollectionName
    shard: ShardId
    before: Declaration
    changes: tuple[Change, ...]
    forget: tuple[ColumnPath, ...] = ()
    #: The version at which a way back or a swap looked at the files: one that came in later makes it a ``FilesArrived`` conflict.
    checked_at: int | None = None
    #: Of one step of many: the physical schema before the first. Whoever goes back goes back there.
    origin: Declaration | None = None
    #: What of ``changes`` comes before all else: columns that change places, which are seen from their names (``inverse``).
    swaps: int = 0
    #: Its rules are enforced before rows are asked (``commit_changes``), so rows that come in between do not stop it.
    asked_later: bool = False
    #: A way back, to CHECKs and DEFAULTs that the table had (``edit``).
    stood_before: bool = False

    @property
    def after(self) -> Declaration:
        return apply(self.before, self.changes)

    @property
    def renames(self) -> tuple[tuple[ColumnPath, str], ...]:
        return tuple(net_renames(self.changes[self.swaps :]).items())


def move_all(work: Work, kind: IntentKind, moves: Sequence[Move], allow: Allow = always) -> dict[CollectionName, int]:
    """Make every move; returns the table version that holds each ``after``. Safe to repeat and to race by a twin of this generation.

    ``allow``: raises, inside the append that announces them, if they may not be begun.
    """
    if not moves:
        return {}
    heads = _heads(work, moves)
    intents = _announce(work, kind, moves, heads, allow)
    versions: dict[CollectionName, int] = {}
    todo = list(moves)
    for _ in range(ROUNDS):
        receipts: list[tuple[Move, WriteReceipt]] = []
        each = work.env.each(lambda move: _move_once(work, kind, move, heads[move.shard], intents[move.shard]), todo)
        with contextlib.closing(each) as made:
            for number, (move, (started, at_first)) in enumerate(zip(todo, made, strict=True), start=1):
                committed = _move(work, kind, move, intents[move.shard]) if at_first is None else at_first
                if isinstance(committed, int):
                    versions[move.collection] = committed
                else:
                    versions[move.collection] = committed.head.version
                    receipts.append((move, committed.receipt))
                work.report(kind.value, move.collection, versions[move.collection], started, number, len(todo))
        lost = set(confirm([receipt for _, receipt in receipts]))
        todo = [move for move, receipt in receipts if receipt in lost]
        if not todo:
            work.append(lambda state: _results(state, intents, versions))
            return versions
        heads.update(_heads(work, todo))
    raise CommitLost(collection=todo[0].collection, uri=heads[todo[0].shard].location.uri, version=versions[todo[0].collection])


def stand(collection: CollectionName, committed: Sequence[Committed]) -> None:
    """Raise CommitLost if one of these commits was overwritten: it never happened."""
    lost = set(confirm([item.receipt for item in committed]))
    for item in committed:
        if item.receipt in lost:
            raise CommitLost(collection=collection, uri=item.head.location.uri, version=item.head.version)


def _heads(work: LeaderView, moves: Sequence[Move]) -> dict[ShardId, Head]:
    return dict(zip((move.shard for move in moves), work.env.each(lambda move: _head(work, move), moves), strict=True))


def _head(work: LeaderView, move: Move) -> Head:
    store = table_store(work.env, work.state, move.shard)
    head = head_or_none(store)
    if head is None:
        raise ShardMissing(collection=move.collection, uri=store.location.uri)
    return head


def _announce(
    work: Work, kind: IntentKind, moves: Sequence[Move], heads: dict[ShardId, Head], allow: Allow
) -> dict[ShardId, TransitionIntent]:
    """Write all intents in one append.

    One of this epoch that is there already keeps its base: the fence is looked for from there, and what came in since the first of many
    steps.
    """
    wanted = {move.shard: intent_of(work, kind, move, heads[move.shard].version) for move in moves}

    def decide(state: State) -> list[Update]:
        updates: list[Update] = []
        allow(state)
        for shard, intent in wanted.items():
            known = state.transition(intent.shard, intent.kind, intent.generation)
            if known is not None and _is_same_move(known, intent):
                wanted[shard] = known
                continue
            if known is not None and kind is IntentKind.CHANGE and (known.epoch, known.before) == (intent.epoch, intent.before):
                wanted[shard] = replace(intent, base_version=known.base_version)
            updates.append(Put(wanted[shard]))
        return updates

    work.append(decide)
    return wanted


def _is_same_move(one: TransitionIntent, other: TransitionIntent) -> bool:
    """Return whether both announce the same, whatever is known of the result; columns that change places have a deadline besides."""
    return (one.epoch, one.before, one.after, one.reached, one.renames) == (
        other.epoch,
        other.before,
        other.after,
        other.reached,
        other.renames,
    )


def intent_of(work: LeaderView, kind: IntentKind, move: Move, base_version: int) -> TransitionIntent:
    return TransitionIntent(
        **work.intent(kind, move.collection, move.shard, base_version),
        before=move.before if move.origin is None else move.origin,
        after=move.after,
        reached=None if move.origin is None else move.before,
        renames=move.renames if move.origin is None else (),  # a step of many renames by swaps only: ``inverse`` sees those
    )


def _move(work: Work, kind: IntentKind, move: Move, intent: TransitionIntent) -> int | Committed:
    """Do what ``_move_once`` does until it is done, where somebody changes the table meanwhile: a twin of this generation, or a foreign
    ALTER, after which it is in place or drift."""
    for _ in range(ROUNDS):
        head = _head(work, move)
        work.look_again()
        _, committed = _move_once(work, kind, move, head, intent)
        if committed is not None:
            return committed
    raise MetadataMoved(collection=move.collection, uri=table_store(work.env, work.state, move.shard).location.uri)


def _move_once(
    work: LeaderView, kind: IntentKind, move: Move, head: Head, intent: TransitionIntent
) -> tuple[float, int | Committed | None]:
    """Commit the move, or say at which version it already is, and when that was begun. Drift is anything that is neither before nor after.

    None: somebody changed the table since ``head`` was read. Asks nothing of the ledger, for many are made side by side.
    """
    started, store = time.monotonic(), table_store(work.env, work.state, move.shard)
    if is_done(work.state, intent, head) or _is_beyond(work, kind, move, head):
        return started, intent.done_version if intent.done_version is not None else made_at(store, intent, head)
    found = live_differences(move.before, head.declaration(move.collection))
    if found:
        differences = tuple(str(difference) for difference in found)
        raise DriftFound(collection=move.collection, differences=differences, under_way=True)
    try:
        return started, commit_changes(
            store,
            head,
            move.changes,
            work.fence(move.shard),
            work.tag(kind.value),
            since=intent.base_version,
            forget=move.forget,
            checked_at=move.checked_at,
            asked_later=move.asked_later,
            stood_before=move.stood_before or kind is IntentKind.REVERT,
        )
    except MetadataMoved:
        return started, None


def made_at(store: Store, intent: TransitionIntent, head: Head) -> int:
    """Return the version that made the move, if whoever made it could not write it down: the first to change the schema since the intent.

    Rather too early than too late: what came in since then is what a rollback has to respect. A step of many is the last one: nobody else
    may have changed the schema since, or it would not be in place.
    """
    find = last_metadata_version if intent.kind is IntentKind.CHANGE else first_metadata_version
    try:
        made = find(store, intent.base_version, head.version)
    except LogTruncated:
        made = intent.base_version
    return head.version if made is None else made


def _is_beyond(work: LeaderView, kind: IntentKind, move: Move, head: Head) -> bool:
    """Return whether this very attempt was killed later on: its expand was done, and a later step of it is what the table shows."""
    return kind is IntentKind.EXPAND and any(
        other.kind in (IntentKind.CHANGE, IntentKind.CUTOVER) and other.epoch == work.epoch and shown(other, head) is not None
        for other in work.state.intents_of(move.shard)
        if isinstance(other, TransitionIntent)
    )


def _results(state: State, intents: dict[ShardId, TransitionIntent], versions: dict[CollectionName, int]) -> list[Update]:
    updates: list[Update] = []
    for intent in intents.values():
        known = state.intents.get((intent.shard, intent.kind, intent.generation))
        version = versions[intent.collection]
        if known is not None and known.epoch == intent.epoch and known.done_version != version:
            updates.append(Put(known.done(version)))
    return updates
