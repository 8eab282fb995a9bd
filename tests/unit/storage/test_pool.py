"""Work side by side: order, failures, interrupts, nesting, bounds."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time

import pytest

from airflow_provider_schemamig.core.storage.errors import InvalidStorageOption
from airflow_provider_schemamig.core.storage.location import REQUESTS_AT_ONCE
from airflow_provider_schemamig.core.storage.pool import Pool, cached_request
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot


def test_results_come_in_the_order_of_the_items() -> None:
    def act(number: int) -> int:
        time.sleep(0.02 if number % 3 == 0 else 0)
        return number * number

    assert list(Pool(8).map(act, range(40))) == [number * number for number in range(40)]


def test_no_more_than_the_bound_are_under_way_and_many_are() -> None:
    lock, now, most = threading.Lock(), 0, 0

    def act(_: int) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.005)
        with lock:
            now -= 1

    list(Pool(5).map(act, range(50)))
    assert most == 5


@pytest.mark.parametrize("at_once", [1, 4])
def test_after_a_failure_nothing_more_begins_and_all_that_began_has_ended(at_once: int) -> None:
    begun: list[int] = []
    ended: list[int] = []

    def act(number: int) -> int:
        begun.append(number)
        if number == 3:
            raise ValueError("three")
        time.sleep(0.01)
        ended.append(number)
        return number

    with pytest.raises(ValueError, match="three"):
        list(Pool(at_once).map(act, range(1000)))
    assert len(begun) < 20
    assert sorted([*ended, 3]) == sorted(begun)


def test_a_failure_counts_also_while_an_earlier_item_is_under_way() -> None:
    begun: list[int] = []

    def act(number: int) -> None:
        begun.append(number)
        if number == 1:
            raise ValueError("one")
        time.sleep(0.3 if number == 0 else 0.001)

    with pytest.raises(ValueError, match="one"):
        list(Pool(2).map(act, range(1000)))
    assert begun == [0, 1]


def test_the_failure_of_the_first_item_that_has_one_is_raised() -> None:
    def act(number: int) -> int:
        if number == 0:
            time.sleep(0.05)
        raise ValueError(str(number))

    with pytest.raises(ValueError, match="0"):
        list(Pool(4).map(act, range(4)))


def test_work_inside_a_pool_goes_one_by_one_and_does_not_wait_for_itself() -> None:
    pool = Pool(2)
    assert list(pool.map(lambda row: sum(pool.map(lambda cell: cell, range(row))), range(20))) == [sum(range(row)) for row in range(20)]


def test_whoever_stops_asking_begins_nothing_more() -> None:
    begun: list[int] = []

    def act(number: int) -> int:
        begun.append(number)
        time.sleep(0.005)
        return number

    results = Pool(2).map(act, range(1000))
    assert next(iter(results)) == 0
    results.close()  # type: ignore[attr-defined]
    assert len(begun) < 20


def test_a_pool_starts_no_thread_for_what_takes_no_time() -> None:
    def act(number: int) -> threading.Thread:
        time.sleep(0.3 if number > 2 else 0)
        return threading.current_thread()

    pool, here = Pool(8, seconds_alone=0.2), threading.current_thread()
    assert set(pool.map(act, range(3))) == {here}
    by = list(pool.map(act, range(12)))
    assert by[:4] == [here] * 4 and len(set(by[4:])) == 8


def test_a_pool_starts_no_thread_for_work_that_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of one interpreter take turns: they would only get in each other's way. On a machine that has nothing else to do, here: the
    clock on the wall goes with the thread's own."""
    monkeypatch.setattr(time, "perf_counter", time.thread_time)

    def act(number: int) -> threading.Thread:
        end = time.thread_time() + 0.01
        while time.thread_time() < end:
            pass
        return threading.current_thread()

    assert set(Pool(8, seconds_alone=0.1).map(act, range(60))) == {threading.current_thread()}


@pytest.mark.parametrize("uri, alone", [("lake", True), ("s3://lake", False)])
def test_a_pool_of_a_local_disk_begins_in_the_calling_thread(uri: str, alone: bool) -> None:
    assert (EnvironmentRoot.open(uri).pool.seconds_alone > 0) is alone


@pytest.mark.parametrize("option, most", [(None, 32), ("5", 5), ("64", 64)])
def test_a_pool_is_as_wide_as_the_environment_is_told(option: str | None, most: int) -> None:
    options = {} if option is None else {REQUESTS_AT_ONCE: option}
    assert EnvironmentRoot.open("s3://lake", options).pool.at_once == most


@pytest.mark.parametrize("option", ["0", "-1", "many", "", "1.5"])
def test_a_pool_of_no_width_is_refused(option: str) -> None:
    with pytest.raises(InvalidStorageOption, match=REQUESTS_AT_ONCE):
        EnvironmentRoot.open("s3://lake", {REQUESTS_AT_ONCE: option})


def test_no_thread_outlives_what_it_was_started_for() -> None:
    before, kept = threading.active_count(), [Pool(8) for _ in range(20)]
    for pool in kept:
        list(pool.map(str, range(8)))
    assert threading.active_count() == before


def test_a_fork_makes_threads_of_its_own() -> None:
    pool = Pool(4)
    assert list(pool.map(str, range(3))) == ["0", "1", "2"]
    child = os.fork()
    if child == 0:
        os._exit(0 if list(pool.map(str, range(3))) == ["0", "1", "2"] else 1)
    deadline = time.monotonic() + 20
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.02)
    if ended == (0, 0):
        os.kill(child, signal.SIGKILL)
    assert ended == (child, 0)


def test_a_pool_may_be_sent_to_another_process() -> None:
    pool = Pool(7)
    list(pool.map(str, range(3)))
    assert pickle.loads(pickle.dumps(pool)).at_once == 7


class Asker:
    """Asks when another thread asks, too."""

    together = threading.Barrier(2)

    @cached_request
    def answer(self) -> int:
        """Return who came, at the same time as another."""
        return self.together.wait(timeout=20)


def test_a_cached_request_is_made_side_by_side_with_those_of_other_objects_and_once() -> None:
    askers = [Asker(), Asker()]
    found = list(Pool(2).map(lambda asker: asker.answer, askers))
    assert sorted(found) == [0, 1]
    assert [asker.answer for asker in askers] == found
