"""The phases of a task as spans of OpenTelemetry, below the span that Airflow makes of the task (``[traces] otel_on``; docs/airflow.md)."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.credentials import blank_typed

if TYPE_CHECKING:
    from airflow_provider_schemamig.core.progress import Event, Listener

_PREFIX = "schemamig"
#: Of one phase: a span that took each collection of 1,000 would be as long as the log.
_MOST_EVENTS = 100


class PhaseSpans:
    """Makes a span of each phase that a listener hears of, one after the other: ``schemamig.copy``, ``schemamig.seal`` and so on.

    Work on several collections at a time is one phase. Spans belong to what was the current one when this was made: events come from other
    threads, too.
    """

    def __init__(self, environment: str, tracer: Any = None) -> None:
        from opentelemetry import context, trace

        self._tracer = tracer or trace.get_tracer(__name__)
        self._parent = context.get_current()
        self._environment = blank_typed(environment)
        self._lock = threading.Lock()
        self._name = ""
        self._span: Any = None
        self._told = 0

    def hear(self, event: Event) -> None:
        """Begin the phase of the event, if another one was under way, and write down what it says."""
        name = event.stage.partition(" ")[0]
        with self._lock:
            if name != self._name:
                self._end()
                began = time.time_ns() - int(event.seconds * 1e9)  # what is heard of at its end alone took so long
                known = {f"{_PREFIX}.environment": self._environment, f"{_PREFIX}.stage": event.stage}
                self._span = self._tracer.start_span(f"{_PREFIX}.{name}", self._parent, attributes=known, start_time=began)
                self._name, self._told = name, 0
            self._write(event)

    def end(self, error: BaseException | None = None) -> None:
        """End the phase that is under way; with ``error`` as one that failed."""
        with self._lock:
            if error is not None and self._span is not None:
                from opentelemetry.trace import Status, StatusCode

                self._span.set_status(Status(StatusCode.ERROR, getattr(error, "code", type(error).__name__)))
            self._end()

    def _write(self, event: Event) -> None:
        numbers = {"done": event.done, "total": event.total} if event.total else {}
        for measure, value in {**numbers, **event.measures}.items():
            self._span.set_attribute(f"{_PREFIX}.{measure}", value)
        if event.collection and not event.beat and self._told < _MOST_EVENTS:
            self._told += 1
            self._span.add_event(event.collection, {f"{_PREFIX}.seconds": event.seconds})

    def _end(self) -> None:
        if self._span is not None:
            self._span.end()
        self._name, self._span = "", None


def phases(environment: str) -> PhaseSpans | None:
    """Return what makes spans; None where Airflow has no traces."""
    from airflow.sdk import conf

    return PhaseSpans(environment) if conf.getboolean("traces", "otel_on", fallback=False) else None


def traced(listen: Listener, found: PhaseSpans | None) -> Listener:
    """Return a listener that also makes spans. Where Airflow has no traces it is the given one."""
    if found is None:
        return listen

    def tell(event: Event) -> None:
        found.hear(event)
        listen(event)

    return tell
