"""A batch of events brought into the target's table: one Spark statement that names its columns, with the checkpoint in its commit.

The rows are decoded with the schema of their own version, shown as the event's schema declares them, and mapped onto the target's columns
(``compatibility``). Columns that the event does not have stay as they are in a row that is there, and get their default in one that is new.

What the origin's own backfill did is no writer's change: it brings the one column that it filled, and only into rows that have there what
it found. A target that makes the same release fills for itself, and its rows may have another writer meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_schemamig.core.access.errors import WroteOtherColumns
from airflow_provider_schemamig.core.access.field_ids import Shape, match_fields
from airflow_provider_schemamig.core.access.read_mapping import fit_reader
from airflow_provider_schemamig.core.access.releases import shape_of
from airflow_provider_schemamig.core.access.select import select, updates
from airflow_provider_schemamig.core.access.write_mapping import loose
from airflow_provider_schemamig.core.delta.log.files import FileDifference, file_difference
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.delta.names import physical_path
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry, Shard
from airflow_provider_schemamig.core.names import CollectionName, ColumnPath, quote
from airflow_provider_schemamig.core.replication.stream.checkpoint import Span, move_checkpoint, scratch_key
from airflow_provider_schemamig.core.replication.stream.compatibility import Mapping
from airflow_provider_schemamig.core.replication.stream.events import EventBatch
from airflow_provider_schemamig.core.replication.stream.gaps import feed_serves
from airflow_provider_schemamig.core.replication.stream.lineage import came_from
from airflow_provider_schemamig.core.schema.delta_rules.partition_texts import text_partitions
from airflow_provider_schemamig.core.schema.expressions.parse import allows_null, column_references
from airflow_provider_schemamig.core.schema.model import Check, Declaration, Field, Primitive
from airflow_provider_schemamig.core.schema.sql import type_sql
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.file_subset import scratch_at

#: What the job calls the changed rows.
VIEW = "schemamig_events"


@dataclass(frozen=True, slots=True)
class EventTable:
    """A table as it was looked at: the origin's at the version that is read, or the target's before it is written to."""

    env: EnvironmentRoot
    shard: Shard
    store: Store
    head: Head

    @property
    def uri(self) -> str:
        return self.env.table_location(self.shard.uri).uri


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """``rows``: came and went, net. ``skipped``: a twin had done it, and counts them."""

    table_version: int
    rows: int
    skipped: bool


def table_at(env: EnvironmentRoot, shard: Shard, version: int | None = None) -> EventTable:
    """Return a shard's table with its head at ``version`` (None: the newest). Raises TableMissing, LogTruncated."""
    store = env.table_store(shard.uri, shard.table_id)
    return EventTable(env, shard, store, read_head(store, version))


def bring(source: EventTable, batch: EventBatch, target: EventTable, mapping: Mapping, span: Span, jobs: JobRunner) -> AppliedBatch:
    """Bring the events of ``batch``, with the checkpoint ``span.hi``. ``source``: as it was at the batch's end.

    Raises what the job raises, Unfit if the origin's table does not hold what the events' schema declares, WroteOtherColumns,
    CheckpointMoved.
    """
    difference = file_difference(source.store, batch.lo, source.head.version)
    filled = None if batch.fills is None else _filled(source.head, batch.entry, mapping, batch.fills)
    if not difference.changed or (batch.fills is not None and filled is None):
        return AppliedBatch(move_checkpoint(target.store, target.head, span), 0, skipped=False)
    projection, query = query_of(source.head, batch.entry, mapping, batch.absent)
    found, unfilled = dict(updates(mapping.fit, "s", "t")), _unfilled(source.head, batch, mapping)
    with _changes(source, batch.lo, target.env, span, difference) as changes:
        result = jobs.run(
            "apply",
            {
                "collection": span.stream.collection,
                "storage_options": {**source.env.options, **target.env.options},
                "columns": list(mapping.fit.columns),
                "text_partitions": list(text_partitions(target.head.declaration(span.stream.collection))),
                "txn_app_id": span.txn_app_id,
                "txn_version": span.hi,
                "user_metadata": span.user_metadata,
                "target_uri": target.uri,
                "source_view": VIEW,
                "projection": projection,
                "query": query,
                "inputs": {},
                "changes": changes,
                "match": list(mapping.match),
                "identities": list(target.head.identities),
                "source": {"uri": source.uri, "version": source.head.version},
                "updates": found | {column: f"coalesce({found[column]}, t.{quote(column)})" for column in unfilled},
                "inserts": {column: f"coalesce(s.{quote(column)}, {default})" for column, default in unfilled.items()},
                "filled": filled,
            },
        )
    if result["table_version"] is None:  # it came to nothing in the end
        return AppliedBatch(move_checkpoint(target.store, target.head, span), 0, skipped=False)
    version = int(result["table_version"])
    check_columns(target, mapping, version, span)
    return AppliedBatch(version, int(result["inserted"]) + int(result["deleted"]), bool(result["skipped"]))


# --- rows as the event declares them, and as the target has them ---------------------------------------------------------------------


class _Trusted:
    """Evidence that is not asked for: a value that is too large for the type it was declared with is an error of the cast, never another
    value, and Delta checks for NULL where none may be."""

    def no_null(self, path: ColumnPath) -> bool:
        return True

    def within(self, path: ColumnPath, narrow: Primitive, limits: tuple[int, int] | None) -> bool:
        return limits is not None


def query_of(source: Head, event: SchemaEntry, mapping: Mapping, absent: Collection[ColumnPath] = ()) -> tuple[str, str]:
    """Return (select list over the origin's table, query over ``VIEW`` that has its columns). Raises Unfit.

    ``absent``: what of the event's fields the table did not have yet; those inside of arrays and maps, which are brought as a whole, are
    NULL.
    """
    shown = fit_reader(*_shapes(source, event, mapping), _Trusted(), is_later=False, lacking=absent)
    rows = select(mapping.fit.given, f"({select(shown, quote(VIEW))})")
    return ", ".join(quote(field.name) for field in shown.source.fields), select(mapping.fit.into, f"({rows})")


def _shapes(source: Head, event: SchemaEntry, mapping: Mapping) -> tuple[Shape, Shape]:
    """Return the origin's table, and what is wanted of it."""
    collection = CollectionName(mapping.event.name)
    there = Shape(Declaration(collection, loose(source.declaration(collection).fields)), source.stored_names)
    return there, replace(shape_of(event), declaration=Declaration(collection, loose(mapping.event.fields)))


def _filled(source: Head, event: SchemaEntry, mapping: Mapping, column: str) -> str | None:
    """Return the target's column for the origin's; None if events bring nothing of it."""
    named = (path for path, live in match_fields(*_shapes(source, event, mapping)).items() if live == column)
    return next((found for path in named if (found := mapping.fit.column_of(path)) is not None), None)


def _unfilled(source: Head, batch: EventBatch, mapping: Mapping) -> dict[str, str]:
    """Return the target's columns in which a row of ``source`` may have NULL against a rule of the events' schema.

    Each comes with the value that the origin's backfill is going to put there. The backfill fills no column but those that the release has
    added: a NULL in any other one is what a writer put there.
    """
    event = batch.entry
    live, origins = source.declaration(CollectionName(mapping.event.name)), match_fields(*_shapes(source, event, mapping))
    pending = [check for check in event.declared.checks if check.name not in {there.name for there in live.checks}]
    found = {}
    for field in _added(batch):
        there = live.field(origins.get(ColumnPath(field.name), ""))
        is_ruled = not field.nullable and there is not None and there.nullable
        is_ruled = is_ruled or any(_asks_for(check, field.name) for check in pending)
        if field.default is not None and is_ruled and (column := mapping.fit.column_of(field.name)) is not None:
            found[column] = f"CAST(({field.default}) AS {type_sql(field.type)})"
    return found


def _asks_for(check: Check, column: str) -> bool:
    return column.lower() in map(str.lower, column_references(check.expression)) and not allows_null(check.expression, column)


def _added(batch: EventBatch) -> list[Field]:
    """Return the columns that the table got with the events' schema."""
    known = () if batch.before is None else came_from(batch.before, batch.entry)
    return [] if batch.before is None else [field for field in batch.entry.declared.fields if field.name not in known]


@contextlib.contextmanager
def _changes(source: EventTable, since: int, scratch: EnvironmentRoot, span: Span, difference: FileDifference) -> Iterator[dict[str, Any]]:
    """Yield the request's ``changes``, read with the schema of their time."""
    upto = source.head.version
    if feed_serves(source.store, since, upto, difference):
        yield {"kind": "cdf", "uri": source.uri, "from": since + 1, "to": upto}
        return
    # With what is the target's alone: nothing is ever written to the origin.
    key = scratch_key(span.stream, span.shard, span.since)
    with contextlib.ExitStack() as stack:
        found: dict[str, Any] = {"kind": "files"}
        for name, files in (("added", difference.added), ("removed", difference.removed)):
            found[name] = stack.enter_context(scratch_at(scratch, f"{key}/{name}", source.head, files)) if files else None
        yield found


def check_columns(target: EventTable, mapping: Mapping, version: int, span: Span) -> None:
    """Raise WroteOtherColumns if a column that was written was another one by ``version``.

    A statement finds columns by name, and a change of metadata just before Spark planned it does not abort it (as in ``writer``).
    """
    after = read_head(target.store, version).schema
    for column in mapping.fit.columns:
        if physical_path(target.head.schema, column) != physical_path(after, column):
            raise WroteOtherColumns(collection=span.stream.collection, column=column, version=version, uri=target.uri)
