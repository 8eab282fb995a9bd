"""How the tasks of streams fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.replication.errors import GapError
from airflow_provider_schemamig.exceptions import Refusal

if TYPE_CHECKING:
    from airflow_provider_schemamig.core.replication.model import StreamState


class StreamStopped(Refusal):
    """A stream that does not go on by itself. ``detail``: why, and what to do."""

    code = "stream_stopped"
    message = "the stream from {origin} stopped: {detail}"
    next_action = "When that is done, clear the task."
    origin: str
    detail: str


class StreamInGap(StreamStopped, GapError):
    """A stream misses commits after its position that cannot be read any more."""

    code = GapError.code


class StillPaused(Refusal):
    """A stream that was paused for longer than the task was to wait. ``version``: of the origin's table, the first that is not brought."""

    code = "stream_paused"
    message = "the stream from {origin} has been paused since {since} at version {version}: {detail}."
    next_action = "Bring the target to the origin's release, then clear the task; the stream has kept its place."
    origin: str
    since: str
    version: int
    detail: str

    @classmethod
    def of(cls, state: StreamState) -> StillPaused:
        stream, pause = state.stream, state.pause
        assert pause is not None
        since = pause.since.to_iso8601_string()
        return cls(collection=stream.collection, origin=stream.origin, since=since, version=pause.event_version, detail=pause.detail)


def raise_stopped(states: Sequence[StreamState]) -> None:
    """Raise what the first of them stopped by; each of them told the log."""
    if not states:
        return
    state = states[0]
    is_gap = state.error in {kind.code for kind in GapError.__subclasses__()}
    kind = StreamInGap if is_gap else StreamStopped
    raise kind(collection=state.stream.collection, origin=state.stream.origin, detail=state.detail)
