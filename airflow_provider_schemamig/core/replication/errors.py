"""Why a stream cannot go on: a gap in what it needs of its origin, a restore that would lose something."""

from __future__ import annotations

from airflow_provider_schemamig.core.names import Fingerprint
from airflow_provider_schemamig.core.schema.delta_rules.table_features import APPEND_ONLY
from airflow_provider_schemamig.exceptions import Refusal


class GapError(Refusal):
    """Events that were not brought cannot be read any more. The stream never goes on over them: it stops until it is restored."""

    code = "gap"
    next_action = "Restore the collection from its origin: the stream goes on from the version that it was restored at."


class LogCleaned(GapError):
    """``after``: the last version that was brought. ``first``: the oldest commit that the origin's log still has."""

    code = "log_cleaned"
    message = (
        "{uri} was replicated up to version {after}, and its log begins at version {first} now: the commits between are older than "
        "delta.logRetentionDuration and were cleaned up."
    )
    uri: str
    after: int
    first: int


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


class OriginReplaced(GapError):
    """The origin's rows are in another table now, and they did not come there from the one that the stream has followed."""

    code = "origin_replaced"
    message = "the origin's shard {shard} cannot be followed any further: {reason}."
    shard: str
    reason: str


class NeverRestored(GapError):
    """The target has rows, and its log does not say which of the origin's versions they are."""

    code = "never_restored"
    message = "the target has rows, but no checkpoint of a stream from {origin}: which of its commits they contain is not known."
    origin: str


class OriginDrifted(Refusal):
    """Somebody else changed the origin's columns: what rows have in those that its ledger does not know would be left out of the copy."""

    code = "origin_drifted"
    message = "the columns of the origin's table at version {version} are not those that its ledger has: {detail}."
    next_action = (
        "`accept` or `revert` the change at the origin, and restore at its newest version; or restore at one from before the change "
        "(`--version`). `--allow-schema-change` restores now, without what rows have in other columns than the ledger's."
    )
    version: int
    detail: str


class RestoreWouldLose(Refusal):
    """``commits`` of the target's own, the first of them at version ``first`` of its table ``uri``, are not at the origin.

    Or rows of a third environment ``of`` are not; ``is_followed``: the origin has a stream from there.
    """

    code = "restore_would_lose"
    uri: str
    commits: int = 0
    first: int = 0
    of: str | None = None
    is_followed: bool = False

    @property
    def message(self) -> str:
        if self.of is not None:
            return f"the target has rows of the environment {self.of} at {self.uri} that the origin does not have."
        own = f"{self.commits} commit(s) of its own, from version {self.first} of {self.uri} on"
        return f"the target has {own}, that the origin does not have."

    @property
    def next_action(self) -> str:
        if self.of is None:
            return "Bring them to the origin first, by a stream the other way round; or restore with --allow-lossy, and they are gone."
        if self.is_followed:
            again = "the target's stream brings them again"
            return f"Bring them to the origin first, by its stream from there; or restore with --allow-lossy: {again}."
        gone = "they are gone, and the target's stream from there stops"
        return f"Bring them to the origin first, by a stream from there; or restore with --allow-lossy: {gone}."


class TargetAppendOnly(Refusal):
    """A restore takes rows away, and the target's table lets nobody do that."""

    code = "target_append_only"
    message = f"the target's table at {{uri}} has rows and is append-only ({APPEND_ONLY}): they cannot be replaced."
    next_action = "Take the property away by a release of the target, restore, and set it again."
    uri: str


class TargetTakesNoRows(Refusal):
    """Nobody can bring rows to the target's table with values that it makes itself."""

    code = "target_takes_no_rows"
    message = (
        "the target's table at {uri} makes the values of {columns} itself (GENERATED ALWAYS AS IDENTITY), so it takes no row as it is."
    )
    next_action = (
        "Leave the collection out of the stream (`--collection`); or give the target a table whose column is not GENERATED ALWAYS: "
        "`unmanage` this one, and adopt or make another."
    )
    uri: str
    columns: str


class RestoreChangesSchema(Refusal):
    """The rows at ``version`` of the origin are of a schema that the target does not have, nor had before.

    Or values would be lost that an end keeps in a hidden column: ``is_hidden``.
    """

    code = "restore_changes_schema"
    version: int
    event_hash: Fingerprint
    local_hash: Fingerprint
    detail: str = ""
    is_hidden: bool = False

    @property
    def next_action(self) -> str:
        if self.is_hidden:
            return "Bring both to a release that has the column, and its values stay; --allow-schema-change gives them up."
        fits = "--allow-schema-change takes what fits into the target's columns"
        return f"Bring the target to the origin's release first, or restore at an older version (`--version`); {fits}."

    @property
    def message(self) -> str:
        if self.is_hidden:
            return f"values would be lost: {self.detail}."
        more = f" ({self.detail})" if self.detail else ""
        return f"the origin's rows at version {self.version} have the schema {self.event_hash}, the target has {self.local_hash}{more}."


class LoopingStream(Refusal):
    """Origin and target are one environment."""

    code = "looping_stream"
    message = "origin and target are the same environment ({env_id})."
    next_action = "Name two environments; one that was copied with its ledger has to be made again without it."
    env_id: str
