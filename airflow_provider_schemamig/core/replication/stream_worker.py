"""One stream, drained: look, decide, bring; again until there is nothing to bring, or it has to wait (docs/replicas.md)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pendulum

from airflow_provider_schemamig.core.access.errors import WroteOtherColumns
from airflow_provider_schemamig.core.access.read_mapping import Unfit
from airflow_provider_schemamig.core.delta.commit.txn_terms import NOTHING, TxnPosition
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import TableMissing, read_head
from airflow_provider_schemamig.core.delta.log.listing import list_log
from airflow_provider_schemamig.core.names import Fingerprint, ShardId
from airflow_provider_schemamig.core.progress import Event, Listener
from airflow_provider_schemamig.core.replication.errors import NeverRestored, OriginDrifted, OriginReplaced, RestoreChangesSchema
from airflow_provider_schemamig.core.replication.model import Pause, PauseReason, Stream, StreamSettings, StreamState
from airflow_provider_schemamig.core.replication.restore.errors import OriginUpgrading, RestoreNotNewer
from airflow_provider_schemamig.core.replication.restore.restore import Wish, restored_at, try_restore
from airflow_provider_schemamig.core.replication.stream.apply import EventTable, bring, table_at
from airflow_provider_schemamig.core.replication.stream.checkpoint import CheckpointMoved, Span, agree, forget, position
from airflow_provider_schemamig.core.replication.stream.compatibility import Mapping, RefusedEvent, decide, target_of
from airflow_provider_schemamig.core.replication.stream.events import EventBatch, next_events
from airflow_provider_schemamig.core.replication.stream.gaps import check_gap, check_same_log, commit_hash
from airflow_provider_schemamig.core.replication.stream.lineage import lineage_of
from airflow_provider_schemamig.core.replication.stream.position import (
    RowPosition,
    StreamEnds,
    check_followed,
    check_row_position,
    checkpoint_hash,
    follow_rows,
    other_rewrite,
    row_position,
    write_position,
)
from airflow_provider_schemamig.core.replication.stream.stored_state import read_state, rests, write_state
from airflow_provider_schemamig.core.spark.errors import BadValue, ConstraintViolated, QueryRefused
from airflow_provider_schemamig.core.transfer.retention import made_at
from airflow_provider_schemamig.core.upgrade.plan.live_tables import drift_of
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.exceptions import SchemamigError

#: How often in a row somebody else may be first.
_TRIES = 4


class _Wait(Exception):
    """The stream has to wait. ``at_target``: the target's ledger may say otherwise by now."""

    def __init__(
        self,
        reason: PauseReason,
        detail: str,
        event_hash: Fingerprint | None = None,
        local_hash: Fingerprint | None = None,
        *,
        at_target: bool = True,
    ) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.event_hash = event_hash
        self.local_hash = local_hash
        self.at_target = at_target


def _wait_for(why: str) -> None:
    """Raise _Wait if there is a reason why the rows' way stops at the target."""
    if why:
        raise _Wait(PauseReason.SCHEMA_MISMATCH, why)


@dataclass
class Run:
    """One process's turn at a stream. ``now``: before the ledgers in ``ends`` were read. ``rows``, ``batches``, ``restores``: what it
    did."""

    ends: StreamEnds
    stream: Stream
    jobs: Jobs
    settings: StreamSettings
    now: pendulum.DateTime
    listen: Listener
    rows: int = field(init=False, default=0)
    batches: int = field(init=False, default=0)
    restores: int = field(init=False, default=0)
    _known: StreamState | None = field(init=False)
    _state: StreamState = field(init=False)
    #: Where the stream stood at the last look, with the target's table of then.
    _at: tuple[EventTable, RowPosition] | None = field(init=False, default=None)
    #: What there was at the first look, by the version of the origin's table: what comes meanwhile is the next run's, or a busy stream
    #: would let no other one have its turn.
    _goal: tuple[ShardId, int] | None = field(init=False, default=None)
    #: The target's ledger was read anew since the last batch.
    _is_renewed: bool = field(init=False, default=False)

    def drain(self) -> StreamState:
        """Bring all there is at the first look; what the stream's object says afterwards. What concerns this stream alone is told there and
        not raised."""
        self._known = read_state(self.ends.target.env, self.stream)
        if self._known is not None and rests(self.ends.target.env, self._known, self.settings, self.now):
            return self._known
        if self._known is not None and self._known.error == WroteOtherColumns.code:
            return self._known  # its rows are in the wrong columns until a restore brings them anew
        nothing = StreamState(self.stream, ShardId(""), NOTHING, NOTHING, self.now, NOTHING, None)
        self._state = replace(self._known or nothing, pause=None, error=None, detail="", warning="")
        failed, goes_on = 0, True
        while goes_on:
            try:
                goes_on, failed = self._step(), 0
            except _Wait as wait:
                goes_on = self._retry(wait)
            except SchemamigError as error:
                failed += 1
                goes_on = failed < _TRIES and self._may_pass(error)
                if not goes_on:
                    self._end_with(error)
        return self._write()

    # --- one look --------------------------------------------------------------------------------------------------------------------

    def _step(self) -> bool:
        """Do one thing, and return whether there was something to do. Raises _Wait."""
        name, ends = self.stream.collection, self.ends
        for end, which in ((ends.origin, "origin"), (ends.target, "target")):
            if name not in end.state.objects:
                self._count_all()
                raise _Wait(PauseReason.SCHEMA_MISMATCH, f"the {which} has no collection of this name; a release brings it there")
        table = table_at(ends.target.env, ends.target.state.shard_of(name))
        where = row_position(ends, self.stream, table)
        if where is None:
            return self._begin(table)
        self._at = (table, where)
        self._state = self._state_at(table, where)
        if where.own.version != where.at:
            self._check_open(table)
            write_position(self.stream, table, where)
            return True
        found = next_events(ends.origin.env, ends.origin.state, name, where.shard, self._state.seen)
        seen = check_same_log(ends.origin.env, ends.origin.state, where.shard, found, self._state.seen, self._state.commit_hash)
        check_followed(ends.origin, where, found.forgotten)
        warning = check_gap(ends.origin.env, ends.origin.state, where.shard, found, self.now)
        self._state = replace(self._state, seen=found.seen, commit_hash=seen, warning=warning, detail=found.waits)
        self._state = replace(self._state, origin_version=found.head_version, behind_since=found.behind_since)
        if self._goal is None or self._goal[0] != where.shard:
            self._goal = (where.shard, found.head_version)
        is_live = where.shard == ends.origin.state.objects[name].shard
        if found.batch is not None:
            self._check_open(table)
            _wait_for(other_rewrite(ends, self.stream, table, where))
            self._bring(table, where, found.batch)
            return not is_live or self._state.checkpoint < self._goal[1]
        if found.drift is not None:
            raise _Wait(PauseReason.ORIGIN_DRIFT, found.drift.detail, at_target=False)
        if found.waits or is_live:
            return False
        self._check_open(table)
        self._follow_rows(table, where)
        return True

    def _count_all(self) -> None:
        """Count all of the origin's table as behind, if nothing of it was looked at yet."""
        if self._state.seen != NOTHING:
            return
        version, since = NOTHING, None
        if self.stream.collection in self.ends.origin.state.objects:
            row = self.ends.origin.state.shard_of(self.stream.collection)
            store = self.ends.origin.env.table_store(row.uri, row.table_id)
            files = list_log(store)
            # Of the first look: later ones list the log from its last checkpoint on.
            version, since = files.version, self._state.behind_since or made_at(store, min(files.commits, default=0) - 1, files.version)
        self._state = replace(self._state, origin_version=version, behind_since=since)

    def _state_at(self, table: EventTable, where: RowPosition) -> StreamState:
        """Return the state at ``where``; what was seen counts only while the stream is at the place it was seen from."""
        state = self._state
        if (state.shard, state.checkpoint) == (where.shard, where.at) and state.seen >= where.at:
            return state
        known = checkpoint_hash(self.ends.target, self.stream, table, where)
        return replace(state, shard=where.shard, checkpoint=where.at, seen=where.at, commit_hash=known)

    def _begin(self, table: EventTable) -> bool:
        """Begin a stream that has never brought anything with all rows.

        Raises NeverRestored if that would take others away; OriginReplaced if the ledger has the table no more that it followed.
        """
        shard = self.ends.origin.state.objects[self.stream.collection].shard
        followed = self._state
        self._at = None
        self._state = replace(self._state, shard=shard, checkpoint=NOTHING, seen=NOTHING, commit_hash="")
        self._check_open(table)
        if active_files(table.store, table.head.version):
            if followed.checkpoint != NOTHING and followed.shard not in self.ends.origin.state.shards:
                self._state = followed  # so that the next look says the same
                reason = "its hold ended and it was deleted, or it was given back by `unmanage`, which a later `adopt` does not undo"
                raise OriginReplaced(collection=self.stream.collection, shard=followed.shard, reason=reason)
            raise NeverRestored(collection=self.stream.collection, origin=self.stream.origin)
        self._restore(Wish(is_first=True, depth=self.settings.depth))
        return True

    def _bring(self, table: EventTable, where: RowPosition, batch: EventBatch) -> None:
        self._decide(table, batch)
        self.jobs()  # before anything is agreed on: whoever has no Spark leaves that to another one
        hi = agree(self.ends.target.env, self.stream, where.shard, where.own, batch.hi)
        check_row_position(self.ends, self.stream, table, where)
        agreed = self._until(batch, hi)
        self._apply(table, where, agreed, self._decide(table, agreed))

    def _decide(self, table: EventTable, batch: EventBatch) -> Mapping:
        name = self.stream.collection
        target = target_of(self.ends.target.state, name, table.head)
        found = decide(batch.entry, lineage_of(self.ends.origin.state, name), target, self.settings.depth, absent=batch.absent)
        if isinstance(found, RefusedEvent):
            raise _Wait(PauseReason.SCHEMA_MISMATCH, found.detail, batch.fingerprint, found.local_hash)
        return found.mapping

    def _until(self, batch: EventBatch, hi: int) -> EventBatch:
        """Return the batch as it was agreed on.

        Whoever did so saw the same commits, under one metaData, but maybe an older ledger: then the newest schema in it counts. Raises
        CheckpointMoved if the batch cannot be had at this moment.
        """
        last = batch
        while last.hi < hi:
            found = next_events(self.ends.origin.env, self.ends.origin.state, self.stream.collection, batch.shard, last.hi)
            if found.batch is None:
                raise CheckpointMoved(collection=self.stream.collection, uri=self.ends.target.env.location.uri)
            last = found.batch
        return replace(last, lo=batch.lo, hi=hi)

    def _apply(self, table: EventTable, where: RowPosition, batch: EventBatch, mapping: Mapping) -> None:
        source = table_at(self.ends.origin.env, self.ends.origin.state.shards[where.shard], batch.hi)
        span = Span(self.stream, where.shard, where.own, batch.hi, batch.fingerprint, commit_hash(source.store, batch.hi))
        try:
            applied = bring(source, batch, table, mapping, span, self.jobs())
        except Unfit as unfit:
            raise _Wait(PauseReason.SCHEMA_MISMATCH, f"{unfit.path} {unfit.reason}", batch.fingerprint, at_target=False) from None
        except (ConstraintViolated, BadValue, QueryRefused) as error:
            if read_head(table.store).metadata != table.head.metadata:
                return  # sealed, or given another rule or name meanwhile: look again
            if isinstance(error, QueryRefused):
                raise
            raise _Wait(PauseReason.SCHEMA_MISMATCH, str(error), batch.fingerprint, at_target=False) from error
        forget(self.ends.target.env, self.stream, where.shard, TxnPosition(where.own.term, batch.hi))
        rows = 0 if applied.skipped else applied.rows
        self._state = replace(self._state, checkpoint=batch.hi, seen=batch.hi, behind_since=None, commit_hash=span.commit_hash)
        self._count(rows, batches=0 if applied.skipped else 1)
        self.listen(Event("apply", self.stream.collection, note=f"{rows:,} row(s) of versions {batch.lo + 1} to {batch.hi}"))

    def _follow_rows(self, table: EventTable, where: RowPosition) -> None:
        _wait_for(follow_rows(self.ends, self.stream, table, where))

    def _restore(self, wish: Wish) -> None:
        self.jobs()
        try:
            done = try_restore(self.ends, self.stream.collection, wish, self.jobs)
        except RestoreChangesSchema as error:
            raise _Wait(PauseReason.SCHEMA_MISMATCH, error.detail, error.event_hash, error.local_hash) from error
        except OriginUpgrading as error:
            raise _Wait(PauseReason.SCHEMA_MISMATCH, error.message, at_target=False) from error
        except OriginDrifted as error:
            raise _Wait(PauseReason.ORIGIN_DRIFT, error.detail, at_target=False) from error
        except RestoreNotNewer as error:  # a twin did it
            raise CheckpointMoved(collection=self.stream.collection, uri=self.ends.target.env.location.uri) from error
        self._state = restored_at(self._state, done)
        self.restores += 1
        self._count(done.rows)
        self.listen(Event("restore", self.stream.collection, note=f"{done.rows:,} row(s) of version {done.version}"))

    def _count(self, rows: int, batches: int = 0) -> None:
        self.rows += rows
        self.batches += batches
        self._is_renewed = False
        known = self._state
        self._state = replace(known, applied_rows=known.applied_rows + rows, applied_batches=known.applied_batches + batches)
        self._write()

    # --- waiting ---------------------------------------------------------------------------------------------------------------------

    def _check_open(self, table: EventTable) -> None:
        """Raise _Wait if the target's table must not be written to."""
        if table.head.sealed_for is not None:
            raise _Wait(PauseReason.TARGET_BUSY, f"the target's table is sealed for a cut-over, to {table.head.sealed_for}")
        drift = drift_of(self.ends.target.state, self.stream.collection, table.head)
        if drift:
            raise _Wait(PauseReason.TARGET_BUSY, f"the target's table is not what its ledger says: {'; '.join(drift)}")

    def _retry(self, wait: _Wait) -> bool:
        """Read the target's ledger again, if that may make a difference; else pause. Return whether to try again."""
        if wait.at_target and not self._is_renewed:
            self._renew()
            return True
        before = None if self._known is None else self._known.pause
        event = self._state.seen + 1
        same = before is not None and (before.reason, before.event_version) == (wait.reason, event)
        since = before.since if before is not None and same else pendulum.now("UTC")
        pause = Pause(wait.reason, wait.detail, since, event, wait.event_hash, wait.local_hash, self.now)
        self._state = replace(self._state, pause=pause)
        return False

    def _renew(self) -> None:
        self.now = pendulum.now("UTC")
        self.ends = self.ends.again()
        self._is_renewed = True

    def _may_pass(self, error: SchemamigError) -> bool:
        """Return whether to try again at once: after a conflict, a table that was removed meanwhile, or what comes of a twin that was
        first.
        """
        if isinstance(error, TableMissing):
            return self._look_elsewhere()
        if isinstance(error, WroteOtherColumns):  # its own statement has moved the stream
            return False
        if error.retryable:
            self._renew()
            return True
        if self._at is None:
            return False
        table, where = self._at
        try:
            return position(table.store, self.stream, where.shard) != where.own
        except TableMissing:
            return self._look_elsewhere()

    def _look_elsewhere(self) -> bool:
        """Read the ledgers again for the place of the rows; return False if that was done before."""
        known = self._is_renewed
        self._renew()
        return not known

    def _end_with(self, error: SchemamigError) -> None:
        if error.retryable:
            self._is_renewed = True
            self._retry(_Wait(PauseReason.TARGET_BUSY, str(error)))
        else:
            self._state = replace(self._state, error=error.code, detail=str(error))

    def _write(self) -> StreamState:
        """Write the stream's state if anything in it is new: an idle stream costs no write."""
        state, known = self._state, self._known
        if known is not None and state.error is None and replace(state, updated_at=known.updated_at) == known:
            return known
        self._known = self._state = replace(state, updated_at=pendulum.now("UTC"))
        write_state(self.ends.target.env, self._known)
        return self._known
