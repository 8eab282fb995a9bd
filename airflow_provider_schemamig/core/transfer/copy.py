"""The copy of a rewrite: all rows of the source at one version, through ``up``, file batch by file batch.

The source gets no commit: each batch is read by way of a scratch table, a Delta log of its own that lists the batch's files. A killed
copy is gone on with from the last batch whose commit is in the target.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from airflow_provider_schemamig.core.delta.actions import RawAction, size_bytes
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import Head, read_head
from airflow_provider_schemamig.core.spark.errors import ConcurrentTransaction, FillSuperseded
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.errors import StepAlreadyMade
from airflow_provider_schemamig.core.transfer.exactly_once import position
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
    ends = list(accumulate(map(size_bytes, files), initial=0))
    size = _first_batch(files, ends[-1], rows_per_second)
    while reached.at < len(files):
        control = pace.begin("copy", transfer.collection)
        first = reached.at
        end = end_of_batch(ends, first, control.max_files or BATCH_FILES, size.bytes)
        started = time.monotonic()
        refused: SchemamigError | None = None
        try:
            _copy_batch(env, transfer, head, files[first:end], first, jobs)
        except (ConcurrentTransaction, FillSuperseded) as error:
            refused = error
        before, reached = reached, position(transfer.target_store(env), transfer.chain, 0)
        if refused is not None and reached == before:
            raise StepAlreadyMade(collection=transfer.collection, step=f"the batch from file {before.at}") from refused
        report(reached.at, len(files), reached.rows)
        seconds = time.monotonic() - started
        size.after(ends[end] - ends[first], seconds)
        pace.end(control, reached.rows - before.rows, seconds)
    return reached.rows


def _first_batch(files: Sequence[RawAction], size_bytes: int, rows_per_second: int | None) -> BatchSize:
    if rows_per_second is None or not (rows := rows_in_files(files)):
        return BatchSize()
    return BatchSize.at_speed(rows_per_second * size_bytes / rows)


def end_of_batch(ends: Sequence[int], first: int, max_files: int, max_bytes: int) -> int:
    """Return the index behind the last file of a batch that begins with file ``first``; one file at least.

    Each batch costs a start, so what is left is spread evenly over as many batches as come nearest to ``max_bytes``. ``ends``: the bytes
    of all files before each, and of all.
    """
    left = ends[-1] - ends[first]
    even = -(-left // max(1, round(left / max_bytes)))
    return min(max(bisect_right(ends, ends[first] + even) - 1, first + 1), first + max_files)


def _copy_batch(env: EnvironmentRoot, transfer: RowTransfer, head: Head, batch: Sequence[RawAction], lo: int, jobs: JobRunner) -> None:
    hi = lo + len(batch)
    with scratch(env, transfer.chain.generation, f"{transfer.target}-copy-{lo}-{hi}", head, batch) as uri:
        request = {
            **transfer.link_request(env, lo, hi),
            "shard_uri": env.table_location(transfer.target_uri).uri,
            "inputs": transfer.over(env, {"uri": uri, "version": 0}),
            "mode": "append",
        }
        jobs.run("fill", request)
