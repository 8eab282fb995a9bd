"""Takes many paths, on all processors: this process makes the stops, one after the other, and others take the paths that begin there."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace

from airflow_provider_schemamig.core.progress import Event, Listener, silent
from airflow_provider_schemamig.core.testing.environment_cache import Arrival
from airflow_provider_schemamig.core.testing.rehearse import Rehearsal
from airflow_provider_schemamig.core.testing.results import PathKind, PathVerdict, Result, UpgradePath

#: Fewer paths are taken before another process has imported what it needs.
_WORTH_A_PROCESS = 12


def run_all(
    rehearsal: Rehearsal, paths: Sequence[UpgradePath], listen: Listener = silent, workers: int | None = None
) -> tuple[Result, ...]:
    """Run ``paths`` and return how each went, in their order. ``workers``: processes, default one a processor; with Spark, all is done
    here."""
    count = workers if workers is not None else len(os.sched_getaffinity(0))
    is_small = rehearsal.jobs is not None or count < 2 or len(paths) < _WORTH_A_PROCESS
    taken = _here(rehearsal, paths) if is_small else _in_processes(rehearsal, paths, count)
    results: dict[UpgradePath, Result] = {}
    for result in taken:
        results[result.path] = result
        note = "" if result.verdict is PathVerdict.PASSED else result.verdict.value
        listen(Event("test", result.path.id, len(results), len(paths), result.seconds, note))
    return tuple(results[path] for path in paths)


def _here(rehearsal: Rehearsal, paths: Sequence[UpgradePath]) -> Iterator[Result]:
    for path in _by_begin(paths):
        yield rehearsal.run(path)


def _in_processes(rehearsal: Rehearsal, paths: Sequence[UpgradePath], workers: int) -> Iterator[Result]:
    # Spawned, not forked: delta-rs has threads, and a fork would have their locks without them.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(replace(rehearsal),)) as pool:
        try:
            pending: set[Future[Result]] = set()
            for path in _by_begin(paths):
                pending.add(pool.submit(_take, path, rehearsal.arrival(path)))
                done, pending = wait(pending, timeout=0)
                yield from (future.result() for future in done)
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _by_begin(paths: Sequence[UpgradePath]) -> list[UpgradePath]:
    """Sort paths by the version they begin at, the earliest first. Others then have work while later stops are made.

    A new environment counts by its target: it is compared with the last stop. Paths between two releases come last of all.

    Steps come last of each version: they need the stop after, too.
    """
    return sorted(paths, key=lambda path: (path.kind is PathKind.RELEASED, path.source or path.target, path.kind is not PathKind.DIRECT))


_REHEARSALS: list[Rehearsal] = []


def _begin(rehearsal: Rehearsal) -> None:
    gc.set_threshold(250_000, 20, 100)  # as the command line does: nearly all that is made lives to the end
    _REHEARSALS.append(rehearsal)
    gc.freeze()  # the release stays, and need not be looked through again and again


def _take(path: UpgradePath, arrival: Arrival) -> Result:
    return _REHEARSALS[0].take(path, arrival)
