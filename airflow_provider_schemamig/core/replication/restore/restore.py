"""A target's table made anew from its origin's at one version, with the checkpoint in the same commit (after a gap).

It takes away what the target has, so it is refused where that would lose something silently: commits of the target's own that the origin
does not have, or columns, because the origin's rows are of a schema that the target never had. What is checked is what the commit follows.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pendulum

from airflow_provider_schemamig.core.access.errors import ShardMoving
from airflow_provider_schemamig.core.access.read_mapping import Unfit
from airflow_provider_schemamig.core.delta.commit.fence import read_txns
from airflow_provider_schemamig.core.delta.commit.txn_terms import NOTHING, TxnPosition, advance, app_ids, txn_position
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import TableMissing
from airflow_provider_schemamig.core.delta.log.listing import commit_key
from airflow_provider_schemamig.core.delta.properties import is_on
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.progress import Event, Listener, silent
from airflow_provider_schemamig.core.replication.errors import (
    OriginDrifted,
    OriginReplaced,
    RestoreChangesSchema,
    RestoreWouldLose,
    TargetAppendOnly,
)
from airflow_provider_schemamig.core.replication.model import ClaimedRestore, RestoredRows, Stream, StreamState
from airflow_provider_schemamig.core.replication.restore.errors import NoSuchVersion, OriginUpgrading, RestoreNotNewer
from airflow_provider_schemamig.core.replication.restore.full_copy import CopyPlace, copy_rows, put_in_place
from airflow_provider_schemamig.core.replication.restore.hidden import hidden_values, kept_columns
from airflow_provider_schemamig.core.replication.restore.other_origins import (
    CopiedTable,
    check_others,
    other_checkpoints,
    other_positions,
    other_txns,
)
from airflow_provider_schemamig.core.replication.restore.since_restore import commits_since_restore, last_restore
from airflow_provider_schemamig.core.replication.stream.apply import EventTable, query_of, table_at
from airflow_provider_schemamig.core.replication.stream.checkpoint import CheckpointMoved, RestoredOver, Span, forget
from airflow_provider_schemamig.core.replication.stream.columns import Columns
from airflow_provider_schemamig.core.replication.stream.compatibility import Mapping, RefusedEvent, TargetSchema, Way, decide, target_of
from airflow_provider_schemamig.core.replication.stream.events import entry_at
from airflow_provider_schemamig.core.replication.stream.gaps import commit_hash
from airflow_provider_schemamig.core.replication.stream.lineage import lineage_of
from airflow_provider_schemamig.core.replication.stream.position import (
    RowPosition,
    StreamEnds,
    checkpoint_hash,
    replaced_by_rollback,
    row_position_in,
)
from airflow_provider_schemamig.core.replication.stream.provenance import HOUSEKEEPING, provenance_of
from airflow_provider_schemamig.core.replication.stream.stored_state import claimed_restore, note_restore, read_state, write_state
from airflow_provider_schemamig.core.schema.delta_rules.table_features import APPEND_ONLY
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.exceptions import Refusal

_TRIES = 3


@dataclass(frozen=True, slots=True)
class Wish:
    """What a restore is asked for. ``version`` None: the origin's newest. ``allow_schema_change``, ``allow_lossy``: it may take away what
    of the target's columns and own rows the origin does not have. ``is_first``: of a target without rows, where there is nothing to take
    away. ``depth``: how many previous schemas are no change. ``claim_id``: what its commit is known by."""

    version: int | None = None
    allow_schema_change: bool = False
    allow_lossy: bool = False
    is_first: bool = False
    depth: int = 1
    claim_id: str | None = None

    @property
    def takes_away(self) -> bool:
        """Return whether nothing of the target's rows is looked after."""
        return self.allow_lossy or self.is_first


def restore(
    origin: EnvironmentRoot,
    target: EnvironmentRoot,
    collection: CollectionName,
    *,
    version: int | None = None,
    allow_schema_change: bool = False,
    allow_lossy: bool = False,
    claim_id: str | None = None,
    jobs: Jobs,
    listen: Listener = silent,
) -> RestoredRows:
    """Make the target's rows those of the origin at ``version``, and let the stream go on from there.

    ``claim_id``: what is done under it is one restore, however often it is asked for, unless the stream was restored anew or stopped since.

    Raises RestoreWouldLose, RestoreChangesSchema, RestoreNotNewer, OriginDrifted, LoopingStream; ShardMoving, OriginUpgrading; NotInRelease
    if an end has no such collection; what reading the origin raises if its version cannot be read (any more).
    """
    listen(Event("restore", collection))
    ends = StreamEnds.of(origin, target)
    wish = Wish(version, allow_schema_change, allow_lossy, claim_id=claim_id)
    stream = ends.stream(collection)
    noted = None if claim_id is None else claimed_restore(target, stream, claim_id)
    last = None if claim_id is None or noted is not None else last_restore(ends, collection)
    before = noted.rows if noted is not None else last if last is not None and last.claim_id == claim_id else None
    if before is not None:
        known = read_state(target, stream)
        told = known if known is not None and _is_told(known, before, noted) else None
        if told is not None and told.error is not None:
            before = None  # what stopped the stream after that restore takes another one
        else:
            listen(Event("restore", collection, note=f"done before under the same claim, as version {before.table_version} of the table"))
            if told is not None:  # the stream has gone on since
                if noted is None:
                    note_restore(target, stream, before, told.restores)
                return before
    done = before or try_restore(ends, collection, wish, jobs)
    known, now = read_state(target, stream), pendulum.now("UTC")
    known = known or StreamState(stream, done.shard, NOTHING, NOTHING, now, done.version, None)
    state = replace(restored_at(known, done), updated_at=now)
    for rows in (last, done):  # before the stream is told, whose table may be rewritten then; the last one by a try that could not any more
        note_restore(target, stream, rows, state.restores)
    write_state(target, state)
    return done


def _is_told(known: StreamState, done: RestoredRows, noted: ClaimedRestore | None) -> bool:
    """Return whether a stream's state is of after a restore: it says so, is further on, or counts as many. One of before may be written
    late. Clocks of two machines say nothing."""
    counts = noted is not None and known.restores >= noted.number
    return counts or known.restored_as == done.table_version or (known.shard == done.shard and known.checkpoint >= done.version)


def try_restore(ends: StreamEnds, collection: CollectionName, wish: Wish, jobs: Jobs) -> RestoredRows:
    """Return the origin or the target may change its table meanwhile: then it is copied anew."""
    for _ in range(_TRIES - 1):
        try:
            return _attempt(ends, collection, wish, jobs)
        except CheckpointMoved:
            ends = ends.again()
    return _attempt(ends, collection, wish, jobs)


@dataclass(frozen=True, slots=True)
class Restorable:
    """A collection of which nothing stands against a restore: the origin's rows with their schema, and the target's table."""

    source: CopiedTable
    table: EventTable
    entry: SchemaEntry
    mapping: Mapping


def look_at(ends: StreamEnds, collection: CollectionName, wish: Wish) -> Restorable:
    """Return what a restore works on. Writes nothing. Raises what ``restore`` raises."""
    ends.require(collection)
    stream = ends.stream(collection)
    source = CopiedTable.of(_origin_at(ends, collection, wish.version))
    table = table_at(ends.target.env, ends.target.state.shard_of(collection))
    if source.table.head.version <= (at := row_position_in(ends.target, stream, table, source.table.shard.shard).at):
        raise RestoreNotNewer(collection=collection, version=source.table.head.version, at=at)
    _check(ends, stream, source, table, wish)
    if not wish.takes_away:
        check_others(stream, other_positions(ends, stream, source, table), table)
    _check_columns(ends, source, wish)
    return Restorable(source, table, *_gate(ends, source, table, wish))


def _origin_at(ends: StreamEnds, collection: CollectionName, version: int | None) -> EventTable:
    """Return the origin's table at a version. Raises NoSuchVersion, and what reading it raises if it cannot be read any more."""
    shard = ends.origin.state.shard_of(collection)
    if version is not None:
        newest = table_at(ends.origin.env, shard)
        if newest.head.version < version:
            raise NoSuchVersion(collection=collection, uri=newest.uri, version=version, newest=newest.head.version)
    return table_at(ends.origin.env, shard, version)


def _attempt(ends: StreamEnds, collection: CollectionName, wish: Wish, jobs: Jobs) -> RestoredRows:
    found, stream = look_at(ends, collection, wish), ends.stream(collection)
    source, table, entry = found.source, found.table, found.entry
    copied = copy_rows(source.table, entry, table, found.mapping, jobs())
    try:
        place, version = put_in_place(copied, lambda: _place(ends, stream, source, entry, wish))
    except (Refusal, CheckpointMoved):
        table.store.delete_tree(copied.folder)
        raise
    # After any other error the files may be the table's; if they are not, they are VACUUM's, like those of a killed process.
    for app_id in app_ids(txn for txn in place.txns if txn.startswith(stream.txn_prefix)):
        forget(ends.target.env, stream, ShardId(app_id.removeprefix(stream.txn_prefix)), txn_position(place.txns, app_id))
    hi = source.table.head.version
    return RestoredRows(source.table.shard.shard, hi, version, copied.rows, place.span.commit_hash, wish.claim_id)


def _check_columns(ends: StreamEnds, source: CopiedTable, wish: Wish) -> None:
    """Raise OriginUpgrading or OriginDrifted unless the origin's ledger says with which columns its rows were written."""
    if wish.allow_schema_change:
        return
    table, version = source.table, source.table.head.version
    columns = Columns(table.store, ends.origin.state, table.shard.shard, version)
    if columns.in_flight(version):
        raise OriginUpgrading(collection=table.shard.collection, version=version)
    drift = columns.drift_at(table.head)
    if drift is not None:
        raise OriginDrifted(collection=table.shard.collection, version=version, detail=drift.detail)


def _place(ends: StreamEnds, stream: Stream, source: CopiedTable, entry: SchemaEntry, wish: Wish) -> CopyPlace:
    """Return the table first, then the ledgers: should either table be sealed and left after this, the commit is not made.

    The stream may have gone on beyond the rows: then it goes back along with them.
    """
    shard, hi = source.table.shard.shard, source.table.head.version
    table = table_at(ends.target.env, ends.target.state.shard_of(stream.collection))
    now = ends.again()
    for end, looked_at in ((now.origin, shard), (now.target, table.shard.shard)):
        found = end.state.objects.get(stream.collection)
        if found is None or found.shard != looked_at:
            raise CheckpointMoved(collection=stream.collection, uri=table.uri)
    if entry_at(now.origin.state, shard, hi) != entry:
        raise CheckpointMoved(collection=stream.collection, uri=table.uri)  # the rows were read by the ledger of before
    _check_columns(now, source, wish)
    _check(now, stream, source, table, wish)
    if hi < (at := row_position_in(now.target, stream, table, shard).at) and not source.table.store.exists(commit_key(hi + 1)):
        raise RestoreNotNewer(collection=stream.collection, version=hi, at=at)  # it would have to come here again, and cannot
    known = read_txns(table.store, stream.txn_prefix, table.head.version)
    live = stream.txn_app_id(shard)
    txns: dict[str, int] = {}
    for app_id in {live, *app_ids(known)}:
        own = txn_position(known, app_id)
        txns |= advance(app_id, own, TxnPosition(own.term + 1, hi if app_id == live else own.version))
    positions = other_positions(now, stream, source, table)
    if not wish.takes_away:  # what the origin follows, too, and brought rows while they were copied, brings them again
        check_others(stream, [other for other in positions if not other.is_followed], table)
    txns |= other_txns(stream, table, positions)
    over = RestoredOver(table.head.version, other_checkpoints(now, stream, source, positions), wish.claim_id)
    span = Span(stream, shard, txn_position(known, live), hi, fingerprint(entry.declared), commit_hash(source.table.store, hi), over)
    return CopyPlace(table, span, txns, beside_others=wish.allow_lossy)


def _check(ends: StreamEnds, stream: Stream, source: CopiedTable, table: EventTable, wish: Wish) -> None:
    """Raise unless the rows may take the place of those of ``table``.

    Raises ShardMoving, TargetAppendOnly, OriginReplaced, RestoreWouldLose, CheckpointMoved.
    """
    collection = stream.collection
    if table.head.sealed_for is not None:
        raise ShardMoving(collection=collection, seconds=0)
    if is_on(table.head.metadata, APPEND_ONLY) and active_files(table.store, table.head.version):
        raise TargetAppendOnly(collection=collection, uri=table.uri)
    if wish.version is not None:
        _check_rows_are_events(source.table)
    if wish.is_first and active_files(table.store, table.head.version):
        raise CheckpointMoved(collection=collection, uri=table.uri)
    if not wish.takes_away:
        _check_own(ends, stream, source, table)


def _check_rows_are_events(source: EventTable) -> None:
    """Raise OriginReplaced if rows came to the origin's table since that no stream brings: by an upgrade that filled it, or a rollback."""
    for commit in commits(source.store, source.head.version):
        made = provenance_of(commit)
        if made.rolled_back is not None:
            raise replaced_by_rollback(source.shard)
        if made.action in HOUSEKEEPING:
            reason = f"at version {source.head.version} an upgrade was still filling it: a later one has all its rows"
            raise OriginReplaced(collection=source.shard.collection, shard=source.shard.shard, reason=reason)


def _gate(ends: StreamEnds, source: CopiedTable, table: EventTable, wish: Wish) -> tuple[SchemaEntry, Mapping]:
    """Return the origin's schema of the rows, and how its columns become the target's. Raises RestoreChangesSchema, OriginReplaced."""
    version, collection = source.table.head.version, table.shard.collection
    entry = entry_at(ends.origin.state, source.table.shard.shard, version)
    if entry is None:
        reason = f"no schema in its ledger is as old as version {version}"
        raise OriginReplaced(collection=collection, shard=source.table.shard.shard, reason=reason)
    target: TargetSchema = target_of(ends.target.state, collection, table.head)
    allowed = wish.allow_schema_change
    depth = len(target.previous) if allowed else wish.depth
    found = decide(entry, lineage_of(ends.origin.state, collection), target, depth, trusts_names=allowed)
    event, local = fingerprint(entry.declared), fingerprint(target.current.declared)
    refused = functools.partial(RestoreChangesSchema, collection=collection, version=version, event_hash=event, local_hash=local)
    if not isinstance(found, RefusedEvent):
        try:
            query_of(source.table.head, entry, found.mapping)
        except Unfit as unfit:
            found = RefusedEvent(f"{unfit.path} {unfit.reason}", local)
    if not (isinstance(found, RefusedEvent) or allowed):
        left = hidden_values(ends.origin.state, entry, source.table.head, target)
        if active_files(table.store, table.head.version):
            left = left or kept_columns(ends.target.state, collection)
        if left:
            raise refused(detail=left, is_hidden=True)
    if isinstance(found, RefusedEvent) or (found.way is Way.CONTENT and not (allowed or wish.is_first)):
        detail = found.detail if isinstance(found, RefusedEvent) else "every column fits"
        raise refused(detail=detail)
    return entry, found.mapping


def _check_own(ends: StreamEnds, stream: Stream, source: CopiedTable, table: EventTable) -> None:
    """Raise RestoreWouldLose for rows from elsewhere, if the origin did not have them at the copied version."""
    tables = [table]
    for looked_at in tables:
        columns = Columns(looked_at.store, ends.target.state, looked_at.shard.shard, looked_at.head.version)
        found = _own_commits(stream, looked_at, columns, _known_to_origin(ends, ends.back(stream.collection), source, looked_at))
        own, gone = found.versions, dict(found.rolled_back)
        if own:
            raise RestoreWouldLose(collection=stream.collection, uri=looked_at.uri, commits=len(own), first=own[-1])
        for row in ends.target.retired_for(looked_at.shard.shard):
            if found.is_from_tables_before or row.shard in found.rolled_back:
                with contextlib.suppress(TableMissing):
                    tables.append(table_at(ends.target.env, row, row.sealed_version))
                    gone.pop(row.shard, None)
        if gone:  # a rollback brought rows back from a table that is deleted by now: nobody can tell whose they were
            raise RestoreWouldLose(collection=stream.collection, uri=looked_at.uri, commits=len(gone), first=min(gone.values()))


def _known_to_origin(ends: StreamEnds, back: Stream, source: CopiedTable, table: EventTable) -> int:
    """Return the version of ``table``, the target's, up to which ``source``, the origin's, had its rows by the stream ``back``.

    It has none for certain if the table was brought back from a copy of before, because its versions since are other commits.
    """
    own = txn_position(source.txns, back.txn_app_id(table.shard.shard))
    if own.version == NOTHING:
        return NOTHING
    known = checkpoint_hash(ends.origin, back, source.table, RowPosition(table.shard.shard, own.version, own))
    now = commit_hash(table.store, own.version)
    is_same = own.version <= table.head.version and (not known or now in ("", known))
    return own.version if is_same else NOTHING


@dataclass(frozen=True)
class _OwnCommits:
    """What changed rows of a table of the target and came from nowhere else.

    ``versions``: newest first. ``rolled_back``: the tables that rollbacks brought rows back from, each with the version that did.
    ``is_from_tables_before``: whether rows that are older than these came from the tables that were retired for it.
    """

    versions: Sequence[int]
    rolled_back: dict[ShardId, int]
    is_from_tables_before: bool


def _own_commits(stream: Stream, table: EventTable, columns: Columns, oldest: int) -> _OwnCommits:
    """Return the target's own commits above ``oldest``, up to which the origin has all, or since the last restore from there.

    What came from a third environment is not among them: how far the origin has that is said by its own stream from there. A backfill is
    one where the origin follows the target, unless its release was taken back: the stream back brings it, and the restored table would
    lack it.
    """
    found: list[int] = []
    rolled_back: dict[ShardId, int] = {}
    try:
        for commit in commits_since_restore(stream, table, oldest):
            if commit.is_restore:
                return _OwnCommits(found, rolled_back, is_from_tables_before=False)
            if commit.rolled_back is not None:
                rolled_back[commit.rolled_back] = commit.version
            is_streamed = oldest != NOTHING and commit.is_backfill and not columns.was_rolled_back(commit.version)
            if commit.changes_rows and (is_streamed or not commit.is_ours):
                found.append(commit.version)
    except LogTruncated:
        return _OwnCommits(found, rolled_back, is_from_tables_before=True)
    return _OwnCommits(found, rolled_back, is_from_tables_before=oldest == NOTHING)


def restored_at(state: StreamState, done: RestoredRows) -> StreamState:
    """Return the stream's object without what stopped it or let it wait."""
    version = done.version
    state = replace(state, shard=done.shard, checkpoint=version, seen=version, origin_version=version, commit_hash=done.commit_hash)
    state = replace(state, restored_as=done.table_version)
    return replace(state, behind_since=None, pause=None, error=None, detail="", warning="", restores=state.restores + 1)
