"""What long work tells whoever watches: the CLI draws it, Airflow logs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """``done`` of ``total`` collections of ``stage`` are ready; ``collection`` is the one just finished, after ``seconds``."""

    stage: str
    collection: str | None = None
    done: int = 0
    total: int = 0
    seconds: float = 0.0
    note: str = ""


Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """The listener for callers who do not watch."""
