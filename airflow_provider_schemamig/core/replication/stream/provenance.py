"""What a commit says of the origin and the schema of its rows (``commitInfo.userMetadata``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.delta.actions import LogCommit, json_object
from airflow_provider_schemamig.core.names import Fingerprint, Generation, ShardId
from airflow_provider_schemamig.core.online.unfilled import column_filled
from airflow_provider_schemamig.core.replication.model import EnvId
from airflow_provider_schemamig.core.schema.diff.renames import is_stand_in
from airflow_provider_schemamig.core.schema.fingerprint import ALGORITHM
from airflow_provider_schemamig.core.upgrade.prepare.build import FILL
from airflow_provider_schemamig.core.upgrade.prepare.transfers import COPY, ROLLBACK, TAIL

#: Our own work on a shard that brings no row to the collection: it fills or follows another shard, before this one is live or again. The
#: backfill of a column that is not in use is such work, too.
HOUSEKEEPING = frozenset({COPY, TAIL, FILL})


@dataclass(frozen=True, slots=True)
class Provenance:
    """``action``: of a commit of schemamig's own, None for writers; ``generation``: for which it was made, if for one. ``schema_hash``: of
    a writer's, see ``Stamp``."""

    action: str | None = None
    generation: Generation | None = None
    origin: EnvId | None = None
    schema_hash: Fingerprint | None = None

    @property
    def fills(self) -> str | None:
        """Return the column that a backfill gave values, as the table called it then; None for all other commits."""
        return column_filled(self.action or "")

    @property
    def is_housekeeping(self) -> bool:
        if self.fills is not None:
            return is_stand_in(self.fills)
        return self.action in HOUSEKEEPING or self.rolled_back is not None

    @property
    def rolled_back(self) -> ShardId | None:
        """Return the shard from which a rollback brought the rows, if one did."""
        kind, found, shard = (self.action or "").partition("/")
        return ShardId(shard) if found and kind == ROLLBACK else None


def provenance_of(commit: LogCommit) -> Provenance:
    """Return what a commit says of its origin; nothing, if it does not say it in our words."""
    ours = commit.about
    if ours is not None:
        generation = ours.get("generation")
        made_for = Generation(generation) if isinstance(generation, int) else None
        return Provenance(action=str(ours.get("action", "")), generation=made_for, origin=_text(ours.get("origin")))
    found = json_object(commit.user_metadata) or {}
    schema_hash = _text(found.get("schema_hash"))
    if schema_hash is None or not schema_hash.startswith(f"{ALGORITHM}:"):
        return Provenance()
    return Provenance(origin=_text(found.get("origin")), schema_hash=Fingerprint(schema_hash))


def is_event(commit: LogCommit, provenance: Provenance, env_id: str) -> bool:
    """Return whether a stream from the environment ``env_id`` brings the commit.

    It brings none that changes no row, and none that came from elsewhere: nothing is relayed.
    """
    return commit.changes_rows and not provenance.is_housekeeping and provenance.origin in (None, env_id)


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else None
