"""Read-only mode's part of a rewrite: the copy at one version, and following the source while the gate waits.

No live table gets a commit. All of it may be killed, repeated and raced: what is there is found again in the ledger and in the new
shard's log. A copy that can no longer follow its source (history gone, digests that differ) begins anew in a shard of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pendulum

from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.errors import LogTruncated
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.ledger.rows import BuildingShard, Deployment, DeploymentState, Progress, Shard, ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerReader, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, Generation, ShardId
from airflow_provider_schemamig.core.progress import Event, Listener
from airflow_provider_schemamig.core.spark.errors import ChangeDataMissing, SourceVacuumed, TargetDiverged
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.copy import copy
from airflow_provider_schemamig.core.transfer.deletion import check_deletable, delete_table, left_alone, left_note
from airflow_provider_schemamig.core.transfer.digest_check import check_cardinality
from airflow_provider_schemamig.core.transfer.errors import CopyTooOld
from airflow_provider_schemamig.core.transfer.progress import WRITE_SECONDS, Reporter, put_progress
from airflow_provider_schemamig.core.transfer.retention import age_of
from airflow_provider_schemamig.core.transfer.tail import tail, where
from airflow_provider_schemamig.core.transfer.throttle import Pace
from airflow_provider_schemamig.core.upgrade.context.context import CLAIM_ANEW, StageResult, deployment_of
from airflow_provider_schemamig.core.upgrade.errors import WrongState
from airflow_provider_schemamig.core.upgrade.plan.estimate import rows_per_second
from airflow_provider_schemamig.core.upgrade.plan.live_tables import check_names, drift_found, table_store
from airflow_provider_schemamig.core.upgrade.plan.stages import Copy
from airflow_provider_schemamig.core.upgrade.prepare.build import NO_EPOCH, make_table, new_shard, replacement_key
from airflow_provider_schemamig.core.upgrade.prepare.transfers import COPY, TAIL, copied_version, forward_transfer, row_of
from airflow_provider_schemamig.exceptions import SchemamigError

#: A copy that meets ``LOST`` begins anew; more often than this in one go, something keeps taking the history away.
STARTS = 2
#: The source's history went away under the copy, or the copy is not what it was thought to be: it cannot be followed any further.
LOST = (SourceVacuumed, ChangeDataMissing, LogTruncated, CopyTooOld, TargetDiverged)


@dataclass(frozen=True)
class CopyContext:
    """What the read-only work on one rewrite has in hand."""

    env: EnvironmentRoot
    ledger: LedgerWriter
    deployment: Deployment
    stage: Copy
    jobs: JobRunner
    listen: Listener


def copy_rows(copying: CopyContext, check: Callable[[State], None]) -> StageResult:
    """Copy, or go on with it; ``check`` looks at the complete copy and raises what is wrong with its rows.

    Raises CardinalityChanged, DriftFound, and what Spark finds in the rows (BadValue, ConstraintViolated).
    """
    started = time.monotonic()
    for start in range(1, STARTS + 1):
        state = _begun(copying)
        row = row_of(state, copying.deployment, copying.stage.collection)
        try:
            return _copy(copying, state, row, check, started)
        except SchemamigError as error:
            if start == STARTS or not (isinstance(error, LOST) or was_begun_anew(copying.ledger.state(), row)):
                raise
            begin_anew(copying, row, error.message)
    raise AssertionError("unreachable")


def _copy(copying: CopyContext, state: State, row: BuildingShard, check: Callable[[State], None], started: float) -> StageResult:
    stage, deployment = copying.stage, copying.deployment
    transfer = forward_transfer(state, deployment, stage, COPY)
    version = copied_version(state, deployment, stage)
    check_source(copying.env, state, stage, version)
    pace = Pace(
        lambda: unless_over(copying.ledger, copying.deployment.generation, stage.collection), copying.listen, waits=copying.env.waits
    )
    report = Reporter(copying.ledger, copying.listen, stage.collection, deployment.generation, "copy", "files")
    rows = copy(copying.env, transfer, version, copying.jobs, pace, report, rows_per_second(state))
    seconds = time.monotonic() - started
    copying.listen(Event("copy", stage.collection, note="checking the rows"))
    if not stage.any_cardinality:
        check_cardinality(copying.env, transfer, version, rows, copying.jobs)
    check(state)
    _record(copying, replace(row, filled_rows=rows))
    head = read_head(transfer.target_store(copying.env))
    return StageResult("copy", stage.collection, head.version, seconds)


def follow(copying: CopyContext) -> StageResult | None:
    """Follow the source for one round: everything committed to it until now. None if there was nothing. The copy must be complete."""
    started = time.monotonic()
    state, stage = copying.ledger.state(), copying.stage
    transfer, version = forward_transfer(state, copying.deployment, stage, TAIL), copied_version(state, copying.deployment, stage)
    reached = where(copying.env, transfer, version, 0)
    check_source(copying.env, state, stage, reached.at)
    head = read_head(transfer.source_store(copying.env))
    # A sealed source is the cut-over's business: once that has committed, what comes into the old shard is not for the new one.
    if head.version <= reached.at or head.sealed_for is not None:
        return None
    tailed = tail(copying.env, transfer, reached, head.version, copying.jobs)
    seconds = time.monotonic() - started
    note = f"followed to version {tailed.seen}: {tailed.rows:,} rows changed"
    copying.listen(Event("tail", stage.collection, 1, 1, seconds, note))
    _tell_how_far(copying, state, tailed.seen - version, tailed.position.rows)
    return StageResult("tail", stage.collection, tailed.position.version, seconds)


def is_behind(env: EnvironmentRoot, state: State, deployment: Deployment, stage: Copy) -> bool:
    """Return whether a round of following, or the copy itself, has something to do. Looks at heads alone; raises as ``check_source``."""
    row = state.replacements.get(replacement_key(stage.collection, deployment))
    if row is None or row.filled_rows is None:
        return row is not None
    transfer = forward_transfer(state, deployment, stage, TAIL)
    reached = where(env, transfer, copied_version(state, deployment, stage), 0)
    check_source(env, state, stage, reached.at)
    head = read_head(transfer.source_store(env))
    return head.version > reached.at and head.sealed_for is None


def _tell_how_far(copying: CopyContext, state: State, versions: int, rows: int) -> None:
    """Write into the ledger how far the tail is, and when, as each round is a process of its own in Airflow."""
    collection, generation, now = copying.stage.collection, copying.deployment.generation, pendulum.now("UTC")
    row = Progress(collection, generation, "tail", "versions", versions, versions, rows, now, now)
    known = state.progress.get((collection, row.stage, str(generation)))
    if known is None or (now - known.updated_at).total_seconds() >= WRITE_SECONDS:
        put_progress(copying.ledger, copying.listen, row if known is None else replace(row, started_at=known.started_at))


def check_source(env: EnvironmentRoot, state: State, stage: Copy, reached: int) -> Sequence[str]:
    """Check that the source is as the ledger says, and keeps its history long enough; return what to warn of.

    Raises DriftFound; CopyTooOld past the wall. LogTruncated if its log does not reach back any more.
    """
    shard = state.shard_of(stage.source).shard
    store = table_store(env, state, shard)
    head = read_head(store)
    found = drift_found(state, stage.source, head)
    if found is not None:
        raise found
    age = age_of(store, head, reached, pendulum.now("UTC"))
    if age.is_past:
        raise CopyTooOld(collection=stage.collection, shard=shard, version=reached, since=age.since, kept_hours=age.kept_hours)
    if age.is_half:
        hours = f"{age.hours:.0f} of {age.kept_hours:.0f} hours"
        return (f"{stage.collection}: the copy follows from {hours} of the source's history; past that it starts again",)
    return ()


class _Builder(Protocol):
    """What makes the rows of a new shard: a copy or a fill."""

    @property
    def env(self) -> EnvironmentRoot: ...
    @property
    def ledger(self) -> LedgerWriter: ...
    @property
    def deployment(self) -> Deployment: ...
    @property
    def listen(self) -> Listener: ...


def begin_anew(copying: _Builder, row: BuildingShard, why: str, stage: str = "copy") -> State:
    """Give the copy ``row`` up and begin in a new shard: a killed driver that still writes does so into the old one.

    ``row`` is the copy (or the fill) that was worked on. If a twin gave it up already, or committed it, there is nothing to give up.
    """
    copying.listen(Event(stage, row.collection, note=f"starts again: {why}"))

    def decide(state: State) -> Sequence[Update]:
        known = state.replacements.get((row.collection, row.version, row.generation))
        if known is None or known.shard != row.shard or not _is_building(state, row.shard):
            return []
        attempt = known.attempt + 1
        shard = new_shard(state, row.collection, copying.deployment, attempt)
        return [Put(shard), Put(replace(known, shard=shard.shard, attempt=attempt, fill_number=0, fill_inputs=(), filled_rows=None))]

    state = copying.ledger.transact(decide)
    if was_begun_anew(state, row) and _is_building(state, row.shard):
        given_up = state.shards[row.shard]
        check_deletable(copying.env, state, [given_up])
        left = left_alone(copying.env, state, [given_up])
        if row.shard in left:
            copying.listen(Event(stage, row.collection, note=left_note(given_up, left[row.shard])))
        else:
            delete_table(copying.env, given_up)
        state = copying.ledger.transact(lambda state: [Drop(Shard, row.shard)] if _is_building(state, row.shard) else [])
    return state


def was_begun_anew(state: State, row: BuildingShard) -> bool:
    """Return whether the copy ``row`` was given up for another one, by this process or by a twin."""
    known = state.replacements.get((row.collection, row.version, row.generation))
    return known is not None and known.shard != row.shard


def _is_building(state: State, shard: ShardId) -> bool:
    return shard in state.shards and state.shards[shard].state is ShardState.BUILDING


def unless_over(ledger: LedgerReader, generation: Generation, collection: CollectionName | None, task: str = "copy") -> State:
    """Return the newest state. Raises WrongState if the generation was given up: what waits, or has long to go, ends then."""
    state = ledger.state()
    found = deployment_of(state, generation).state
    if found not in (DeploymentState.CLAIMED, DeploymentState.PROMOTED):
        raise WrongState(collection=collection, generation=generation, state=found.value, task=task, first=CLAIM_ANEW)
    return state


def _begun(copying: CopyContext) -> State:
    """Return the versions that the copy reads, chosen once and written down before the first batch; and its table. Raises NamesUnderWay."""
    stage, deployment = copying.stage, copying.deployment

    def decide(state: State) -> Sequence[Update]:
        row = row_of(state, deployment, stage.collection)
        if row.fill_inputs:
            return []
        versions = []
        for name in (stage.source, *(lookup.collection for lookup in stage.lookups)):
            shard = state.shard_of(name).shard
            head = read_head(table_store(copying.env, state, shard))
            check_names(state, name, head)
            versions.append((shard, head.version))
        return [Put(replace(row, fill_inputs=tuple(versions)))]

    state = copying.ledger.transact(decide)
    shard = row_of(state, deployment, stage.collection).shard
    make_table(copying.env, state, shard, stage.declaration, Tag(deployment.generation, NO_EPOCH, "build"))
    return state


def _record(copying: CopyContext, row: BuildingShard) -> None:
    """Write down that the copy is complete, unless a twin began anew."""

    def decide(state: State) -> Sequence[Update]:
        known = state.replacements.get((row.collection, row.version, row.generation))
        return [Put(row)] if known is not None and known.shard == row.shard else []

    copying.ledger.transact(decide)
