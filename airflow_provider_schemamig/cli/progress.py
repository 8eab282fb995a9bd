"""Draws what long work tells: bars on a terminal, now and then a plain line anywhere else. Always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from airflow_provider_schemamig.core.progress import Event, Listener
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Between two plain lines of one stage, in seconds: a log stays readable over a thousand collections.
QUIET_SECONDS = 5.0


@contextmanager
def watched() -> Iterator[Listener]:
    """Yield the listener for a command; what it draws is gone, or complete, when the block ends."""
    if not sys.stderr.isatty():
        yield Lines(sys.stderr)
        return
    bars = Bars()
    try:
        yield bars
    finally:
        bars.close()


class Lines:
    """One line when a stage ends, and one every ``QUIET_SECONDS`` in between."""

    def __init__(self, to: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._to = to
        self._clock = clock
        self._last: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        now = self._clock()
        first = event.stage not in self._last
        ended = event.done >= event.total
        if not (ended or event.note or first or now - self._last[event.stage] >= QUIET_SECONDS):
            return
        self._last[event.stage] = now
        self._to.write(visible(line(event)) + "\n")
        self._to.flush()


def line(event: Event) -> str:
    """``expand  12/1000  flights  0.03 s  note``."""
    parts = [event.stage]
    if event.total:
        parts.append(f"{event.done}/{event.total}")
    if event.collection:
        parts.append(event.collection)
    if event.seconds:
        parts.append(f"{event.seconds:.2f} s")
    if event.note:
        parts.append(event.note)
    return "  ".join(parts)


class Bars:
    """One bar a stage, in the order they begin. Rich is imported with the first event: most commands never send one."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, event: Event) -> None:
        progress = self._progress or self._begin()
        if event.stage not in self._tasks:
            self._tasks[event.stage] = progress.add_task(event.stage, total=None, what="")
        what = "  ".join(part for part in (event.collection, event.note) if part)
        progress.update(self._tasks[event.stage], completed=event.done, total=event.total or None, what=what)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _begin(self) -> Progress:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        from airflow_provider_schemamig.cli.output import console

        columns = (
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[what]}", markup=False),
        )
        # The answer itself is printed afterwards, so the bars leave nothing behind.
        self._progress = Progress(*columns, console=console(stderr=True), transient=True, redirect_stdout=False)
        self._progress.start()
        return self._progress
