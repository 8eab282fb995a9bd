"""Where a stream stands while the tables at its two ends are rewritten, replaced and rolled back.

A checkpoint counts versions of one of the origin's tables and lies in one of the target's. If a rewrite of the target moved the rows, the
new table has them up to the checkpoint of the old one, which is sealed; so that is carried over before anything else is brought. If the
origin's rows moved, the old table is drained first, and the stream goes on in the new one after what its rewrite brought into it: if the
target has made the same rewrite, for then its rows are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.access.errors import NotInRelease
from airflow_provider_schemamig.core.access.rewritten import step_that_made
from airflow_provider_schemamig.core.delta.commit.txn_terms import NOTHING, TxnPosition
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import TableMissing
from airflow_provider_schemamig.core.delta.log.listing import list_log, read_commit
from airflow_provider_schemamig.core.ledger.rows import Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, ShardId, Version
from airflow_provider_schemamig.core.release.merge.merged import RewriteStep
from airflow_provider_schemamig.core.replication.errors import LogCleaned, LoopingStream, OriginReplaced
from airflow_provider_schemamig.core.replication.model import EnvId, Stream
from airflow_provider_schemamig.core.replication.stream.apply import EventTable
from airflow_provider_schemamig.core.replication.stream.checkpoint import RESTORE, CheckpointMoved, Span, move_checkpoint, position
from airflow_provider_schemamig.core.replication.stream.gaps import commit_hash
from airflow_provider_schemamig.core.replication.stream.lineage import doubts, lineage_of
from airflow_provider_schemamig.core.replication.stream.provenance import provenance_of
from airflow_provider_schemamig.core.replication.stream.successor import Successor, successor, was_left_after
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot


@dataclass(frozen=True)
class End:
    """An environment with its ledger as it was read."""

    env: EnvironmentRoot
    state: State

    @classmethod
    def of(cls, env: EnvironmentRoot) -> End:
        """Read the ledger of one end. Raises NoEnvironment."""
        return cls(env, LedgerReader(env).state())

    @property
    def env_id(self) -> EnvId:
        return EnvId(self.state.config.env_id)

    def rewrite_to(self, shard: ShardId) -> bool:
        """Return whether the table was made by a rewrite, which kept the rows. False also if that is no longer known."""
        return self._rewrite(shard) is not None

    def has_down(self, shard: ShardId) -> bool:
        """Return whether the table was made by a rewrite with a way back for the rows. False also if that is no longer known."""
        step = self._rewrite(shard)
        return step is not None and step.down is not None

    def _rewrite(self, shard: ShardId) -> RewriteStep | None:
        made = step_that_made(self.env, self.state, shard)
        return made.step if made is not None and isinstance(made.step, RewriteStep) else None

    def retired_for(self, shard: ShardId) -> Sequence[Shard]:
        """Return the tables that were sealed because their rows are in ``shard``: the one before it, and what a rollback to it retired."""
        return self._retired.get(shard, ())

    def rolled_back_to(self, shard: ShardId) -> Sequence[ShardId]:
        """Return those tables of ``retired_for`` that rollbacks to ``shard`` have retired."""
        return [row.shard for row in self.retired_for(shard) if row.generation > self.state.shards[shard].generation]

    @functools.cached_property
    def _retired(self) -> dict[ShardId, list[Shard]]:
        found: dict[ShardId, list[Shard]] = {}
        for row in self.state.shards.values():
            if row.state is ShardState.RETIRED and row.successor is not None:
                found.setdefault(row.successor, []).append(row)
        return found


@dataclass(frozen=True)
class StreamEnds:
    origin: End
    target: End

    @classmethod
    def of(cls, origin: EnvironmentRoot, target: EnvironmentRoot) -> StreamEnds:
        """Read the ledgers of both ends. Raises NoEnvironment, LoopingStream."""
        found = cls(End.of(origin), End.of(target))
        if found.origin.env_id == found.target.env_id:
            raise LoopingStream(env_id=found.origin.env_id)
        return found

    def again(self) -> StreamEnds:
        """Read both ledgers as they are now."""
        return StreamEnds.of(self.origin.env, self.target.env)

    def require(self, collection: CollectionName) -> None:
        """Raise NotInRelease unless both ends have the collection."""
        for end in (self.origin, self.target):
            if collection not in end.state.objects:
                release = end.state.release
                raise NotInRelease(collection=collection, release=release.version if release is not None else Version(0, 0, 0))

    def stream(self, collection: CollectionName) -> Stream:
        return Stream(self.origin.env_id, self.target.env_id, collection)

    def back(self, collection: CollectionName) -> Stream:
        """Return the stream the other way round."""
        return Stream(self.target.env_id, self.origin.env_id, collection)


@dataclass(frozen=True, slots=True)
class RowPosition:
    """``shard``: the origin's table that is followed. ``at``: its last version that the target's rows have. ``own``: the checkpoint of the
    target's table itself, which is lower if the rows came from another one, and is to be carried over then."""

    shard: ShardId
    at: int
    own: TxnPosition


def row_position_in(target: End, stream: Stream, table: EventTable, shard: ShardId) -> RowPosition:
    """Return where the rows of ``table`` are in the versions of ``shard``, one of the origin's tables; ``NOTHING`` is possible."""
    own = position(table.store, stream, shard)
    before = (_through(target, stream, row, table.shard, shard) for row in target.retired_for(table.shard.shard))
    # The later term, first: what was restored since then is in no table before, be it at a lower version.
    return RowPosition(shard, max((own, *before)).version, own)


def _through(target: End, stream: Stream, row: Shard, successor: Shard, shard: ShardId) -> TxnPosition:
    """Return the checkpoint of the rows that went from ``row`` into ``successor``."""
    rolled_back = row.generation > successor.generation
    if not (target.has_down(row.shard) if rolled_back else target.rewrite_to(successor.shard)):
        return TxnPosition(0)
    try:
        # What got there while a rollback that failed had it open is in no other table.
        found = position(target.env.table_store(row.uri, row.table_id), stream, shard, row.sealed_version)
    except TableMissing:
        found = TxnPosition(0)
    return max((found, *(_through(target, stream, before, row, shard) for before in target.retired_for(row.shard))))


def row_position(ends: StreamEnds, stream: Stream, table: EventTable) -> RowPosition | None:
    """Return where the rows of the target's live table are; None if no commit of the stream ever came there. Raises OriginReplaced."""
    live = ends.origin.state.objects[stream.collection].shard
    followed = [row_position_in(ends.target, stream, table, shard) for shard in (live, *_before(ends.origin, live))]
    known = [found for found in followed if found.at != NOTHING]
    if not known:
        return None
    first, by_shard = known[0], {found.shard: found for found in known}
    for rolled_back in ends.origin.rolled_back_to(first.shard):  # also of a table that was rewritten again since
        if rolled_back not in by_shard:
            check_no_rows_restored(ends.origin, first.shard, first.at, of=rolled_back)
        elif _is_still_to_follow(ends.origin, first.shard, by_shard[rolled_back], first.at):
            return by_shard[rolled_back]
    return first


def _is_still_to_follow(origin: End, live: ShardId, rolled_back: RowPosition, at: int) -> bool:
    """Return whether rows of ``rolled_back`` come before those of ``live`` after ``at``. Raises OriginReplaced, LogCleaned.

    A rollback retired the table of ``rolled_back``.
    """
    try:
        was_left = was_left_after(origin.env, origin.state.shards[live], rolled_back.shard, at)
        return was_left and at < _version_after_rollback(origin, rolled_back.shard)
    except LogCleaned:
        if rolled_back.at < (origin.state.shards[rolled_back.shard].sealed_version or 0):
            raise
        return False  # it has all of them, and what lies between there and here is no event


def _before(origin: End, shard: ShardId) -> list[ShardId]:
    """Return the retired tables whose rows are in ``shard``, the next one first."""
    found: list[ShardId] = []
    for row in sorted(origin.retired_for(shard), key=lambda row: row.generation, reverse=True):
        found += [row.shard, *_before(origin, row.shard)]
    return found


def _version_after_rollback(origin: End, rolled_back: ShardId) -> int:
    """Return the version after which the table restored by a rollback goes on with new rows. Raises OriginReplaced.

    The table ``rolled_back`` did not have them.
    """
    found = successor(origin.env, origin.state, rolled_back, origin.state.shards[rolled_back].sealed_version or 0)
    return NOTHING if found is None else found.after


def check_no_rows_restored(origin: End, shard: ShardId, at: int, of: ShardId) -> None:
    """Raise OriginReplaced if a rollback brought rows back from the table ``of`` after version ``at``.

    The stream has not followed that table, so the rows are in no event.
    """
    row = origin.state.shards[shard]
    store = origin.env.table_store(row.uri, row.table_id)
    if any(provenance_of(commit).rolled_back == of for commit in commits(store, at)):
        raise replaced_by_rollback(row)


def check_followed(origin: End, where: RowPosition, forgotten: Collection[ShardId]) -> None:
    """Raise OriginReplaced if rows came back after ``where`` from a ``forgotten`` table not followed to its end.

    A stream that followed it goes on behind the seal for that table. Raises LogCleaned.
    """
    row = origin.state.shards[where.shard]
    for rolled_back in forgotten:
        if was_left_after(origin.env, row, rolled_back, where.at + 1):
            raise replaced_by_rollback(row)


def replaced_by_rollback(row: Shard) -> OriginReplaced:
    """Return the error for a table with rows from a rollback that the stream has not seen."""
    reason = "the origin was rolled back to it, and rows came with that from a table that was not followed to its end"
    return OriginReplaced(collection=row.collection, shard=row.shard, reason=reason)


def checkpoint_hash(target: End, stream: Stream, table: EventTable, where: RowPosition) -> str:
    """Return the hash of the origin's commit ``where.at``, as noted in the commit with the rows up to there.

    "" if no log tells any more. A cut-over hands the checkpoint on without it, so the tables before ``table`` are looked at, too.
    """
    tables = [(table.shard, table.store)]
    for row, store in tables:
        try:
            found = _noted_hash(stream, store, where)
        except TableMissing:
            found = ""
        if found:
            return found
        before = sorted(target.retired_for(row.shard), key=lambda before: before.generation, reverse=True)
        tables += [(old, target.env.table_store(old.uri, old.table_id)) for old in before]
    return ""


def _noted_hash(stream: Stream, store: ReadStore, where: RowPosition) -> str:
    """Look from the newest commit back as far as the log goes. Raises TableMissing."""
    wanted = {"origin": stream.origin, "shard": where.shard, "hi": where.at}
    for about in _notes(store):
        for noted in (about, *about.get("others", ())):
            if noted.get("commit_hash") and wanted.items() <= noted.items():
                return str(noted["commit_hash"])
    return ""


def _notes(store: ReadStore) -> Iterator[Mapping[str, Any]]:
    """Yield what our commits say of themselves, the newest first, as far back as the log goes. Raises TableMissing."""
    for version in range(list_log(store).version, -1, -1):
        try:
            yield read_commit(store, version).about or {}
        except LogTruncated:
            return


def check_row_position(ends: StreamEnds, stream: Stream, table: EventTable, where: RowPosition) -> None:
    """Raise unless ``table`` is still the target's live table, and its rows are where both ledgers say.

    Only the live table is brought to; a process that stood still may have an old one in hand. Asked after the checkpoint was read, which
    this does again: should ``table`` be left from now on, or its rows come by another way, its term will be over. Raises CheckpointMoved,
    OriginReplaced.
    """
    now, name = ends.again(), stream.collection
    # The events were read by the ledger of before: of the table's columns it has to say what the newest says.
    before, after = ends.origin.state, now.origin.state
    if (before.schemas_of(where.shard), before.intents_of(where.shard)) != (after.schemas_of(where.shard), after.intents_of(where.shard)):
        raise CheckpointMoved(collection=name, uri=table.uri)
    is_there = name in now.origin.state.objects and name in now.target.state.objects
    if not is_there or now.target.state.objects[name].shard != table.shard.shard or row_position(now, stream, table) != where:
        raise CheckpointMoved(collection=name, uri=table.uri)


def write_position(stream: Stream, table: EventTable, where: RowPosition) -> None:
    """Write down in ``table`` where its rows stand. Raises CheckpointMoved.

    Which commit of the origin that was is said by the table that brought it (``checkpoint_hash``).
    """
    move_checkpoint(table.store, table.head, Span(stream, where.shard, where.own, where.at, None, commit_hash=""))


def follow_rows(ends: StreamEnds, stream: Stream, table: EventTable, drained: RowPosition) -> str:
    """Go on in the origin's table that the rows of ``drained`` went to. Empty, or why that has to wait for the target.

    Raises OriginReplaced, LogCleaned, CheckpointMoved.
    """
    new = successor(ends.origin.env, ends.origin.state, drained.shard, drained.at)
    if new is None or not _made_the_same(ends, table.shard.shard, drained.shard, new):
        return f"the origin's rows moved from {drained.shard} to another table, by a rewrite or back; the target has not done the same"
    row, own = ends.origin.state.shards[new.shard], row_position_in(ends.target, stream, table, new.shard).own
    known = commit_hash(ends.origin.env.table_store(row.uri, row.table_id), new.after)
    move_checkpoint(table.store, table.head, Span(stream, new.shard, own, new.after, None, known))
    return ""


def _made_the_same(ends: StreamEnds, own: ShardId, drained: ShardId, new: Successor) -> bool:
    """Return whether the target's rows went through the rewrite, or back through it, as the origin's did."""
    origin, target = ends.origin, ends.target
    if origin.state.shards[new.shard].generation > origin.state.shards[drained].generation:
        return target.rewrite_to(own) and _is_made_alike(ends, new.shard, own)
    return any(target.rewrite_to(shard) and _is_made_alike(ends, drained, shard) for shard in target.rolled_back_to(own))


def other_rewrite(ends: StreamEnds, stream: Stream, table: EventTable, where: RowPosition) -> str:
    """Return why events of the origin's table do not go with the rows of ``table``; empty if they do, or all rows were restored since."""
    if not _is_made_otherwise(ends, where.shard, table.shard.shard) or any(
        (about.get("action"), about.get("origin")) == (RESTORE, stream.origin) for about in _notes(table.store)
    ):
        return ""
    return f"the rewrite that made {where.shard} has other queries than the target's, in a release of the same number"


def _is_made_otherwise(ends: StreamEnds, there: ShardId, own: ShardId) -> bool:
    """Return whether both tables were made between the same two releases, by other queries: a number that was rolled back may come again
    with others. False where that cannot be told."""
    origin, target = (step_that_made(end.env, end.state, shard) for end, shard in ((ends.origin, there), (ends.target, own)))
    if origin is None or target is None or not isinstance(origin.step, RewriteStep) or not isinstance(target.step, RewriteStep):
        return False
    if (origin.deployment.source, origin.deployment.target) != (target.deployment.source, target.deployment.target):
        return False
    return (origin.step.up, origin.step.down) != (target.step.up, target.step.down)


def _is_made_alike(ends: StreamEnds, there: ShardId, own: ShardId) -> bool:
    """Return whether both tables began with one schema, or came to that of one release, with the same columns.

    Whoever makes several releases in one upgrade begins with the schema of the last.
    """
    theirs, ours = ends.origin.state.schemas_of(there), ends.target.state.schemas_of(own)
    if not theirs or not ours or _is_made_otherwise(ends, there, own):
        return False
    origin, target = lineage_of(ends.origin.state, theirs[-1].collection), lineage_of(ends.target.state, ours[-1].collection)
    later = [(one, other) for one in theirs for other in ours if one.release is not None and one.release == other.release]
    return any(
        fingerprint(one.declared) == fingerprint(other.declared) and not doubts(one, origin, other, target)
        for one, other in [(theirs[0], ours[0]), *later]
    )
