"""The copy of a rewrite: all rows of the source at one version, through ``up``, file batch by file batch.

The source gets no commit: each batch is read by way of a scratch table, a Delta log of its own that lists the batch's files. A killed
copy is gone on with from the last batch whose commit is in the target.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.spark.errors import ConcurrentTransaction, FillSuperseded
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.errors import StepAlreadyMade
from airflow_provider_schemamig.core.transfer.exactly_once import LinkPosition, position
from airflow_provider_schemamig.core.transfer.file_subset import rows_in_files, scratch
from airflow_provider_schemamig.core.transfer.row_transfer import RowTransfer
from airflow_provider_schemamig.core.transfer.throttle import BATCH_FILES, BatchSize, Pace
from airflow_provider_schemamig.exceptions import SchemamigError

#: done files, all files, rows written
Report = Callable[[int, int, int], None]


def copy(
    env: EnvironmentRoot, transfer: RowTransfer, version: int, jobs: JobRunner, pace: Pace, report: Report, rows_per_second: int | None
) -> int:
    """Copy the source at ``version``, or go on with it; returns the rows written. ``rows_per_second``: of an earlier copy.

    Safe to repeat, to race by twins, and to lose at any point.
    """
    store = transfer.source_store(env)
    files = [file for _, file in sorted(active_files(store, version).items())]
    head = read_head(store, version)
    reached = position(transfer.target_store(env), transfer.chain, 0)
    report(reached.at, len(files), reached.rows)
    size = _first_batch(files, rows_per_second)
    while reached.at < len(files):
        control = pace.begin("copy", transfer.collection)
        batch = _next(files, reached.at, control.max_files or BATCH_FILES, size.bytes)
        started = time.monotonic()
        refused: SchemamigError | None = None
        try:
            _copy_batch(env, transfer, head, batch, reached, jobs)
        except (ConcurrentTransaction, FillSuperseded) as error:
            refused = error
        before, reached = reached, position(transfer.target_store(env), transfer.chain, 0)
        if refused is not None and reached == before:
            raise StepAlreadyMade(collection=transfer.collection, step=f"the batch from file {before.at}") from refused
        report(reached.at, len(files), reached.rows)
        seconds = time.monotonic() - started
        size.after(sum(int(file.get("size") or 0) for file in batch), seconds)
        pace.end(control, reached.rows - before.rows, seconds)
    return reached.rows


def _first_batch(files: Sequence[RawAction], rows_per_second: int | None) -> BatchSize:
    rows = rows_in_files(files)
    if rows_per_second is None or not rows:
        return BatchSize()
    return BatchSize.at_speed(rows_per_second * sum(int(file.get("size") or 0) for file in files) / rows)


def _next(files: Sequence[RawAction], first: int, max_files: int, max_bytes: int) -> Sequence[RawAction]:
    """Return as many files from ``first`` on as make a batch; one at least."""
    taken = size = 0
    for file in files[first : first + max_files]:
        size += int(file.get("size") or 0)
        if taken and size > max_bytes:
            break
        taken += 1
    return files[first : first + taken]


def _copy_batch(
    env: EnvironmentRoot, transfer: RowTransfer, head: Head, batch: Sequence[RawAction], reached: LinkPosition, jobs: JobRunner
) -> None:
    lo, hi = reached.at, reached.at + len(batch)
    with scratch(env, transfer.chain.generation, f"{transfer.target}-copy-{lo}-{hi}", head, batch) as uri:
        request = {
            **transfer.link_request(env, lo, hi),
            "shard_uri": env.table_location(transfer.target_uri).uri,
            "inputs": transfer.over(env, {"uri": uri, "version": 0}),
            "mode": "append",
        }
        jobs.run("fill", request)
