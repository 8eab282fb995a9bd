"""Draw what long work tells: bars on a terminal, now and then a plain line anywhere else. Always on stderr."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from airflow_provider_schemamig.core.progress import Event, Listener
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID

#: Between two plain lines of one stage, in seconds: a log stays readable over a thousand collections.
QUIET_SECONDS = 5.0
#: Between two plain lines that only say that something still runs.
BEAT_SECONDS = 30.0
#: Between two plain lines that say the very same of a collection: a stream that follows is looked at every few seconds.
SAME_SECONDS = 600.0


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
        self._last: dict[tuple[str, str | None], float] = {}
        self._told: dict[tuple[str, str | None], tuple[tuple[int, int, str], float]] = {}

    def __call__(self, event: Event) -> None:
        now = self._clock()
        told = (event.stage, event.collection if event.beat else None)
        since = now - self._last.get(told, -math.inf)
        is_due = self._is_due_beat(event, since) if event.beat else self._is_due(event, since)
        if not is_due or (event.note and not event.beat and self._was_told(event, now)):
            return
        self._last[told] = now
        self._to.write(visible(line(event)) + "\n")
        self._to.flush()

    def _was_told(self, event: Event, now: float) -> bool:
        """Return whether the same was told of the same collection lately; remember it if not."""
        about, what = (event.stage, event.collection), (event.done, event.total, event.note)
        before, at = self._told.get(about, (None, -math.inf))
        if what == before and now - at < SAME_SECONDS:
            return True
        self._told[about] = what, now
        return False

    @staticmethod
    def _is_due(event: Event, since: float) -> bool:
        return event.done >= event.total or bool(event.note) or since >= QUIET_SECONDS

    @staticmethod
    def _is_due_beat(event: Event, since: float) -> bool:
        return since >= BEAT_SECONDS and not _is_over(event)


def line(event: Event) -> str:
    """Return a line such as ``expand  12/1000  flights  0.03 s  note``."""
    parts = [event.stage]
    if event.total:
        parts.append(f"{event.done}/{event.total}{_unit(event)}")
    if event.collection:
        parts.append(event.collection)
    if event.seconds >= 0.005:  # what has only begun took no time
        parts.append(f"{event.seconds:.2f} s")
    if event.note:
        parts.append(event.note)
    return "  ".join(parts)


def _unit(event: Event) -> str:
    """Return the unit of an event's count, if the words beside it count something else: Spark's own tasks."""
    return " Spark tasks" if event.beat else ""


def _is_over(event: Event) -> bool:
    return 0 < event.total <= event.done


class Bars:
    """One bar a stage, in the order they begin, and below them what Spark does now.

    A bar's clock stops with its work: at its last collection, or when another stage begins. Rich is imported with the first event: most
    commands never send one.
    """

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        with self._lock:  # Spark is watched by a thread of its own
            progress = self._progress or self._begin()
            if event.beat and _is_over(event):
                self._remove(progress, event.stage)
            else:
                self._draw(progress, event)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _draw(self, progress: Progress, event: Event) -> None:
        task = self._begun(progress, event)
        if not event.beat:
            for other, its in self._tasks.items():
                if other != event.stage:
                    self._stop(progress, its)
        what = "  ".join(part for part in (event.collection, event.note) if part)
        if event.total or event.beat:
            self._bar(progress, task).total = event.total or None  # ``update`` cannot take a total back
            progress.update(task, completed=event.done, what=what)
        else:  # a remark: how far it is stays as it was
            progress.update(task, what=what)
        if _is_over(event):
            self._stop(progress, task)

    def _begun(self, progress: Progress, event: Event) -> TaskID:
        """Return the event's bar with its clock going; work that is told of only now began ``seconds`` ago."""
        task = self._tasks.get(event.stage)
        if task is None:
            task = self._tasks[event.stage] = progress.add_task(event.stage, total=None, what="", unit=_unit(event))
            self._backdate(self._bar(progress, task), event)
            return task
        bar = self._bar(progress, task)
        if bar.stop_time is not None:
            bar.stop_time = None
            if not event.beat and (not event.total or bar.finished or event.done < bar.completed):  # anew, not on
                progress.reset(task)
                self._backdate(bar, event)
        return task

    @staticmethod
    def _backdate(bar: Task, event: Event) -> None:
        bar.start_time = bar.get_time() - event.seconds

    def _stop(self, progress: Progress, task: TaskID) -> None:
        """Stop a bar's clock, once: Rich would set it to the time of the last stop."""
        if self._bar(progress, task).stop_time is None:
            progress.stop_task(task)

    @staticmethod
    def _bar(progress: Progress, task: TaskID) -> Task:
        return next(bar for bar in progress.tasks if bar.id == task)

    def _remove(self, progress: Progress, stage: str) -> None:
        task = self._tasks.pop(stage, None)
        if task is not None:
            progress.remove_task(task)

    def _begin(self) -> Progress:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.text import Text

        from airflow_provider_schemamig.cli.output import console

        class Counted(TextColumn):
            """``3/10``, or nothing where it is not known of how many."""

            def render(self, task: Task) -> Text:
                return Text("" if task.total is None else f"{task.completed:,.0f}/{task.total:,.0f}{task.fields['unit']}")

        columns = (
            TextColumn("{task.description:<11}"),
            BarColumn(bar_width=30),
            Counted(""),
            TimeElapsedColumn(),
            TextColumn("{task.fields[what]}", markup=False),
        )
        # The answer itself is printed afterwards, so the bars leave nothing behind.
        self._progress = Progress(*columns, console=console(stderr=True), transient=True, redirect_stdout=False, refresh_per_second=4)
        self._progress.start()
        return self._progress
