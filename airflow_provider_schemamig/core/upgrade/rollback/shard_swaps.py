"""The shards of a collection that a rollback swaps: the release's is sealed, the one before it is opened again."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from airflow_provider_schemamig.core.delta.commit.seal import opens, seal, seal_name, unseal
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits, is_as_at
from airflow_provider_schemamig.core.delta.log.head import Head, head_or_none, read_head
from airflow_provider_schemamig.core.ledger.rows import (
    Hold,
    HoldState,
    Intent,
    IntentKind,
    ShardState,
    ShardSwapIntent,
)
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.release.merge.chain import Create, Remove, Replace, RewriteStep
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter
from airflow_provider_schemamig.core.upgrade.errors import SourceTouched
from airflow_provider_schemamig.core.upgrade.execute.stream_checkpoints import txns_to_unseal
from airflow_provider_schemamig.core.upgrade.plan.live_tables import check_as_recorded, table_store
from airflow_provider_schemamig.core.upgrade.prepare.build import replacement_key, shard_of_new
from airflow_provider_schemamig.core.upgrade.prepare.transfers import RewriteRollback
from airflow_provider_schemamig.core.upgrade.rollback.evolutions import (
    hold_of,
)
from airflow_provider_schemamig.core.upgrade.rollback.old_tables import check_unchanged
from airflow_provider_schemamig.core.upgrade.tables.durable import require_durable
from airflow_provider_schemamig.core.upgrade.tables.half_rolled_back import is_of_rollback
from airflow_provider_schemamig.core.upgrade.tables.seals import unseal_leftovers
from airflow_provider_schemamig.exceptions import SchemamigError


@dataclass(frozen=True, slots=True)
class ShardSwap:
    """Two shards of a collection change places: ``now`` is sealed, ``old`` (None: nothing was there) is unsealed."""

    collection: CollectionName
    now: ShardId | None
    old: ShardId | None
    #: The collection's name in the source release.
    old_name: CollectionName | None = None
    #: Table versions before the swap was announced: another leader's fence is looked for from there.
    base: tuple[tuple[ShardId, int], ...] = ()

    def since(self, shard: ShardId) -> int:
        return dict(self.base)[shard]


def shard_swaps(leader: LeaderView) -> list[ShardSwap]:
    state, found = leader.state, []
    hold = hold_of(leader)
    for step in leader.plan.target.steps:
        match step:
            case Create():
                found.append(ShardSwap(step.collection, shard_of_new(state, step.collection, leader.deployment), None))
            case Replace() | RewriteStep():
                row = state.replacements[replacement_key(step.collection, leader.deployment)]
                found.append(ShardSwap(step.collection, row.shard, _retired(leader, hold, step.old.name), step.old.name))
            case Remove() if (old := _retired(leader, hold, step.collection)) is not None:
                found.append(ShardSwap(step.collection, None, old, step.collection))
            case _:
                pass
    return found


def _retired(leader: LeaderView, hold: Hold, collection: CollectionName) -> ShardId | None:
    """Return the collection's old table that the release retired."""
    held = leader.state.held_table(hold.generation, collection)
    row = None if held is None else leader.state.shards.get(held.shard)
    return row.shard if row is not None and row.state is ShardState.RETIRED and row.retired_by == leader.generation else None


def rewrites_to_roll_back(leader: LeaderView, swaps: Sequence[ShardSwap]) -> list[RewriteRollback]:
    found = {swap.collection: swap for swap in swaps}
    rewrites = []
    for step in leader.plan.target.steps:
        if isinstance(step, RewriteStep) and (swap := found[step.collection]).now is not None and swap.old is not None:
            rewrites.append(RewriteRollback(step, swap.now, swap.old))
    return rewrites


def announce_swaps(leader: LeaderWriter, swaps: Sequence[ShardSwap]) -> list[ShardSwap]:
    """Write intents for the swaps, so that a next leader finds a shard sealed or unsealed by half a rollback and puts it right."""
    kinds = (("now", IntentKind.SEAL), ("old", IntentKind.UNSEAL))
    intents: list[ShardSwapIntent] = []
    announced = []
    touched = [shard for swap in swaps for shard in (swap.now, swap.old) if shard is not None]
    heads = dict(zip(touched, _heads_of(leader, touched), strict=True))
    for swap in swaps:
        base: list[tuple[ShardId, int]] = []
        for which, kind in kinds:
            shard: ShardId | None = getattr(swap, which)
            head = None if shard is None else heads[shard]
            if shard is not None and head is not None:
                base.append((shard, head.version))
                intents.append(ShardSwapIntent(**leader.intent(kind, swap.collection, shard, head.version)))
        announced.append(replace(swap, base=tuple(base)))
    leader.append(lambda state: [Put(intent) for intent in intents])
    return announced


def seal_new_shards(leader: LeaderWriter, swaps: Sequence[ShardSwap]) -> None:
    """Seal what the release brought, side by side. It may be done already.

    Raises DriftFound for what others brought to a table since it was looked at: the way back does not take it along.
    """
    todo = [swap for swap in swaps if swap.now is not None and swap.now in dict(swap.base)]

    def seal_one(swap: ShardSwap) -> float:
        started = time.monotonic()
        assert swap.now is not None  # of ``todo``
        _seal(leader, swap, swap.now, swap.old, check=functools.partial(check_as_recorded, leader.state, swap.collection))
        return started

    told, total = 0, sum(swap.old is None for swap in todo)
    with contextlib.closing(leader.env.each(seal_one, todo)) as made:
        for swap, started in zip(todo, made, strict=True):
            if swap.old is None:
                told += 1
                leader.report("seal", swap.collection, None, started, told, total)


def unseal_old_shards(leader: LeaderWriter, swaps: Sequence[ShardSwap], rewrites: Sequence[RewriteRollback]) -> None:
    """Unseal what stood sealed and untouched, side by side. It may be done already."""
    todo = [swap for swap in swaps if swap.old is not None and swap.old in dict(swap.base)]

    def unseal_one(swap: ShardSwap) -> float:
        started = time.monotonic()
        assert swap.old is not None  # of ``todo``
        rewrite = next((rewrite for rewrite in rewrites if rewrite.old == swap.old), None)
        _unseal(leader, swap, swap.old, txns_to_unseal(leader, swap.old, swap.now if swap.now in dict(swap.base) else None, rewrite))
        return started

    with contextlib.closing(leader.env.each(unseal_one, todo)) as made:
        for number, (swap, started) in enumerate(zip(todo, made, strict=True), start=1):
            leader.report("unseal", swap.collection, None, started, number, len(todo))


def check_old_shards(leader: LeaderView, swaps: Sequence[ShardSwap]) -> None:
    """Raise OldTableChanged for what others did to open tables since rows were brought back into them, while no evolved table has gone
    back yet."""
    for swap in swaps:
        if swap.old is not None and swap.old in dict(swap.base):
            store = table_store(leader.env, leader.state, swap.old)
            check_unchanged(store, leader.state.shards[swap.old], read_head(store))


def check_new_shards(leader: LeaderView, swaps: Sequence[ShardSwap], restored: Mapping[RewriteRollback, int]) -> dict[ShardId, int]:
    """Return the versions at which the release's new tables are sealed.

    Raises SourceTouched where one is not, or has not the rows that its old table is up to: RESTORE gets through a seal, and so does a
    compaction, which changes none.
    """
    found = dict[ShardId, int]()
    todo = [(swap.collection, swap.now) for swap in swaps if swap.now is not None and swap.now in dict(swap.base)]
    versions = {rewrite.now: version for rewrite, version in restored.items()}
    for (collection, shard), head in zip(todo, _heads_of(leader, [shard for _, shard in todo]), strict=True):
        store = table_store(leader.env, leader.state, shard)
        if head is None or head.sealed_for is None or not is_as_at(store, versions.get(shard, head.version), head.version):
            raise SourceTouched(collection=collection, shard=shard)
        found[shard] = head.version
    return found


def _seal(
    leader: LeaderView, swap: ShardSwap, shard: ShardId, successor: ShardId | None, check: Callable[[Head], None] = lambda head: None
) -> None:
    """Seal a table that is open. ``check``: raises for the head that the seal would go upon."""
    store = table_store(leader.env, leader.state, shard)
    head = read_head(store)
    if head.sealed_for is None:
        check(head)
        sealed = seal(store, head, seal_name(successor), leader.fence(shard), leader.tag("seal"), since=swap.since(shard))
        require_durable(swap.collection, [sealed])


def _unseal(leader: LeaderView, swap: ShardSwap, shard: ShardId, txns: Mapping[str, int] = MappingProxyType({})) -> None:
    """Open a retired table. Raises OldTableChanged for what others did to it since the rollback first looked, and MetadataMoved for now."""
    store, row = table_store(leader.env, leader.state, shard), leader.state.shards[shard]
    head = read_head(store)
    if head.sealed_for is not None or not _is_opened_by_us(store, row.sealed_version):
        check_unchanged(store, row, head)
        opened = unseal(store, head, leader.fence(shard), leader.tag("unseal"), since=swap.since(shard), txns=txns)
        require_durable(swap.collection, [opened])


def _is_opened_by_us(store: Store, sealed_version: int | None) -> bool:
    """Return whether the way back opened a retired table, with all that its commit says; False also where its log does not tell."""
    if sealed_version is None:
        return True
    with contextlib.suppress(LogTruncated):
        return [found for commit in commits(store, sealed_version) if (found := opens(commit)) is not None][-1:] == [True]
    return False


def return_to_release(leader: LeaderWriter, swaps: Sequence[ShardSwap]) -> None:
    """Go back to the committed release: unseal what the rollback had sealed, seal what it had unsealed, and open its hold.

    Where an evolved table may have gone back already, or one cannot be reached, the ledger stays as it is: the next rollback goes on, or
    the next upgrade puts all of it right, if it can.
    """
    returned = list(leader.env.each(lambda swap: _swapped_back(leader, swap), swaps))
    try:
        unseal_leftovers(leader)
    except SchemamigError:
        return
    if not all(returned) or any(map(is_of_rollback, leader.state.intents.values())):
        return

    def forget(state: State) -> list[Update]:
        hold: Hold = state.holds[leader.generation]
        drops: list[Update] = [Drop(Intent, intent.key) for intent in state.intents.values() if intent.generation == leader.generation]
        return [*drops, Put(replace(hold, state=HoldState.OPEN))]

    leader.append(forget)


def hold_again(leader: LeaderWriter) -> None:
    """Open the hold of a rollback that fails before it has announced anything: the release stands as it was. Best effort.

    Where intents of it are open, an earlier try had come further, and the ledger stays as it is.
    """

    def unless_begun(state: State) -> list[Update]:
        hold = state.holds.get(leader.generation)
        if hold is None or any(intent.generation == leader.generation for intent in state.intents.values()):
            return []
        return [Put(replace(hold, state=HoldState.OPEN))]

    with contextlib.suppress(SchemamigError):
        leader.append(unless_begun)


def _swapped_back(leader: LeaderView, swap: ShardSwap) -> bool:
    """Seal the old shard and unseal the new one. Return whether both could be reached."""
    try:
        if swap.old is not None and swap.old in dict(swap.base):  # also of a collection that the release removed: nothing succeeds it
            _seal(leader, swap, swap.old, swap.now)
        if swap.now is not None and swap.now in dict(swap.base):
            _unseal(leader, swap, swap.now)
    except SchemamigError:
        return False
    return True


def _heads_of(leader: LeaderView, shards: Sequence[ShardId]) -> Generator[Head | None, None, None]:
    """Yield the heads of these shards' tables; None where there is none any more."""

    def head(shard: ShardId) -> Head | None:
        return head_or_none(table_store(leader.env, leader.state, shard)) if shard in leader.state.shards else None

    return leader.env.each(head, shards)
