"""All rows of a target's table put there anew by one commit, beside nothing of what was there (after a gap).

Spark copies the origin's rows into files that the table does not know yet. Our own commit takes what is there away and puts them in its
place, with the checkpoint; so it is right on top of whatever the table has become meanwhile, or is not made. It also closes the
transaction identifiers of all streams from that origin: who holds a batch of it, of this table of the origin or of one before, cannot
bring that on top (``delta.commit.txn_terms``). Killed anywhere it has happened or not, and what a driver goes on writing nobody sees.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_schemamig.core.delta.actions import LogCommit, RawAction
from airflow_provider_schemamig.core.delta.commit.append import Appended, Entry, append, uses_in_commit_timestamps
from airflow_provider_schemamig.core.delta.commit.fence import txn_of
from airflow_provider_schemamig.core.delta.commit.row_ids import numbered
from airflow_provider_schemamig.core.delta.features import check_writable
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import Head, check_goes_on
from airflow_provider_schemamig.core.delta.properties import CONSTRAINT
from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.ledger.rows import SchemaEntry
from airflow_provider_schemamig.core.names import RESERVED_PREFIX, STREAM_PREFIX
from airflow_provider_schemamig.core.replication.stream.apply import VIEW, EventTable, query_of
from airflow_provider_schemamig.core.replication.stream.checkpoint import RESTORE, CheckpointMoved, Span, note_of
from airflow_provider_schemamig.core.replication.stream.compatibility import Mapping as Mapped
from airflow_provider_schemamig.core.schema.delta_rules.partition_texts import text_partitions
from airflow_provider_schemamig.core.schema.delta_rules.table_features import ROW_TRACKING
from airflow_provider_schemamig.core.spark.errors import DuplicateKeys
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage import confirm, require_safe_log_store
from airflow_provider_schemamig.core.storage.own_places import work_folder
from airflow_provider_schemamig.core.times import now_millis
from airflow_provider_schemamig.core.transfer.errors import FilesDiffer
from airflow_provider_schemamig.core.transfer.file_subset import rows_in_files
from airflow_provider_schemamig.core.transfer.staging import (
    FILE_PROPERTIES,
    end_table,
    files_in,
    make_table,
    removal,
)

#: Somebody else may commit in between so often; nothing is copied again for it.
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Copied:
    """``files``: ``add`` actions for a table of the schema that ``head`` has, in ``folder``, which it does not know yet."""

    head: Head
    folder: str
    files: Sequence[RawAction]
    rows: int


@dataclass(frozen=True, slots=True)
class CopyPlace:
    """Where rows are put: the table as it was looked at, and all that the commit says of streams: who, and the transaction versions."""

    table: EventTable
    span: Span
    txns: Mapping[str, int]
    #: Rows that others append meanwhile may stand beside.
    beside_others: bool


def copy_rows(source: EventTable, event: SchemaEntry, target: EventTable, mapping: Mapped, jobs: JobRunner) -> Copied:
    """Copy all rows of ``source`` at the version it was looked at, in the shape that ``target`` has; its own rules are asked of each.

    Raises what the job raises, Unfit if the origin's table does not hold what ``event`` declares, FilesDiffer, UnsupportedFeature,
    UnsafeLogStore.
    """
    head, store, collection, folder = target.head, target.store, target.shard.collection, work_folder(RESTORE)
    require_safe_log_store(store)
    check_writable(head.protocol, target.uri)
    projection, query = query_of(source.head, event, mapping)
    kept = {key: value for key, value in head.properties.items() if key in FILE_PROPERTIES or key.startswith(CONSTRAINT)}
    metadata = {**head.metadata, "id": str(uuid.uuid4()), "configuration": kept}
    make_table(store, folder, RESTORE, [{"protocol": head.protocol}, {"metaData": metadata}])
    request = {
        "collection": collection,
        "shard_uri": store.location.child(folder).uri,
        "storage_options": {**source.env.options, **target.env.options},
        "query": query,
        "inputs": {VIEW: {"uri": source.uri, "version": source.head.version, "projection": projection}},
        "columns": list(mapping.fit.columns),
        "text_partitions": list(text_partitions(head.declaration(collection))),
        "mode": "append",
        "txn_app_id": folder,
        "txn_version": 1,
        "user_metadata": canonical({RESERVED_PREFIX: {"action": RESTORE, "folder": folder}}),
    }
    try:
        rows = int(jobs.run("fill", request)["rows"])
        _check_keys(request, mapping, jobs)
        files = files_in(target.env, store, folder, collection, data_change=True)
        if ROW_TRACKING in head.features and rows_in_files(files) != rows:
            raise FilesDiffer(collection=collection, what="no statistics to give row ids by", expected=f"{rows:,} rows")
        return Copied(head, folder, files, rows)
    except Exception:
        store.delete_tree(folder)
        raise


def _check_keys(filled: Mapping[str, Any], mapping: Mapped, jobs: JobRunner) -> None:
    """Raise DuplicateKeys if several rows have one key. A stream finds a changed row by its key."""
    if not mapping.match:
        return
    asked = {name: filled[name] for name in ("collection", "storage_options")}
    check = {"collection": filled["collection"], "uri": filled["shard_uri"], "kind": "duplicate_key", "columns": list(mapping.match)}
    for found in jobs.run("preflight", {**asked, "checks": [check], "estimates": []})["violations"]:
        raise DuplicateKeys(collection=filled["collection"], columns=mapping.match, rows=int(found["count"]))


def put_in_place(copied: Copied, look: Callable[[], CopyPlace]) -> tuple[CopyPlace, int]:
    """Commit it; the place as it was then, and the table's version. ``look`` is asked again whenever somebody was faster, and raises if it
    is not to be.

    Raises CheckpointMoved if the table has another schema by now: copy anew; and as ``append`` does.
    """
    for _ in range(_TRIES):
        place = look()
        table = place.table
        if (table.head.protocol, table.head.metadata) != (copied.head.protocol, copied.head.metadata):
            break
        try:
            appended = _commit(copied, place)
        except CheckpointMoved:
            continue
        if not confirm([appended.receipt]):  # else a driver that was about to commit may have put its own there
            end_table(table.store, copied.folder)
            return place, appended.version
    raise CheckpointMoved(collection=place.table.shard.collection, uri=place.table.uri)


def _commit(copied: Copied, place: CopyPlace) -> Appended:
    table, span = place.table, place.span
    gone = active_files(table.store, table.head.version).values()
    now, numbers = now_millis(), ROW_TRACKING in table.head.features

    def judge(commit: LogCommit) -> None:
        touched = commit.changes_table or commit.removes or (commit.adds and not place.beside_others)
        # Also a stream that only goes on in another table: where all streams stand is what was looked at.
        if numbers or touched or any(str(txn.get("appId")).startswith(STREAM_PREFIX) for txn in commit.txns):
            raise CheckpointMoved(collection=table.shard.collection, uri=table.uri)

    added: list[RawAction] = [{"add": file} for file in copied.files]
    if numbers:
        added = numbered(table.head, [(file, rows_in_files([file]) or 0) for file in copied.files], table.head.version + 1)
    actions = [
        *(txn_of(app_id, version) for app_id, version in place.txns.items()),
        *(removal(file, now, data_change=True) for file in gone),
        *added,
    ]
    entry = Entry(note_of(span), actions, {"rows": str(copied.rows)})
    check_goes_on(table.store, table.head)
    return append(table.store, table.head.version, entry, judge, in_commit_timestamps=uses_in_commit_timestamps(table.head.metadata))
