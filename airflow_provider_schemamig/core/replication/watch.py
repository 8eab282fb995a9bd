"""What a scheduler asks of streams without running them (docs/airflow.md). Reads only, and starts no Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pendulum

from airflow_provider_schemamig.core.delta.commit.txn_terms import NOTHING
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.errors import TargetTakesNoRows
from airflow_provider_schemamig.core.replication.model import StreamSettings, StreamState
from airflow_provider_schemamig.core.replication.restore.hidden import hidden_values
from airflow_provider_schemamig.core.replication.stream.apply import table_at
from airflow_provider_schemamig.core.replication.stream.compatibility import RefusedEvent, decide, target_of
from airflow_provider_schemamig.core.replication.stream.events import newest_version
from airflow_provider_schemamig.core.replication.stream.lineage import lineage_of
from airflow_provider_schemamig.core.replication.stream.position import StreamEnds
from airflow_provider_schemamig.core.replication.stream.stored_state import read_state, rests
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot


@dataclass(frozen=True, slots=True)
class StreamDue:
    """``due``: a run would find something to do now. ``waiting``: a stream is paused, or stopped."""

    due: bool
    waiting: bool


def look(
    origin: EnvironmentRoot, target: EnvironmentRoot, collections: Sequence[str] | None, settings: StreamSettings, now: pendulum.DateTime
) -> StreamDue:
    """Return what a run of ``replicate_once`` with the same arguments is for at this moment.

    This takes two reads for a stream that waits, two listings at most for each other one. Raises NoEnvironment, LoopingStream; LogCleaned
    and the like, which the run would find, too.
    """
    ends = StreamEnds.of(origin, target)
    known = list(target.each(lambda name: read_state(target, ends.stream(name)), _names(ends, collections), remote=True))
    with contextlib.closing(target.each(lambda state: _is_due(ends, state, settings, now), known, remote=True)) as due:
        return StreamDue(due=any(due), waiting=any(state is not None and state.waits for state in known))


def _is_due(ends: StreamEnds, state: StreamState | None, settings: StreamSettings, now: pendulum.DateTime) -> bool:
    if state is None:
        return True
    if state.waits:
        return not rests(ends.target.env, state, settings, now)
    live = ends.origin.state.objects.get(state.stream.collection)
    if live is None or live.shard != state.shard:
        return True
    row = ends.origin.state.shards[live.shard]
    return newest_version(ends.origin.env.table_store(row.uri, row.table_id), row, state.seen) > state.seen


@dataclass(frozen=True, slots=True)
class Mismatch:
    """``detail``: the columns that differ, by name, or what else is in the way."""

    collection: CollectionName
    detail: str


def mismatches(origin: EnvironmentRoot, target: EnvironmentRoot, collections: Sequence[str] | None, depth: int) -> tuple[Mismatch, ...]:
    """Return the collections whose rows the target would not accept as the origin has them now, by the gate for events.

    Where a stream is paused at an event of an older schema, that schema counts, too. Raises NoEnvironment, LoopingStream, TableMissing.
    """
    ends = StreamEnds.of(origin, target)
    names = _names(ends, collections)
    details = target.each(lambda name: _mismatch(ends, name, depth), names, remote=True)
    return tuple(Mismatch(name, detail) for name, detail in zip(names, details, strict=True) if detail is not None)


def _mismatch(ends: StreamEnds, name: CollectionName, depth: int) -> str | None:
    for end, which in ((ends.origin, "origin"), (ends.target, "target")):
        if name not in end.state.objects:
            return f"the {which} has no collection of this name"
    table = table_at(ends.target.env, ends.target.state.shard_of(name))
    try:
        gate, lineage = target_of(ends.target.state, name, table.head), lineage_of(ends.origin.state, name)
    except TargetTakesNoRows as refusal:
        return refusal.message
    for entry in _schemas(ends, name):
        decision = decide(entry, lineage, gate, depth)
        if isinstance(decision, RefusedEvent):
            return decision.detail
    state = read_state(ends.target.env, ends.stream(name))
    if state is None or state.checkpoint == NOTHING:  # it begins with a copy of all rows
        source = table_at(ends.origin.env, ends.origin.state.shard_of(name))
        return hidden_values(ends.origin.state, ends.origin.state.entry(name), source.head, gate) or None
    return None


def _schemas(ends: StreamEnds, name: CollectionName) -> Iterator[SchemaEntry]:
    """Yield the schema of the event at which the stream is paused, if it is, and the origin's own."""
    state = read_state(ends.target.env, ends.stream(name))
    if state is not None and state.pause is not None:
        found = [entry for entry in ends.origin.state.schemas_of(state.shard) if fingerprint(entry.declared) == state.pause.event_hash]
        # Of two with one hash, the one that the table had then; the first one, where what somebody did to it was taken over later.
        yield from [entry for entry in found if entry.since_table_version <= state.pause.event_version][-1:] or found[:1]
    yield ends.origin.state.entry(name)


def _names(ends: StreamEnds, collections: Sequence[str] | None) -> list[CollectionName]:
    return sorted(ends.origin.state.objects) if collections is None else [CollectionName(name) for name in collections]
