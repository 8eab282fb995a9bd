"""What readers and writers have in common: a collection, the release its program was built for, and a look at both before each use."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from airflow_provider_schemamig.core.access.lease import Lease
from airflow_provider_schemamig.core.access.resolved_table import Look, look
from airflow_provider_schemamig.core.ledger.nodes import NodeKind
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Handle:
    """``release`` None: the one that the environment is at, whenever that is asked. Not for use by two threads at once.

    With ``node``, it signs on when it is made (raises what a first use would raise) and off at the end of its ``with`` block.
    """

    def __init__(
        self,
        env: EnvironmentRoot,
        collection: str,
        release: Version | None,
        spark: SparkSession | None,
        node: str | None,
        *,
        kind: NodeKind,
    ) -> None:
        self.collection = CollectionName(collection)
        self.release = release
        self.node = node
        self._env = env
        self._spark = spark
        self._ledger = LedgerReader(env)
        self._lease = Lease(env, node, kind)
        if node is not None:
            self._look()

    def _look(self) -> Look:
        seen = look(self._env, self._ledger, self.collection, self.release)
        self._lease.renew(seen.declared.release, fingerprint(seen.declared.shape.declaration))
        return seen

    def close(self) -> None:
        """Sign the node off."""
        self._lease.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
