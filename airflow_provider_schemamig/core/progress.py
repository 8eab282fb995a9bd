"""The progress of long work: the CLI draws it, Airflow logs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

#: Measures that are as they are now. ``element_state``: 0 ABSENT, 1 CREATED, ... 7 PUBLIC, in the order of ``ElementState``.
GAUGES = ("element_state", "done", "total", "rows", "rows_per_second")
#: Measures that add up. ``aborted_tries``: our own, which lost against somebody else's commit.
COUNTERS = ("commits", "aborted_tries")


@dataclass(frozen=True, slots=True)
class Event:
    """``done`` of ``total`` collections of ``stage`` are ready; ``collection`` is the one just finished, after ``seconds``.

    ``measures`` are numbers for a metrics system, by the names in ``GAUGES`` and ``COUNTERS``; ``element``: whose they are, if they are an
    online change's. ``beat``: nothing happened but time: what runs still does, and an end of it is no end of a stage.
    """

    stage: str
    collection: str | None = None
    done: int = 0
    total: int = 0
    seconds: float = 0.0
    note: str = ""
    element: str = ""
    beat: bool = False
    measures: Mapping[str, float] = field(default_factory=dict)


Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """Ignore the event: the listener for callers who do not watch."""
