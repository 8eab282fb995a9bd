"""Streams run: what the origin has for the target is brought, and what may not be brought waits, each collection by itself.

One look at a stream reads where it stands in the target's table, finds the next batch in the origin's log, asks the gate, and brings it by
one commit; again until there is nothing more. Nothing else is kept in memory or counted on: a process may die anywhere, and any number of
them may run the same stream. docs/replicas.md has the tables of what happens when.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pendulum

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.progress import Event, Listener, silent
from airflow_provider_schemamig.core.replication.cluster.registry import exchange
from airflow_provider_schemamig.core.replication.model import StreamSettings, StreamState
from airflow_provider_schemamig.core.replication.stream.position import StreamEnds
from airflow_provider_schemamig.core.replication.stream.stored_state import read_state
from airflow_provider_schemamig.core.replication.stream_worker import Run
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.errors import UnknownCollection
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.exceptions import SchemamigError

#: Between two looks whether following is over.
_TICK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Replicated:
    """``states``: of every stream, by collection. ``applied_rows``: that came and went in this run; restores count all their rows."""

    states: tuple[StreamState, ...]
    applied_rows: int = 0
    applied_batches: int = 0
    restores: int = 0

    @property
    def paused(self) -> tuple[StreamState, ...]:
        return tuple(state for state in self.states if state.pause is not None)

    @property
    def stopped(self) -> tuple[StreamState, ...]:
        """Return the streams that do not go on by themselves: after a gap, or after what Spark or the gate refused for good."""
        return tuple(state for state in self.states if state.error is not None)

    @property
    def moved(self) -> bool:
        return bool(self.applied_batches or self.restores)


def replicate_once(
    origin: EnvironmentRoot,
    target: EnvironmentRoot,
    collections: Sequence[str] | None = None,
    *,
    jobs: Jobs,
    settings: StreamSettings = StreamSettings(),  # noqa: B008  (frozen)
    listen: Listener = silent,
) -> Replicated:
    """Bring what there is. ``collections`` None: all that the origin has. A stream that waits or is stopped holds no other up.

    Streams are looked at side by side; those for which Spark has something to do then have it one after the other. ``jobs`` is called
    when the first batch needs Spark. Raises LoopingStream, NoEnvironment, UnknownCollection, and what reading the ledgers raises.
    """
    now = pendulum.now("UTC")  # before the ledgers are read: what changes from here on is looked at the next time
    ends = StreamEnds.of(origin, target)
    names = sorted(ends.origin.state.objects) if collections is None else known_streams(ends, map(CollectionName, collections))
    runner = functools.cache(jobs)
    _exchange(ends, listen)
    states, rows, batches, restores = [], 0, 0, 0

    def without_spark(name: CollectionName) -> StreamState | None:
        with contextlib.suppress(_SparkNeeded):
            return Run(ends, ends.stream(name), _spark_needed, settings, now, listen).drain()
        return None

    with contextlib.closing(ends.target.env.each(without_spark, names, remote=True)) as looked_at:
        for number, (name, found) in enumerate(zip(names, looked_at, strict=True), 1):
            started, state = time.monotonic(), found
            if state is None:
                run = Run(ends, ends.stream(name), runner, settings, now, listen)
                state = run.drain()
                rows, batches, restores = rows + run.rows, batches + run.batches, restores + run.restores
            states.append(state)
            listen(Event("replicate", name, number, len(names), time.monotonic() - started, describe_state(state)))
    _exchange(ends, listen)
    return Replicated(tuple(states), rows, batches, restores)


def known_streams(ends: StreamEnds, names: Iterable[CollectionName]) -> list[CollectionName]:
    """Return the names. Raises UnknownCollection for one that neither environment has, and of which no stream was ever run."""
    found = list(names)
    for name in found:
        has_it = name in ends.origin.state.objects or name in ends.target.state.objects
        if not has_it and read_state(ends.target.env, ends.stream(name)) is None:
            raise UnknownCollection(collection=name)
    return found


class _SparkNeeded(Exception):
    """A stream cannot go on without Spark; control flow of ``replicate_once``. Whatever was done before is found done."""


def _spark_needed() -> JobRunner:
    raise _SparkNeeded


def _exchange(ends: StreamEnds, listen: Listener) -> None:
    """Tell both ends each other's schemas, at the beginning and with the outcome. Nothing that is brought depends on that."""
    try:
        exchange(ends.origin.env, ends.target.env, pendulum.now("UTC"))
    except SchemamigError as error:
        listen(Event("registry", note=str(error)))


def follow(
    origin: EnvironmentRoot,
    target: EnvironmentRoot,
    collections: Sequence[str] | None = None,
    *,
    jobs: Jobs,
    settings: StreamSettings = StreamSettings(),  # noqa: B008
    listen: Listener = silent,
    until: Callable[[], bool],
) -> Iterator[Replicated]:
    """Call ``replicate_once`` until ``until`` is true: at once while there is something to bring, else every ``settings.poll``.

    What may pass (a store or Spark that cannot be reached, a ledger that is written to) is told to ``listen`` and tried again.
    """
    runner = functools.cache(jobs)
    while not until():
        moved = False
        try:
            found = replicate_once(origin, target, collections, jobs=runner, settings=settings, listen=listen)
        except SchemamigError as error:
            if not error.retryable:
                raise
            listen(Event("replicate", note=str(error)))
        else:
            moved = found.moved
            yield found
        wake_at = time.monotonic() + (0.0 if moved else settings.poll.total_seconds())
        while time.monotonic() < wake_at and not until():
            time.sleep(min(_TICK_SECONDS, max(wake_at - time.monotonic(), 0.0)))


def describe_state(state: StreamState) -> str:
    """Describe a stream's state in a line."""
    if state.error is not None:
        return f"stopped: {state.detail}"
    if state.pause is not None:
        return f"paused ({state.pause.reason.value}) at version {state.pause.event_version}: {state.pause.detail}"
    return f"at version {state.seen} of {state.origin_version}" + (
        f"; {state.detail or state.warning}" if state.detail or state.warning else ""
    )
