"""Streams into a table, turned away by a commit after which a name stands for another column.

A statement finds columns by their names. Delta aborts one that was planned before such a commit; one that is planned after it would put
values where they do not belong. Closing the stream's transaction identifier in that very commit makes Delta skip it (``txn_terms``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from airflow_provider_schemamig.core.delta.actions import LogCommit
from airflow_provider_schemamig.core.delta.commit.fence import read_txns
from airflow_provider_schemamig.core.delta.commit.txn_terms import advance, app_ids, txn_position
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.names import PHYSICAL_NAME, fields_in, physical_name
from airflow_provider_schemamig.core.names import STREAM_PREFIX
from airflow_provider_schemamig.core.schema.paths import join, parent_and_name
from airflow_provider_schemamig.core.storage import ReadStore


class StreamMoved(Exception):
    """A stream brought rows by this commit. The transaction versions to be written do not know of it."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


def gives_names(base: Head, after: Head) -> bool:
    """Return whether a name stands for another column of ``after`` than it did: in ``base``, or before one of its columns was renamed, as
    far as that is told by its name in the files.

    Names that only go are not asked about, for that would cost every rename and drop three requests: a statement that has one fails.
    """
    old, new = base.metadata["schemaString"], after.metadata["schemaString"]
    if old == new:
        return False
    if new.startswith(begun := old.removesuffix("]}")):  # columns were added at the end
        added = json.loads(f"[{new[len(begun) :].lstrip(',')}".removesuffix("}"))
        return any(f'"{PHYSICAL_NAME}":{json.dumps(field["name"])}' in old for field in added)
    before = {path: physical_name(field) for path, field in fields_in(base.schema)}
    stored = {join(parent_and_name(path)[0], name) for path, name in before.items()}
    for path, field in fields_in(after.schema):
        name = physical_name(field)
        is_taken_over = path not in before and path in stored and parent_and_name(path)[1] != name
        if is_taken_over or before.get(path, name) != name:
            return True
    return False


def txns_against_streams(store: ReadStore, version: int, given: Iterable[str]) -> dict[str, int]:
    """Return the transaction versions that close the identifiers of a table's streams at ``version``, and go on in the next term.

    ``given``: identifiers that the commit moves by itself. Raises TableMissing, LogTruncated.
    """
    known, moved = read_txns(store, STREAM_PREFIX, version), app_ids(given)
    found: dict[str, int] = {}
    for app_id in app_ids(known):
        if app_id not in moved:
            own = txn_position(known, app_id)
            found |= advance(app_id, own, replace(own, term=own.term + 1))
    return found


def check_no_stream(commit: LogCommit) -> None:
    """Raise StreamMoved for a commit of a stream."""
    if any(str(txn.get("appId")).startswith(STREAM_PREFIX) for txn in commit.txns):
        raise StreamMoved(commit.version)
