"""One look at a collection: what the handle's release declares, where the rows are, and the table's head at that moment."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.core.access.errors import ShardMoving
from airflow_provider_schemamig.core.access.field_ids import Shape, live_shape
from airflow_provider_schemamig.core.access.file_statistics import LogEvidence
from airflow_provider_schemamig.core.access.read_mapping import Unfit
from airflow_provider_schemamig.core.access.releases import Declared, declared_by, live_shard
from airflow_provider_schemamig.core.access.rewritten import seen_from
from airflow_provider_schemamig.core.delta.log.head import Head, TableMissing, another_table, look_or_none
from airflow_provider_schemamig.core.ledger.rows import DeploymentState, Shard
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.merge.merged import RewriteStep
from airflow_provider_schemamig.core.schema.diff.drift import live_differences
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """A table at one version."""

    shard: Shard
    store: ReadStore
    head: Head
    #: Its columns, as the table names them and as the handle's release may know them.
    live: Shape
    state: State

    @property
    def uri(self) -> str:
        return self.head.location.uri

    def evidence(self) -> LogEvidence:
        return LogEvidence(self.store, self.head, Shape(self.live.declaration, self.head.stored_names), self.state, self.shard.shard)


@dataclass(frozen=True, slots=True)
class Resolution:
    """``place`` None: there is no such table (any more, or yet)."""

    declared: Declared
    place: PinnedTable | None
    state: State

    @property
    def is_preview(self) -> bool:
        """Return whether the release is in preparation, and will have rewritten the collection."""
        return self.declared.planned is not None and isinstance(self.declared.planned.step, RewriteStep)

    @property
    def under_way(self) -> Version | None:
        """Return the release that an upgrade under way leads to."""
        found = [item.target for item in self.state.deployments.values() if item.state is DeploymentState.PROMOTED]
        return found[0] if found else None

    @property
    def is_left_behind(self) -> bool:
        """Return whether the ledger knows the table to be other than its release declares because of a rollback, not of an ``alter``."""
        collection = self.declared.shape.declaration.name
        if self.declared.release != self.declared.current or collection not in self.state.objects or self.state.unreleased_of(collection):
            return False
        entry = self.state.entry(collection)
        return bool(live_differences(entry.declared, entry.physical))

    @property
    def gone(self) -> str:
        """Return in words how the table came to lack a column of the release."""
        return "was created when the collection was rewritten, replaced or adopted anew" if self._is_elsewhere else "was dropped"

    def table(self) -> PinnedTable:
        """Return the table, if it is one that the release may use at all. Raises Unfit, about no column."""
        if self.declared.awaits_table:
            raise Unfit("", "gets its table at the cut-over")
        if self.place is None:
            raise Unfit("", "was removed")
        if self._is_elsewhere and self.declared.is_later:
            raise Unfit("", "has its rows in another table until then")
        return self.place

    @property
    def _is_elsewhere(self) -> bool:
        """Return whether the rows are in another table than the one the release was declared for."""
        return self.place is not None and self.declared.shard != self.place.shard.shard


def look(env: EnvironmentRoot, ledger: LedgerReader, collection: CollectionName, release: Version | None) -> Resolution:
    """Read ledger and table as they were together.

    A table that is sealed, gone or another one may have been replaced since the ledger was read: then the ledger is read again. Raises what
    ``declared_by`` raises, TableMissing, AnotherTable, NoEnvironment, ShardMoving.
    """
    state = ledger.state()
    for _ in range(_ROUNDS):
        declared = declared_by(env, state, collection, release)
        shard = live_shard(state, collection, declared.shard)
        if shard is None:
            return Resolution(declared, None, state)
        store = env.table_store(shard.uri, shard.table_id)
        head = look_or_none(store)
        if head is None or head.is_another or head.sealed_for is not None:
            again = ledger.state()
            now = live_shard(again, collection, declared.shard)
            if now is None or (now.shard, now.table_id) != (shard.shard, shard.table_id):
                state = again
                continue
        if head is None:
            raise TableMissing(collection=collection, uri=store.location.uri)
        if head.is_another:
            raise another_table(store, head, collection)
        return Resolution(declared, _place(env, state, declared, shard, store, head), state)
    raise ShardMoving(collection=collection, seconds=0)


def _place(env: EnvironmentRoot, state: State, declared: Declared, shard: Shard, store: ReadStore, head: Head) -> PinnedTable:
    live = live_shape(head, shard.collection)
    if declared.shard is not None and declared.shard != shard.shard and not declared.is_later:
        live = seen_from(env, state, live, shard.shard, declared.shard)
    return PinnedTable(shard, store, head, live, state)
