"""Why a stream cannot go on: a gap in what it needs of its origin, a restore that would lose something."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.core.names import Fingerprint
from airflow_provider_schemamig.exceptions import Refusal


@dataclass(eq=False)
class GapError(Refusal):
    """Events that were not brought cannot be read any more. The stream never goes on over them: it stops until it is restored."""

    code = "gap"

    @property
    def next_action(self) -> str:
        return "Restore the collection from its origin: the stream goes on from the version that it was restored at."


@dataclass(eq=False)
class LogCleaned(GapError):
    """``after``: the last version that was brought. ``first``: the oldest commit that the origin's log still has."""

    code = "log_cleaned"
    uri: str
    after: int
    first: int

    @property
    def message(self) -> str:
        return (
            f"all up to version {self.after} of {self.uri} was brought, and its log begins at version {self.first} now: "
            "delta.logRetentionDuration is over for what lies between."
        )


@dataclass(eq=False)
class ChangeDataVacuumed(GapError):
    """``lo``, ``hi``: the commits after ``lo`` up to ``hi`` were to be brought next. ``file``: one that they need."""

    code = "change_data_vacuumed"
    uri: str
    lo: int
    hi: int
    file: str

    @property
    def message(self) -> str:
        return f"versions {self.lo + 1} to {self.hi} of {self.uri} cannot be read any more: VACUUM took {self.file}."


@dataclass(eq=False)
class ChangeFeedOff(GapError):
    """As ``ChangeDataVacuumed``, for commits made while the change data feed was off, whose changes only the data files tell."""

    code = "change_feed_off"
    uri: str
    lo: int
    hi: int
    file: str

    @property
    def message(self) -> str:
        return (
            f"the change data feed of {self.uri} was off in versions {self.lo + 1} to {self.hi}, and VACUUM took {self.file}, "
            "which tells of their changes instead."
        )


@dataclass(eq=False)
class OriginReplaced(GapError):
    """The origin's rows are in another table now, and they did not come there from the one that the stream has followed."""

    code = "origin_replaced"
    shard: str
    reason: str

    @property
    def message(self) -> str:
        return f"the origin's shard {self.shard} cannot be followed any further: {self.reason}."


@dataclass(eq=False)
class NeverRestored(GapError):
    """The target has rows, and its log does not say which of the origin's versions they are."""

    code = "never_restored"
    origin: str

    @property
    def message(self) -> str:
        return f"the target has rows, but no checkpoint of a stream from {self.origin}: which of its commits they contain is not known."


@dataclass(eq=False)
class RestoreWouldLose(Refusal):
    """``commits`` of the target's own, the first of them at version ``first`` of its table ``uri``, are not at the origin."""

    code = "restore_would_lose"
    uri: str
    commits: int
    first: int

    @property
    def message(self) -> str:
        since = f"from version {self.first} of {self.uri} on"
        return f"the target has {self.commits} commit(s) of its own, {since}, that the origin does not have."

    @property
    def next_action(self) -> str:
        return "Bring them to the origin first, by a stream the other way round; or restore with allow_lossy, and they are gone."


@dataclass(eq=False)
class TargetAppendOnly(Refusal):
    """A restore takes rows away, and the target's table lets nobody do that."""

    code = "target_append_only"
    uri: str

    @property
    def message(self) -> str:
        return f"the target's table at {self.uri} has rows and is append-only (delta.appendOnly): they cannot be replaced."

    @property
    def next_action(self) -> str:
        return "Take the property away by a release of the target, restore, and set it again."


@dataclass(eq=False)
class RestoreChangesSchema(Refusal):
    """The rows at ``version`` of the origin are of a schema that the target does not have, nor had before."""

    code = "restore_changes_schema"
    version: int
    event_hash: Fingerprint
    local_hash: Fingerprint
    detail: str = ""

    @property
    def message(self) -> str:
        more = f" ({self.detail})" if self.detail else ""
        return f"the origin's rows at version {self.version} have the schema {self.event_hash}, the target has {self.local_hash}{more}."

    @property
    def next_action(self) -> str:
        return (
            "Bring the target to the origin's release first, or restore at an older version; allow_schema_change takes what fits into the "
            "target's columns."
        )


@dataclass(eq=False)
class LoopingStream(Refusal):
    """Origin and target are one environment."""

    code = "looping_stream"
    env_id: str

    @property
    def message(self) -> str:
        return f"origin and target are the same environment ({self.env_id})."

    @property
    def next_action(self) -> str:
        return "Name two environments; one that was copied with its ledger has to be initialised anew."
