"""The tail of a rewrite: what was committed to the source since the copy, brought into the target.

By change data feed where it was on all the time and nobody left rows out of it, else by the difference of the files of two versions, which
needs neither feed nor key.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.commits import commits
from airflow_provider_schemamig.core.delta.log.files import FileDifference, file_difference, has_cdf
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.spark.errors import ConcurrentTransaction, ConcurrentWrite, FillSuperseded
from airflow_provider_schemamig.core.spark.rows_digest import NO_ROWS, RowsDigest
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage import ReadStore
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.errors import StepAlreadyMade
from airflow_provider_schemamig.core.transfer.exactly_once import LinkPosition, position, put_empty_link
from airflow_provider_schemamig.core.transfer.file_subset import scratch
from airflow_provider_schemamig.core.transfer.row_transfer import RowTransfer

_TRIES = 3

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tailed:
    """``position``: the last link; ``seen``: the source version that the target is equal to. ``delta``: digest of the net change that
    this call brought in, None if a twin did some of it."""

    position: LinkPosition
    seen: int
    delta: RowsDigest | None
    rows: int


def tail(env: EnvironmentRoot, transfer: RowTransfer, reached: LinkPosition, upto: int, jobs: JobRunner) -> Tailed:
    """Bring in the source's commits after ``reached`` up to version ``upto``. Exactly once, whoever else does it.

    Raises StepAlreadyMade; SourceVacuumed, ChangeDataMissing, LogTruncated if the history is gone.
    """
    delta: RowsDigest | None = NO_ROWS
    rows = 0
    for first, last in ranges(env, transfer, reached.at, upto):
        result = _link(env, transfer, reached.at, first, last, jobs)
        if result is None:
            continue
        if result["skipped"]:
            delta = None
        elif delta is not None:
            delta += RowsDigest.from_json(result["delta"])
        changed = int(result["inserted"]) + int(result["deleted"])
        rows += changed
        reached = LinkPosition(last, int(result["table_version"]), reached.rows + changed)
    return Tailed(reached, max(upto, reached.at), delta, rows)


def again(attempt: Callable[[], T]) -> T:
    """Repeat an attempt when a twin's link or another writer's commit came in between."""
    for _ in range(_TRIES - 1):
        try:
            return attempt()
        except (StepAlreadyMade, ConcurrentWrite):
            continue
    return attempt()


def where(env: EnvironmentRoot, transfer: RowTransfer, start: int, after: int) -> LinkPosition:
    """Return how far the target has followed the source, which it copied at version ``start``; looks after the target's version
    ``after``."""
    return position(transfer.target_store(env), transfer.chain, start, after)


def ranges(env: EnvironmentRoot, transfer: RowTransfer, lo: int, hi: int) -> Iterator[tuple[int, int]]:
    """Yield (exclusive, inclusive) ranges of versions with one schema each: change data cannot be read across a change of it.

    What is shown in the columns of one version is one range: then it comes whole or not at all.
    """
    for version in _new_schemas(env, transfer, lo, hi) if transfer.shown_at is None else ():
        if version - 1 > lo:
            yield lo, version - 1
            lo = version - 1
    if hi > lo:
        yield lo, hi


def _new_schemas(env: EnvironmentRoot, transfer: RowTransfer, lo: int, hi: int) -> Iterator[int]:
    """Yield the versions after ``lo`` that have another schema than the one before; seals and properties are none."""
    store = transfer.source_store(env)
    schema: Any = None
    for commit in commits(store, lo, hi):
        if commit.metadata is not None:
            before = schema if schema is not None else _schema_at(store, commit.version - 1)
            schema = commit.metadata["schemaString"]
            if schema != before:
                yield commit.version


def _schema_at(store: ReadStore, version: int) -> Any:
    try:
        return read_head(store, version).metadata["schemaString"]
    except LogTruncated:  # nobody knows, so it counts as another
        return None


def _link(env: EnvironmentRoot, transfer: RowTransfer, lo: int, first: int, last: int, jobs: JobRunner) -> dict[str, Any] | None:
    """Write one link of the chain from ``lo`` to ``last``; nothing changed between ``lo`` and ``first``.

    None if nothing changed after ``first`` either: then there is no link.
    """
    difference = file_difference(transfer.source_store(env), first, last)
    if not difference.changed:
        return None
    with _changes(env, transfer, first, last, difference) as changes:
        request = {
            **transfer.link_request(env, lo, last),
            "target_uri": env.table_location(transfer.target_uri).uri,
            "source_view": transfer.source_view,
            "inputs": transfer.lookup_inputs(env),
            "projection": transfer.projection,
            "changes": changes,
            "match": list(transfer.match),
            "must_match": bool(transfer.match),
            "forward": transfer.there_and_back(env),
            "identities": list(read_head(transfer.target_store(env)).identities) if transfer.match else [],
            "source": {"uri": env.table_location(transfer.source_uri).uri, "version": last},
        }
        try:
            with transfer.steady_lookups(env):
                result = jobs.run("apply", request)
        except (ConcurrentTransaction, FillSuperseded) as error:
            raise StepAlreadyMade(collection=transfer.collection, step=f"the tail after version {lo}") from error
    if result["table_version"] is None:
        return {**result, "table_version": put_empty_link(transfer.target_store(env), transfer.chain, lo, last)}
    return result


@contextlib.contextmanager
def _changes(env: EnvironmentRoot, transfer: RowTransfer, lo: int, hi: int, difference: FileDifference) -> Iterator[dict[str, Any]]:
    """Yield the request's ``changes``. A feed shows the columns of then."""
    shown = read_head(transfer.source_store(env), hi if transfer.shown_at is None else transfer.shown_at)
    if difference.wants_change_data and not any(_new_schemas(env, transfer, lo, hi)) and has_cdf(transfer.source_store(env), lo, hi):
        yield {"kind": "cdf", "uri": env.table_location(transfer.source_uri).uri, "from": lo + 1, "to": hi}
        return
    with contextlib.ExitStack() as stack:
        found: dict[str, Any] = {"kind": "files"}
        for name, files in (("added", difference.added), ("removed", difference.removed)):
            key = f"{transfer.target}-{name}-{lo}-{hi}"
            found[name] = stack.enter_context(scratch(env, transfer.chain.generation, key, shown, files)) if files else None
        yield found
