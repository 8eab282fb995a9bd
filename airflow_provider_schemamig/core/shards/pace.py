"""How fast work on rows may go: what people said in the ledger (pause, throttle, hours), looked at before every batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pendulum

from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.progress import Event, Listener

#: Scope of a control that speaks for all collections.
EVERYWHERE = "*"
#: What a scope begins with that is not about batches, but about the last step of an online change: paused, it waits until told; else it
#: is made even if writers have to wait.
LAST_STEP = "last step of "
#: A batch is one Spark statement: large enough that its start-up is lost in it, small enough that a kill costs little.
BATCH_FILES = 256
BATCH_BYTES = 16 * 2**30
_LOOK_SECONDS = 5.0
_SAY_SECONDS = 30.0


def control_of(state: State, collection: CollectionName) -> Control:
    """The stricter of what was said for the collection and for all; of two windows the collection's, though both have to be open."""
    mine, all_ = _said(state, collection)
    return Control(
        scope=collection,
        paused=mine.paused or all_.paused,
        rows_per_second=_least(mine.rows_per_second, all_.rows_per_second),
        max_files=_least(mine.max_files, all_.max_files),
        commits_per_minute=_least(mine.commits_per_minute, all_.commits_per_minute),
        window=mine.window or all_.window,
    )


def _said(state: State, collection: CollectionName) -> tuple[Control, Control]:
    return state.controls.get(collection, Control(collection)), state.controls.get(EVERYWHERE, Control(EVERYWHERE))


def _least(one: int | None, other: int | None) -> int | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)


def is_open(window: tuple[int, int] | None, now: pendulum.DateTime) -> bool:
    """Whether a batch may begin at ``now``; (22, 6) is from 22:00 to 06:00 UTC."""
    if window is None:
        return True
    first, last = window
    hour = now.in_timezone("UTC").hour
    return first <= hour < last if first <= last else hour >= first or hour < last


def why_not(state: State, collection: CollectionName, now: pendulum.DateTime) -> str | None:
    """Why no batch may begin at ``now``, in words; None if one may."""
    if control_of(state, collection).paused:
        return "paused"
    closed = [control.window for control in _said(state, collection) if not is_open(control.window, now)]
    return f"waits for {_hours(closed[0])}" if closed else None


def postponed(state: State, collection: CollectionName) -> str | None:
    """Why the last step of an online change may not be made, in words; None if it may."""
    found = any((control := state.controls.get(f"{LAST_STEP}{scope}")) is not None and control.paused for scope in (collection, EVERYWHERE))
    return "postponed until `schemamig resume`" if found else None


def forced(state: State, collection: CollectionName) -> bool:
    """Whether somebody wants the last step of an online change even if writers have to wait for it."""
    control = state.controls.get(f"{LAST_STEP}{collection}")
    return control is not None and not control.paused


@dataclass
class Pace:
    """``read`` gives the newest state of the ledger; it may raise to end the work (``Work.look_again`` does when fenced)."""

    read: Callable[[], State]
    listen: Listener
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], pendulum.DateTime] = field(default=lambda: pendulum.now("UTC"))

    def begin(self, stage: str, collection: CollectionName) -> Control:
        """Wait until a batch may begin; the limits it has to keep."""
        return control_of(self._wait(stage, collection, lambda state: why_not(state, collection, self.now())), collection)

    def begin_last_step(self, stage: str, collection: CollectionName) -> None:
        """Wait until the last step of an online change may be made."""
        self._wait(stage, collection, lambda state: postponed(state, collection))

    def _wait(self, stage: str, collection: CollectionName, why_not_now: Callable[[State], str | None]) -> State:
        said: float | None = None
        while True:
            state = self.read()
            why = why_not_now(state)
            if why is None:
                return state
            if said is None or time.monotonic() - said > _SAY_SECONDS:
                said = time.monotonic()
                self.listen(Event(stage, collection, note=why))
            self.sleep(_LOOK_SECONDS)

    def may_begin(self, stage: str, collection: CollectionName) -> bool:
        """Whether a batch may begin now; for those who look again by themselves, and may have to end meanwhile."""
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
