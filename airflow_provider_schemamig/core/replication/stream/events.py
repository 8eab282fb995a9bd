"""The events of a stream: what the origin's table has committed after a version, one batch at a time.

An event is one commit that changed rows. Which schema it is of is said by its writer, if that is one of ours, else by the ledger's row for
the table at that version, never by the table's own schema: that knows no keys, and shows columns that no release declares. Reading only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto

import pendulum

from airflow_provider_schemamig.core.delta.actions import LogCommit
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.head import look_at_head
from airflow_provider_schemamig.core.delta.log.listing import list_from
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, Fingerprint, ShardId
from airflow_provider_schemamig.core.replication.errors import LogCleaned, OriginReplaced
from airflow_provider_schemamig.core.replication.stream.columns import Columns, OriginDrift, entry_at
from airflow_provider_schemamig.core.replication.stream.provenance import Provenance, is_event, provenance_of
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.retention import made_at
from airflow_provider_schemamig.core.upgrade.plan.live_tables import id_drift

__all__ = ["EventBatch", "FoundEvents", "OriginDrift", "entry_at", "newest_version", "next_events", "row_of"]


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events that are brought together: the commits after ``lo`` up to ``hi`` of the origin's ``shard``, all of one schema (``entry``)
    under one metaData of the table, all by writers or all by one backfill. ``lo + 1`` and ``hi`` are events; between them there may be
    commits that change no row.

    ``lo`` is not where the stream stands: commits before it may have been passed over. ``commits``: the number of events. ``before``: the
    schema that the table had until it got ``entry``; None if it began with that. ``fills``: the column, as the table calls it, of which
    the origin's own backfill gave its rows values; it changed nothing else. ``absent``: fields of ``entry`` that the table did not have
    yet: of an upgrade under way then, or of changes that were accepted later.
    """

    collection: CollectionName
    shard: ShardId
    lo: int
    hi: int
    entry: SchemaEntry
    before: SchemaEntry | None
    fingerprint: Fingerprint
    commits: int
    fills: str | None = None
    absent: frozenset[ColumnPath] = frozenset()


@dataclass(frozen=True, slots=True)
class FoundEvents:
    """``seen``: up to there, the batch's ``lo`` if there is one, nothing is to be brought. ``head_version``: of the origin's table.

    ``behind_since``: when the first commit after ``seen`` that is to be brought was made; None: there is none, or none says when.
    ``drift``: what the next commit is held up by, and ``waits``: that it waits for the end of an upgrade of the origin, in words; neither
    with a batch, because what lies before is brought first. ``forgotten``: tables that the origin's ledger does not know any more, and
    from which rollbacks brought rows back up to ``seen``.
    """

    batch: EventBatch | None
    seen: int
    head_version: int
    behind_since: pendulum.DateTime | None = None
    drift: OriginDrift | None = None
    waits: str = ""
    forgotten: frozenset[ShardId] = frozenset()


def next_events(
    env: EnvironmentRoot, state: State, collection: CollectionName, shard: ShardId, after: int, *, limit: int = 1000
) -> FoundEvents:
    """Return the next batch of ``shard`` after version ``after``, at most ``limit`` commits long.

    ``state``: of the origin's ledger, read after the stream came to ``after``; read anew here if an upgrade has changed the table since.
    If nothing was committed, the cost is one listing. Raises LogCleaned, OriginReplaced, TableMissing, LogDamaged.
    """
    row = row_of(state, shard)
    store = env.table_store(row.uri, row.table_id)
    newest = newest_version(store, row, after)
    if newest <= after:
        return FoundEvents(None, after, newest)
    astray = _id_drift(store, row, after)
    if astray is not None:
        return FoundEvents(None, after, newest, made_at(store, after, newest), drift=astray)
    try:
        return _Scan(env, state, store, collection, shard, after, newest, limit).run()
    except LogTruncated as error:  # cleaned up while it was read
        newest_version(store, row, after)
        raise error


def newest_version(store: ReadStore, shard: Shard, after: int) -> int:
    """Return the newest version to be brought, of a retired table the one that retired it.

    What got through its seal is in no other table. Raises LogCleaned if the commit after ``after`` is gone, OriginReplaced if the log has
    not even come to ``after``, TableMissing.
    """
    try:
        files = list_from(store, after)
    except LogTruncated as error:
        raise OriginReplaced(
            collection=shard.collection, shard=shard.shard, reason=f"its log ends before version {after}, so the table is another one"
        ) from error
    if files.version > after and after + 1 not in files.commits:
        first = min((version for version in files.commits if version > after), default=files.version)
        raise LogCleaned(collection=shard.collection, uri=store.location.uri, after=after, first=first)
    if shard.state is ShardState.RETIRED and shard.sealed_version is not None:
        return min(files.version, shard.sealed_version)
    return files.version


def row_of(state: State, shard: ShardId) -> Shard:
    """Return the ledger's row of a shard. Raises OriginReplaced for a shard that was contracted."""
    row = state.shards.get(shard)
    if row is None:
        raise OriginReplaced(shard=shard, reason="it was removed when the hold of the release that took its place was over")
    return row


def _id_drift(store: ReadStore, row: Shard, after: int) -> OriginDrift | None:
    """Return the drift of all versions after ``after`` if the table goes by another id; else None.

    Raises OriginReplaced for another table, because its versions are others.
    """
    head = look_at_head(store)
    found = id_drift(row, head)
    if head.is_another:
        raise OriginReplaced(collection=row.collection, shard=row.shard, reason=found[0])
    return OriginDrift(after + 1, found) if found else None


class _Passed(Enum):
    """Commits that are no events."""

    NO_ROWS = auto()
    #: Its rows came from another environment, or from another shard of the collection: a batch ends before it.
    NOT_OURS = auto()


@dataclass
class _Scan:
    """One look at the commits after ``after`` up to ``newest``."""

    env: EnvironmentRoot
    state: State
    store: ReadStore
    collection: CollectionName
    shard: ShardId
    after: int
    newest: int
    limit: int
    _columns: Columns = field(init=False)
    #: The ledger, read anew once an upgrade is found in the log that the first state may not know.
    _newest: State | None = field(init=False, default=None)
    _forgotten: set[ShardId] = field(init=False, default_factory=set)

    def run(self) -> FoundEvents:
        return replace(self._scan(), forgotten=frozenset(self._forgotten))

    def _scan(self) -> FoundEvents:
        self._columns = Columns(self.store, self.state, self.shard, self.newest)
        drift = self._columns.begin(self.after)
        if drift is not None:
            return FoundEvents(None, self.after, self.newest, made_at(self.store, self.after, self.newest), drift=drift)
        batch: EventBatch | None = None
        for commit in commits(self.store, self.after, self.newest):
            if batch is not None and commit.metadata is not None:
                break
            made = provenance_of(commit)
            found = self._look(commit, made)
            if isinstance(found, _Passed):
                if batch is not None and found is _Passed.NOT_OURS:
                    break
                self._pass(commit, made)
                continue
            if batch is None:
                if not isinstance(found, SchemaEntry):
                    return self._held_up(commit, found)
                batch = self._begin(commit, found, made.fills)
            elif (found, made.fills) != (batch.entry, batch.fills) or commit.version - batch.lo > self.limit:
                break
            else:
                batch = replace(batch, hi=commit.version, commits=batch.commits + 1)
        if batch is None:
            return FoundEvents(None, self.newest, self.newest)
        return FoundEvents(batch, batch.lo, self.newest, made_at(self.store, batch.lo, self.newest))

    def _pass(self, commit: LogCommit, made: Provenance) -> None:
        rolled_back = made.rolled_back if commit.changes_rows else None
        if rolled_back is not None and rolled_back not in self.state.shards:
            self._forgotten.add(rolled_back)

    def _look(self, commit: LogCommit, made: Provenance) -> SchemaEntry | OriginDrift | str | _Passed:
        """Return an event's schema, or why the commit is no event, or why nobody can tell."""
        drift = None if commit.metadata is None else self._take(commit)
        if drift is not None:
            return drift
        if not commit.changes_rows:
            return _Passed.NO_ROWS
        if made.fills is not None and self._columns.was_rolled_back(commit.version):
            return _Passed.NOT_OURS
        return self._schema(commit, made) if is_event(commit, made, self.state.config.env_id) else _Passed.NOT_OURS

    def _take(self, commit: LogCommit) -> OriginDrift | None:
        """Take a commit with metadata into the columns' history, and return the drift it makes, if any.

        Intents are written before a table is touched, so the ledger as it is now knows what the commit was made for.
        """
        if self._newest is None and provenance_of(commit).action is not None:
            self._newest = LedgerReader(self.env).state()
            self._columns.renew(self._newest)
        return self._columns.take(commit)

    def _schema(self, commit: LogCommit, provenance: Provenance) -> SchemaEntry | OriginDrift | str:
        """Return the event's schema; or why nobody can tell it: for good, or until the upgrade is over."""
        entry = self._columns.entry(commit.version)
        if entry is not None and entry.since_table_version == commit.version and commit.metadata is None:
            # A release that needed no commit on the table: what was the newest one when it was made is of the schema before.
            entry = self._columns.entry(commit.version - 1) or entry
        if entry is None:
            return OriginDrift(commit.version, ("no schema in the ledger is as old",))
        lost = self._columns.lost(commit.version)
        if lost is not None:
            return lost
        written = None if provenance.schema_hash is None else self._columns.written_as(provenance.schema_hash, commit.version)
        if written is None and self._columns.in_flight(commit.version):
            return f"an upgrade of the origin is under way: in which schema version {commit.version} was written is known when it is over"
        if written is None:
            return self._columns.shown(entry, commit.version)
        if self._columns.hash_of(entry) == provenance.schema_hash:
            return entry
        by_value = _overwrites(commit) or (not entry.declared.primary_key and _removes_rows(commit))
        if by_value or self._columns.default_changed(written, entry):
            return self._columns.shown(entry, commit.version)
        return written

    def _begin(self, commit: LogCommit, entry: SchemaEntry, fills: str | None) -> EventBatch:
        lo, hi = commit.version - 1, commit.version
        before = entry_at(self._newest or self.state, self.shard, entry.since_table_version - 1)
        hash_, absent = self._columns.hash_of(entry), self._columns.absent(entry)
        return EventBatch(self.collection, self.shard, lo, hi, entry, before, hash_, 1, fills, absent)

    def _held_up(self, commit: LogCommit, by: OriginDrift | str) -> FoundEvents:
        seen = commit.version - 1
        since = made_at(self.store, seen, self.newest)
        if isinstance(by, OriginDrift):
            return FoundEvents(None, seen, self.newest, since, drift=by)
        return FoundEvents(None, seen, self.newest, since, waits=by)


def _removes_rows(commit: LogCommit) -> bool:
    """Return whether rows go or change. Without a key those come as rows that go and others that come, with all their values: an older
    release's writer leaves newer columns as they are, and no row of its own schema tells what they have."""
    return any(file.get("dataChange", True) for file in commit.removes)


def _overwrites(commit: LogCommit) -> bool:
    """Return whether a commit puts its rows instead of all others.

    If an older release's writer does that, it takes newer columns' values away, too, and no row of its own schema tells of that.
    """
    return (commit.info.get("operationParameters") or {}).get("mode") == "Overwrite"
