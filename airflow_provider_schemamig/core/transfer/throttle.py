"""How fast work may go: what people said in the ledger (pause, throttle, hours), looked at before every batch, and inside the appends by
which a release is promoted, sealed and committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pendulum

from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, Update
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.progress import Event, Listener
from airflow_provider_schemamig.core.times import minute
from airflow_provider_schemamig.core.transfer.errors import Paused

T = TypeVar("T")

#: Scope of a control that speaks for all collections.
EVERYWHERE = "*"
#: The most that is made one batch, which is one Spark statement.
BATCH_FILES = 256
BATCH_BYTES = 16 * 2**30
#: A pause takes hold, and a kill costs, no more than the batch that is in flight: so long for its rows.
_BATCH_SECONDS = 10.0
#: What a statement takes on a warm local Spark without its rows (measured, `make bench`: copy), until two batches tell.
_START_SECONDS = 2.0
_FIRST_BYTES = 32 * 2**20
_LEAST_BYTES = 2**20
_STRIDE = 4
_UNLIKE = 1.5
_LOOK_SECONDS = 5.0
_SAY_SECONDS = 30.0


def control_of(state: State, collection: CollectionName) -> Control:
    """Combine what was said for the collection and for all: the stricter of the two.

    Of two windows it has the collection's, though both have to be open.
    """
    mine, all_ = _controls(state, collection)
    return Control(
        scope=collection,
        paused=mine.paused or all_.paused,
        rows_per_second=_least(mine.rows_per_second, all_.rows_per_second),
        max_files=_least(mine.max_files, all_.max_files),
        commits_per_minute=_least(mine.commits_per_minute, all_.commits_per_minute),
        window=mine.window or all_.window,
    )


def _controls(state: State, collection: CollectionName) -> tuple[Control, Control]:
    return state.controls.get(collection, Control(collection)), state.controls.get(EVERYWHERE, Control(EVERYWHERE))


def _least(one: int | None, other: int | None) -> int | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)


def is_open(window: tuple[int, int] | None, now: pendulum.DateTime) -> bool:
    """Return whether a batch may begin at ``now``; (22, 6) is from 22:00 to 06:00 UTC."""
    if window is None:
        return True
    first, last = window
    hour = now.in_timezone("UTC").hour
    return first <= hour < last if first <= last else hour >= first or hour < last


#: What keeps work waiting: key of a control -> why, in words.
Waits = Mapping[str, str]


def batch_waits(state: State, collection: CollectionName, now: pendulum.DateTime) -> Waits:
    """Return what keeps a batch from beginning at ``now``: pauses, then hours."""
    return {**step_waits(state, [collection]), **_waits(state, [EVERYWHERE, collection], now)}


def step_waits(state: State, collections: Iterable[CollectionName]) -> Waits:
    """Return the pauses that keep ``collections`` from being promoted, sealed or committed, or a live table of theirs from being
    changed."""
    return _waits(state, [EVERYWHERE, *collections], None) if state.controls else {}


def last_step_waits(state: State, collection: CollectionName) -> Waits:
    """Return what keeps the last step of an online change from being made."""
    return _waits(state, [last_step_key(EVERYWHERE), last_step_key(collection)], None)


def last_step_key(scope: str) -> str:
    """Return the key of the control of the last step of a collection's online changes, or (``*``) of all."""
    return Control(scope, last_step=True).key


def _waits(state: State, keys: Iterable[str], now: pendulum.DateTime | None) -> Waits:
    """Return why work at these keys waits. ``now`` None: hours do not count."""
    found = {key: _why(state.controls.get(key), now) for key in keys}
    return {key: why for key, why in found.items() if why is not None}


def _why(control: Control | None, now: pendulum.DateTime | None) -> str | None:
    if control is None:
        return None
    if control.paused:
        return _paused(control)
    return f"waits for {_hours(control.window)}" if now is not None and not is_open(control.window, now) else None


def _paused(control: Control) -> str:
    what, until = ("postponed", " until `schemamig resume`") if control.last_step else ("paused", "")
    by = f" by {control.paused_by}" if control.paused_by else ""
    since = f" since {minute(control.paused_at)}" if control.paused_at is not None else ""
    return f"{what}{by}{since}{until}{f': {control.reason}' if control.reason else ''}"


def _resumed_by(state: State, waits: Waits) -> str:
    """Return the commands that take the pauses back; nothing for hours, which end by themselves, and for last steps, which say it."""
    paused = [state.controls[key] for key in waits if state.controls[key].paused and not state.controls[key].last_step]
    scopes = ["" if control.scope == EVERYWHERE else f" --collection {control.scope}" for control in paused]
    return " and ".join(f"`schemamig resume{scope}` goes on" for scope in scopes)


def is_over(state: State, keys: Iterable[str], now: pendulum.DateTime | None) -> bool:
    """Return whether none of the controls with these keys keeps work waiting any more; ``now`` None: hours do not count."""
    return not _waits(state, keys, now)


def check_not_paused(state: State, stage: str, collections: Iterable[CollectionName]) -> None:
    """Raise Paused, for the decision of an append: a pause that is in the ledger before it is never passed by."""
    _raise(stage, None, step_waits(state, collections), hours=False)


def _raise(stage: str, collection: str | None, waits: Waits, *, hours: bool) -> None:
    if waits:
        raise Paused(collection=collection, stage=stage, why=_text(waits), scopes=tuple(waits), hours=hours)


def _text(waits: Waits) -> str:
    return "; ".join(dict.fromkeys(waits.values()))


def why_not(state: State, collection: CollectionName, now: pendulum.DateTime | None) -> str | None:
    """Return why no batch may begin at ``now``, or (None) no step be made, in words; None if one may."""
    return _text(step_waits(state, [collection]) if now is None else batch_waits(state, collection, now)) or None


def postponed(state: State, collection: CollectionName) -> str | None:
    """Return why the last step of an online change may not be made, in words; None if it may."""
    return _text(last_step_waits(state, collection)) or None


def forced(state: State, collection: CollectionName) -> bool:
    """Return whether somebody wants the last step of an online change even if writers have to wait for it."""
    control = state.controls.get(last_step_key(collection))
    return control is not None and not control.paused


def force_forgotten(state: State, collections: Iterable[CollectionName]) -> list[Update]:
    """Return the updates that drop each ``force`` of these collections: it is said of one change, which has ended."""
    return [Drop(Control, last_step_key(name)) for name in collections if forced(state, name)]


@dataclass
class BatchSize:
    """How many bytes the next batch may have: those whose rows take about ``_BATCH_SECONDS`` by the last one; or, where a batch takes
    longer to start (spark-submit), as long as that. Two batches of different sizes tell the start."""

    bytes: int = _FIRST_BYTES
    _start_seconds: float = _START_SECONDS
    _last: tuple[int, float] | None = None

    @classmethod
    def at_speed(cls, bytes_per_second: float) -> BatchSize:
        """Return the size of a first batch where work of this kind is known to have gone so fast, starts included."""
        return cls(round(min(max(bytes_per_second * (_START_SECONDS + _BATCH_SECONDS), _FIRST_BYTES), BATCH_BYTES)))

    def after(self, size_bytes: int, seconds: float) -> None:
        """Adjust the batch size after a batch of ``size_bytes`` took ``seconds``."""
        if self._last is not None:
            self._start_seconds = _start_of(self._last, (size_bytes, seconds), self._start_seconds)
        self._last = size_bytes, seconds
        start = min(self._start_seconds, seconds)
        wanted = min(size_bytes * max(_BATCH_SECONDS, start) / max(seconds - start, 0.001), size_bytes * _STRIDE)
        self.bytes = round(min(max(wanted, _LEAST_BYTES), BATCH_BYTES))


def _start_of(one: tuple[int, float], other: tuple[int, float], known: float) -> float:
    """Estimate the seconds that a batch of no bytes would take, by two batches; ``known`` where they are too much alike to tell."""
    (small, short), (large, long) = sorted((one, other))
    if large <= small * _UNLIKE:
        return known
    return min(max(short - small * (long - short) / (large - small), 0.0), short)


@dataclass
class Pace:
    """``read`` gives the newest state of the ledger; it may raise to end the work (``LeaderWriter.refresh`` does when fenced).

    ``waits`` False: instead of waiting it raises Paused.
    """

    read: Callable[[], State]
    listen: Listener
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], pendulum.DateTime] = field(default=lambda: pendulum.now("UTC"))
    waits: bool = True

    def begin(self, stage: str, collection: CollectionName) -> Control:
        """Wait until a batch may begin; the limits it has to keep."""
        return control_of(self._wait(stage, collection, lambda state: batch_waits(state, collection, self.now()), hours=True), collection)

    def begin_step(self, stage: str, collection: CollectionName) -> None:
        """Wait until a step on the collection that is no batch may be made."""
        self._wait(stage, collection, lambda state: step_waits(state, [collection]))

    def begin_last_step(self, stage: str, collection: CollectionName) -> None:
        """Wait until the last step of an online change may be made."""
        self._wait(stage, collection, lambda state: last_step_waits(state, collection))

    def until_done(self, attempt: Callable[[], T]) -> T:
        """Make an ``attempt``, and after each pause that it met another one."""
        while True:
            try:
                return attempt()
            except Paused as paused:
                self._wait_out(paused)

    def _wait_out(self, paused: Paused) -> None:
        def waits(state: State) -> Waits:
            return _waits(state, paused.scopes, self.now() if paused.hours else None)

        self._wait(paused.stage, paused.collection, waits, hours=paused.hours)

    def _wait(self, stage: str, collection: str | None, waits: Callable[[State], Waits], *, hours: bool = False) -> State:
        told_at: float | None = None
        while True:
            state = self.read()
            now = waits(state)
            if not now:
                return state
            if not self.waits:
                _raise(stage, collection, now, hours=hours)
            if told_at is None or time.monotonic() - told_at > _SAY_SECONDS:
                told_at = time.monotonic()
                self.listen(Event(stage, collection, note="; ".join(filter(None, (_text(now), _resumed_by(state, now))))))
            self.sleep(_LOOK_SECONDS)

    def may_begin(self, stage: str, collection: CollectionName) -> bool:
        """Return whether a batch may begin now; for those who look again by themselves, and may have to end meanwhile."""
        why = why_not(self.read(), collection, self.now())
        if why is not None:
            self.listen(Event(stage, collection, note=why))
        return why is None

    def end(self, control: Control, rows: int, seconds: float) -> None:
        """Rest as long as the batch, which was one commit, was too fast."""
        least = [
            *([rows / control.rows_per_second] if control.rows_per_second else []),
            *([60 / control.commits_per_minute] if control.commits_per_minute else []),
        ]
        if least:
            self.sleep(max(0.0, max(least) - seconds))


def _hours(window: tuple[int, int] | None) -> str:
    first, last = window or (0, 24)
    return f"{first:02d}:00-{last:02d}:00 UTC"
