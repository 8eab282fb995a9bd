"""Streams that bring rows into a table, turned away by a commit after which a name does not stand for the column that it stood for.

A statement finds columns by their names. Delta aborts one that was planned before such a commit; one that is planned after it, or after
a later commit that gives the name to a new column, would put values where they do not belong. Closing the stream's transaction identifier
in that very commit makes Delta skip it (``txn_terms``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from airflow_provider_schemamig.core.delta.actions import LogCommit
from airflow_provider_schemamig.core.delta.commit.fence import read_txns
from airflow_provider_schemamig.core.delta.commit.txn_terms import advance, app_ids, txn_position
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.names import fields_in, physical_name
from airflow_provider_schemamig.core.names import STREAM_PREFIX
from airflow_provider_schemamig.core.storage import ReadStore


class StreamMoved(Exception):
    """A stream brought rows by this commit, which the transaction versions that were to be written do not know."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


def takes_names(base: Head, after: Head) -> bool:
    """Return whether a name of ``base`` stands for another column of ``after``, or for none."""
    old, new = base.metadata["schemaString"], after.metadata["schemaString"]
    if old == new or new.startswith(old.removesuffix("]}")):  # nothing, or columns added at the end
        return False
    now = {path: physical_name(field) for path, field in fields_in(after.schema)}
    return any(now.get(path) != physical_name(field) for path, field in fields_in(base.schema))


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
