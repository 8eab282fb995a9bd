"""What a job says of itself while it runs: which part of its work it is at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_hears: ContextVar[Callable[[str], None] | None] = ContextVar("hears", default=None)


def tell(text: str) -> None:
    """Say what the job does now, to the listener of ``heard``."""
    hears = _hears.get()
    if hears is not None:
        hears(text)


@contextmanager
def heard(hears: Callable[[str], None]) -> Iterator[None]:
    """Call ``hears`` with each text that a job tells inside, in this thread."""
    token = _hears.set(hears)
    try:
        yield
    finally:
        _hears.reset(token)
