"""Progress: readable in a log, bars on a terminal."""

from __future__ import annotations

import contextlib
import itertools
import os
import pty
import re
import sys
import time
from collections.abc import Iterator
from io import StringIO

import pytest
from rich.progress import Progress, TimeElapsedColumn

from airflow_provider_schemamig.cli.progress import QUIET_SECONDS, Bars, Lines, line
from airflow_provider_schemamig.core.progress import Event


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Event("expand"), "expand"),
        (Event("expand", "flights", 12, 1000, 0.034), "expand  12/1000  flights  0.03 s"),
        (Event("start Spark", seconds=0.0004), "start Spark"),
        (Event("fill", "routes", 1, 2, 3.0, "10,000 rows"), "fill  1/2  routes  3.00 s  10,000 rows"),
        (Event("settle", note="nothing open"), "settle  nothing open"),
    ],
)
def test_progress_a_line(event: Event, text: str) -> None:
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


def test_a_stream_that_has_nothing_to_do_says_so_now_and_then() -> None:
    now = 0.0
    out = StringIO()
    lines = Lines(out, clock=lambda: now)
    for second in range(0, 1500, 3):
        now = float(second)
        for done, name in enumerate(("flights", "planes"), 1):
            lines(Event("replicate", name, done, 2, note="at version 9 of 9" if name == "planes" and second > 900 else "at version 8 of 8"))
    told = [text for text in out.getvalue().splitlines() if "planes" in text]
    assert told == [f"replicate  2/2  planes  at version {version} of {version}" for version in (8, 8, 9)]
    assert len(out.getvalue().splitlines()) <= 7


def test_that_spark_still_works_is_said_now_and_then() -> None:
    now = 0.0
    out = StringIO()
    lines = Lines(out, clock=lambda: now)
    for second in range(70):
        now = float(second)
        lines(Event("check rows", "flights", second % 4, 4, now, "table 1 of 3", beat=True))
    lines(Event("check rows", "flights", 1, 1, now, beat=True))
    assert out.getvalue().splitlines() == [
        f"check rows  {seconds % 4}/4 Spark tasks  flights{f'  {seconds}.00 s' if seconds else ''}  table 1 of 3" for seconds in (0, 30, 60)
    ]


# --- what a terminal gets, and when ---------------------------------------------------------------------------------------------------

#: A JVM that takes 3 s to start, and a job that takes 3 s for four tasks.
_WORK = """
import sys, time
from airflow_provider_schemamig.cli.progress import watched
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.spark.driver.telling import tell
from airflow_provider_schemamig.core.spark.watched import WatchedRunner

class Slow:
    is_started, began = False, 0.0
    def start(self, options):
        time.sleep(3)
        self.is_started, self.began = True, time.monotonic()
    def how_far(self):
        return int(time.monotonic() - self.began), 4
    def run(self, job, request):
        tell("flights, table 1 of 3")
        time.sleep(3)
        return {}

with watched() as listen:
    runner = WatchedRunner(Slow(), listen)
    print("BEGINS", flush=True)
    runner.run("preflight", {})
    listen(Event("commit", None, 1, 1, 0.1))
    time.sleep(1)
print("ANSWER")
"""


@pytest.fixture(scope="module")
def shown() -> list[tuple[float, str]]:
    """Return what came to a terminal, each with the seconds since the work began, without the codes that move the cursor."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", _WORK], {**os.environ, "TERM": "xterm", "COLUMNS": "120"})
    found: list[tuple[float, str]] = []
    with contextlib.suppress(OSError):  # its end, to Linux
        while data := os.read(terminal, 65536):
            found.append((time.monotonic(), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data.decode())))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, found
    began = next(at for at, text in found if "BEGINS" in text)
    return [(at - began, text) for at, text in found]


@pytest.mark.xdist_group("terminal")
@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("start Spark", 0.0),
        ("check rows", 3.0),
        ("flights, table 1 of 3", 4.0),
        ("1/4", 4.0),
        ("s left", 4.0),
        ("commit", 6.0),
    ],
)
def test_a_terminal_shows_work_within_two_seconds_of_its_start(shown: list[tuple[float, str]], text: str, after: float) -> None:
    first = next(at for at, written in shown if text in written)
    assert after - 0.5 <= first <= after + 2.0


@pytest.mark.xdist_group("terminal")
def test_a_terminal_hears_of_work_all_the_time(shown: list[tuple[float, str]]) -> None:
    moments = [at for at, _ in shown if at >= 0]
    assert max(later - earlier for earlier, later in itertools.pairwise(moments)) < 2.0


@pytest.mark.xdist_group("terminal")
def test_a_bar_ends_with_its_work(shown: list[tuple[float, str]]) -> None:
    text = "".join(written for _, written in shown)
    assert text.rindex("start Spark") < text.index("check rows") < text.rindex("check rows") < text.index("commit")
    assert text.rstrip().endswith("ANSWER")


# --- the clocks of the bars -------------------------------------------------------------------------------------------------------------


def clocks(bars: Bars) -> dict[str, float]:
    """Return what each bar's clock reads, as Rich's own column draws it: in whole seconds."""
    progress = bars._progress
    assert progress is not None
    read: dict[str, float] = {}
    for task in progress.tasks:
        hours, minutes, seconds = str(TimeElapsedColumn().render(task)).split(":")
        read[task.description] = 3600 * int(hours) + 60 * int(minutes) + int(seconds)
    return read


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Set the time that the bars go by."""
    now = [1000.0]
    with contextlib.ExitStack() as closing:
        begin = Bars._begin

        def begun(bars: Bars) -> Progress:
            progress = begin(bars)
            closing.callback(progress.stop)
            progress.get_time = lambda: now[0]
            return progress

        monkeypatch.setattr(Bars, "_begin", begun)
        yield now


def test_the_clock_of_a_bar_stays_when_later_stages_begin(clock: list[float]) -> None:
    bars = Bars()
    bars(Event("plan", note="reading the release and the tables"))
    clock[0] += 5
    bars(Event("claim"))
    clock[0] += 20
    bars(Event("build", "stats", 1, 1))
    clock[0] += 100
    bars(Event("promote"))
    clock[0] += 100
    bars(Event("expand", "flights", 1, 2))
    assert clocks(bars) == {"plan": 5, "claim": 20, "build": 0, "promote": 100, "expand": 0}


def test_the_clock_of_a_bar_that_is_told_of_at_its_end_says_how_long_it_took(clock: list[float]) -> None:
    bars = Bars()
    bars(Event("validate", "flights", 1, 1, 4.1))
    clock[0] += 20
    bars(Event("digest", "flights", 1, 1, 19.9))
    clock[0] += 7
    bars(Event("commit"))
    assert clocks(bars) == {"validate": 4, "digest": 19, "commit": 0}


def test_the_clock_of_a_stage_that_begins_anew_begins_anew(clock: list[float]) -> None:
    bars = Bars()
    bars(Event("copy", "flights", 2, 2, 3.0))
    clock[0] += 50
    bars(Event("copy", "flights", 1, 4))
    clock[0] += 9
    bars(Event("copy", "flights", 4, 4))
    clock[0] += 9
    bars(Event("commit"))
    assert clocks(bars) == {"copy": 9, "commit": 0}
