"""Requests side by side: an object store answers one in 50 ms, and thirty in the same 50 ms."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

#: How many requests are under way at once, unless the storage option ``schemamig.requests_at_once`` says another number.
REQUESTS_AT_ONCE = 32

_inside = threading.local()


@dataclass(frozen=True, slots=True)
class Pool:
    """Runs small pieces of work on at most ``at_once`` threads. They are there for one ``map`` only: a process that opens environments for
    days, like Airflow's triggerer, would keep those of every one."""

    at_once: int = REQUESTS_AT_ONCE

    def map(self, act: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield ``act`` of each item, in their order, as soon as it is there.

        After the first failure nothing more is begun; what is under way ends, then the failure of the first item that has one is raised.
        Work that is itself in a pool goes one by one: threads that wait for each other would never end.
        """
        todo = list(items)
        if len(todo) < 2 or self.at_once < 2 or getattr(_inside, "pool", False):
            yield from map(act, todo)
            return
        from concurrent.futures import CancelledError, ThreadPoolExecutor  # most processes do one thing after the other

        lock, failed = threading.Lock(), len(todo)  # the first item that did: who waits for a slow one before it has not heard of it

        def unless_failed(number: int, item: T) -> R:
            nonlocal failed
            if number > failed:
                raise CancelledError  # nobody gets to see it
            try:
                return act(item)
            except BaseException:
                with lock:
                    failed = min(failed, number)
                raise

        with ThreadPoolExecutor(min(self.at_once, len(todo)), "schemamig-request", _enter) as threads:
            futures = [threads.submit(unless_failed, number, item) for number, item in enumerate(todo)]
            try:
                for future in futures:
                    yield future.result()
            finally:  # after a failure, an interrupt, or where nobody wants the rest
                for future in futures:
                    future.cancel()


def _enter() -> None:
    _inside.pool = True
