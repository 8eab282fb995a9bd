"""How fast work on rows goes: pauses, hours, limits; the stricter wins."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, cast

import pendulum
import pytest

from airflow_provider_schemamig.core.ledger.rows import Control
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.progress import Event
from airflow_provider_schemamig.core.transfer.copy import end_of_batch
from airflow_provider_schemamig.core.transfer.throttle import BATCH_BYTES, EVERYWHERE, BatchSize, Pace, control_of, is_open

FLIGHTS = CollectionName("flights")
Window = tuple[int, int]


def state(**said: Mapping[str, Any]) -> State:
    """``all`` or a collection -> the fields of its control."""
    controls = {EVERYWHERE if scope == "all" else scope: fields for scope, fields in said.items()}
    return cast(State, SimpleNamespace(controls={scope: Control(scope, **fields) for scope, fields in controls.items()}))


def at(hour: int, zone: str = "UTC") -> pendulum.DateTime:
    return pendulum.datetime(2024, 2, 29, hour, 59, tz=zone)


@pytest.mark.parametrize(
    ("window", "open_hours"),
    [
        (None, range(24)),
        ((22, 6), [22, 23, 0, 1, 2, 3, 4, 5]),
        ((6, 22), range(6, 22)),
        ((0, 24), range(24)),
        ((23, 0), [23]),
        ((0, 1), [0]),
        ((23, 24), [23]),
        ((24, 2), [0, 1]),
    ],
)
def test_pace_is_open(window: Window | None, open_hours: Any) -> None:
    assert [hour for hour in range(24) if is_open(window, at(hour))] == sorted(open_hours)


def test_hours_are_utc_wherever_the_clock_hangs() -> None:
    assert is_open((22, 6), at(18, "America/New_York"))  # 23:59 UTC
    assert not is_open((22, 6), at(1, "America/New_York"))  # 06:59 UTC


@pytest.mark.parametrize(
    ("mine", "all_", "expected"),
    [
        ({}, {}, {}),
        ({"rows_per_second": 10}, {"rows_per_second": 5}, {"rows_per_second": 5}),
        ({"rows_per_second": 10}, {}, {"rows_per_second": 10}),
        ({}, {"max_files": 3}, {"max_files": 3}),
        ({"max_files": 2}, {"max_files": 3}, {"max_files": 2}),
        ({"commits_per_minute": 9}, {"commits_per_minute": 3}, {"commits_per_minute": 3}),
        ({"paused": False}, {"paused": True}, {"paused": True}),
        ({"paused": True}, {}, {"paused": True}),
        ({"window": (1, 2)}, {"window": (3, 4)}, {"window": (1, 2)}),
        ({}, {"window": (3, 4)}, {"window": (3, 4)}),
    ],
)
def test_the_stricter_wins(mine: dict[str, Any], all_: dict[str, Any], expected: dict[str, Any]) -> None:
    assert control_of(state(flights=mine, all=all_), FLIGHTS) == Control(FLIGHTS, **expected)
    assert control_of(state(planes=mine), FLIGHTS) == Control(FLIGHTS), "what is said of another collection is not heard"


class Clock:
    """Time goes on only where somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, start: pendulum.DateTime) -> None:
        self.start, self.seconds = start, 0.0
        self.slept: list[float] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.seconds)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds

    def now(self) -> pendulum.DateTime:
        return self.start.add(seconds=int(self.seconds))


def test_begin_waits_until_it_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, heard = Clock(monkeypatch, at(12)), list[Event]()

    def read() -> State:
        return state(flights={"paused": clock.seconds < 100, "max_files": 7})

    pace = Pace(read, heard.append, clock.sleep, clock.now)
    assert pace.begin("copy", FLIGHTS).max_files == 7
    assert 100 <= clock.seconds < 110
    assert [event.note for event in heard] == ["paused; `schemamig resume --collection flights` goes on"] * 3, (
        "said at once, and then every half minute"
    )
    assert clock.slept


def test_begin_waits_for_the_hours_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 20 to 4 for all and from 23 to 6 for this one is from 23 to 4."""
    said = state(flights={"window": (23, 6)}, all={"window": (20, 4)})
    for hour, expected in [(12, 23), (21, 23), (23, 23), (3, 3), (4, 23), (5, 23)]:
        clock = Clock(monkeypatch, at(hour))
        Pace(lambda: said, lambda event: None, clock.sleep, clock.now).begin("copy", FLIGHTS)
        assert clock.now().hour == expected, hour


def test_may_begin_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, heard = Clock(monkeypatch, at(12)), list[Event]()
    assert Pace(state, heard.append, clock.sleep, clock.now).may_begin("tail", FLIGHTS)
    assert not Pace(lambda: state(all={"paused": True}), heard.append, clock.sleep, clock.now).may_begin("tail", FLIGHTS)
    assert not Pace(lambda: state(all={"window": (22, 6)}), heard.append, clock.sleep, clock.now).may_begin("tail", FLIGHTS)
    assert [event.note for event in heard] == ["paused", "waits for 22:00-06:00 UTC"]
    assert clock.slept == []


@pytest.mark.parametrize(
    ("limits", "rows", "seconds", "rest"),
    [
        ({"rows_per_second": 100}, 1000, 2.0, [8.0]),
        ({"rows_per_second": 100}, 1000, 20.0, [0.0]),
        ({}, 1000, 2.0, []),
        ({"rows_per_second": 100}, 0, 1.0, [0.0]),
        ({"commits_per_minute": 6}, 1000, 2.0, [8.0]),
        ({"commits_per_minute": 6}, 0, 11.0, [0.0]),
        ({"commits_per_minute": 6, "rows_per_second": 100}, 2000, 2.0, [18.0]),
        ({"commits_per_minute": 2, "rows_per_second": 100}, 2000, 2.0, [28.0]),
    ],
)
def test_pace_throttle_rests(monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any], rows: int, seconds: float, rest: list[float]) -> None:
    clock = Clock(monkeypatch, at(12))
    Pace(state, lambda event: None, clock.sleep, clock.now).end(Control(FLIGHTS, **limits), rows, seconds)
    assert clock.slept == rest


def test_whoever_reads_may_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Over(Exception):
        pass

    def read() -> State:
        raise Over

    with pytest.raises(Over):
        Pace(read, lambda event: None).begin("copy", FLIGHTS)


# --- how large a batch is ------------------------------------------------------------------------------------------------------------

MIB = 2**20


@pytest.mark.parametrize(
    ("mib_per_second", "start_seconds", "longest_seconds"),
    [(0.5, 0.0, 70.0), (5.0, 0.5, 14.0), (5.0, 3.0, 14.0), (40.0, 1.0, 12.0), (40.0, 30.0, 65.0), (2000.0, 0.2, 12.0)],
    ids=["slow rows", "embedded", "a slow start", "a cluster", "submitted each time", "fast"],
)
def test_batches_come_to_take_seconds(mib_per_second: float, start_seconds: float, longest_seconds: float) -> None:
    """So a pause takes hold soon; but not so small that starting a statement is most of what they take."""
    size, took = BatchSize(), []
    for _ in range(12):
        took.append(start_seconds + size.bytes / MIB / mib_per_second)
        size.after(size.bytes, took[-1])
    assert max(took) <= longest_seconds
    rows_seconds = took[-1] - start_seconds
    assert rows_seconds <= max(11.0, 1.2 * start_seconds)
    assert rows_seconds >= max(9.0, 0.8 * start_seconds) or size.bytes == BATCH_BYTES


@pytest.mark.parametrize(("mib_per_second", "mib"), [(0.5, 32), (2.5, 32), (40.0, 480), (1e9, BATCH_BYTES / MIB)])
def test_a_first_batch_takes_as_long_at_a_known_speed(mib_per_second: float, mib: float) -> None:
    assert BatchSize.at_speed(mib_per_second * MIB).bytes == mib * MIB


def test_a_batch_is_never_nothing_and_never_all() -> None:
    size = BatchSize()
    size.after(1, 3600.0)
    assert size.bytes == MIB
    for _ in range(30):
        size.after(size.bytes, 0.0)
    assert size.bytes == BATCH_BYTES
    size.after(0, 5.0)
    assert size.bytes == MIB
    size.after(0, 0.0)
    assert size.bytes == MIB


@pytest.mark.parametrize(
    ("sizes", "max_files", "max_bytes", "batches"),
    [
        ([10] * 8, 256, 60, [8]),
        ([10] * 8, 256, 50, [4, 4]),
        ([10] * 9, 256, 30, [3, 3, 3]),
        ([10] * 8, 3, 1000, [3, 3, 2]),
        ([100, 1, 1, 1], 256, 10, [1, 3]),
        ([1, 1, 100], 256, 10, [2, 1]),
        ([0, 0, 0], 256, 10, [3]),
        ([10], 256, 1, [1]),
    ],
    ids=["little more than one", "two halves", "thirds", "files are limited", "a large one first", "a large one last", "no size", "one"],
)
def test_the_files_of_a_copy_are_spread_evenly(sizes: list[int], max_files: int, max_bytes: int, batches: list[int]) -> None:
    ends, found, first = list(accumulate(sizes, initial=0)), list[int](), 0
    while first < len(sizes):
        end = end_of_batch(ends, first, max_files, max_bytes)
        found.append(end - first)
        first = end
    assert found == batches
