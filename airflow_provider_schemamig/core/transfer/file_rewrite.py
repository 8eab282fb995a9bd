"""Writing some files of a table anew: exactly these, exactly once, seen by nobody before it is done.

Spark reads the files through a scratch table that lists just them, and writes them into a table of its own in a folder below the table's
root, with the table's own column mapping. Then our committer moves the new files over: one put-if-absent commit that removes the old ones
and adds the new ones. It is not made if anybody changed the schema meanwhile (the new files have the schema of before:) or touched one of
the old files. Who only appends is never disturbed. A process that dies leaves a
folder that no table knows of, for VACUUM to find.

Rows that are to be clustered are not written by a statement of ours: the table in the folder lists the very files and is clustered as this
one is, and Delta's own OPTIMIZE FULL is run on it. So a batch lies as Delta would lay it, on Hilbert's curve, and its files carry the marks
by which a later OPTIMIZE knows them; but it is as large as we say, and whoever runs it can commit nothing to the table itself.

Why not Delta's own: OPTIMIZE chooses files by size and not by age, and REORG ... APPLY (PURGE) only files that have deletion vectors or
dropped columns; both rewrite what was not asked for, and neither can be bounded to a batch. UPDATE reads all files for its condition, and
any append to the table makes it begin again.
"""

from __future__ import annotations

import functools
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_schemamig.core.delta.actions import FileId, LogCommit, RawAction, file_id, size_bytes
from airflow_provider_schemamig.core.delta.commit.append import Appended, Entry, MetadataMoved, append, uses_in_commit_timestamps
from airflow_provider_schemamig.core.delta.commit.commit_info import Tag, label_of
from airflow_provider_schemamig.core.delta.commit.fence import Fence, Fenced
from airflow_provider_schemamig.core.delta.commit.scratch import listed
from airflow_provider_schemamig.core.delta.features import needed_features, new_protocol
from airflow_provider_schemamig.core.delta.log.head import Head, check_goes_on
from airflow_provider_schemamig.core.delta.metadata.clustering import clustering_domain
from airflow_provider_schemamig.core.delta.names import MAPPING_ID, PHYSICAL_NAME, fields_in
from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.names import RESERVED_PREFIX, CollectionName, Generation, quote
from airflow_provider_schemamig.core.schema.delta_json import VARCHAR_KEY
from airflow_provider_schemamig.core.schema.delta_rules.partition_texts import KEPT_AS_NULL, ONE_TEXT
from airflow_provider_schemamig.core.schema.delta_rules.table_features import FEATURES, TYPE_CHANGES
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage import Store, require_safe_log_store
from airflow_provider_schemamig.core.storage.own_places import work_folder
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.times import now_millis
from airflow_provider_schemamig.core.transfer.errors import FilesDiffer, FilesMoved
from airflow_provider_schemamig.core.transfer.file_subset import partition_of, rows_in_files, scratch
from airflow_provider_schemamig.core.transfer.staging import (
    FILE_PROPERTIES,
    end_table,
    files_in,
    make_table,
    removal,
)

_EXISTS_DEFAULT = "EXISTS_DEFAULT"
_VIEW = "schemamig_files"


@dataclass(frozen=True, slots=True)
class Rewriting:
    """What is done to files. ``operation``: its name in folders, in DESCRIBE HISTORY and in what the commit says of itself.

    ``values``: top-level column -> Spark SQL over the file's own columns, for all of its rows; the other columns stay what they are.
    ``data_change``: whether the rows are others afterwards, which streams and change data feeds then see.
    ``clusters``: the rows stay what they are, and are laid out by the table's clustering columns.
    """

    operation: str
    values: Mapping[str, str] = field(default_factory=dict)
    data_change: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)
    clusters: bool = False


@dataclass(frozen=True, slots=True)
class Rewritten:
    """One batch: the files and bytes that were read, their rows, and the version that replaced them."""

    files: int
    bytes: int
    rows: int
    version: int


def why_not(head: Head) -> str | None:
    """Return why a table's files cannot be written anew one by one; None if they can."""
    for feature in FEATURES.values():
        if feature.not_rewritten and feature.name in head.features:
            return f"the table has the feature {feature.name}: {feature.not_rewritten}"
    if head.sealed_for is not None:
        return "the table is sealed"
    for path, column in fields_in(head.schema):
        if _EXISTS_DEFAULT in (column.get("metadata") or {}):
            return f"Spark shows a default in old files for {path}, other readers show NULL"
    return None


def rewrite_files(
    env: EnvironmentRoot,
    store: Store,
    collection: CollectionName,
    head: Head,
    files: Sequence[RawAction],
    rewriting: Rewriting,
    fence: Fence,
    tag: Tag,
    jobs: JobRunner,
) -> tuple[Rewritten, Appended]:
    """Rewrite ``files`` of a table, all of them active at ``head``.

    ``why_not`` says nothing against the table. The receipt is for ``storage.store.confirm``.

    Raises MetadataMoved, FilesMoved (both: plan again), Fenced, FilesDiffer, UnsafeLogStore, and what the job raises: QueryRefused,
    BadValue, ConstraintViolated are about ``values``.
    """
    require_safe_log_store(store)
    folder = work_folder(rewriting.operation)
    try:
        if rewriting.clusters:
            rows = _cluster(env, store, folder, collection, head, files, rewriting, jobs)
            added = files_in(env, store, folder, collection, data_change=rewriting.data_change)
            _check_rows(collection, files, rows)
        else:
            added, rows = _write(env, tag.generation, store, folder, collection, head, files, rewriting, jobs)
    except Exception:
        store.delete_tree(folder)
        raise
    try:
        appended = _commit(store, head, files, added, rewriting, fence, tag)
    except (MetadataMoved, FilesMoved, Fenced):
        store.delete_tree(folder)
        raise
    # After any other error the files may be the table's; if they are not, they are VACUUM's, like those of a killed process.
    end_table(store, folder)
    size = sum(map(size_bytes, files))
    return Rewritten(len(files), size, rows, appended.version), appended


def _write(
    env: EnvironmentRoot,
    generation: Generation,
    store: Store,
    folder: str,
    collection: CollectionName,
    head: Head,
    files: Sequence[RawAction],
    rewriting: Rewriting,
    jobs: JobRunner,
) -> tuple[list[RawAction], int]:
    """Write with Spark the rows of ``files`` in today's schema to new files below ``folder``. Return the new files, and their rows.

    Equal values of a partition have more than one text, and Spark has its own: of an empty one it makes NULL. A file stays in the
    partition, to the letter, that its rows were in. So where Spark's texts are not those of the files, partitions are written one by one.
    """
    target = _plain(head, rewriting.values)
    make_table(store, folder, rewriting.operation, [{"protocol": target.protocol}, {"metaData": target.metadata}])
    columns = [column["name"] for column in target.schema["fields"]]

    def write(part: Sequence[RawAction], number: int) -> int:
        with scratch(env, generation, f"{collection}-{rewriting.operation}", _readable(head), part) as uri:
            request = {
                "collection": collection,
                "shard_uri": store.location.child(folder).uri,
                "storage_options": dict(env.options),
                "query": f"SELECT {_select(columns, rewriting.values)} FROM {_VIEW}",
                "inputs": {_VIEW: {"uri": uri, "version": 0, "projection": ", ".join(quote(column) for column in columns)}},
                "columns": columns,
                "mode": "append",
                "one_partition": len(set(map(partition_of, part))) == 1,
                "txn_app_id": folder,
                "txn_version": number,
                "user_metadata": canonical({RESERVED_PREFIX: {"action": rewriting.operation, "folder": folder}}),
            }
            return int(jobs.run("fill", request)["rows"])

    added: dict[FileId, RawAction] = {}
    rows = 0
    for number, part in enumerate(_parts(head, files), start=1):
        written = write(part, number)
        _check_rows(collection, part, written)
        new = [file for file in files_in(env, store, folder, collection, data_change=rewriting.data_change) if file_id(file) not in added]
        added.update((file_id(file), file) for file in _in_their_partitions(collection, part, new))
        rows += written
    return list(added.values()), rows


def _parts(head: Head, files: Sequence[RawAction]) -> list[Sequence[RawAction]]:
    """Return what is written by one statement each: all of it, or a partition where Spark may call it otherwise than who wrote it."""
    partitioned = head.metadata.get("partitionColumns") or ()
    types = {field["type"] for field in head.schema["fields"] if field["name"] in partitioned}
    if types <= ONE_TEXT and not any(set(KEPT_AS_NULL) & {*(file.get("partitionValues") or {}).values()} for file in files):
        return [files]
    parts: dict[str, list[RawAction]] = {}
    for file in files:
        parts.setdefault(partition_of(file), []).append(file)
    return list(parts.values())


def _cluster(
    env: EnvironmentRoot,
    store: Store,
    folder: str,
    collection: CollectionName,
    head: Head,
    files: Sequence[RawAction],
    rewriting: Rewriting,
    jobs: JobRunner,
) -> int:
    """Cluster with Spark: the folder's table begins with ``files`` and ends with what OPTIMIZE makes of them. Returns its rows."""
    configuration = {key: value for key, value in head.properties.items() if key in FILE_PROPERTIES}
    metadata = {**_readable(head).metadata, "id": str(uuid.uuid4()), "configuration": configuration}
    actions: list[RawAction] = [{"protocol": head.protocol}, {"metaData": metadata}]
    actions += [{"domainMetadata": clustering_domain(head.clustering)}, *({"add": listed(store.location, file)} for file in files)]
    make_table(store, folder, rewriting.operation, actions)
    uri = store.location.child(folder).uri
    return int(jobs.run("cluster", {"collection": collection, "table_uri": uri, "storage_options": dict(env.options)})["rows"])


def _select(columns: Sequence[str], values: Mapping[str, str]) -> str:
    # A comment at the end of an expression must not swallow what follows. Names inside it are the file's: those go before aliases.
    return ", ".join(f"(\n{values[column]}\n) AS {quote(column)}" if column in values else quote(column) for column in columns)


def _plain(head: Head, values: Mapping[str, str]) -> Head:
    """Return the head of a table that gets the same files from Spark, and accepts every row there is.

    Old rows may break a rule that came later.

    A column that gets new values keeps its own rules for them (length, NOT NULL).
    """
    fields = [
        {**plain, "nullable": own["nullable"], "metadata": {**plain["metadata"], **_length(own)}} if own["name"] in values else plain
        for own, plain in zip(head.schema["fields"], _plain_fields(head.schema["fields"], (MAPPING_ID, PHYSICAL_NAME)), strict=True)
    ]
    schema = {**head.schema, "fields": fields}
    configuration = {key: value for key, value in head.properties.items() if key in FILE_PROPERTIES}
    metadata = {**head.metadata, "id": str(uuid.uuid4()), "schemaString": json.dumps(schema), "configuration": configuration}
    return replace(head, protocol=new_protocol(needed_features(schema, configuration)), metadata=metadata, domains={})


def _length(column: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in (column.get("metadata") or {}).items() if key == VARCHAR_KEY}


def _readable(head: Head) -> Head:
    """Return the table as it is read, without what a reader might do to values (CHAR is padded) or refuse (a NULL in a column NOT NULL by
    now)."""
    schema = {**head.schema, "fields": _plain_fields(head.schema["fields"], (MAPPING_ID, PHYSICAL_NAME, TYPE_CHANGES))}
    return replace(head, metadata={**head.metadata, "schemaString": json.dumps(schema)})


def _plain_fields(fields: Sequence[Mapping[str, Any]], kept: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            **column,
            "type": _plain_type(column["type"], kept),
            "nullable": True,
            "metadata": {key: value for key, value in (column.get("metadata") or {}).items() if key in kept},
        }
        for column in fields
    ]


def _plain_type(data_type: Any, kept: Sequence[str]) -> Any:
    if not isinstance(data_type, dict):
        return data_type
    plain = {key: _plain_type(data_type[key], kept) for key in ("elementType", "keyType", "valueType") if key in data_type}
    if data_type["type"] == "struct":
        plain["fields"] = _plain_fields(data_type["fields"], kept)
    return {**data_type, **plain}


def _check_rows(collection: CollectionName, files: Sequence[RawAction], rows: int) -> None:
    """Check that there are as many rows as before."""
    before = rows_in_files(files)
    if before is not None and before != rows:
        raise FilesDiffer(collection=collection, what=f"{rows:,} rows", expected=f"{before:,}")


def _in_their_partitions(collection: CollectionName, files: Sequence[RawAction], added: Sequence[RawAction]) -> list[RawAction]:
    """Return the new files of one statement in the very partitions of the ``files`` that it read."""
    known, found = set(map(partition_of, files)), set(map(partition_of, added))
    if len(known) == 1 and len(found) <= 1:
        return [{**file, "partitionValues": files[0].get("partitionValues") or {}} for file in added]
    if strange := found - known:
        raise FilesDiffer(collection=collection, what=f"the partition {min(strange)}", expected=", ".join(sorted(known)[:3]))
    return list(added)


def _commit(
    store: Store, head: Head, files: Sequence[RawAction], added: Sequence[RawAction], rewriting: Rewriting, fence: Fence, tag: Tag
) -> Appended:
    now = now_millis()
    actions = [removal(file, now, data_change=rewriting.data_change) for file in files] + [{"add": add} for add in added]
    parameters = {"files": str(len(files)), "schemaOf": str(head.version), **rewriting.parameters}
    judge = functools.partial(_judge, uri=store.location.uri, fence=fence, ours={file_id(file) for file in files})
    entry = Entry(tag, actions, parameters, operation=label_of(rewriting.operation))
    check_goes_on(store, head)
    return append(store, head.version, entry, judge, in_commit_timestamps=uses_in_commit_timestamps(head.metadata))


def _judge(commit: LogCommit, *, uri: str, fence: Fence, ours: set[FileId]) -> None:
    """Decide whether the new files may still stand for the old ones after a commit that came in between."""
    fence.check(commit)
    if commit.changes_table:
        raise MetadataMoved(uri=uri, version=commit.version)
    if any(file_id(file) in ours for file in (*commit.removes, *commit.adds)):
        raise FilesMoved(uri=uri, version=commit.version)
