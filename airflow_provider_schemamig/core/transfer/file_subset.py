"""Some files of a table as a table of their own, for as long as a Spark statement reads it."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator, Sequence

from airflow_provider_schemamig.core.delta.actions import RawAction, json_object
from airflow_provider_schemamig.core.delta.commit.scratch import scratch_table
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.storage.own_places import SCRATCH
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot


@contextlib.contextmanager
def scratch(env: EnvironmentRoot, generation: Generation, name: str, head: Head, files: Sequence[RawAction]) -> Iterator[str]:
    """Yield the URI of a table that holds exactly ``files``, with the schema of ``head``; version 0. It is gone afterwards, the files are
    not.

    What a killed process leaves lies below its generation, whose cleanup takes it away.
    """
    with scratch_at(env, f"{SCRATCH}/{generation}/{name}", head, files) as uri:
        yield uri


@contextlib.contextmanager
def scratch_at(env: EnvironmentRoot, key: str, head: Head, files: Sequence[RawAction]) -> Iterator[str]:
    """Yield a ``scratch`` table at a key that begins with the caller's. A killed process leaves its table there.

    Each process has a table of its own: a twin that is ready first must not delete it during the other's statement.
    """
    store, own = env.store(), f"{key}-{uuid.uuid4().hex[:8]}"
    location = scratch_table(store, own, head, files)
    try:
        yield location.uri
    finally:
        store.delete_tree(own)


def partition_of(file: RawAction) -> str:
    """Return the partition that the file is of, the same text for the same values."""
    return canonical(file.get("partitionValues") or {})


def rows_in_files(files: Iterable[RawAction]) -> int | None:
    """Count rows from the files' statistics, without the rows that deletion vectors hide; None if those of one file do not tell."""
    total = 0
    for file in files:
        rows = _rows_in_file(file)
        if rows is None:
            return None
        total += rows
    return total


def _rows_in_file(file: RawAction) -> int | None:
    rows = (json_object(file.get("stats")) or {}).get("numRecords")
    vector = file.get("deletionVector") or {}
    return int(rows) - int(vector.get("cardinality", 0)) if isinstance(rows, int) else None
