"""Progress: readable in a log, bars on a terminal."""

from __future__ import annotations

from io import StringIO

import pytest

from airflow_provider_schemamig.cli.progress import QUIET_SECONDS, Lines, line
from airflow_provider_schemamig.core.progress import Event


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Event("expand"), "expand"),
        (Event("expand", "flights", 12, 1000, 0.034), "expand  12/1000  flights  0.03 s"),
        (Event("fill", "routes", 1, 2, 3.0, "10,000 rows"), "fill  1/2  routes  3.00 s  10,000 rows"),
        (Event("settle", note="nothing open"), "settle  nothing open"),
    ],
)
def test_a_line(event: Event, text: str) -> None:
    assert line(event) == text


def test_a_thousand_collections_are_a_few_lines() -> None:
    now = 0.0
    out = StringIO()
    lines = Lines(out, clock=lambda: now)
    for done in range(1, 1001):
        now += QUIET_SECONDS / 250  # a thousand events in 20 s
        lines(Event("expand", f"c{done}", done, 1000))
    printed = out.getvalue().splitlines()
    assert printed[0].startswith("expand  1/1000")
    assert printed[-1] == "expand  1000/1000  c1000"
    assert 5 <= len(printed) <= 7


def test_a_note_is_never_held_back() -> None:
    out = StringIO()
    lines = Lines(out, clock=lambda: 0.0)
    for done in (1, 2, 3):
        lines(Event("expand", "c", done, 10, note="slow" if done == 2 else ""))
    assert out.getvalue().splitlines() == ["expand  1/10  c", "expand  2/10  c  slow"]
