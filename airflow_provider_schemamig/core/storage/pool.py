"""Requests side by side: an object store answers one in 50 ms, and thirty in the same 50 ms."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")

#: How many requests are under way at once, unless the storage option ``schemamig.requests_at_once`` says another number.
REQUESTS_AT_ONCE = 32

#: How much longer than it works the calling thread waits for a local disk before it is given others. A disk in memory, or behind a cache,
#: answers before a thread has the interpreter's lock: an upgrade of 1,000 tables took 4.1 s with threads, and 3.5 s without.
LOCAL_SECONDS_ALONE = 0.02

_inside = threading.local()


class cached_request(cached_property[R]):
    """Remember what a property found out by requests. Python 3.11's own has one lock for all objects of a class, so that threads which ask
    of a table each would wait for each other; here two that ask of one object may both ask."""

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        name = str(self.attrname)
        if name not in instance.__dict__:
            instance.__dict__[name] = self.func(instance)
        return instance.__dict__[name]


@dataclass(frozen=True, slots=True)
class Pool:
    """Runs small pieces of work on at most ``at_once`` threads. They are there for one ``map`` only: a process that opens environments for
    days, like Airflow's triggerer, would keep those of every one.

    ``seconds_alone``: the calling thread goes alone until it has waited so much longer than it worked; threads are started for what is
    left then. 0: at once.
    """

    at_once: int = REQUESTS_AT_ONCE
    seconds_alone: float = 0.0

    def map(self, act: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield ``act`` of each item, in their order, as soon as it is there.

        After the first failure nothing more is begun; what is under way ends, then the failure of the first item that has one is raised.
        Work that is itself in a pool goes one by one: threads that wait for each other would never end.
        """
        todo = list(items)
        if len(todo) < 2 or self.at_once < 2 or getattr(_inside, "pool", False):
            yield from map(act, todo)
            return
        begun, lost = 0, 0.0
        while begun < len(todo) and lost < self.seconds_alone:
            started, busy = time.perf_counter(), time.thread_time()
            found = act(todo[begun])
            worked = time.thread_time() - busy
            lost += time.perf_counter() - started - 2 * worked  # what it waited, less what it worked
            begun += 1
            yield found
        if begun < len(todo):
            yield from self._side_by_side(act, todo[begun:])

    def _side_by_side(self, act: Callable[[T], R], todo: Sequence[T]) -> Iterator[R]:
        run = _Run(act, todo)
        threads = [threading.Thread(target=run.work, name=f"schemamig-request_{n}") for n in range(min(self.at_once, len(todo)))]
        try:
            for thread in threads:
                thread.start()
            yield from run.results()
        finally:  # after a failure, an interrupt, or where nobody wants the rest
            run.failed = -1
            for thread in threads:
                if thread.ident is not None:
                    thread.join()


class _Run(Generic[T, R]):
    """Threads that take the next number, and the reader of their results.

    By hand, as the futures of the standard library's pool took 60 us an item: an upgrade of 1,000 local tables looks some 7,000 times, and
    took 6.7 s of CPU with them, 6.2 s without.
    """

    def __init__(self, act: Callable[[T], R], todo: Sequence[T]) -> None:
        self._act = act
        self._todo = todo
        self._numbers = iter(range(len(todo)))  # ``next`` of it is atomic
        self._found: queue.SimpleQueue[tuple[int, R | None, BaseException | None]] = queue.SimpleQueue()
        #: The first item that failed: nothing after it is begun. Who waits for a slow one before it has not heard of it.
        self.failed = len(todo)
        self._lock = threading.Lock()

    def work(self) -> None:
        _inside.pool = True
        for number in self._numbers:
            if number > self.failed:
                return
            try:
                self._found.put((number, self._act(self._todo[number]), None))
            except BaseException as error:  # noqa: BLE001 - whoever reads the results gets it
                with self._lock:
                    self.failed = min(self.failed, number)
                self._found.put((number, None, error))

    def results(self) -> Iterator[R]:
        waiting: dict[int, tuple[int, R | None, BaseException | None]] = {}
        for number in range(len(self._todo)):
            while number not in waiting:
                found = self._found.get()
                waiting[found[0]] = found
            _, result, error = waiting.pop(number)
            if error is not None:
                raise error
            yield cast(R, result)
