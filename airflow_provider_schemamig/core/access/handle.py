"""What readers and writers have in common: a collection, the release its program was built for, and a look at both before each use."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self
from weakref import WeakSet

import pendulum

from airflow_provider_schemamig.core.access.errors import InvalidArgument
from airflow_provider_schemamig.core.access.resolved_table import Resolution, look
from airflow_provider_schemamig.core.ledger.objects.nodes import Node, NodeKind, remove_heartbeat, write_heartbeat
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Fingerprint, Version
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.storage import place_of
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
        if spark is not None and not hasattr(spark, "sql"):
            raise InvalidArgument(what="spark", given=f"a {type(spark).__name__}", rule="a SparkSession, classic or Connect")
        for what, given, taken, rule in (
            ("collection", collection, str, "its name as a text"),
            ("release", release, Version | None, "a version as a text (1.2.0), or None"),
            ("node", node, str | None, "a name as a text, or None"),
        ):
            if not isinstance(given, taken):
                raise InvalidArgument(what=what, given=f"a {type(given).__name__}", rule=rule)
        self.collection = CollectionName(collection)
        self.release = release
        self.node = node
        self._env = env
        self._spark = spark
        self._ledger = LedgerReader(env)
        self._lease = Lease(env, node, kind)
        if node is not None:
            self._look()

    def _look(self) -> Resolution:
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


#: How long a node counts as alive after its last use of a handle. A day's job that takes longer between two calls signs on again.
LEASE = pendulum.duration(minutes=15)
#: A lease is renewed by the first call after this.
_RENEWAL = pendulum.duration(minutes=1)


class _SignedOn:
    """The leases of this process that are signed on, by the environment's place and the node."""

    def __init__(self) -> None:
        self._leases: dict[tuple[str, str], WeakSet[Lease]] = {}
        self.take_another_lock()

    def take_another_lock(self) -> None:
        """Take another lock: in a process that was forked nobody frees one that another thread of its parent held."""
        self.lock = threading.Lock()

    def of(self, env: EnvironmentRoot, node_id: str) -> WeakSet[Lease]:
        return self._leases.setdefault((place_of(env.location), node_id), WeakSet())


_SIGNED_ON = _SignedOn()
os.register_at_fork(after_in_child=_SIGNED_ON.take_another_lock)


@dataclass(eq=False)
class Lease:
    """``node_id`` None: nobody is told. Handles of one process may have one node: it is signed off by the last of them that ends."""

    env: EnvironmentRoot
    node_id: str | None
    kind: NodeKind
    _renewed_at: pendulum.DateTime | None = field(default=None, init=False)
    #: The release that was signed on with, and when.
    _began: tuple[Version, pendulum.DateTime] | None = field(default=None, init=False)
    #: The process that signed on: one that was forked has a copy.
    _process: int = field(default=0, init=False)

    def renew(self, release: Version, schema_hash: Fingerprint) -> None:
        """Renew the lease; every use calls this. Raises InvalidName for a node id that is no file name."""
        now = pendulum.now("UTC")
        if self.node_id is None or (self._renewed_at is not None and now - self._renewed_at < _RENEWAL):
            return
        if self._began is None or self._began[0] != release:
            self._began = (release, now)
        with _SIGNED_ON.lock:  # before the heartbeat, which another one that ends meanwhile would remove
            _SIGNED_ON.of(self.env, self.node_id).add(self)
        write_heartbeat(self.env, Node(self.node_id, self.kind, release, schema_hash, now + LEASE, self._began[1]))
        self._renewed_at, self._process = now, os.getpid()

    def end(self) -> None:
        """Sign off; signing on again is the next use."""
        self._renewed_at = self._began = None
        if self.node_id is None:
            return
        with _SIGNED_ON.lock:
            others = _SIGNED_ON.of(self.env, self.node_id)
            if self._process not in (0, os.getpid()):
                return  # a copy of a handle that its parent may still have
            others.discard(self)
            for other in others:  # the heartbeat that stays may be of this one: the next use writes its own
                other._renewed_at = None
            if not others:
                remove_heartbeat(self.env, self.node_id)


def check_names(what: str, names: Sequence[str]) -> None:
    """Raise InvalidArgument for what is no list of columns: a text would be taken letter by letter, and of no column there is no row."""
    is_list = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not is_list or (what == "columns" and not names) or len({name.lower() for name in names}) < len(names):
        raise InvalidArgument(what=what, given=f"{names!r}", rule="a list of the release's columns, each once")
