"""FillContext replacement shards on Spark, exactly once a fill number."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pendulum

from airflow_provider_schemamig.core.delta.commit.commit_info import Tag
from airflow_provider_schemamig.core.delta.commit.fence import EPOCH_STRIDE, newest_fence
from airflow_provider_schemamig.core.delta.log.head import head_or_none, read_head
from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.rows import BuildingShard, Deployment, DeploymentState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerWriter
from airflow_provider_schemamig.core.names import CollectionName, Epoch
from airflow_provider_schemamig.core.online.keys import Unique
from airflow_provider_schemamig.core.progress import Event, Listener
from airflow_provider_schemamig.core.release.queries.query import bind
from airflow_provider_schemamig.core.schema.delta_rules.partition_texts import text_partitions
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.spark.runners import JobRunner
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.transfer.deletion import left_alone
from airflow_provider_schemamig.core.transfer.errors import StepAlreadyMade
from airflow_provider_schemamig.core.transfer.throttle import Pace
from airflow_provider_schemamig.core.upgrade.context.context import StageResult, deployment_of
from airflow_provider_schemamig.core.upgrade.errors import DataViolation, SparkNotGiven, WrongState
from airflow_provider_schemamig.core.upgrade.plan.live_tables import check_names, fence_of, table_store
from airflow_provider_schemamig.core.upgrade.plan.plan import Plan
from airflow_provider_schemamig.core.upgrade.plan.stages import Build, Copy, Stage
from airflow_provider_schemamig.core.upgrade.prepare.build import FILL, NO_EPOCH, make_table, moved_inputs, record_fill, replacement_key
from airflow_provider_schemamig.core.upgrade.prepare.copy import CopyContext, begin_anew, copy_rows, unless_over
from airflow_provider_schemamig.core.upgrade.prepare.declared_types import shown_as_declared
from airflow_provider_schemamig.core.upgrade.prepare.transfers import row_of
from airflow_provider_schemamig.exceptions import SchemamigError, raise_refusals

#: Makes the runner when the first stage needs Spark; schema-only work never calls it.
Jobs = Callable[[], JobRunner]


def without_spark() -> JobRunner:
    """Raise SparkNotGiven, for callers who know of schema-only work alone."""
    raise SparkNotGiven


@dataclass(frozen=True)
class FillContext:
    """What the work on a deployment's new shards has in hand. ``epoch``: the leader's, or NO_EPOCH before promotion."""

    env: EnvironmentRoot
    ledger: LedgerWriter
    deployment: Deployment
    plan: Plan
    jobs: Jobs
    listen: Listener
    epoch: Epoch = NO_EPOCH
    #: What is read is sealed for the shards that are filled: no others are begun now.
    is_sealed: bool = False

    def copying(self, stage: Copy) -> CopyContext:
        return CopyContext(self.env, self.ledger, self.deployment, stage, self.jobs(), self.listen)


def build_all(filling: FillContext, collections: Sequence[CollectionName]) -> tuple[StageResult, ...]:
    """Fill replacements and copy rewrites of ``collections``; one result each, but for what a twin had committed meanwhile.

    Raises WrongState where the generation was given up meanwhile, whatever was met in its tables then.
    """
    found: list[StageResult] = []
    for kind, run in BUILDERS.items():
        own = {stage.collection for stage in filling.plan.of_kind(kind)}
        try:
            found += run(filling, [name for name in collections if name in own])
        except SchemamigError as error:
            if deployment_of(filling.ledger.state(), filling.deployment.generation).state is DeploymentState.COMMITTED:
                continue
            if not isinstance(error, WrongState):
                unless_over(filling.ledger, filling.deployment.generation, None)
            raise
    now, generation = pendulum.now("UTC"), filling.deployment.generation
    entries = [
        HistoryEntry.ended(done.kind, now.subtract(seconds=done.seconds), collection=done.collection, generation=generation, at=now)
        for done in found
    ]
    if entries:
        append_history(filling.env, *entries)
    return tuple(found)


def _copy_all(filling: FillContext, collections: Sequence[CollectionName]) -> tuple[StageResult, ...]:
    copies = {stage.collection: stage for stage in filling.plan.of_kind(Copy)}
    return tuple(_copy(filling.copying(copies[name])) for name in collections)


def _copy(copying: CopyContext) -> StageResult:
    stage, jobs = copying.stage, copying.jobs

    def check(state: State) -> None:
        row = state.replacements[replacement_key(stage.collection, copying.deployment)]
        raise_refusals(key_violations(copying.env, state, row, stage.declaration, jobs))

    return copy_rows(copying, check)


def fill_all(filling: FillContext, collections: Sequence[CollectionName]) -> tuple[StageResult, ...]:
    """Fill (or fill again) the replacement shards of ``collections``; returns one result each. While it is paused, it waits."""
    results = []
    env, listen = filling.env, filling.listen
    builds = {build.collection: build for build in filling.plan.of_kind(Build)}
    for number, collection in enumerate(collections, start=1):
        pace = Pace(
            functools.partial(unless_over, filling.ledger, filling.deployment.generation, collection, "fill"), listen, waits=env.waits
        )
        pace.begin("fill", collection)
        listen(Event("fill", collection, number - 1, len(collections), note="running on Spark"))
        result, rows = fill(filling, builds[collection])
        results.append(result)
        listen(Event("fill", collection, number, len(collections), result.seconds, note=f"{rows:,} rows"))
    return tuple(results)


def fill(filling: FillContext, build: Build) -> tuple[StageResult, int]:
    """Fill (or fill again) one replacement shard, now; returns the result and how many rows it has.

    Raises WrongState if the generation was given up or committed meanwhile, DataViolation.
    """
    started = time.monotonic()
    done = _filled(filling, build)
    if done["skipped"]:  # by a process that died before it wrote that down; what it read may be hours old
        state = filling.ledger.state()
        if moved_inputs(filling.env, state, build, row_of(state, filling.deployment, build.collection)):
            done = _filled(filling, build)
    return StageResult("fill", build.collection, int(done["table_version"]), time.monotonic() - started), int(done["rows"])


def _filled(filling: FillContext, build: Build) -> dict[str, Any]:
    env, jobs = filling.env, filling.jobs()
    state, row, epoch = _open_shard(filling, build)
    done = _fill(env, state, row, build, epoch, jobs)
    violations = key_violations(env, state, row, build.declaration, jobs)
    # A refused fill is written down too: its number is used up, and under the same one Delta would skip the rows that fix it.
    record_fill(filling.ledger, row, tuple(sorted(done["inputs"].items())), None if violations else int(done["rows"]))
    raise_refusals(violations)
    return done


def _open_shard(filling: FillContext, build: Build) -> tuple[State, BuildingShard, Epoch]:
    """Return the shard to fill, and in which epoch: another one, if this one takes no fill any more. Under a seal, which names the shard,
    that raises StepAlreadyMade.

    An ``upgrade`` that goes on fills what a leader's task had refused: not in read-only mode, of which Delta takes no number any more.
    """
    env = filling.env
    state = unless_over(filling.ledger, filling.deployment.generation, build.collection, "fill")
    leader = state.leader if state.is_promoted else None
    leads = leader is not None and leader.generation == filling.deployment.generation
    epoch = filling.epoch or (leader.epoch if leader is not None and leads else NO_EPOCH)
    row = row_of(state, filling.deployment, build.collection)
    tag = Tag(filling.deployment.generation, epoch, "build")
    if filling.is_sealed:
        if _is_closed(env, state, row, epoch):
            raise StepAlreadyMade(collection=build.collection, step="another cut-over")
    elif head_or_none(table_store(env, state, row.shard)) is None:  # whoever began it anew died before it was made
        make_table(env, state, row.shard, build.declaration, tag)
    elif not takes_fills(env, state, row, epoch):
        state = begin_anew(filling, row, "its table takes no fill any more", "fill")
        row = row_of(state, filling.deployment, build.collection)
        make_table(env, state, row.shard, build.declaration, tag)
    return state, row, epoch


def takes_fills(env: EnvironmentRoot, state: State, row: BuildingShard, epoch: Epoch) -> bool:
    """Return whether the shard may be filled in the epoch: no cut-over closed it (``refill.close_fills``), and it was not live, which a
    restored ledger has forgotten.
    """
    return not _is_closed(env, state, row, epoch) and not left_alone(env, state, [state.shards[row.shard]])


def _is_closed(env: EnvironmentRoot, state: State, row: BuildingShard, epoch: Epoch) -> bool:
    store, fence = table_store(env, state, row.shard), fence_of(state, row.shard, epoch)
    return newest_fence(store, read_head(store), fence.app_id) == fence.last_version


def _fill(env: EnvironmentRoot, state: State, row: BuildingShard, build: Build, epoch: Epoch, jobs: JobRunner) -> dict[str, Any]:
    """Run the fill job; its txn number makes a repeated or late run of the same number a no-op. Raises NamesUnderWay."""
    number = row.fill_number + 1
    inputs, views = {}, {}
    for source in build.inputs:
        shard = state.objects[source.collection].shard
        store = table_store(env, state, shard)
        head, view = read_head(store), f"schemamig_{source.collection}"
        check_names(state, source.collection, head)
        views[source.collection] = view
        shown = shown_as_declared(state, shard, source.projection)
        inputs[view] = {"uri": store.location.uri, "version": head.version, "projection": shown, "shard": shard}
    request = {
        "collection": build.collection,
        "shard_uri": table_store(env, state, row.shard).location.uri,
        "storage_options": dict(env.options),
        "query": bind(build.fill or "", views),
        "inputs": inputs,
        "columns": [column.name for column in build.declaration.fields],
        "text_partitions": list(text_partitions(build.declaration)),
        "mode": "append" if number == 1 and epoch == NO_EPOCH else "overwrite",
        "txn_app_id": fence_of(state, row.shard, epoch).app_id,
        "txn_version": epoch * EPOCH_STRIDE + number,
        "user_metadata": canonical({"schemamig": {"generation": row.generation, "epoch": epoch, "action": FILL, "number": number}}),
    }
    return jobs.run("fill", request)


def key_violations(
    env: EnvironmentRoot, state: State, row: BuildingShard, declaration: Declaration, jobs: JobRunner
) -> Sequence[DataViolation]:
    """Look for rows that violate a key: Delta enforces NOT NULL and CHECK when rows are written, but no keys."""
    primary = [] if declaration.primary_key is None else [Unique(declaration.primary_key.columns, primary=True)]
    keys = [*primary, *(Unique(key.columns, primary=False) for key in declaration.uniques)]
    if not keys:
        return ()
    uri = table_store(env, state, row.shard).location.uri
    check = {"collection": declaration.name, "uri": uri, "kind": "duplicate_key"}
    checks = [{**check, "rule": key.rule, "columns": list(key.columns)} for key in keys]
    found = jobs.run("preflight", {"checks": checks, "estimates": [], "storage_options": dict(env.options)})
    return [violation_of(item) for item in found["violations"]]


def violation_of(item: Mapping[str, Any]) -> DataViolation:
    """Return a finding of the preflight job as a refusal."""
    sample = tuple(str(row) for row in item["sample"])
    return DataViolation(collection=item["collection"], rule=str(item["rule"]), count=int(item["count"]), sample=sample)


#: What runs the stages that come before promotion.
BUILDERS: Mapping[type[Stage], Callable[[FillContext, Sequence[CollectionName]], tuple[StageResult, ...]]] = {
    Build: fill_all,
    Copy: _copy_all,
}
