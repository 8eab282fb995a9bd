"""Seals of a cut-over: who holds them, and how a table is unsealed without taking the seal from somebody else.

A seal is a commit on a table, the commit that needs it an append to the ledger; nothing makes both at once. So a seal is *held* by its
intent row: whoever wants to unseal gives the row up first, and the commit goes through only while the row stands as it was announced. A
late unseal meets either another leader's fence or the seal that was made anew since, and does nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import pendulum

from airflow_provider_schemamig.core.delta.commit.append import MetadataMoved
from airflow_provider_schemamig.core.delta.commit.commit import Committed
from airflow_provider_schemamig.core.delta.commit.fence import Fenced
from airflow_provider_schemamig.core.delta.commit.seal import opens, seal, unseal
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits, first_metadata_version
from airflow_provider_schemamig.core.delta.log.head import Head, head_or_none, read_head
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.rows import IntentKind, SealIntent
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.progress import Event, Listener
from airflow_provider_schemamig.core.release.merge.merged import Replace, RewriteStep
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.context.context import LeaderView, LeaderWriter, lead
from airflow_provider_schemamig.core.upgrade.context.pausing import Allow, always
from airflow_provider_schemamig.core.upgrade.errors import SealExpired
from airflow_provider_schemamig.core.upgrade.plan import stages as s
from airflow_provider_schemamig.core.upgrade.plan.live_tables import check_as_recorded, drift_but_seal, table_store
from airflow_provider_schemamig.core.upgrade.prepare.build import replacement_key
from airflow_provider_schemamig.core.upgrade.tables.durable import require_durable
from airflow_provider_schemamig.exceptions import Conflict, SchemamigError, raise_refusals

#: Of a seal whose table others change in the same moment.
_UNSEAL_TRIES = 5
_STILL_SEALED = "writers are refused until the same is run again, or it is taken back (`schemamig rollback`, or `cancel`)"


class SealLifted(Conflict):
    """A twin of this generation failed and unsealed the tables that this process counted on; nothing was committed."""

    code = "seal_lifted"
    message = "shard {shard} was unsealed by another process of this generation."
    next_action = "Try again: the shard is sealed again."
    shard: str


def shards_to_seal(leader: LeaderView, stages: Sequence[s.Seal]) -> dict[CollectionName, ShardId]:
    """Return the shards that the commit replaces or removes, as far as there is a table.

    Raises DriftFound for one that was changed since it was planned: what others brought to it is not in what takes its place.
    """
    names = [stage.collection for stage in stages if stage.collection in leader.state.objects]
    shards = {name: leader.state.objects[name].shard for name in names}
    heads = leader.env.each(lambda shard: head_or_none(table_store(leader.env, leader.state, shard)), shards.values())
    found = {name: head for name, head in zip(shards, heads, strict=True) if head is not None}
    drifts = (drift_but_seal(leader.state, name, head) for name, head in found.items())  # one of a lost history is sealed anew
    raise_refusals([drift for drift in drifts if drift is not None])
    return {name: shards[name] for name in found}


def successor_of(leader: LeaderView, collection: CollectionName) -> ShardId | None:
    """Return the shard that takes over from the collection's; None where the collection is removed."""
    for step in leader.plan.target.steps:
        if isinstance(step, Replace | RewriteStep) and step.old.name == collection:
            return leader.state.replacements[replacement_key(step.collection, leader.deployment)].shard
    return None


def announce_seals(leader: LeaderWriter, shards: Mapping[CollectionName, ShardId], allow: Allow = always) -> tuple[SealIntent, ...]:
    """Write the intents of all seals in one append. Those a twin announced and still holds are held together.

    ``allow``: raises, inside the append, if nothing may be sealed.
    """
    if not shards:
        return ()
    held: dict[ShardId, SealIntent] = {}

    def announce(state: State) -> list[Update]:
        allow(state)
        deadline = pendulum.now("UTC").add(seconds=leader.seal_seconds)
        anew: dict[CollectionName, ShardId] = {}
        for name, shard in shards.items():
            known = state.intents.get((shard, IntentKind.SEAL, leader.generation))
            # One past its deadline belongs to a twin that died: nobody commits under it any more, so it is announced anew.
            if isinstance(known, SealIntent) and _counts(leader, known) and known.deadline > pendulum.now("UTC"):
                held[shard] = known
            else:
                anew[name] = shard
        # Read in here: a seal that counts is newer than whatever was given up in this very state.
        bases = leader.env.each(lambda shard: read_head(table_store(leader.env, state, shard)).version, anew.values())
        for (name, shard), base in zip(anew.items(), bases, strict=True):
            held[shard] = SealIntent(**leader.intent(IntentKind.SEAL, name, shard, base), deadline=deadline)
        return [Put(held[shard]) for shard in anew.values()]

    leader.append(announce)
    return tuple(held.values())


def held_seals(leader: LeaderView) -> tuple[SealIntent, ...]:
    """Return the seals that this generation has announced and not given up."""
    return tuple(intent for intent in leader.state.intents.values() if isinstance(intent, SealIntent) and _counts(leader, intent))


def _counts(leader: LeaderView, intent: SealIntent) -> bool:
    return _is_ours(leader, intent) and not intent.is_given_up


def _is_ours(leader: LeaderView, intent: SealIntent) -> bool:
    return (intent.generation, intent.epoch) == (leader.generation, leader.epoch)


def seal_all(leader: LeaderWriter, seals: Sequence[SealIntent], names: Callable[[CollectionName], ShardId]) -> Mapping[ShardId, int]:
    """Seal the announced tables, each for its shard from ``names``. Return the versions at which this call did, not an earlier run.

    Raises CommitLost, DriftFound for what others brought to a table since it was looked at and its successor does not have, and as
    ``delta.commit.seal`` does.
    """
    made: list[Committed] = []
    versions: dict[ShardId, int] = {}
    with contextlib.closing(
        leader.env.each(lambda intent: (time.monotonic(), _seal(leader, intent, names(intent.collection))), seals)
    ) as done:
        for number, (intent, (started, committed)) in enumerate(zip(seals, done, strict=True), start=1):
            version = committed.head.version if committed is not None else intent.base_version
            if committed is not None:
                made.append(committed)
                versions[intent.shard] = version
            leader.report("seal", intent.collection, version, started, number, len(seals))
    if made:
        require_durable(seals[0].collection, made)
    return versions


def _seal(leader: LeaderView, intent: SealIntent, named: ShardId) -> Committed | None:
    store = table_store(leader.env, leader.state, intent.shard)
    head = read_head(store)
    fence, tag = leader.fence(intent.shard), leader.tag("seal")
    if named != intent.shard:
        check_as_recorded(leader.state, intent.collection, head)  # on the very head that the seal goes upon
    if head.sealed_for == named:
        try:
            if first_metadata_version(store, intent.base_version, head.version) is not None:
                return None  # by an earlier run, or by a twin that holds it with us
        except LogTruncated:
            pass  # nobody can tell any more, and to seal it once more does no harm
        # Sealed before it was announced: whoever did that may be about to unseal it, but not any more after a commit of ours.
        head = unseal(store, head, fence, tag, since=intent.base_version).head
    return seal(store, head, named, fence, tag, since=intent.base_version)


def sealed_at(store: ReadStore, since: int) -> tuple[int, bool]:
    """Return the version of our newest seal above ``since``, else that; and whether others restored older rows after it."""
    at, is_restored = since, False
    for commit in commits(store, since):
        if opens(commit) is False:
            at, is_restored = commit.version, False
        is_restored = is_restored or (commit.about is None and commit.restores)
    return at, is_restored


def check_held(state: State, seals: Sequence[SealIntent]) -> None:
    """Raise SealLifted unless every seal is still held as it was announced."""
    for intent in seals:
        if state.intents.get((intent.shard, intent.kind, intent.generation)) != intent:
            raise SealLifted(collection=intent.collection, shard=intent.shard)


def check_time(leader: LeaderView, seals: Sequence[SealIntent]) -> None:
    """Raise SealExpired if writers were locked out beyond the deadline that the intents announced."""
    now = pendulum.now("UTC")
    if any(intent.deadline < now for intent in seals):
        raise SealExpired(seconds=leader.seal_seconds)


@contextlib.contextmanager
def sealed_during(leader: LeaderWriter, shards: Mapping[CollectionName, ShardId]) -> Iterator[None]:
    """Keep all but this process from writing to ``shards`` inside; the rows stay there.

    Each table is sealed for itself, and unsealed afterwards. It only keeps others off and proves nothing: a twin, or after a while
    another leader, may unseal it. Raises CommitLost, Fenced, and as ``unseal_each`` does where nothing else failed.
    """
    seals = announce_seals(leader, shards)
    try:
        seal_all(leader, seals, lambda collection: shards[collection])
        yield
    except BaseException:
        with contextlib.suppress(SchemamigError):
            unseal_each(leader, seals)
        raise
    unseal_each(leader, seals)


def unseal_leftovers(leader: LeaderWriter, shards: Collection[ShardId] | None = None, *, but: Collection[ShardId] = ()) -> None:
    """Unseal the leftovers of ``sealed_during`` from a run that died or could not unseal, of ``shards`` (None: of all ``but`` these).

    To be asked before the intents are dropped: nothing knows of such a seal any more then. Raises as ``unseal_each`` does.
    """
    own = [intent for intent in leader.state.intents.values() if isinstance(intent, SealIntent) and _is_ours(leader, intent)]
    unseal_each(leader, [intent for intent in own if intent.shard not in but and (shards is None or intent.shard in shards)])


def unseal_each(leader: LeaderWriter, seals: Sequence[SealIntent]) -> None:
    """Unseal before giving up the intent: if this process dies in between, recovery still sees who held the seal.

    Raises Fenced, MetadataMoved if others change a table's metadata again and again, CommitLost, or what the storage says, after all other
    tables are open.
    """
    failures: list[SchemamigError] = []

    def open_one(intent: SealIntent) -> bool:
        try:
            committed = _unseal_own(leader, intent)
            if committed is not None:
                require_durable(intent.collection, [committed])
        except SchemamigError as error:  # of this table, which is no reason to leave the others closed
            failures.append(error)
            return False
        return True

    opened = [intent for intent, is_open in zip(seals, leader.env.each(open_one, seals), strict=True) if is_open and not intent.is_given_up]
    if opened:

        def give_up(state: State) -> list[Update]:  # not one that a twin announced anew
            known = [intent for intent in opened if state.intents.get((intent.shard, intent.kind, intent.generation)) == intent]
            return [Put(replace(intent, is_given_up=True)) for intent in known]

        leader.append(give_up)
    if failures:
        raise failures[0]


def _unseal_own(leader: LeaderView, intent: SealIntent) -> Committed | None:
    store = table_store(leader.env, leader.state, intent.shard)
    for left in reversed(range(_UNSEAL_TRIES)):
        head = read_head(store)
        if head.sealed_for != intent.shard:
            return None
        try:
            return unseal(store, head, leader.fence(intent.shard), leader.tag("unseal"), since=intent.base_version)
        except MetadataMoved:  # somebody pinned it, or set a property of it
            if not left:
                raise
    raise AssertionError("unreachable")


def unseal_all(leader: LeaderWriter, seals: Sequence[SealIntent]) -> None:
    """Give the seals up, then unseal: not if the commit did land, not if a twin or another leader has the table now.

    Best effort, on the way out of a failure: what it does not reach is told, and the next run or the next leader's ``recovery.settle`` does
    it.
    """
    left = {intent.collection for intent in seals}

    def look(intent: SealIntent) -> Head | None:
        with contextlib.suppress(SchemamigError):  # of this table, which is no reason to leave the others closed
            return read_head(table_store(leader.env, leader.state, intent.shard))
        return None

    def unseal_one(found: tuple[SealIntent, Head | None]) -> None:
        intent, head = found
        if head is None or head.sealed_for is None:
            return
        store = table_store(leader.env, leader.state, intent.shard)
        try:
            unseal(store, head, leader.fence(intent.shard), leader.tag("unseal"), since=intent.base_version)
        except Fenced:  # another leader has it
            pass
        except SchemamigError:
            return
        left.discard(intent.collection)

    try:
        heads = list(leader.env.each(look, seals))
        left -= {intent.collection for intent, head in zip(seals, heads, strict=True) if head is not None and head.sealed_for is None}
        _give_up(leader, seals)
        leader.env.for_each(unseal_one, zip(seals, heads, strict=True))
    except SealLifted:
        return
    except SchemamigError:
        pass
    if left:
        leader.listen(Event("unseal", None, 0, len(left), note=f"not done for {', '.join(sorted(left))}: {_STILL_SEALED}"))


def unseal_left(env: EnvironmentRoot, listen: Listener, *, only_expired: bool) -> None:
    """Unseal the tables that the leader has sealed, if its deployment is not committed; needs no Spark.

    Best effort: of what stands against it the task that comes next tells. A run that is still alive finds its seals lifted and is tried
    again, so with ``only_expired`` those stay that it may still use.
    """
    with contextlib.suppress(SchemamigError):
        state = LedgerReader(env).state_or_none()
        if state is None or state.leader is None or not state.is_promoted:
            return
        leader = lead(env, state.leader.generation, listen, task="upgrade")
        now = pendulum.now("UTC")
        seals = [intent for intent in held_seals(leader) if intent.deadline < now or not only_expired]
        if seals:
            listen(Event("unseal", None, 0, len(seals), note="of a run that died: its writers wait"))
            unseal_all(leader, seals)


def _give_up(leader: LeaderWriter, seals: Sequence[SealIntent]) -> None:
    """Give the seals up in the ledger. Raises SealLifted if a twin did."""

    def give_up(state: State) -> list[Update]:
        check_held(state, seals)
        return [Put(replace(intent, is_given_up=True)) for intent in seals]

    leader.append(give_up)


def remember_seals(leader: LeaderWriter, seals: Sequence[SealIntent], since: pendulum.DateTime) -> list[str]:
    """Write down for how long which writers were locked out; return the note if that cannot be written."""
    number, who, at = leader.generation, leader.who, leader.committed_at
    entries = [HistoryEntry.ended("seal", since, collection=seal.collection, generation=number, who=who, at=at) for seal in seals]
    note = append_history(leader.env, *entries) if entries else None
    return [] if note is None else [note]
