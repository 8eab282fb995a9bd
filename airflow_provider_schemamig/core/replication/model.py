"""The words of replication: a stream, where it stands, why it waits.

A *stream* brings one collection from one environment, its *origin*, to another one, its *target*. What it brings are *events*: one commit
of the origin's table each, in order. How far it has come is said by the target's table itself, by Delta's transaction identifiers, so a
row and the note that it was brought are one commit. What is kept beside it, here, is for people, and for what is not in that log.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NewType

import pendulum

from airflow_provider_schemamig.core.names import STREAM_PREFIX, CollectionName, Fingerprint, ShardId
from airflow_provider_schemamig.core.storage.own_places import REPLICAS

#: ``config.env_id`` of an environment's ledger.
EnvId = NewType("EnvId", str)

#: Overwritten objects, like heartbeats: one a stream (written by the target's runner), one a node, one a schema's content.
FOLDER = REPLICAS


@dataclass(frozen=True, slots=True)
class Stream:
    origin: EnvId
    target: EnvId
    collection: CollectionName

    @property
    def key(self) -> str:
        """Return the key of the stream's state, below the target's root."""
        return f"{FOLDER}/streams/{self.origin}/{self.collection}.json"

    def restore_key(self, claim_id: str) -> str:
        """Return the key of the object about the stream's restore under a claim. A claim id is no file name by itself."""
        name = hashlib.sha256(claim_id.encode()).hexdigest()[:32]
        return f"{FOLDER}/restores/{self.origin}/{self.collection}/{name}.json"

    def txn_app_id(self, shard: ShardId) -> str:
        """Return the application id of the stream's checkpoint, whose transaction version is a version of ``shard``, the origin's table."""
        return f"{self.txn_prefix}{shard}"

    @property
    def txn_prefix(self) -> str:
        """Return what the application ids of all of the origin's tables begin with."""
        return f"{STREAM_PREFIX}{self.origin}:"


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How far a stream may lag in schemas, and how long it waits for what."""

    #: How many hashes before the current one are accepted.
    depth: int = 1
    #: Until a paused stream is looked at again.
    retry: timedelta = timedelta(seconds=30)
    #: Until the target's own hash is worked out again while a stream is paused; the first time at once.
    recompute: timedelta = timedelta(minutes=5)
    #: After which a node that was not heard of is marked.
    stale: timedelta = timedelta(minutes=5)
    #: Until who follows looks for a new commit again, after it found none; how far a quiet stream falls behind at least.
    poll: timedelta = timedelta(seconds=3)


class PauseReason(StrEnum):
    #: The target does not have the event's schema, nor had it, and the event does not fit what it has.
    SCHEMA_MISMATCH = "schema_mismatch"
    #: The origin's table was changed by somebody else than a release: no row of its ledger says what the event is.
    ORIGIN_DRIFT = "origin_drift"
    #: The target's table is sealed, or is not what its ledger says.
    TARGET_BUSY = "target_busy"


@dataclass(frozen=True, slots=True)
class Pause:
    """Why a stream waits. ``event_version``: the first commit of the origin that is not brought."""

    reason: PauseReason
    detail: str
    since: pendulum.DateTime
    event_version: int
    event_hash: Fingerprint | None
    local_hash: Fingerprint | None
    recomputed_at: pendulum.DateTime


@dataclass(frozen=True, slots=True)
class RestoredRows:
    """``version``: of the origin's table ``shard``, which the target's then was equal to, and its commit's hash. ``table_version``: of the
    target's, with the rows in it. ``claim_id``: what it was made under."""

    shard: ShardId
    version: int
    table_version: int
    rows: int
    commit_hash: str
    claim_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimedRestore:
    """What was restored under a claim. ``number``: which of the stream's restores it was, by its object, or one of those before."""

    rows: RestoredRows
    number: int


@dataclass(frozen=True, slots=True)
class StreamState:
    """What a stream's object says; for people and schedulers, never for what is brought.

    ``seen``: up to this version of the origin's ``shard`` there is nothing for the target but what ``checkpoint`` includes: commits that
    change no row, or that came from elsewhere. It counts only while the table's own checkpoint is still ``checkpoint``.
    """

    stream: Stream
    shard: ShardId
    checkpoint: int
    seen: int
    updated_at: pendulum.DateTime
    #: Of the origin's table, when it was last looked at.
    origin_version: int
    #: When the first commit that is not brought was made; None: all are.
    behind_since: pendulum.DateTime | None
    pause: Pause | None = None
    #: The code of what stopped it for good (a gap), and its message; None if nothing did.
    error: str | None = None
    detail: str = ""
    #: While there is still time: what will be a gap, and when.
    warning: str = ""
    applied_rows: int = 0
    applied_batches: int = 0
    restores: int = 0
    #: Of the origin's commit ``seen``, which another log of the same length does not have; "": not known.
    commit_hash: str = ""
    #: The version of the target's table that its last restore made; None: there was none, or nobody could write it down.
    restored_as: int | None = None

    @property
    def waits(self) -> bool:
        """Return whether the stream is paused, or stopped for good: then what is behind stays behind until somebody does something."""
        return self.pause is not None or self.error is not None

    def rests(self, settings: StreamSettings, now: pendulum.DateTime) -> bool:
        """Return whether a stream that waits is left alone in this run: it is tried again only now and then, a mismatch more seldom."""
        if self.pause is not None:
            interval = settings.recompute if self.pause.reason is PauseReason.SCHEMA_MISMATCH else settings.retry
            return self.pause.recomputed_at + interval > now
        return self.error is not None and self.updated_at + settings.recompute > now

    @property
    def lag_versions(self) -> int:
        return max(self.origin_version - self.seen, 0)

    def lag_seconds(self, now: pendulum.DateTime) -> float:
        return 0.0 if self.behind_since is None else max((now - self.behind_since).total_seconds(), 0.0)
