"""Times in sentences for people, and as Delta's log has them; and how long they may be."""

from __future__ import annotations

import time

import pendulum

from airflow_provider_schemamig.exceptions import Refusal

#: Ten years: as long as anything is kept that a person asks for. Delta reads no interval of a million times that, nor has a calendar it.
LONGEST_HOURS = 24 * 3650


def minute(when: pendulum.DateTime) -> str:
    """Format a time to the minute: ``2026-11-21 12:35 UTC``."""
    return when.in_timezone("UTC").format("YYYY-MM-DD HH:mm [UTC]")


def minute_of(text: str) -> str:
    """Format a document's time (UTC) as ``minute`` does."""
    return f"{text[:16].replace('T', ' ')} UTC"


def now_millis() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class OutOfRange(Refusal):
    """A length of time that no table or calendar can take."""

    code = "out_of_range"
    message = "{what} of {given} {unit} is out of range."
    next_action = "Give {least} to {most} {unit}."
    what: str
    given: float
    unit: str
    least: int
    most: int


def check_range(what: str, given: float, unit: str, least: int, most: int) -> None:
    """Raise OutOfRange unless ``given`` is one of ``least`` to ``most``: before anything is written that holds it."""
    if not least <= given <= most:
        raise OutOfRange(what=what, given=given, unit=unit, least=least, most=most)


def check_seal(seconds: int) -> None:
    """Raise OutOfRange unless writers may be locked out for so long: a day at most."""
    check_range("a seal", seconds, "seconds", 1, 86_400)
