"""Where the streams into an environment stand: one overwritten object a stream.

They are for people and schedulers; what is brought next is said by the tables themselves. So one that cannot be read is in nobody's way:
its stream takes it for missing and writes it anew, ``schema status`` reports it. Only who runs a stream writes its object. What others have
to say, "look again" to all streams, and what was restored under a claim, one object each, are apart: they can neither undo nor be undone by
what is written in that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pendulum

from airflow_provider_schemamig.core import jsonable
from airflow_provider_schemamig.core.jsonable import canonical, to_json
from airflow_provider_schemamig.core.ledger.objects.nodes import file_name
from airflow_provider_schemamig.core.names import collection_name
from airflow_provider_schemamig.core.replication.model import FOLDER, ClaimedRestore, RestoredRows, Stream, StreamSettings, StreamState
from airflow_provider_schemamig.core.replication.note_errors import NoteDamaged
from airflow_provider_schemamig.core.storage import ObjectMissing, ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

T = TypeVar("T")

STREAMS = f"{FOLDER}/streams"
_WOKEN = f"{FOLDER}/woken.json"
#: Long before any software of ours ran: whatever is due some time after it is due.
_LONG_AGO = pendulum.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class _Woken:
    at: pendulum.DateTime


def write_state(env: EnvironmentRoot, state: StreamState) -> None:
    """Replace the stream's object. Raises InvalidName for an origin or a collection that is no file name."""
    env.store().put(_key(state.stream), canonical(to_json(state)).encode())


def claimed_restore(env: EnvironmentRoot, stream: Stream, claim_id: str) -> ClaimedRestore | None:
    """Return the restore of a stream that was made under a claim. Tables that were rewritten since know nothing of it."""
    key = stream.restore_key(claim_id)
    try:
        found = parsed(ClaimedRestore, key, env.store().get(key))
    except ObjectMissing:
        return None
    return found if isinstance(found, ClaimedRestore) else None


def note_restore(env: EnvironmentRoot, stream: Stream, done: RestoredRows | None, number: int) -> None:
    """Write down a restore made under a claim, so that a task cleared long after finds its own. ``number``: as of ``ClaimedRestore``."""
    if done is None or done.claim_id is None:
        return
    _key(stream)
    env.store().put(stream.restore_key(done.claim_id), canonical(to_json(ClaimedRestore(done, number))).encode())


def read_state(env: EnvironmentRoot, stream: Stream) -> StreamState | None:
    """Return what the stream's object says; None if there is none that can be read. One read, two if the stream is paused.

    A paused stream that was woken since has ``recomputed_at`` long ago: it is to work out the target's hash now. Who writes
    ``recomputed_at`` takes the time before it reads the ledger, so that no wake-up falls in between.
    """
    store = env.store()
    found = _read(store, _key(stream))
    if not isinstance(found, StreamState):
        return None
    return _woken(found, _woken_at(store)) if found.pause is not None else found


def states(env: EnvironmentRoot) -> Iterator[StreamState | NoteDamaged]:
    """Yield every stream's object, or what is wrong with it; by origin and collection, woken as in ``read_state``."""
    store = env.store()
    woken_at = _woken_at(store)
    for origin in store.folders(STREAMS):
        for name in store.names(f"{STREAMS}/{origin}"):
            found = _read(store, f"{STREAMS}/{origin}/{name}") if name.endswith(".json") else None
            if found is not None:
                yield _woken(found, woken_at) if isinstance(found, StreamState) else found


def read_states(env: EnvironmentRoot) -> tuple[StreamState, ...]:
    """Return the states that can be read, by origin and collection."""
    return tuple(state for state in states(env) if isinstance(state, StreamState))


def wake(env: EnvironmentRoot, now: pendulum.DateTime) -> None:
    """Let every stream that waits now be looked at in the next run, and not after ``StreamSettings.recompute``; one that is paused works
    out the target's hash then."""
    env.store().put(_WOKEN, canonical(to_json(_Woken(now))).encode())


def rests(env: EnvironmentRoot, state: StreamState, settings: StreamSettings, now: pendulum.DateTime) -> bool:
    """Return whether a stream that waits is left alone in this run. Who has fixed what stopped it wakes it, or starts anew."""
    return state.rests(settings, now) and not (state.error is not None and _woken_at(env.store()) >= state.updated_at)


def parsed(kind: type[T], where: str, data: bytes, decode: Callable[[Any], T] | None = None) -> T | NoteDamaged:
    """Return the value of a note, or what is wrong with it. ``decode``: as of ``jsonable.parsed``."""
    found = jsonable.parsed(kind, data, decode)
    return NoteDamaged(where=where, reason=found.reason) if isinstance(found, jsonable.Unreadable) else found


def _read(store: ReadStore, key: str) -> StreamState | NoteDamaged | None:
    try:
        found = parsed(StreamState, key, store.get(key))
    except ObjectMissing:
        return None
    if isinstance(found, StreamState) and found.stream.key != key:
        return NoteDamaged(where=key, reason=f"it is the state of another stream, {found.stream.key}", collection=found.stream.collection)
    return found


def _woken_at(store: ReadStore) -> pendulum.DateTime:
    try:
        found = parsed(_Woken, _WOKEN, store.get(_WOKEN))
    except ObjectMissing:
        return _LONG_AGO
    return found.at if isinstance(found, _Woken) else _LONG_AGO


def _woken(state: StreamState, at: pendulum.DateTime) -> StreamState:
    if state.pause is None or state.pause.recomputed_at > at:
        return state
    return replace(state, pause=replace(state.pause, recomputed_at=_LONG_AGO))


def _key(stream: Stream) -> str:
    file_name(stream.origin)
    collection_name(stream.collection)
    return stream.key
