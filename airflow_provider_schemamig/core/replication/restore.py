"""A target's table made anew from its origin's at one version, with the checkpoint in the same commit (seed 004: after a gap).

It takes away what the target has, so it is refused where that would lose something silently: commits of the target's own that the origin
does not have, or columns, because the origin's rows are of a schema that the target never had. Killed anywhere it has happened or not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pendulum

from airflow_provider_schemamig.core.deltalog.listing import read_commit
from airflow_provider_schemamig.core.deltalog.log_errors import LogTruncated
from airflow_provider_schemamig.core.deltalog.terms import NOTHING, Reached
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.handles.errors import ShardMoving
from airflow_provider_schemamig.core.handles.fit import Unfit
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.progress import Event, Listener, silent
from airflow_provider_schemamig.core.replication.apply import Table, bring_all, query_of, table_at
from airflow_provider_schemamig.core.replication.checkpoint import (
    REPLICA,
    RESTORE,
    CheckpointMoved,
    Claim,
    Span,
    Wish,
    agree,
    forget,
    position,
    turn_away,
)
from airflow_provider_schemamig.core.replication.errors import OriginReplaced, RestoreChangesSchema, RestoreWouldLose
from airflow_provider_schemamig.core.replication.events import entry_at
from airflow_provider_schemamig.core.replication.gate import Mapping, Refused, Target, Way, decide, target_of
from airflow_provider_schemamig.core.replication.model import Stream, StreamState
from airflow_provider_schemamig.core.replication.standing import Ends, carry, check_live, check_nothing_undone, end, older, standing_in
from airflow_provider_schemamig.core.replication.states import read_state, write_state
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.shards.chain import about_of
from airflow_provider_schemamig.core.spark.errors import ConcurrentWrite, FillSuperseded
from airflow_provider_schemamig.core.upgrade.fill import Jobs
from airflow_provider_schemamig.exceptions import Refusal

_TRIES = 3


@dataclass(frozen=True, slots=True)
class Restored:
    """``version``: of the origin's table, which the target's now is equal to. ``table_version``: of the target's, with the rows in it."""

    version: int
    table_version: int
    rows: int


@dataclass(eq=False)
class RestoreNotAhead(Refusal):
    """The target has the origin's rows of ``at``, and a checkpoint never goes back."""

    code = "restore_not_ahead"
    version: int
    at: int

    @property
    def message(self) -> str:
        return f"the rows were to be those of version {self.version} of the origin, and the target is at version {self.at} already."

    @property
    def next_action(self) -> str:
        return f"Restore at a version above {self.at}; where the target's rows are wrong, that is after the origin's next commit."


def restore(
    origin: Environment,
    target: Environment,
    collection: CollectionName,
    *,
    version: int | None = None,
    allow_schema_change: bool = False,
    allow_lossy: bool = False,
    jobs: Jobs,
    listen: Listener = silent,
) -> Restored:
    """Make the target's rows those of the origin at ``version``, and let the stream go on from there.

    Raises RestoreWouldLose, RestoreChangesSchema, RestoreNotAhead, LoopingStream; ShardMoving; NotInRelease if an end has no such
    collection; what reading the origin raises if its version cannot be read (any more).
    """
    listen(Event("restore", collection))
    ends = Ends.of(origin, target)
    done = try_restore(ends, collection, Wish(version, allow_schema_change, allow_lossy), jobs)
    stream, shard, now = ends.stream(collection), ends.origin.state.objects[collection].shard, pendulum.now("UTC")
    known = read_state(target, stream) or StreamState(stream, shard, NOTHING, NOTHING, now, done.version, None)
    write_state(target, replace(restored_at(known, ends, done), updated_at=now))
    return done


def try_restore(ends: Ends, collection: CollectionName, wish: Wish, jobs: Jobs) -> Restored:
    """A batch of a runner or a restore of a twin may come in between: then look again."""
    for _ in range(_TRIES - 1):
        try:
            return _attempt(ends, collection, wish, jobs)
        except (CheckpointMoved, ConcurrentWrite, FillSuperseded):
            ends = ends.renewed()
    return _attempt(ends, collection, wish, jobs)


def _attempt(ends: Ends, collection: CollectionName, wish: Wish, jobs: Jobs) -> Restored:
    ends.require(collection)
    stream = ends.stream(collection)
    table = table_at(ends.target.env, ends.target.state.shard_of(collection))
    if table.head.sealed_for is not None:
        raise ShardMoving(collection=collection, seconds=0)
    row = ends.origin.state.shard_of(collection)
    source = table_at(ends.origin.env, row, wish.version)
    where = standing_in(ends.target, stream, table, row.shard)
    own = Reached(where.own.term, where.at)
    if where.own != own:
        carry(stream, table, where)
        table = table_at(ends.target.env, table.shard)
    if source.head.version <= where.at:
        raise RestoreNotAhead(collection=collection, version=source.head.version, at=where.at)
    entry, mapping = _gate(ends, source, table, wish)
    if not (wish.allow_lossy or wish.is_first):
        _check_own(ends, stream, table)
    if wish.version is not None:
        check_nothing_undone(ends.origin, row.shard, wish.version)
    behind = older(ends, stream, table, row.shard)
    if behind:
        _begin_for(behind, ends, stream, table, wish)
    span = Span(stream, row.shard, own, source.head.version, fingerprint(entry.declared), RESTORE)
    begun = set(behind)
    try:
        if _agree(ends, span, table, wish).wish is not None:
            begun.add(row.shard)
        check_live(table)
        made = bring_all(source, entry, table, mapping, span, jobs())
    except Refusal:
        _take_back(ends, stream, table, begun)
        raise
    forget(ends.target.env, stream, row.shard, Reached(own.term, span.hi))
    for shard, last in behind.items():
        forget(ends.target.env, stream, shard, end(stream, table, shard, last))
    return Restored(span.hi, made.table_version, made.rows)


def _begin_for(behind: dict[ShardId, int], ends: Ends, stream: Stream, table: Table, wish: Wish) -> None:
    """Nothing of the origin's tables ``behind`` comes on top of the rows of its live one, from whoever stood still meanwhile: what was
    agreed on is turned away, and what comes next is this restore. Raises CheckpointMoved."""
    turn_away(table.store, stream, behind)
    for shard, last in behind.items():
        since = position(table.store, stream, shard)
        claim = agree(ends.target.env, stream, shard, since, Claim(last, wish))
        if claim.wish is None or position(table.store, stream, shard) != since:
            raise CheckpointMoved(collection=stream.collection, uri=table.uri)


def _agree(ends: Ends, span: Span, table: Table, wish: Wish) -> Claim:
    """Whoever brings a batch at this moment has agreed on its end, and may do so after us: it has to be an end that we are beyond.

    Raises RestoreNotAhead, CheckpointMoved.
    """
    stream = span.stream
    claim = agree(ends.target.env, stream, span.shard, span.since, Claim(span.hi, wish))
    if claim.hi > span.hi and wish.version is not None:
        raise RestoreNotAhead(collection=stream.collection, version=span.hi, at=claim.hi)
    if claim.hi > span.hi or position(table.store, stream, span.shard) != span.since:  # the origin went on: look again
        raise CheckpointMoved(collection=stream.collection, uri=table.uri)
    return claim


def _take_back(ends: Ends, stream: Stream, table: Table, shards: Collection[ShardId]) -> None:
    """It is not going to be: twins that are at it cannot commit it any more, and batches may come. Who finds it still begun tries it."""
    with contextlib.suppress(CheckpointMoved):
        begun = {shard: position(table.store, stream, shard) for shard in shards}
        check_live(table)
        if begun:
            turn_away(table.store, stream, begun)
        for shard, since in begun.items():
            forget(ends.target.env, stream, shard, Reached(since.term + 1))


def _gate(ends: Ends, source: Table, table: Table, wish: Wish) -> tuple[SchemaEntry, Mapping]:
    """Raises RestoreChangesSchema, OriginReplaced."""
    version, collection = source.head.version, table.shard.collection
    entry = entry_at(ends.origin.state, source.shard.shard, version)
    if entry is None:
        reason = f"no schema in its ledger is as old as version {version}"
        raise OriginReplaced(collection=collection, shard=source.shard.shard, reason=reason)
    target: Target = target_of(ends.target.state, collection, table.head)
    found = decide(entry, target, len(target.previous) if wish.allow_schema_change else wish.depth)
    local = fingerprint(target.current.declared)
    if not isinstance(found, Refused):
        try:
            query_of(source.head, entry, found.mapping)
        except Unfit as unfit:
            found = Refused(f"{unfit.path} {unfit.reason}", local)
    if isinstance(found, Refused) or (found.way is Way.CONTENT and not (wish.allow_schema_change or wish.is_first)):
        detail = found.detail if isinstance(found, Refused) else "every column fits"
        raise RestoreChangesSchema(
            collection=collection, version=version, event_hash=fingerprint(entry.declared), local_hash=local, detail=detail
        )
    return entry, found.mapping


def _check_own(ends: Ends, stream: Stream, table: Table) -> None:
    """Raises RestoreWouldLose for rows that did not come from the origin, and that it does not have."""
    there = ends.origin.env.table_store(ends.origin.state.shard_of(stream.collection).uri)
    own = own_commits(stream, table, position(there, ends.back(stream.collection), table.shard.shard).version)
    if own:
        raise RestoreWouldLose(collection=stream.collection, commits=len(own), first=own[-1])


def own_commits(stream: Stream, table: Table, back: int) -> Sequence[int]:
    """The versions of the target's table, newest first, that changed rows and did not come from the origin: down to ``back``, which the
    origin has, or to the last restore from there, and as far as the log still goes."""
    found = []
    for version in range(table.head.version, back, -1):
        try:
            commit = read_commit(table.store, version)
        except LogTruncated:
            break
        about = about_of(commit) or {}
        if about.get("origin") == stream.origin and about.get("action") == RESTORE:
            break
        ours = "generation" in about or (about.get("origin"), about.get("action")) == (stream.origin, REPLICA)
        if not ours and any(file.get("dataChange", True) for file in (*commit.adds, *commit.removes)):
            found.append(version)
    return found


def restored_at(state: StreamState, ends: Ends, done: Restored) -> StreamState:
    """What stopped the stream or let it wait is over."""
    shard, version = ends.origin.state.objects[state.stream.collection].shard, done.version
    state = replace(state, shard=shard, checkpoint=version, seen=version, origin_version=version, behind_since=None)
    return replace(state, pause=None, error=None, detail="", warning="", restores=state.restores + 1)
