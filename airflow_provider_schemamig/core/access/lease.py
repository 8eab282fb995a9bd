"""A handle's sign of life, so that the end of a hold knows who still works with the release before."""

from __future__ import annotations

from dataclasses import dataclass, field

import pendulum

from airflow_provider_schemamig.core.ledger.nodes import Node, NodeKind, remove_heartbeat, write_heartbeat
from airflow_provider_schemamig.core.names import Fingerprint, Version
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

#: How long a node counts as alive after its last use of a handle. A day's job that takes longer between two calls signs on again.
LEASE = pendulum.duration(minutes=15)
#: A lease is renewed by the first call after this.
_RENEWAL = pendulum.duration(minutes=1)


@dataclass
class Lease:
    """``node_id`` None: nobody is told."""

    env: EnvironmentRoot
    node_id: str | None
    kind: NodeKind
    _renewed_at: pendulum.DateTime | None = field(default=None, init=False)
    #: The release that was signed on with, and when.
    _began: tuple[Version, pendulum.DateTime] | None = field(default=None, init=False)

    def renew(self, release: Version, schema_hash: Fingerprint) -> None:
        """To be called with every use. Raises InvalidName for a node id that is no file name."""
        now = pendulum.now("UTC")
        if self.node_id is None or (self._renewed_at is not None and now - self._renewed_at < _RENEWAL):
            return
        if self._began is None or self._began[0] != release:
            self._began = (release, now)
        write_heartbeat(self.env, Node(self.node_id, self.kind, release, schema_hash, now + LEASE, self._began[1]))
        self._renewed_at = now

    def end(self) -> None:
        """Sign off; signing on again is the next use."""
        if self.node_id is not None:
            remove_heartbeat(self.env, self.node_id)
        self._renewed_at = self._began = None
