"""Requests side by side: an object store answers one in 50 ms, and thirty in the same 50 ms."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

#: How many requests are under way at once, unless the storage option ``schemamig.requests_at_once`` says another number.
REQUESTS_AT_ONCE = 32

_inside = threading.local()


class Pool:
    """Runs small pieces of work on at most ``at_once`` threads, which start with the first work. One thread belongs to one piece."""

    def __init__(self, at_once: int = REQUESTS_AT_ONCE) -> None:
        self.at_once = at_once
        self._threads: ThreadPoolExecutor | None = None
        self._process = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Pool], tuple[int]]:
        return Pool, (self.at_once,)  # threads stay in their process

    def map(self, act: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield ``act`` of each item, in their order, as soon as it is there.

        After the first failure nothing more is begun; what is under way ends, then the failure of the first item that has one is raised.
        Work that is itself in a pool goes one by one: threads that wait for each other would never end.
        """
        leader = list(items)
        if len(leader) < 2 or self.at_once < 2 or getattr(_inside, "pool", False):
            yield from map(act, leader)
            return
        with self._lock:
            if self._threads is None or self._process != os.getpid():  # a fork has none of the threads
                self._threads, self._process = ThreadPoolExecutor(self.at_once, "schemamig-request", _enter), os.getpid()
            threads = self._threads
        failed = len(leader)  # the first item that did: who waits for a slow one before it has not heard of it

        def unless_failed(number: int, item: T) -> R:
            nonlocal failed
            if number > failed:
                raise CancelledError  # nobody gets to see it
            try:
                return act(item)
            except BaseException:
                with self._lock:
                    failed = min(failed, number)
                raise

        futures = [threads.submit(unless_failed, number, item) for number, item in enumerate(leader)]
        try:
            for future in futures:
                yield future.result()
        finally:  # after a failure, an interrupt, or where nobody wants the rest
            for future in futures:
                future.cancel()
            wait(futures)


def _enter() -> None:
    _inside.pool = True
