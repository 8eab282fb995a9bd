"""The transfer of rows from one shard into another through a query, and the inputs of its Spark jobs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.delta.log.head import another_table, look_at_head
from airflow_provider_schemamig.core.names import CollectionName, ShardId
from airflow_provider_schemamig.core.release.queries.query import bind
from airflow_provider_schemamig.core.release.queries.with_column import with_column
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.exactly_once import TXN_VERSION, LinkChain

#: The column in which both queries keep for ``spark_jobs.gone_keys`` of which row one is made.
MADE_OF = "schemamig__made_of"


@dataclass(frozen=True, slots=True)
class Lookup:
    """Another collection that the query reads, at the same version for the whole rewrite."""

    collection: CollectionName
    uri: str
    table_id: str
    version: int
    projection: str


@dataclass(frozen=True, slots=True)
class RowTransfer:
    """``query`` is row-local over ``{own}``, which is the source table shown by ``projection`` (a SELECT list).

    ``columns`` are the target's, filled by name. ``match``: the target's key columns by which a changed row finds its predecessor; that
    has to be there. Empty: by the whole row, which is exact wherever the target holds just what the query gives. URIs and ids are shards',
    as in the ledger.
    """

    collection: CollectionName
    chain: LinkChain
    source: ShardId
    source_uri: str
    source_id: str
    target: ShardId
    target_uri: str
    target_id: str
    query: str
    own: CollectionName
    projection: str
    columns: tuple[str, ...]
    text_partitions: tuple[str, ...]
    lookups: tuple[Lookup, ...] = ()
    match: tuple[str, ...] = ()
    #: The flow that made the source's rows of the target's, where it is not sure that ``query`` gives each row the key back that it had.
    forward: RowTransfer | None = None
    #: The version of the target, with ``forward``, that is what the source's rows were made of: no link of the chain is in it.
    made_at: int | None = None
    #: The source version in whose columns all of its changes are read: another release may have come and gone meanwhile, and renamed them.
    #: None: each in those of its own version.
    shown_at: int | None = None

    def source_store(self, env: EnvironmentRoot) -> Store:
        return env.table_store(self.source_uri, self.source_id)

    def target_store(self, env: EnvironmentRoot) -> Store:
        return env.table_store(self.target_uri, self.target_id)

    @property
    def bound_query(self) -> str:
        """Return the query over the views of ``source_view`` and ``lookup_inputs``."""
        return self._bound(self.query)

    def query_with(self, column: str) -> dict[str, str]:
        """Return ``bound_query`` over a source with ``column`` as its first one, and the name of this column in the result."""
        query, name = with_column(self.query, self.own, column)
        return {"query": self._bound(query), "column": name}

    @property
    def source_view(self) -> str:
        return _view(self.own)

    def lookup_inputs(self, env: EnvironmentRoot) -> dict[str, Any]:
        """Return the lookups as a job's ``inputs``."""
        return {
            _view(lookup.collection): {
                "uri": env.table_location(lookup.uri).uri,
                "version": lookup.version,
                "projection": lookup.projection,
            }
            for lookup in self.lookups
        }

    def check_lookups(self, env: EnvironmentRoot) -> None:
        """Raise AnotherTable or TableMissing if a looked-up table is not there any more.

        A job knows it by its place and the number of a version alone.
        """
        for lookup in (*self.lookups, *(() if self.forward is None else self.forward.lookups)):
            store = env.table_store(lookup.uri, lookup.table_id)
            head = look_at_head(store)
            if head.is_another:
                raise another_table(store, head, lookup.collection)

    @contextlib.contextmanager
    def steady_lookups(self, env: EnvironmentRoot) -> Iterator[None]:
        """Check the looked-up tables before and after what a job does with them. Raises as ``check_lookups``."""
        self.check_lookups(env)
        yield
        self.check_lookups(env)

    def link_request(self, env: EnvironmentRoot, lo: int, hi: int) -> dict[str, Any]:
        """Return what the requests of all links have in common."""
        return {
            "collection": self.collection,
            "storage_options": dict(env.options),
            "query": self.bound_query,
            "columns": list(self.columns),
            "text_partitions": list(self.text_partitions),
            "txn_app_id": self.chain.txn_app_id(lo),
            "txn_version": TXN_VERSION,
            "user_metadata": self.chain.user_metadata(lo, hi),
        }

    def there_and_back(self, env: EnvironmentRoot) -> dict[str, Any] | None:
        """Return what a job needs to ask of rows of the target whether both queries give their keys back; None: that is sure."""
        forward = self.forward
        if forward is None:
            return None
        return {
            "query": forward.bound_query,
            "source_view": forward.source_view,
            "projection": forward.projection,
            "inputs": forward.lookup_inputs(env),
            "columns": list(forward.columns),
            "made_at": self.made_at,
            "there": forward.query_with(MADE_OF),
            "back": self.query_with(MADE_OF),
        }

    def over(self, env: EnvironmentRoot, source: Mapping[str, Any]) -> dict[str, Any]:
        """Return the ``inputs`` of a query over ``source`` ({"uri", "version"}) in place of the whole source table."""
        return {self.source_view: {**source, "projection": self.projection}, **self.lookup_inputs(env)}

    def _bound(self, query: str) -> str:
        return bind(query, {self.own: self.source_view, **{lookup.collection: _view(lookup.collection) for lookup in self.lookups}})


def _view(collection: CollectionName) -> str:
    return f"schemamig_{collection}"
