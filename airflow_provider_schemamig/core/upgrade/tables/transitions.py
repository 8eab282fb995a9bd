"""Moving live tables from one physical schema to the next: intents first, one metadata commit a table, results after.

All leader stages that touch tables go through ``commit_transitions``, so there is one answer to "the process died right here":
before the intents nothing happened; after them the next run finds each table at ``before`` or ``after`` and goes on; and the fence makes
sure that nobody of an older epoch commits behind our back.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.delta.actions import LogCommit
from airflow_provider_schemamig.core.delta.commit.append import MetadataMoved
from airflow_provider_schemamig.core.delta.commit.commit import Committed, commit_changes
from airflow_provider_schemamig.core.delta.log.commits import commits, last_metadata_version
from airflow_provider_schemamig.core.delta.log.head import Head, LogTruncated, head_or_none
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
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.context.pausing import Allow, always
from airflow_provider_schemamig.core.upgrade.errors import CommitLost, DriftFound, ShardMissing
from airflow_provider_schemamig.core.upgrade.plan.live_tables import check_not_exchanged, is_done, shown, table_store
from airflow_provider_schemamig.core.upgrade.tables.pins import keep_pinned

#: A local disk's overwritten commits are rare; after this many rounds something else is wrong.
ROUNDS = 5
#: The kind of stage that is told of a commit, where it is not called like the intent.
_STAGE_KINDS = {IntentKind.ROLLBACK: "revert"}


@dataclass(frozen=True, slots=True)
class Transition:
    """Take ``shard`` from ``before`` by ``changes``; ``forget`` lists columns no file carries, removed without column mapping."""

    collection: CollectionName
    shard: ShardId
    before: Declaration
    changes: tuple[Change, ...]
    forget: tuple[ColumnPath, ...] = ()
    #: The version at which a way back or a swap looked at the files: one that came in later makes it a ``FilesArrived`` conflict.
    checked_at: int | None = None
    #: Of a change in several steps: the physical schema before the first one, which a rollback restores.
    origin: Declaration | None = None
    #: What of ``changes`` comes before all else: columns that change places, which are seen from their names (``inverse``).
    swaps: int = 0
    #: Its rules are enforced first and all rows asked later (``commit_changes``), so a concurrent append is no conflict.
    asked_later: bool = False
    #: A way back, to CHECKs and DEFAULTs that the table had (``edit``).
    stood_before: bool = False

    @property
    def after(self) -> Declaration:
        return apply(self.before, self.changes)

    @property
    def renames(self) -> tuple[tuple[ColumnPath, str], ...]:
        return tuple(net_renames(self.changes[self.swaps :]).items())


def commit_transitions(
    leader: LeaderWriter, kind: IntentKind, transitions: Sequence[Transition], allow: Allow = always
) -> dict[CollectionName, int]:
    """Commit every transition; returns the table version that holds each ``after``.

    Safe to repeat and to race by a twin of this generation.

    ``allow``: raises, inside the append that announces them, if they may not be begun.
    """
    if not transitions:
        return {}
    heads = _heads(leader, transitions)
    intents = _announce(leader, kind, transitions, heads, allow)
    versions: dict[CollectionName, int] = {}
    todo = list(transitions)
    for _ in range(ROUNDS):
        receipts: list[tuple[Transition, WriteReceipt]] = []
        each = leader.env.each(
            lambda transition: _commit_once(leader, kind, transition, heads[transition.shard], intents[transition.shard]), todo
        )
        with contextlib.closing(each) as made:
            for number, (transition, (started, at_first)) in enumerate(zip(todo, made, strict=True), start=1):
                committed = _commit(leader, kind, transition, intents[transition.shard]) if at_first is None else at_first
                if isinstance(committed, int):
                    versions[transition.collection] = committed
                else:
                    versions[transition.collection] = committed.head.version
                    receipts.append((transition, committed.receipt))
                told = _STAGE_KINDS.get(kind, kind.value)
                leader.report(told, transition.collection, versions[transition.collection], started, number, len(todo))
        lost = set(confirm([receipt for _, receipt in receipts]))
        todo = [transition for transition, receipt in receipts if receipt in lost]
        if not todo:
            keep_pinned(leader, [transition.shard for transition in transitions])
            leader.append(lambda state: _results(state, intents, versions))
            return versions
        heads.update(_heads(leader, todo))
    raise CommitLost(collection=todo[0].collection, uri=heads[todo[0].shard].location.uri, version=versions[todo[0].collection])


def _heads(leader: LeaderView, transitions: Sequence[Transition]) -> dict[ShardId, Head]:
    return dict(
        zip(
            (transition.shard for transition in transitions),
            leader.env.each(lambda transition: _head(leader, transition), transitions),
            strict=True,
        )
    )


def _head(leader: LeaderView, transition: Transition) -> Head:
    store = table_store(leader.env, leader.state, transition.shard)
    head = head_or_none(store)
    if head is None:
        raise ShardMissing(collection=transition.collection, uri=store.location.uri)
    return head


def _announce(
    leader: LeaderWriter, kind: IntentKind, transitions: Sequence[Transition], heads: dict[ShardId, Head], allow: Allow
) -> dict[ShardId, TransitionIntent]:
    """Write all intents in one append.

    One of this epoch that is there already keeps its base: the fence is looked for from there, and what came in since the first of many
    steps.
    """
    wanted = {transition.shard: intent_of(leader, kind, transition, heads[transition.shard].version) for transition in transitions}

    def decide(state: State) -> list[Update]:
        updates: list[Update] = []
        allow(state)
        for shard, intent in wanted.items():
            known = state.transition(intent.shard, intent.kind, intent.generation)
            if known is not None and _is_same_transition(known, intent):
                wanted[shard] = known
                continue
            if known is not None and kind is IntentKind.CHANGE and (known.epoch, known.before) == (intent.epoch, intent.before):
                wanted[shard] = replace(intent, base_version=known.base_version)
            updates.append(Put(wanted[shard]))
        return updates

    leader.append(decide)
    return wanted


def _is_same_transition(one: TransitionIntent, other: TransitionIntent) -> bool:
    """Return whether both announce the same, whatever is known of the result; columns that change places have a deadline besides."""
    return (one.epoch, one.before, one.after, one.reached, one.renames) == (
        other.epoch,
        other.before,
        other.after,
        other.reached,
        other.renames,
    )


def intent_of(leader: LeaderView, kind: IntentKind, transition: Transition, base_version: int) -> TransitionIntent:
    return TransitionIntent(
        **leader.intent(kind, transition.collection, transition.shard, base_version),
        before=transition.before if transition.origin is None else transition.origin,
        after=transition.after,
        reached=None if transition.origin is None else transition.before,
        renames=transition.renames if transition.origin is None else (),  # a step of many renames by swaps only: ``inverse`` sees those
    )


def _commit(leader: LeaderWriter, kind: IntentKind, transition: Transition, intent: TransitionIntent) -> int | Committed:
    """Repeat ``_commit_once`` until it is done, as others may change the table meanwhile: a twin of this generation, or a foreign ALTER,
    after which it is in place or drift."""
    for _ in range(ROUNDS):
        head = _head(leader, transition)
        leader.refresh()
        _, committed = _commit_once(leader, kind, transition, head, intent)
        if committed is not None:
            return committed
    raise MetadataMoved(collection=transition.collection, uri=table_store(leader.env, leader.state, transition.shard).location.uri)


def _commit_once(
    leader: LeaderView, kind: IntentKind, transition: Transition, head: Head, intent: TransitionIntent
) -> tuple[float, int | Committed | None]:
    """Commit the transition, and return the time of the start with the commit, or with the version of an earlier one.

    Drift is anything that is neither before nor after.

    None: somebody changed the table since ``head`` was read. Asks nothing of the ledger, for many are made side by side.
    """
    started, store = time.monotonic(), table_store(leader.env, leader.state, transition.shard)
    if is_done(leader.state, intent, head) or _is_beyond(leader, kind, transition, head):
        return started, intent.done_version if intent.done_version is not None else made_at(store, intent, head)
    found = live_differences(transition.before, head.declaration(transition.collection))
    if found:
        differences = tuple(str(difference) for difference in found)
        raise DriftFound(collection=transition.collection, differences=differences, under_way=True)
    check_not_exchanged(leader.state, transition.shard, head)
    try:
        return started, commit_changes(
            store,
            head,
            transition.changes,
            leader.fence(transition.shard),
            leader.tag(kind.value),
            since=intent.base_version,
            forget=transition.forget,
            checked_at=transition.checked_at,
            asked_later=transition.asked_later,
            stood_before=transition.stood_before or kind in (IntentKind.ROLLBACK, IntentKind.CONTRACT),
        )
    except MetadataMoved:
        return started, None


def made_at(store: Store, intent: TransitionIntent, head: Head) -> int:
    """Return the version that made the transition, if its maker could not write it down.

    That is our commit of that name; where there is none, the first to change the table since the intent: rather too early than too late, as
    what came in since then is what a rollback has to respect. A step of many is the last one: nobody else may have changed the schema
    since, or it would not be in place.
    """
    try:
        if intent.kind is IntentKind.CHANGE:
            made = last_metadata_version(store, intent.base_version, head.version)
        else:
            changed = [commit for commit in commits(store, intent.base_version, head.version) if commit.changes_table]
            made = next((commit.version for commit in changed if _is_of(intent, commit)), changed[0].version if changed else None)
    except LogTruncated:
        made = intent.base_version
    return head.version if made is None else made


def _is_of(intent: TransitionIntent, commit: LogCommit) -> bool:
    about = commit.about or {}
    return (about.get("action"), about.get("generation")) == (intent.kind.value, intent.generation)


def _is_beyond(leader: LeaderView, kind: IntentKind, transition: Transition, head: Head) -> bool:
    """Return whether this very attempt was killed later on: its expand was done, and a later step of it is what the table shows."""
    return kind is IntentKind.EXPAND and any(
        other.kind in (IntentKind.CHANGE, IntentKind.CUTOVER) and other.epoch == leader.epoch and shown(other, head) is not None
        for other in leader.state.intents_of(transition.shard)
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
