"""Compare the new shard with what ``up`` makes of the old one, by digests. They add up: all rows before the seal, changed ones after it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.log.files import active_files, file_difference
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.names import quote
from airflow_provider_schemamig.core.spark.rows_digest import NO_ROWS, RowsDigest
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.errors import CardinalityChanged, RewriteDiffers
from airflow_provider_schemamig.core.transfer.file_subset import rows_in_files, scratch
from airflow_provider_schemamig.core.transfer.row_transfer import RowTransfer


def check_all(
    env: EnvironmentRoot, transfer: RowTransfer, source_version: int, target_version: int, jobs: JobRunner, *, same_rows: bool
) -> None:
    """Compare every row of both, at versions that were tailed.

    Raises RewriteDiffers; CardinalityChanged if ``same_rows`` and there are more or fewer; AnotherTable of a looked-up one.
    """
    source = {"uri": env.table_location(transfer.source_uri).uri, "version": source_version}
    parts = {
        # As the target's types: an INT and a BIGINT of one value hash differently.
        "expected": {
            "inputs": transfer.over(env, source),
            "query": transfer.bound_query,
            "like": env.table_location(transfer.target_uri).uri,
        },
        "found": _every_row(env, transfer, target_version),
    }
    with transfer.steady_lookups(env):
        found = _digests(env, transfer, jobs, parts)
    _compare(transfer, f"source version {source_version}", found["expected"], found["found"])
    if same_rows:
        check_cardinality(env, transfer, source_version, found["found"].rows, jobs)


def check_cardinality(env: EnvironmentRoot, transfer: RowTransfer, source_version: int, rows_out: int, jobs: JobRunner) -> None:
    """Raise CardinalityChanged if the source has another number of rows, by its files' statistics, else counted by Spark."""
    rows_in = rows_in_files(active_files(transfer.source_store(env), source_version).values())
    if rows_in is None:
        rows_in = _count(env, transfer, {"uri": env.table_location(transfer.source_uri).uri, "version": source_version}, jobs)
    if rows_in != rows_out:
        raise CardinalityChanged(collection=transfer.collection, rows_in=rows_in, rows_out=rows_out)


def check_cardinality_since(env: EnvironmentRoot, transfer: RowTransfer, before: int, after: int, rows: int, jobs: JobRunner) -> None:
    """Raise CardinalityChanged unless the source got as many rows between two versions as ``rows``, what the tail made of them."""
    difference = file_difference(transfer.source_store(env), before, after)
    rows_in = _rows_in(env, transfer, difference.added, jobs) - _rows_in(env, transfer, difference.removed, jobs)
    if rows_in != rows:
        raise CardinalityChanged(collection=transfer.collection, rows_in=rows_in, rows_out=rows)


def _rows_in(env: EnvironmentRoot, transfer: RowTransfer, files: Sequence[RawAction], jobs: JobRunner) -> int:
    """Count rows by the files' statistics, else by Spark."""
    known = rows_in_files(files)
    if known is not None:
        return known
    with scratch(env, transfer.chain.generation, f"{transfer.target}-count", read_head(transfer.source_store(env)), files) as uri:
        return _count(env, transfer, {"uri": uri, "version": 0}, jobs)


def _count(env: EnvironmentRoot, transfer: RowTransfer, source: Mapping[str, Any], jobs: JobRunner) -> int:
    query = f"SELECT 1 AS one FROM {transfer.source_view}"
    return _digests(env, transfer, jobs, {"source": {"inputs": transfer.over(env, source), "query": query, "columns": ["one"]}})[
        "source"
    ].rows


def check_delta(env: EnvironmentRoot, transfer: RowTransfer, before: int, after: int, delta: RowsDigest, jobs: JobRunner) -> None:
    """Compare the digest of the tail's rows with the files that changed between two versions of the target."""
    store = transfer.target_store(env)
    difference = file_difference(store, before, after)
    with contextlib.ExitStack() as stack:
        parts = {}
        for name, files in (("added", difference.added), ("removed", difference.removed)):
            if files:
                uri = stack.enter_context(
                    scratch(env, transfer.chain.generation, f"{transfer.target}-check-{name}-{after}", read_head(store), files)
                )
                parts[name] = _table(transfer, uri, 0)
        found = _digests(env, transfer, jobs, parts) if parts else {}
    actual = found.get("added", NO_ROWS) - found.get("removed", NO_ROWS)
    _compare(transfer, f"what was tailed into target version {after}", delta, actual)


def _compare(transfer: RowTransfer, at: str, expected: RowsDigest, found: RowsDigest) -> None:
    if expected != found:
        raise RewriteDiffers(collection=transfer.collection, at=at, expected=str(expected), found=str(found))


def _every_row(env: EnvironmentRoot, transfer: RowTransfer, version: int) -> Mapping[str, Any]:
    return _table(transfer, env.table_location(transfer.target_uri).uri, version)


def _table(transfer: RowTransfer, uri: str, version: int) -> Mapping[str, Any]:
    columns = ", ".join(quote(column) for column in transfer.columns)
    return {
        "inputs": {"schemamig_target": {"uri": uri, "version": version, "projection": columns}},
        "query": "SELECT * FROM schemamig_target",
    }


def _digests(env: EnvironmentRoot, transfer: RowTransfer, jobs: JobRunner, parts: Mapping[str, Mapping[str, Any]]) -> dict[str, RowsDigest]:
    request = {
        "collection": transfer.collection,
        "storage_options": dict(env.options),
        "parts": [{"name": name, "columns": list(transfer.columns), **part} for name, part in parts.items()],
    }
    return {name: RowsDigest.from_json(found) for name, found in jobs.run("digest", request)["digests"].items()}
